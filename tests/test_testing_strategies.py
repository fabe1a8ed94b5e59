"""The strategies of the testing kit: what they draw is valid, they shrink, and they reach what they should."""

from __future__ import annotations

import inspect
import random

import onnx
import onnx_ir
import pytest
from hypothesis import HealthCheck, Phase, find, given, settings
from hypothesis import strategies as hypothesis

from rewrite_engine.diagnostics import RewriteError
from rewrite_engine.egraph.explore import explore
from rewrite_engine.graph import Module, Terms, load, to_terms
from rewrite_engine.graph.terms_io import from_terms
from rewrite_engine.language import RuleSet, load_text
from rewrite_engine.machine import Machine, build
from rewrite_engine.operators import infer_types
from rewrite_engine.placement.place import Placement
from rewrite_engine.testing import strategies as st
from rewrite_engine.testing.strategies.growing import Choices, Growing
from rewrite_engine.testing.strategies.recipes import RECIPES

FEW = settings(max_examples=40, deadline=None, derandomize=True, database=None,
               suppress_health_check=list(HealthCheck))  # fmt: skip
QUICK = settings(max_examples=200, deadline=None, derandomize=True, database=None,
                 phases=[Phase.generate, Phase.shrink], suppress_health_check=list(HealthCheck))  # fmt: skip


def is_valid(terms: Terms) -> None:
    """By the checker, strict shape inference and this importer."""
    model = onnx_ir.to_proto(from_terms(terms).model)
    onnx.checker.check_model(model, full_check=True)
    onnx.shape_inference.infer_shapes(model, strict_mode=True)
    load(model)


@pytest.mark.parametrize("op", RECIPES)
def test_each_operator_as_it_is_drawn_is_valid(op):
    """The simplest application, and some others."""
    for seed in range(3):
        number = random.Random(f"{op} {seed}").getrandbits(160) if seed else 0
        growing = Growing(Choices(number), dynamic=seed == 2)
        if growing.apply(op, RECIPES[op]):
            is_valid(growing.terms())
        else:
            assert seed, "the simplest application is refused"


@FEW
@given(st.graphs())
def test_graphs_are_valid(graph):
    is_valid(graph)


@FEW
@given(st.graphs(max_nodes=20, min_nodes=1))
def test_graphs_are_in_order_and_nothing_is_left_over(graph):
    known = set(graph.inputs) | {i for i, value in enumerate(graph.values) if value.constant is not None}
    for node in graph.nodes:
        assert {i for i in node.inputs if i != -1} <= known
        known.update(node.outputs)
    read = {i for node in graph.nodes for i in node.inputs}
    assert all(node.outputs[0] in read or node.outputs[0] in graph.outputs for node in graph.nodes)
    assert len({value.name for value in graph.values}) == len(graph.values)
    assert not any(value.constant is not None and i not in read for i, value in enumerate(graph.values))


@FEW
@given(st.models(min_nodes=2, max_nodes=6))
def test_models_come_back_as_they_are(module):
    assert isinstance(module, Module)
    terms = to_terms(module)
    assert 2 <= len(terms.nodes) <= 6


def has(property_):
    """The simplest graph with a property; the number of its operators is small."""
    return find(st.graphs(max_nodes=30), property_, settings=QUICK)


@pytest.mark.parametrize(
    ("most", "property_"),
    [
        (1, lambda g: any(node.op == "Relu" for node in g.nodes)),
        (1, lambda g: any(node.op == "LSTM" for node in g.nodes)),
        (2, lambda g: any(node.op == "If" for node in g.nodes)),
        (1, lambda g: any(len(node.outputs) > 1 for node in g.nodes)),
        (1, lambda g: any(-1 in node.inputs for node in g.nodes)),
        (1, lambda g: any(isinstance(d, str) for i in g.inputs for d in g.values[i].type.shape)),
        (
            3,
            lambda g: max((sum(n.inputs.count(o) for n in g.nodes) for m in g.nodes for o in m.outputs), default=0) > 1,
        ),
        (0, lambda g: True),
        (12, lambda g: len(g.nodes) >= 12),
    ],
)
def test_graphs_shrink_to_few_operators(most, property_):
    assert len(has(property_).nodes) <= most


def depth(graph: Terms) -> int:
    found = dict.fromkeys(range(-1, len(graph.values)), 0)
    for node in graph.nodes:
        found |= dict.fromkeys(node.outputs, 1 + max((found[i] for i in node.inputs), default=0))
    return max(found.values())


def test_chains_of_fifty_are_reached():
    unshrunk = settings(QUICK, phases=[Phase.generate])
    assert depth(find(st.graphs(max_nodes=80), lambda g: depth(g) >= 50, settings=unshrunk)) >= 50


@pytest.mark.parametrize("sizes", [(0, 0), (0, 1), (1, 1), (5, 5)])
def test_sizes_are_kept_and_zero_is_no_trap(sizes):
    @FEW
    @given(st.graphs(min_nodes=sizes[0], max_nodes=sizes[1]))
    def check(graph):
        assert sizes[0] <= len(graph.nodes) <= sizes[1]
        assert graph.outputs

    check()


