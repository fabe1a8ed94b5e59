"""Exploration: what the e-graph matches, rewrites and offers, and that nothing else does the matching."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from rewrite_engine import operators
from rewrite_engine.diagnostics import RewriteError
from rewrite_engine.egraph import compile as egraph_compile
from rewrite_engine.egraph.explore import Limits, explore
from rewrite_engine.egraph.freeze import Explored
from rewrite_engine.graph.terms import Term, Terms, Value
from rewrite_engine.language import load_text
from rewrite_engine.machine import UnboundCost, build
from rewrite_engine.operators.types import TensorType

pytestmark = pytest.mark.second_python

DEVICES = """
device npu0 { memory 64MiB }
link host <-> npu0: 1us + bytes / 8GBps
"""


class Graph:
    """Builds terms by hand: `g.op("Relu", x)`."""

    def __init__(self) -> None:
        self.values: list[Value] = []
        self.nodes: list[Term] = []
        self.inputs: list[int] = []

    def input(self, *shape: int | str, dtype: str = "float32") -> int:
        self.values.append(Value(f"x{len(self.values)}", TensorType(dtype, shape)))
        self.inputs.append(len(self.values) - 1)
        return self.inputs[-1]

    def constant(self, array: object, dtype: str = "float32") -> int:
        data = np.asarray(array, dtype)
        self.values.append(Value(f"c{len(self.values)}", TensorType(dtype, data.shape), data))
        return len(self.values) - 1

    def op(self, name: str, *inputs: int, outputs: int = 1, **attributes: object) -> int:
        return self.ops(name, *inputs, outputs=outputs, **attributes)[0]

    def ops(self, name: str, *inputs: int, outputs: int = 1, **attributes: object) -> list[int]:
        types = [None if i < 0 else self.values[i].type for i in inputs]
        constants = [None if i < 0 else self.values[i].constant for i in inputs]
        given = operators.effective_attributes(name, attributes, types, constants)
        first = len(self.values)
        for kind in operators.infer_types(name, given, types, constants, outputs):
            self.values.append(Value(f"{name.lower()}{len(self.values)}", kind))
        made = list(range(first, len(self.values)))
        self.nodes.append(Term(name, given, inputs, tuple(made)))
        return made

    def terms(self, *outputs: int) -> Terms:
        return Terms(tuple(self.values), tuple(self.nodes), tuple(self.inputs), outputs)


def explored(graph: Graph, outputs: Sequence[int], text: str, **options: object) -> Explored:
    rules = load_text(text)
    return explore(graph.terms(*outputs), rules.rules, build(rules), **options)  # type: ignore[arg-type]


def names(found: Explored, kind: str = "rule") -> list[str]:
    return sorted(match.rule.name for match in found.matches if match.rule.kind == kind)


def test_a_rewrite_puts_both_forms_into_one_class() -> None:
    g = Graph()
    x = g.input(2, 3, 4)
    y = g.op("Transpose", g.op("Transpose", x, perm=(0, 2, 1)), perm=(0, 2, 1))
    text = """
    rule merge: Transpose(Transpose(x, perm=p), perm=r) => Transpose(x, perm=[p[i] for i in r])
    rule drop: Transpose(x, perm=p) => x if p == iota(x.rank)
    """
    found = explored(g, [y], text)
    assert found.class_of[x] == found.class_of[y]
    assert found.saturation == "complete"
    assert names(found) == ["drop", "merge", "merge"] or "drop" in names(found)


def test_a_guard_that_does_not_hold_keeps_the_forms_apart() -> None:
    g = Graph()
    x = g.input(2, 3, 4)
    y = g.op("Transpose", x, perm=(0, 2, 1))
    found = explored(g, [y], "rule drop: Transpose(x, perm=p) => x if p == iota(x.rank)")
    assert found.class_of[x] != found.class_of[y]
    assert names(found) == []


def test_commutative_operands_match_in_either_order_with_one_rule() -> None:
    pattern = "Add(Add(Add(Relu(a), Tanh(b)), Exp(c)), Sqrt(d))"
    for swapped in (False, True):
        g = Graph()
        parts = [g.op(op, g.input(4)) for op in ("Relu", "Tanh", "Exp", "Sqrt")]
        total = parts[0]
        for part in parts[1:]:
            total = g.op("Add", part, total) if swapped else g.op("Add", total, part)
        found = explored(g, [total], f"pattern p(a, b, c, d) = {pattern}")
        roots = {match.roots for match in found.matches}
        assert roots == {(found.class_of[total],)}


def test_nested_commutative_patterns_stay_one_find_rule() -> None:
    depth = 12
    text, captures = "Relu(x0)", ["x0"]
    for k in range(1, depth + 1):
        text = f"Add({text}, Tanh(x{k}))"
        captures.append(f"x{k}")
    rules = load_text(f"pattern deep({', '.join(captures)}) = {text}")
    (rule,) = rules.rules
    assert len(rule.variants) == 1


def test_the_same_name_twice_is_the_same_value() -> None:
    g = Graph()
    x, y = g.input(4), g.input(4)
    same, other = g.op("Mul", x, x), g.op("Mul", x, y)
    found = explored(g, [same, other], "pattern square(x) = Mul(x, x)")
    assert {match.roots for match in found.matches} == {(found.class_of[same],)}


def test_equal_constants_are_one_value() -> None:
    g = Graph()
    x = g.input(4)
    a, b = g.constant([1, 2, 3, 4]), g.constant([1, 2, 3, 4])
    found = explored(g, [g.op("Add", x, a), g.op("Add", x, b)], "pattern p(x) = Relu(x)")
    assert found.class_of[a] == found.class_of[b]
    assert len({found.class_of[i] for i in found.terms.outputs}) == 1


def test_swapped_operands_of_a_commutative_operator_are_one_value() -> None:
    g = Graph()
    x, y = g.input(4), g.input(4)
    one, other = g.op("Add", x, y), g.op("Add", y, x)
    third = g.op("Sub", one, other)
    found = explored(g, [one, other, third], "target lib on host { flops 1TFLOPS supports Add(a, b) if a.rank == 1 }")
    assert found.class_of[one] == found.class_of[other]
    assert found.class_of[third] not in (found.class_of[one], found.class_of[x])


def test_an_absent_input_is_no_value() -> None:
    g = Graph()
    x, high = g.input(4), g.constant(6.0)
    y = g.op("Clip", x, -1, high)
    found = explored(g, [y], "pattern both(x, lo, hi) = Clip(x, lo, hi)\npattern upper(x, hi) = Clip(x, none, hi)")
    assert names(found, "pattern") == ["upper"]


def test_several_results_share_one_kernel() -> None:
    g = Graph()
    parts = g.ops("Split", g.input(2, 8), outputs=2, axis=1, num_outputs=2)
    y = g.op("Add", g.op("Relu", parts[0]), parts[1])
    found = explored(g, [y], f"{DEVICES}target npu on npu0 {{ launch 1us flops 1TFLOPS supports Split, Relu, Add }}")
    problem = found.problem
    (whole,) = problem.solo
    assert {k.target for k in problem.kernels if k.value == whole} == {0, 1}
    projections = [found.enodes[k.payload] for k in problem.kernels if k.value == found.class_of[parts[1]]]
    assert [node.result for node in projections] == [1, 1]


def test_a_value_with_other_readers_still_matches_and_keeps_its_own_kernel() -> None:
    g = Graph()
    inner = g.op("Relu", g.input(4))
    outer = g.op("Tanh", inner)
    text = "target lib on host { launch 1us flops 1TFLOPS composite both(x) = Tanh(Relu(x)) }"
    found = explored(g, [outer, inner], text)
    kinds = {(k.value, found.enodes[k.payload].op) for k in found.problem.kernels}
    assert (found.class_of[outer], "lib.both") in kinds
    assert (found.class_of[inner], "Relu") in kinds


def test_no_find_rule_no_match(monkeypatch: pytest.MonkeyPatch) -> None:
    g = Graph()
    y = g.op("Tanh", g.op("Relu", g.input(4)))
    text = """
    target lib on host { launch 1us flops 1TFLOPS composite both(x) = Tanh(Relu(x))  composite one(x) = Relu(x) }
    """
    assert names(explored(g, [y], text), "composite") == ["lib.both", "lib.one"]
    whole = egraph_compile.find_body

    def without_both(variant: object, tables: Sequence[object]) -> tuple[str, tuple[str, ...]]:
        body, columns = whole(variant, tables)  # type: ignore[arg-type]
        return (f"{body} (= 0 1)" if len(tables) == 2 else body), columns

    monkeypatch.setattr(egraph_compile, "find_body", without_both)
    found = explored(g, [y], text)
    assert names(found, "composite") == ["lib.one"]
    assert not any(node.op == "lib.both" for node in found.enodes)


def test_growth_is_bounded_with_an_honest_status() -> None:
    g = Graph()
    total = g.op("Relu", g.input(4))
    for _ in range(9):
        total = g.op("Add", total, g.op("Relu", g.input(4)))
    text = "rule assoc reassociates: Add(a, Add(b, c)) <=> Add(Add(a, b), c)"
    found = explored(g, [total], text, limits=Limits(nodes=400, rounds=30))
    assert found.saturation == "nodes"
    assert found.problem.kernels


def test_pins_leave_only_the_kernels_they_allow() -> None:
    g = Graph()
    y = g.op("Tanh", g.op("Relu", g.input(4)))
    text = f"{DEVICES}target npu on npu0 {{ launch 1us flops 1TFLOPS supports Relu }}"
    found = explored(g, [y], text, pins={g.values[1].name: "npu0"})
    assert {k.target for k in found.problem.kernels if k.value == found.class_of[1]} == {1}
    with pytest.raises(RewriteError, match=r"`tanh2` is pinned to `npu`, but nothing there can compute it"):
        explored(g, [y], text, pins={"tanh2": "npu"})


def test_a_cost_that_reads_an_unbound_dimension_names_it() -> None:
    g = Graph()
    y = g.op("Relu", g.input("batch", 4))
    with pytest.raises(UnboundCost, match=r"`batch`, which is not bound; bind it with --dim batch=SIZE"):
        explored(g, [y], "")


def test_cheapest_capability_counts_and_roofline_is_the_larger_time() -> None:
    g = Graph()
    y = g.op("Relu", g.input(1000))
    text = """
    target host { flops 1GFLOPS bandwidth 1GBps }
    target lib on host { launch 1us supports Relu cost 3us supports Relu if x0 cost 2us }
    """.replace("if x0 ", "")
    found = explored(g, [y], text)
    costs = {k.target: k.cost for k in found.problem.kernels if k.value == found.class_of[y]}
    assert costs == {0: 8_000_000, 1: 2_000_000}  # 8,000 bytes at 1 GB/s; the cheaper formula


def test_deep_chains_do_not_recurse() -> None:
    g = Graph()
    value = g.input(4)
    for _ in range(3000):
        value = g.op("Tanh", value)
    found = explored(g, [value], "rule r: Tanh(Relu(x)) => Relu(Tanh(x))")
    assert len(found.problem.kernels) == 3000
