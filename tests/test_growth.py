"""Rules that could go on for very long: limits hold and are reported, and nothing gets dearer."""

from __future__ import annotations

import resource
from functools import cache

import pytest
from models import parse

import rewrite_engine as rw
from rewrite_engine.egraph.explore import Limits, explore
from rewrite_engine.graph import to_terms
from rewrite_engine.graph.placed import KernelCall
from rewrite_engine.language import load_text
from rewrite_engine.machine import build

ANY_ORDER = """
rule regroup reassociates: {op}(a, {op}(b, c)) <=> {op}({op}(a, b), c)
rule exchange: {op}(a, b) => {op}(b, a)
"""
TERMS = 20
LIMITS = {
    "default": (Limits(), "nodes"),
    "rows": (Limits(nodes=2000), "nodes"),
    "rounds": (Limits(rounds=2), "iterations"),
    "time": (Limits(seconds=0.0), "time"),
}
MEGABYTES = 1024  # as getrusage counts on Linux: in KiB
MOVES = ("std/reorder.pat", "std/slices.pat", "std/casts.pat", "std/folding.pat", "std/activation_forms.pat")


def of_many(op: str) -> rw.Module:
    """One value from twenty, one after another."""
    inputs = ", ".join(f"float[4] x{k}" for k in range(TERMS))
    steps = " ".join(f"s{k} = {op}(s{k - 1}, x{k})" for k in range(2, TERMS))
    return rw.load(parse(f"g ({inputs}) => (float[4] s{TERMS - 1}) {{ s1 = {op}(x0, x1) {steps} }}"))


def peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


@pytest.mark.parametrize("op", ["Add", "Mul"])
@pytest.mark.parametrize("limit", LIMITS)
def test_twenty_in_any_order_stay_within_limits_that_are_named(op: str, limit: str) -> None:
    limits, status = LIMITS[limit]
    rules, before = load_text(ANY_ORDER.format(op=op)), peak()
    found = explore(to_terms(of_many(op)), rules.rules, build(rules), limits=limits)
    assert found.saturation == status
    assert TERMS - 1 < found.size <= limits.nodes
    assert found.rounds <= limits.rounds
    assert peak() - before < 600 * MEGABYTES


@pytest.mark.parametrize("op", ["Add", "Mul"])
def test_twenty_in_any_order_cost_no_more_than_in_theirs(op: str) -> None:
    plain = rw.place(of_many(op), load_text(""))
    free = rw.place(of_many(op), load_text(ANY_ORDER.format(op=op)), limits=Limits(rounds=2), time_limit=1.0)
    assert free.saturation == "iterations"
    assert free.status in {"optimal", "limit"}
    assert free.costs.total <= plain.costs.total
    assert (free.status == "optimal") == (free.bound == free.costs.total)


# ---------------------------------------------------------------- long chains

CHAINS = {
    "Transpose": "v{k} = Transpose <perm = [1, 2, 0]> (v{j})",
    "Reshape": "s{k} = Constant <value = int64[3] {{{a}, {b}, 4}}> () v{k} = Reshape(v{j}, s{k})",
    "Slice": "f{k} = Constant <value = int64[1] {{1}}> () e{k} = Constant <value = int64[1] {{99}}> () "
    "a{k} = Constant <value = int64[1] {{0}}> () v{k} = Slice(v{j}, f{k}, e{k}, a{k})",
    "Concat": "v{k} = Concat <axis = 0> (v{j}, x)",
    "Cast": "v{k} = Cast <to = {to}> (v{j})",
}
LENGTH = 60


def chain(ops: tuple[str, ...], rows: int) -> rw.Module:
    """Sixty operators, one after another, those given in turn."""
    steps = [
        CHAINS[ops[k % len(ops)]].format(k=k + 1, j=k, a=2 + k % 2, b=3 - k % 2, to=(11, 1)[k % 2])
        for k in range(LENGTH)
    ]
    body = f"v0 = Identity(x) {' '.join(steps)} y = Identity(v{LENGTH})"
    return rw.load(parse(f"g (float[{rows}, 3, 4] x) => (y) {{ {body} }}"))


@cache
def everything() -> rw.RuleSet:
    return rw.load_rules(*MOVES)


@pytest.mark.parametrize(("op", "rows", "rounds", "left", "status"), [
    ("Transpose", 2, 30, 0, "complete"), ("Reshape", 2, 30, 1, "complete"), ("Cast", 2, 30, 0, "complete"),
    ("Slice", 70, 3, 8, "iterations"), ("Concat", 2, 2, LENGTH, "iterations"),
])  # fmt: skip
def test_sixty_of_one_kind_become_few(op: str, rows: int, rounds: int, left: int, status: str) -> None:
    """Cuts halve in number with each round, so that three leave an eighth; joins stay what they are or get larger."""
    limits = Limits(rounds=rounds)
    placement = rw.place(chain((op,), rows), everything(), limits=limits, time_limit=5.0)
    plain = rw.place(chain((op,), rows), load_text(""), time_limit=5.0)
    assert placement.saturation == status
    assert placement.costs.total <= plain.costs.total
    assert sum(isinstance(step, KernelCall) for step in placement.graph.steps) <= left


def test_sixty_of_all_kinds_in_turn_cost_no_more() -> None:
    ops = ("Transpose", "Cast", "Reshape")
    placement = rw.place(chain(ops, 2), everything(), limits=Limits(rounds=3), time_limit=5.0)
    assert placement.costs.total < rw.place(chain(ops, 2), load_text(""), time_limit=5.0).costs.total
    assert placement.saturation in {"complete", "iterations"}
