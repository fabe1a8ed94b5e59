"""Strategies as classes, and `dp`: by hand, and against the optimum where both must be equal."""

from __future__ import annotations

import dataclasses
import pickle
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_strategies import CHAIN, NS, RULES, boards, everywhere, place, where

import rewrite_engine as rw
from rewrite_engine.diagnostics import RewriteError
from rewrite_engine.placement.strategies import STRATEGIES, Strategy, find, name_of

# ---------------------------------------------------------------- dp

SHARED = """
device acc {}
link host <-> acc: 0ns
target host { supports Relu(x), Sigmoid(x), Tanh(x), Add(a, b) cost 10ns }
target npu on acc { composite both(x) = Relu(Sigmoid(x)) cost 15ns }
"""
DIAMOND = "g (float[4] x) => (float[4] d) { a = Sigmoid(x) b = Relu(a) c = Tanh(a) d = Add(b, c) }"


def test_dp_looks_ahead_along_a_chain():
    """The way over costs 100 twice and saves 99 each time: worth it for four operators, not for two."""
    text = "g (float[4] x) => (float[4] d) { a = Relu(x) b = Sigmoid(a) c = Tanh(b) d = Relu(c) }"
    found = place(text, RULES, strategy="dp", targets=("npu",))
    assert where(found) == everywhere("npu npu npu npu") and found.costs.total == 254 * NS
    found = place(CHAIN, RULES, strategy="dp")  # with the library, whose pair is a kernel like any other
    assert where(found) == everywhere("fast fast host fast") and found.costs.total == 230 * NS
    short = "g (float[4] x) => (float[4] b) { a = Sigmoid(x) b = Tanh(a) }"
    assert where(place(short, RULES, strategy="dp")) == {"a": "host", "b": "host"}


def test_dp_counts_what_is_shared_wherever_it_is_read():
    """A composite of 15 saves no `a`, since Tanh reads that as well; as a tree, it does: 15 + 10 + 10 against 20."""
    found = place(DIAMOND, SHARED, strategy="dp", allow=())
    assert where(found)["b"] == "npu" and found.costs.total == (15 + 10 + 10 + 10) * NS
    assert found.bound == 40 * NS == place(DIAMOND, SHARED, allow=()).costs.total


def test_dp_pays_a_launch_only_where_no_operand_comes_from_the_target():
    """One operator alone would cost 5 + 8 against 10; behind another of the library it costs 5."""
    rules = "target host { supports Relu cost 10ns }\ntarget lib on host { launch 8ns supports Relu cost 5ns }"
    one, two = (f"g (float[4] x) => (float[4] y) {{ {body} }}" for body in ("y = Relu(x)", "a = Relu(x) y = Relu(a)"))
    assert where(place(one, rules, strategy="dp", allow=())) == {"y": "host"}
    found = place(two, rules, strategy="dp", allow=())
    assert where(found) == {"a": "lib", "y": "lib"} and found.costs.total == 18 * NS


def test_dp_serves_results_of_one_operator_where_each_is_read():
    rules = """
    device acc {}
    link host <-> acc: 10ns
    target host { supports Split(x, _), Relu(x), Tanh(x) cost 40ns }
    target npu on acc { supports Split(x, _), Relu(x) cost 1ns }
    """
    graph = "g (float[4] x) => (float[2] y, float[2] z) { a, b = Split <num_outputs = 2> (x) y = Relu(a) z = Tanh(b) }"
    found = place(graph, rules, strategy="dp")
    assert where(found) == {"a": "npu", "y": "npu", "z": "host"}
    assert found.baselines["dp"] == found.costs.total == 72 * NS  # 10 there, 1 + 1, 10 back for each, 40
    pinned = place(graph, rules, strategy="dp", pins={"z": "host", "a": "npu"})
    assert where(pinned)["a"] == "npu" and where(pinned)["z"] == "host"


@st.composite
def trees(draw, operators: tuple[str, ...]) -> str:
    """Models in which every value, inputs too, has one reader."""
    text, free, inputs = "", ["x0"], 1
    for number in range(draw(st.integers(1, 7))):
        op = draw(st.sampled_from(operators))
        if op == "Add" and len(free) < 2:
            free.append(f"x{inputs}")
            inputs += 1
        picked = [free.pop(draw(st.integers(0, len(free) - 1))) for _ in range(2 if op == "Add" else 1)]
        text += f" v{number} = {op}({', '.join(picked)})"
        free.append(f"v{number}")
    read = ", ".join(f"float[4] x{k}" for k in range(inputs))
    return f"g ({read}) => ({', '.join(f'float[4] {name}' for name in free)}) {{{text} }}"


