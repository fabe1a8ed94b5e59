"""TrySequential: what is cheaper and valid is kept; flows of two targets compose; orders and subsets are searched."""

from __future__ import annotations

from dataclasses import replace
from functools import cache, partial

import pytest
from classic import cost, pipeline, summary
from models import MAIN_MODELS, get_model, largest_error, parse, random_inputs, run_reference

import rewrite_engine as rw
from rewrite_engine.diagnostics import RewriteError
from rewrite_engine.graph import Module, model_bytes, read_placed, strip
from rewrite_engine.graph.annotated_io import read_annotated, write_annotated
from rewrite_engine.language import RuleSet, load_text
from rewrite_engine.passes import (
    AnnotateTarget,
    MergeComposite,
    MergeRegions,
    Pass,
    PassError,
    PlanDevices,
    Sequential,
    TrySequential,
    apply,
    latency,
)

RULES = """
device acc { memory 1MiB }
link host <-> acc: 10ns
target host { supports Relu(x), Sigmoid(x), Tanh(x), Exp(x), Neg(x) cost 100ns }
target fast on host { launch 5ns
  supports Relu(x) cost 10ns
  composite pair(x) = Sigmoid(Relu(x)) cost 20ns
}
target npu on acc { launch 5ns  supports Tanh(x), Neg(x) cost 1ns }
target slow on host { launch 500ns  supports Exp(x) cost 90ns }
"""
TEXT = "g (float[4] x) => (float[4] f) { a = Relu(x) b = Sigmoid(a) c = Tanh(b) d = Neg(c) e = Exp(d) f = Relu(e) }"
NS = 1000


@cache
def rules() -> RuleSet:
    return load_text(RULES)


def module_of(text: str = TEXT) -> Module:
    return rw.load(parse(text))


def flow(target: str, known: RuleSet | None = None) -> Sequential:
    return Sequential(pipeline(known or rules(), [target]))


def targets(module: Module) -> list[tuple[tuple[str, ...], str]]:
    return [(call.covers, call.target) for call in read_annotated(module.model).kernels]


def test_latency_of_every_stage():
    module = module_of()
    assert latency(module) is None and latency(module, rules()) == 600 * NS
    merged = apply(MergeComposite(rules(), ["fast"]), module)
    assert latency(merged) == (20 + 5 + 400) * NS
    done = apply(flow("fast"), module)
    assert latency(done) == cost(done).total == (20 + 5 + 300 + 10 + 5) * NS
    assert latency(apply(AnnotateTarget(["fast"]), merged)) == latency(done)


def test_two_flows_compose():
    """The second flow takes what the first left to the host, and the copies between them are made anew."""
    found = TrySequential([flow("fast"), flow("npu"), flow("slow")])(module_of())
    assert targets(found) == [
        (("a", "b"), "fast"), (("c",), "npu"), (("d",), "npu"), (("e",), "host"), (("f",), "fast"),
    ]  # fmt: skip
    placement = rw.place(module_of(), rules(), strategy="priority", targets=["fast", "npu"])
    assert summary(read_placed(found.model)) == summary(placement.graph) and cost(found) == placement.costs
    other = TrySequential([flow("npu"), flow("fast")])(module_of())
    assert summary(read_placed(other.model)) == summary(placement.graph)
    model = parse(TEXT)
    inputs = random_inputs(model, 5)
    assert largest_error(run_reference(strip(found.model), inputs), run_reference(model, inputs)) == 0


def test_what_does_not_pay_is_left_out():
    alone = TrySequential([flow("slow")])(module_of())
    assert model_bytes(alone.model) == model_bytes(module_of().model)
    kept = TrySequential([flow("slow"), flow("fast")])(module_of())
    assert {target for _, target in targets(kept)} == {"fast", "host"}


