"""Measured costs: `cost profile("key")` with and without a table."""

from __future__ import annotations

from pathlib import Path

import pytest

from rewrite_engine import api
from rewrite_engine.cli import main
from rewrite_engine.costs import Measured, read_costs, signature
from rewrite_engine.diagnostics import PatError, RewriteError
from rewrite_engine.graph import from_terms
from rewrite_engine.graph.onnx_io import model_bytes
from rewrite_engine.graph.placed import KernelCall
from rewrite_engine.graph.terms import Term, Terms, Value
from rewrite_engine.language import load_text
from rewrite_engine.operators.types import TensorType
from rewrite_engine.placement.place import Placement, place

RULES = """
device npu { memory 1MiB }
link host <-> npu: 1ps
target host { flops 1MFLOPS bandwidth 1KBps }
target t on npu { ROOFLINE supports Relu cost profile("relu") supports Abs cost 1ps }
"""
ROOFLINE = "bandwidth 1GBps"
KIND = TensorType("float32", (2, 8))
TERMS = Terms(
    (Value("x", KIND, None), Value("a", KIND, None), Value("y", KIND, None)),
    (Term("Abs", {}, (0,), (1,)), Term("Relu", {}, (1,), (2,))), (0,), (2,),
)  # fmt: skip
SIGNATURE = "float32[2, 8] -> float32[2, 8]"


def placed(roofline: str = ROOFLINE, **options: object) -> tuple[Placement, KernelCall]:
    found = place(TERMS, load_text(RULES.replace("ROOFLINE", roofline)), **options)  # type: ignore[arg-type]
    calls = [step for step in found.graph.steps if isinstance(step, KernelCall)]
    return found, next(call for call in calls if call.body[0].op == "Relu")


@pytest.mark.parametrize(
    ("table", "cost"),
    [
        ('{"relu": {"unit": "us", "cost": 2.5}}', 2_500_000),
        ('{"relu": {"unit": "ps", "cost": 7}}', 7),
        (f'{{"relu": {{"unit": "ns", "cost": 9, "entries": {{"{SIGNATURE}": 0.0015}}}}}}', 2),  # rounded up
        ('{"relu": {"unit": "ns", "entries": {"float32[2,8]->float32[2,8]": 3}}}', 3000),
    ],
)
def test_a_measurement_is_the_cost(tmp_path: Path, table: str, cost: int) -> None:
    (tmp_path / "costs.json").write_text(table)
    found, call = placed(costs=tmp_path / "costs.json")
    assert (call.cost, call.cost_source, call.rule) == (cost, "profile", "t.supports.0")
    assert found.warnings == ()
    assert placed("", costs=tmp_path / "costs.json")[1].cost == cost  # no roofline needed


def test_without_one_the_roofline_is_used_and_said() -> None:
    for table in ({}, {"relu": Measured(None, {"float32[3] -> float32[3]": 5})}):
        found, call = placed(costs=table)
        assert (call.cost, call.cost_source) == (128_000, "roofline")
        assert found.warnings == (
            f'`t.supports.0` costs profile("relu"), of which there is no measurement for {SIGNATURE}: '
            "its roofline is used instead",
        )


def test_with_neither_it_is_an_error() -> None:
    with pytest.raises(RewriteError, match=r'costs profile\("relu"\), .* no roofline .*; give a table with --costs'):
        placed("")


def test_the_signature_has_each_input_once() -> None:
    assert signature([KIND, None, TensorType("int8", ())], [KIND, KIND]) == (
        "float32[2, 8], int8[] -> float32[2, 8], float32[2, 8]"
    )


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ("[1]", "expected an object by key"),
        ("{", "not JSON"),
        ('{"k": 1}', r'`k`: expected \{"unit": …, "cost": …, "entries": …\}, found 1'),
        ('{"k": {"cost": 1}}', "`k`: expected a `unit` of time, such as us or ps, found nothing"),
        ('{"k": {"unit": "B", "cost": 1}}', 'expected a `unit` of time, such as us or ps, found "B"'),
        ('{"k": {"unit": "us", "cots": 1}}', "unknown field `cots`; did you mean `cost`?"),
        ('{"k": {"unit": "us", "cost": -1.5}}', "expected a number of at least 0, found -1.5"),
        ('{"k": {"unit": "us", "cost": true}}', "expected a number of at least 0, found true"),
        ('{"k": {"unit": "us", "cost": NaN}}', "expected a number of at least 0, found NaN"),
        ('{"k": {"unit": "us", "entries": [1]}}', r"expected `entries` by signature, found \[1\]"),
    ],
)
def test_wrong_tables(tmp_path: Path, table: str, message: str) -> None:
    (tmp_path / "costs.json").write_text(table)
    with pytest.raises(RewriteError, match=message):
        read_costs(tmp_path / "costs.json")


def test_a_missing_table(tmp_path: Path) -> None:
    with pytest.raises(RewriteError, match=r"none\.json: cannot be read"):
        read_costs(tmp_path / "none.json")


@pytest.mark.parametrize(
    ("cost", "message"),
    [
        ('profile("a") + 1us', "can only stand alone, as a cost"),
        ("profile(1)", "takes the name of a measurement"),
    ],
)
def test_where_profile_may_stand(cost: str, message: str) -> None:
    with pytest.raises(PatError, match=message):
        load_text(f"target t on host {{ supports Relu cost {cost} }}")


def test_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "m.onnx").write_bytes(model_bytes(from_terms(TERMS).model))
    (tmp_path / "r.pat").write_text(RULES.replace("ROOFLINE", ROOFLINE))
    (tmp_path / "c.json").write_text('{"relu": {"unit": "ps", "cost": 7}}')
    assert api.load(tmp_path / "m.onnx").source.nodes == 2
    command = ["place", str(tmp_path / "m.onnx"), "-p", str(tmp_path / "r.pat"), "--json"]
    assert main([*command, "--costs", str(tmp_path / "c.json")]) == 0
    given = capsys.readouterr()
    assert '"cost_source": "profile"' in given.out and "measurement" not in given.err
    assert main(command) == 0
    assert 'warning: `t.supports.0` costs profile("relu")' in capsys.readouterr().err
