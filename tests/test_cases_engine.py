"""Faults that others have met, by the row of the table they stand in: those that need a model, limits or several files.

Rows that rule files can say alone are in `tests/cases`; those about messages are in `test_cases_messages.py`.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from models import parse

import rewrite_engine as rw
from rewrite_engine import operators
from rewrite_engine.egraph.explore import Limits, explore
from rewrite_engine.egraph.freeze import Explored
from rewrite_engine.graph import to_terms
from rewrite_engine.graph.placed import KernelCall
from rewrite_engine.language import load_text
from rewrite_engine.language.core import Facts, Refusal
from rewrite_engine.language.evaluate import answer
from rewrite_engine.machine import build
from rewrite_engine.operators.types import TensorType
from rewrite_engine.placement.place import Placement
from rewrite_engine.placement.report import dump, placement_json

ROOFLINE = "target host { flops 1GFLOPS bandwidth 1GBps }\n"
ASSOCIATIVE = "rule assoc reassociates: Add(a, Add(b, c)) <=> Add(Add(a, b), c)"
GROWING = "rule grow: Mul(x, const c) => Mul(x, c + 1)"


def placed(graph: str, rules: str, **options: object) -> Placement:
    return rw.place(rw.load(parse(graph)), load_text(rules), **options)


def explored(graph: str, rules: str, **options: object) -> Explored:
    loaded = load_text(rules)
    return explore(to_terms(rw.load(parse(graph))), loaded.rules, build(loaded), **options)  # type: ignore[arg-type]


def kernels(placement: Placement) -> list[KernelCall]:
    return [step for step in placement.graph.steps if isinstance(step, KernelCall)]


def check_order(placement: Placement) -> None:
    """Every value is there before it is read, and is made once."""
    graph = placement.graph
    there = {*graph.inputs, *graph.parameters}
    for step in graph.steps:
        call = isinstance(step, KernelCall)
        reads, made = (step.inputs, step.outputs) if call else ((step.value,), (step.output,))
        assert there.issuperset(reads), f"{step} reads what is not there"
        assert there.isdisjoint(made)
        there.update(made)
    assert there.issuperset(graph.outputs)


# ---------------------------------------------------------------- matching

COMMUTATIVE = ("Add", "Mul", "And", "Or", "Xor", "Equal", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "Max", "Min", "Sum",
               "Mean")  # fmt: skip


@pytest.mark.parametrize("op", COMMUTATIVE)
def test_row_6_either_operand_may_be_the_constant(op: str) -> None:
    kind = {"And": "bool", "Or": "bool", "Xor": "bool"}.get(op, "int32" if op.startswith("Bitwise") else "float")
    result = "bool" if op == "Equal" else kind
    for operands in ("x, c", "c, x"):
        graph = f"g ({kind}[2] x) => ({result}[2] y) <{kind}[2] c = {{1, 0}}> {{ y = {op}({operands}) }}"
        found = explored(graph, f"pattern p(x) = {op}(x, const _)")
        assert len({match.roots for match in found.matches}) == 1, operands
        assert not explored(graph, f"pattern p(x) = {op}(Neg(x), const _)").matches


def test_row_6_order_counts_elsewhere() -> None:
    for op in ("Sub", "Div", "Pow", "Mod"):
        for operands, matches in (("x, c", 1), ("c, x", 0)):
            graph = (
                f"g (float[2] x) => (float[2] y) <float[2] c = {{1, 2}}> {{ y = {op}{MOD.get(op, '')}({operands}) }}"
            )
            found = explored(graph, f"pattern p(x) = {op}(x, const _)")
            assert len(found.matches) == matches, (op, operands)


MOD = {"Mod": " <fmod = 1> "}


def test_row_6_no_operator_is_forgotten() -> None:
    table = {name for name in operators.names() if (found := operators.find(name)) and found.commutative}
    assert table == set(COMMUTATIVE)


def test_row_10_what_may_be_absent_is_not_made_up() -> None:
    rule = "rule drop: Identity(Dropout(x, r, t, seed=s?)) => Dropout(x, r, t, seed=s)"
    for seed in ("", "<seed = 3>"):
        graph = f"""g (float[2] x) => (float[2] y) <float r = {{0.5}}, bool t = {{1}}>
            {{ d = Dropout {seed} (x, r, t) y = Identity(d) }}"""
        (call,) = kernels(placed(graph, rule))
        assert [node.op for node in call.body] == ["Dropout"]
        assert ("seed" in call.body[0].attributes) == bool(seed)


SHORT, LONG = "Add(MatMul(x, const w), const b)", "Clip(Add(MatMul(x, const w), const b), const _, const _)"


@pytest.mark.parametrize("pattern", [f"{SHORT} | {LONG}", f"{LONG} | {SHORT}", f"Clip?({SHORT}, const _, const _)"])
def test_row_17_the_longer_alternative_is_taken_where_it_costs_no_more(pattern: str) -> None:
    rules = f"{ROOFLINE} target lib on host {{ launch 1us composite run(x, w, b) = {pattern} cost 1ns }}"
    graph = """g (float[64, 64] x) => (float[64, 64] y) <float[64] b, float lo = {0}, float hi = {6}>
        { w = Constant <value = float[64, 64] {ZEROS}> () m = MatMul(x, w) a = Add(m, b) y = Clip(a, lo, hi) }"""
    graph = graph.replace("ZEROS", ", ".join(["1"] * 4096)).replace("float[64] b,", f"float[64] b = {{{ONES}}},")
    (call,) = kernels(placed(graph, rules))
    assert [node.op for node in call.body] == ["MatMul", "Add", "Clip"]


ONES = ", ".join(["1"] * 64)
FORK = "g (float[1000] x) => (float[1000] b, float[1000] c) { a = Relu(x) b = Tanh(a) c = Erf(a) }"


@pytest.mark.parametrize(("cost", "fused"), [("1us", True), ("100us", False)])
def test_row_21_another_reader_keeps_a_computation_of_its_own(cost: str, fused: bool) -> None:
    rules = f"{ROOFLINE} target lib on host {{ launch 1us composite both(x) = Tanh(Relu(x)) cost {cost} }}"
    placement = placed(FORK, rules)
    calls = kernels(placement)
    assert ([call.rule for call in calls if call.target == "lib"] == ["lib.both"]) == fused
    alone = [call for call in calls if call.covers == ("a",)]
    assert len(alone) == 1 and alone[0].cost > 0, "computed once more for the other reader, and paid for"
    assert placement.costs.total == sum(call.cost for call in calls) + (1_000_000 if fused else 0)
    if fused:
        assert {"a", "b"} == {name for call in calls if call.target == "lib" for name in call.covers}


def test_row_24_a_kernel_with_two_results_comes_after_all_that_it_reads() -> None:
    graph = """g (float[1000] a, float[1000] b) => (float[1000] s, float[1000] t)
        <float two = {2}> { r = Relu(a) s = Sqrt(r) m = Mul(b, two) t = Add(m, r) }"""
    rules = f"""{ROOFLINE} target lib on host {{ launch 1ns
        composite both(a, m) = (Sqrt(r), Add(m, r)) where r = Relu(a) cost 1ns }}"""
    placement = placed(graph, rules)
    check_order(placement)
    assert [call.rule for call in kernels(placement)] == ["host", "lib.both"]


def test_row_24_a_kernel_does_not_read_what_follows_from_it() -> None:
    graph = """g (float[1000] a) => (float[1000] s, float[1000] t)
        { r = Relu(a) s = Sqrt(r) m = Neg(s) t = Add(m, r) }"""
    rules = f"""{ROOFLINE} target lib on host {{ launch 1ns
        composite both(a, m) = (Sqrt(r), Add(m, r)) where r = Relu(a) cost 1ns }}"""
    placement = placed(graph, rules)
    check_order(placement)
    made = [(call.rule, call.outputs) for call in kernels(placement)]
    assert ("lib.both", ("s", "t")) not in made
    assert [outputs for _, outputs in made if "s" in outputs] == [("s",)], "computed by itself, before the kernel"


# ---------------------------------------------------------------- guards

SILU = """g (float[1000] x) => (float[1000] y, float[1000] s) <float c = {1.7}>
    { t = Mul(x, c) s = Sigmoid(t) y = Mul(x, s) }"""


@pytest.mark.parametrize("guard", ["", "if not is_graph_output(s)", "if readers(s) == 1"])
def test_row_33_an_inner_value_that_is_an_output_stays_one(guard: str) -> None:
    rules = f"""{ROOFLINE} target lib on host {{ launch 1ns
        composite quick(x) = Mul(x, s) where s = Sigmoid(Mul(x, 1.7)) {guard} cost 1ns }}"""
    placement = placed(SILU, rules)
    check_order(placement)
    assert len(placement.graph.outputs) == 2
    assert any("s" in call.outputs for call in kernels(placement))
    if guard.startswith("if not"):
        assert "lib.quick" not in [call.rule for call in kernels(placement)]
    alone = placed(SILU.replace(", float[1000] s)", ")"), rules)
    assert [call.rule for call in kernels(alone)] == ["lib.quick"]


def test_row_43_norm_of_a_vector_reads_only_what_is_there() -> None:
    graph = """g (float[8] x) => (float[8] y) <float[8] g = {1, 2, 3, 4, 5, 6, 7, 8},
        float e = {0.001}, int64[1] k = {-1}>
        { m = ReduceMean(x, k) d = Sub(x, m) q = Mul(d, d) v = ReduceMean(q, k) a = Add(v, e) s = Sqrt(a)
          n = Div(d, s) y = Mul(n, g) }"""
    rules = rw.load_rules("std/layer_norm.pat")
    for allow in (("exact", "reassociates"), ("exact", "reassociates", "approximates")):
        placement = rw.place(rw.load(parse(graph)), rules, allow=allow)
        check_order(placement)
    assert any(node.op == "LayerNormalization" for call in kernels(placement) for node in call.body)


def test_row_N9_a_merge_of_other_types_is_refused_at_the_rule() -> None:
    kinds = {"shape": (TensorType("float32", (4, 1)), TensorType("float32", (4,))),
             "dtype": (TensorType("float32", (4,)), TensorType("float16", (4,)))}  # fmt: skip
    rules = {"shape": "rule drop: Squeeze(x) => x", "dtype": "rule drop: Cast(x) => x"}
    for what, types in kinds.items():
        (rule,) = load_text(rules[what], "rules.pat").rules
        refusal = answer(rule, rule.variants[0], Facts(types, (None, None), (False, False), ({"to": 10},)))
        assert isinstance(refusal, Refusal) and str(refusal.span).startswith("rules.pat:1:"), refusal
        assert all(str(getattr(kind, what) if what == "dtype" else kind) in refusal.reason for kind in types)


# ---------------------------------------------------------------- saturation


@pytest.mark.parametrize("rule", [
    "rule same: Relu(x) => Relu(x)",
    "rule turned: Transpose(x, perm=p) => Transpose(x, perm=p)",
    "rule clipped: Clip(x, lo, hi) => Clip(x, lo, hi)",
])  # fmt: skip
def test_row_29_a_rule_that_changes_nothing_ends_at_once(rule: str) -> None:
    graph = """g (float[2, 3] x) => (float[3, 2] y) <float lo = {0}, float hi = {6}>
        { r = Relu(x) a = Add(r, x) c = Clip(a, lo, hi) y = Transpose <perm = [1, 0]> (c) }"""
    found = explored(graph, rule)
    assert (found.saturation, found.rounds) == ("complete", 1)
    assert found.size == explored(graph, "").size


def test_row_29_a_rule_that_exchanges_operands_ends() -> None:
    found = explored(
        "g (float[2] x, float[2] y) => (float[2] z) { z = Add(x, y) }", "rule turn: Add(a, b) => Add(b, a)"
    )
    assert (found.saturation, found.rounds) == ("complete", 2)


@pytest.mark.parametrize("rule", ["rule never: Tanh(Tanh(x)) => Tanh(x)", "rule refused: Relu(x) => x if x.rank == 9"])
def test_row_30_rules_that_never_match_end_at_once(rule: str) -> None:
    branch = """g (bool c, float[2] x) => (float[2] y) {
        t = Relu(x) y = If (c) <then_branch = a () => (float[2] z) { z = Neg(t) },
                                else_branch = b () => (float[2] z) { z = Abs(t) }> }"""
    found = explored(branch, rule)
    assert found.saturation == "complete" and found.rounds <= 1


@pytest.mark.parametrize("terms", [9, 10, 11])
def test_row_163_sums_in_every_order_stop_at_the_limit(terms: int) -> None:
    inputs = [f"x{k}" for k in range(terms)]
    body = f"s1 = Add(x0, x1) {' '.join(f's{k} = Add(s{k - 1}, x{k})' for k in range(2, terms))}"
    graph = f"g ({', '.join(f'float[4] {x}' for x in inputs)}) => (float[4] s{terms - 1}) {{ {body} }}"
    found = explored(graph, ASSOCIATIVE, limits=Limits(nodes=1500))
    assert found.saturation == "nodes" and found.size < 6000
    placement = placed(graph, ASSOCIATIVE, limits=Limits(rounds=1))
    assert placement.saturation == "iterations"
    check_order(placement)


@pytest.mark.parametrize(("limits", "status"), [
    (Limits(seconds=0.0002), "time"), (Limits(rounds=3), "iterations"), (Limits(nodes=10), "nodes"),
    (Limits(seconds=0.0), "time"), (Limits(rounds=1), "iterations"),
])  # fmt: skip
def test_row_166_a_limit_is_reported_as_one(limits: Limits, status: str) -> None:
    graph = "g (float[4] x) => (float[4] y) <float c = {2}> { y = Mul(x, c) }"
    assert explored(graph, GROWING, limits=limits).saturation == status


def test_row_166_what_ends_by_itself_is_complete() -> None:
    graph = "g (float[4] x) => (float[4] y) { a = Relu(x) y = Relu(a) }"
    assert explored(graph, "rule once: Relu(Relu(x)) => Relu(x)", limits=Limits(rounds=9)).saturation == "complete"


def test_row_N20_the_order_of_files_does_not_count(tmp_path: Path) -> None:
    files = {
        "one.pat": "device npu { memory 1MiB }\nlink host <-> npu: 1us + bytes / 1GBps\n"
        "target a on npu { launch 1us supports Relu cost 5us composite both(x) = Tanh(Relu(x)) cost 6us }\n"
        "rule once: Relu(Relu(x)) => Relu(x)\n",
        "two.pat": "device acc { memory 1MiB }\nlink host <-> acc: 1us + bytes / 1GBps\n"
        "target b on acc { launch 1us supports Relu cost 5us composite both(x) = Tanh(Relu(x)) cost 6us }\n"
        "rule twice: Neg(Neg(x)) => x\n",
        "three.pat": "target c on host { launch 1us supports Tanh cost 1us supports Erf cost 1us }\n" + ROOFLINE,
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    module = rw.load(parse("g (float[50000] x) => (float[50000] y) { a = Relu(x) b = Relu(a) c = Tanh(b) y = Erf(c) }"))
    seen = set()
    for order in (("one", "two", "three"), ("two", "one", "three"), ("three", "two", "one")):
        placement = rw.place(module, rw.load_rules(*(tmp_path / f"{name}.pat" for name in order)))
        seen.add((placement.costs.total, dump(placement_json(placement, {}, {}))))
    assert len({cost for cost, _ in seen}) == 1
    assert len(seen) == 1


# ---------------------------------------------------------------- limits and interrupts


def test_row_167_limits_on_what_grows_without_bound() -> None:
    graph = "g (float[4] x) => (float[4] y) <float c = {2}> { y = Mul(x, c) }"
    placement = placed(graph, GROWING)
    assert placement.saturation == "iterations" and placement.rounds == Limits().rounds
    check_order(placement)


def test_row_167_an_interrupt_is_obeyed() -> None:
    code = f"""