def test_a_pass_that_fails_or_changes_the_interface_is_left_out():
    class Renaming:
        name = "Renaming"

        def requires(self, module: Module) -> None: ...

        def run(self, module: Module) -> Module:
            annotated = read_annotated(module.model)
            graph = replace(annotated.graph, output_names=("other",))
            return replace(module, model=write_annotated(replace(annotated, graph=graph)), rules=rules())

        def ensures(self, module: Module) -> None: ...

    class Failing(Renaming):
        def ensures(self, module: Module) -> None:
            raise PassError("no")

    cheap = TrySequential([Renaming(), Failing(), MergeRegions(rules())], cost=lambda m: -len(m.model.graph))
    assert model_bytes(cheap(module_of()).model) == model_bytes(module_of().model)
    kept = TrySequential([Renaming(), Failing(), flow("fast")])(module_of())
    assert targets(kept) == targets(apply(flow("fast"), module_of()))


def test_another_cost():
    """By the number of kernels on the host, the dear target is worth its launch."""
    count = lambda m: sum(call.target in ("", "host") for call in read_annotated(m.model).kernels)
    found = TrySequential([flow("slow"), flow("fast"), flow("npu")], cost=count)(module_of())
    assert count(found) == 0
    limited = TrySequential([flow("fast")], cost=partial(latency, rules=rules()))(module_of())
    assert targets(limited) == targets(apply(flow("fast"), module_of()))


STEPS: list[Pass] = [
    AnnotateTarget(["fast"], rules()),
    MergeComposite(rules(), ["fast"]),
    PlanDevices(rules()),
]
"""In this order the composite comes too late: its operators have targets already."""


def test_search_finds_a_better_order():
    greedy = TrySequential(STEPS)(module_of())
    searched = TrySequential(STEPS, search=True)(module_of())
    assert latency(greedy) == (10 + 5 + 400 + 10 + 5) * NS
    assert latency(searched) == (20 + 5 + 300 + 10 + 5) * NS


def test_search_is_never_worse_and_keeps_its_budget():
    calls = []

    class Counted(Sequential):
        def run(self, module: Module) -> Module:
            calls.append(self)
            return super().run(module)

    steps = [Counted([step]) for step in STEPS]
    greedy = latency(TrySequential(STEPS)(module_of()))
    prices = []
    for budget in (3, 4, 8, 40):
        calls.clear()
        prices.append(latency(TrySequential(steps, search=True, budget=budget)(module_of())))
        assert len(calls) <= budget
    assert len(calls) < 40  # 3 greedy ones, then at most 3 + 6 + 6 different beginnings
    assert prices == sorted(prices, reverse=True) and prices[0] == greedy > prices[-1]
    with pytest.raises(RewriteError, match="expected a budget of at least 1"):
        TrySequential(STEPS, budget=0)


@pytest.mark.parametrize(
    "name",
    [
        "resnet18.legacy",
        *(pytest.param(n, marks=pytest.mark.slow) for n in ("mobilenetv2.legacy", "distilbert6.legacy_dyn")),
    ],
)
def test_flows_of_two_targets_on_real_models(name: str):
    board = rw.load_rules("board.pat")
    model = get_model(name)
    module = rw.load(model, dims=MAIN_MODELS[name])
    flows = [flow("npu", board), flow("fastlib", board)]
    found = TrySequential(flows)(module)
    prices = [latency(module, board), latency(apply(flows[0], module)), latency(found)]
    assert prices[-1] == cost(found).total < prices[0]
    if prices[1] < prices[0]:  # where the first flow pays, the second goes on from it
        assert {target for _, target in targets(found)} >= {"npu", "fastlib"}
        assert prices[-1] < min(prices[:2])
    searched = TrySequential(flows, search=True, budget=6)(module)
    assert cost(searched).total <= prices[-1]
    inputs = random_inputs(model, 4, MAIN_MODELS[name])
    assert largest_error(run_reference(strip(searched.model), inputs), run_reference(model, inputs)) < 1e-4