@settings(max_examples=80, deadline=None)
@given(trees(("Relu", "Sigmoid", "Tanh")), boards())
def test_dp_is_the_optimum_of_chains(graph, board):
    found = place(graph, board, allow=())
    assert found.baselines["dp"] == found.bound == found.costs.total


@settings(max_examples=80, deadline=None)
@given(trees(("Relu", "Sigmoid", "Tanh", "Add", "Add")), boards())
def test_dp_is_the_optimum_of_trees_where_launches_are_free(graph, board):
    found = place(graph, re.sub(r"launch \d+ns", "launch 0ns", board), allow=())
    assert found.baselines["dp"] == found.bound == found.costs.total


# ---------------------------------------------------------------- classes


@pytest.mark.parametrize(
    ("name", "strategy", "options"),
    [
        ("optimal", rw.Optimal(), {}),
        ("priority", rw.Priority(), {}),
        ("largest", rw.Largest(), {}),
        ("dp", rw.Dp(), {}),
        ("op-map", rw.OpMap(), {"mapping": {"Relu": "npu"}, "fallback": "fast"}),
        ("single:npu", rw.Single("npu"), {}),
    ],
)
def test_a_name_and_an_instance_are_one_strategy(name, strategy, options):
    by_name, by_class = place(strategy=name, **options), place(strategy=strategy, **options)
    assert by_class.strategy == by_name.strategy == name == name_of(strategy)
    assert (by_class.costs, by_class.bound, by_class.baselines) == (by_name.costs, by_name.bound, by_name.baselines)
    assert where(by_class) == where(by_name)
    assert find(name) == strategy == pickle.loads(pickle.dumps(strategy))
    assert dataclasses.is_dataclass(strategy) and type(strategy).__dataclass_params__.frozen


def test_every_name_of_the_command_line_has_a_class():
    assert {name: cls.__name__ for name, cls in STRATEGIES.items()} == {
        "optimal": "Optimal", "priority": "Priority", "largest": "Largest", "dp": "Dp", "op-map": "OpMap",
        "single": "Single",
    }  # fmt: skip
    assert all(getattr(rw, cls.__name__) is cls for cls in STRATEGIES.values())


def test_what_an_instance_says_goes_before_the_options():
    assert where(place(strategy=rw.Priority(("npu", "fast")))) == everywhere("npu npu npu npu")
    found = place(strategy=rw.Priority(("fast",)), targets=("npu", "fast"))
    assert where(found) == everywhere("fast fast host fast")
    assert found.baselines["priority"] == found.costs.total == 230 * NS
    own = rw.OpMap({"Relu": "fast", "Sigmoid": "fast"}, "host")
    found = place(strategy=own, mapping={"Relu": "npu"}, fallback="npu")
    assert where(found) == everywhere("fast fast host fast") and found.baselines["op-map"] == found.costs.total
    assert where(place(strategy=rw.OpMap({"Tanh": "acc"}), fallback="npu")) == everywhere("npu npu npu npu")


def test_limits_of_an_optimal_search(monkeypatch):
    from rewrite_engine.placement import objectives

    asked = []
    solve = objectives.solve
    monkeypatch.setattr(
        objectives, "solve", lambda p, **told: asked.append((told["time_limit"], told["gap"])) or solve(p, **told)
    )
    place(strategy=rw.Optimal(time_limit=7.0, gap=0.25), time_limit=3.0)
    place(strategy=rw.Optimal(gap=0.0), time_limit=3.0, gap=0.5)
    assert asked == [(7.0, 0.25), (3.0, 0.0)]
    with pytest.raises(RewriteError, match="found 2 and None"):
        place(strategy=rw.Optimal(gap=2))


@pytest.mark.parametrize(
    ("strategy", "message"),
    [
        (rw.Priority(("npu", "fats")), "strategy `priority`: no target is called `fats`; .*did you mean `fast`"),
        (rw.Single("gpu"), "single:host, single:fast, single:npu"),
        (rw.OpMap({"Relu": "nup"}), "no target or device is called `nup`; there are acc, fast, host, npu"),
        (rw.OpMap({"Relux": "npu"}), "there is no operator `Relux`"),
        (rw.OpMap(fallback="gpu"), "no target or device is called `gpu`"),
    ],
)
def test_places_that_there_are_not(strategy: Strategy, message: str):
    with pytest.raises(RewriteError, match=message):
        place(strategy=strategy)


def test_what_if_takes_the_class_of_least_cost():
    from models import parse

    from rewrite_engine.language import load_text

    module, rules = rw.load(parse(CHAIN)), load_text(RULES)
    assert rw.what_if(module, rules, strategy=rw.Optimal()).changes == rw.what_if(module, rules).changes
    with pytest.raises(RewriteError, match="leave out the strategy `dp`"):
        rw.what_if(module, rules, strategy=rw.Dp())