import rewrite_engine as rw
from models import parse
from rewrite_engine.egraph.explore import Limits
from rewrite_engine.language import load_text
module = rw.load(parse("g (float[4] x) => (float[4] y) <float c = {{2}}> {{ y = Mul(x, c) }}"))
rules = load_text({GROWING!r})
print("started", flush=True)
try:
    rw.place(module, rules, limits=Limits(nodes=10**9, rounds=10**9))
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""
    here = {**os.environ, "PYTHONPATH": str(Path(__file__).parent)}
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, env=here) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "started\n"
        timer = threading.Timer(0.7, process.send_signal, [signal.SIGINT])
        timer.start()
        try:
            said, _ = process.communicate(timeout=30)
        finally:
            timer.cancel()
            process.kill()
    assert said == "interrupted\n" and process.returncode == 0


def test_row_177_a_graph_without_operators() -> None:
    for graph in ("g (float[4] x) => (float[4] x) { }", "g (float[4] x) => (float[4] y) { y = Identity(x) }"):
        placement = placed(graph, "rule drop: Identity(x) => x\n" + ASSOCIATIVE)
        check_order(placement)
        assert placement.costs.total == 0 and not kernels(placement)
        assert placement.saturation == "complete"


def test_row_179_no_property_is_measured_by_the_clock() -> None:
    """The first call of a property builds tables and an e-graph: a deadline would read as a fault of the property."""
    assert settings().deadline is None


@settings(max_examples=1)
@given(st.just(0.3))
def test_row_179_a_slow_first_example_passes(seconds: float) -> None:
    time.sleep(seconds)