@FEW
@given(st.graphs(operators=["Add", "Relu"], min_nodes=3, max_nodes=3, dtypes=["float16"], dynamic=False))
def test_operators_and_dtypes_that_are_asked_for(graph):
    assert {node.op for node in graph.nodes} <= {"Add", "Relu"}
    assert {graph.values[i].type.dtype for i in graph.inputs} == {"float16"}
    assert all(isinstance(size, int) for i in graph.inputs for size in graph.values[i].type.shape)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: st.graphs(operators=["Rleu"]).example(),
            "there are no applications of `Rleu` to draw; did you mean `Relu`",
        ),
        (lambda: st.graphs(min_nodes=3, max_nodes=2).example(), "expected 0 <= min_nodes <= max_nodes, found 3 and 2"),
        (lambda: st.attributes(operator="Loop"), "there are no applications of `Loop` to draw"),
        (lambda: st.tensors(shape=("N",)).example(), r"a tensor needs sizes, found the shape \['N'\]"),
        (lambda: st.matches("let a = 1").example(), "expected one pattern or rule, found none"),
    ],
)
@pytest.mark.filterwarnings("ignore::hypothesis.errors.NonInteractiveExampleWarning")
def test_what_cannot_be_drawn_is_said(make, message):
    with pytest.raises(RewriteError, match=message):
        make()


@FEW
@given(hypothesis.data())
def test_arrays(data):
    dtype = data.draw(st.dtypes())
    shape = data.draw(st.shapes(max_size=3))
    array = data.draw(st.tensors(dtype=dtype, shape=shape))
    assert array.shape == shape and str(array.dtype) == dtype
    assert data.draw(st.dtypes(floats=False, booleans=False)).startswith(("int", "uint"))
    assert set(data.draw(st.shapes(symbols=["N"], min_rank=1))) <= {"N", 0, 1, 2, 3, 4}


@FEW
@given(
    hypothesis.sampled_from(st.drawable()).flatmap(
        lambda op: hypothesis.tuples(hypothesis.just(op), st.attributes(operator=op))
    )
)
def test_attributes_are_known_ones(drawn):
    from rewrite_engine.operators import find as facts

    op, attributes = drawn
    assert set(attributes) <= set(facts(op).attributes)


@FEW
@given(st.patterns(), st.rules(), st.targets(device="host"))
def test_declarations_check(pattern, rules, target):
    loaded = load_text("\n".join([pattern, rules, target]), "drawn.pat")
    assert [rule for rule in loaded.rules if rule.kind == "pattern"] and "npu" in {t.name for t in loaded.targets}


@settings(FEW, max_examples=12)
@given(st.placements(max_nodes=5))
def test_placements(placement):
    assert placement.graph.outputs


PATTERNS = """
pattern gate(x) = Mul(x, Sigmoid(x)) if x.rank == 2 and x.dtype == float32
pattern conv(x, w, b?) = Relu?(Conv(x, const w, const b?)) if all(w.shape[2:] == [3, 3])
pattern halves(x) = (Relu(a), Tanh(b)) where a, b = Split(x, _)
pattern joined(*xs) = Concat(*xs, axis=1)
"""


@pytest.mark.parametrize("name", ["gate", "conv", "halves", "joined"])
def test_matches_match(name):
    rules = load_text(PATTERNS, "patterns.pat")

    @settings(FEW, max_examples=15)
    @given(st.matches(PATTERNS, name=name))
    def check(graph):
        rule = next(rule for rule in rules.rules if rule.name == name)
        explored = explore(graph, [rule], build(rules))
        assert any(match.roots == tuple(explored.class_of[o] for o in graph.outputs) for match in explored.matches)

    check()


@FEW
@given(hypothesis.data())
def test_types_are_registered(data):
    for kind in (Terms, RuleSet, Module, Machine, Placement):
        assert isinstance(data.draw(hypothesis.from_type(kind)), kind)


def test_functions_are_plural_with_keywords_only():
    for name in st.__all__:
        given_ = [p for p in inspect.signature(getattr(st, name)).parameters.values() if p.name != "draw"]
        positional = [p.name for p in given_ if p.kind != p.KEYWORD_ONLY]
        assert name == "drawable" or (name.islower() and name.endswith("s"))
        assert positional == (["pattern"] if name == "matches" else [])


@FEW
@given(st.graphs(min_nodes=1))
def test_types_follow_from_inference(graph):
    for node in graph.nodes:
        if node.op != "If":
            operands = [None if i == -1 else graph.values[i] for i in node.inputs]
            kinds = infer_types(node.op, node.attributes, [v and v.type for v in operands],
                                [v and v.constant for v in operands], len(node.outputs))  # fmt: skip
            assert list(kinds) == [graph.values[o].type for o in node.outputs]
