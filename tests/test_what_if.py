"""What changes of the machine would save: against placing the model on the machine as changed."""

from __future__ import annotations

import json
from pathlib import Path

import onnx
import onnx.parser
import pytest

import rewrite_engine as rw
from rewrite_engine.cli import main
from rewrite_engine.diagnostics import RewriteError

RULES = """
device npu0 {{ memory {memory} }}
device dsp0 {{ memory 1MiB }}
link host <-> npu0: 1us + bytes / {rate}
link host -> dsp0: 2us + bytes / 500MBps
link dsp0 -> host: 2us + bytes / {back}
target host {{ flops 1GFLOPS  bandwidth 1GBps  supports Relu, Add, MatMul, Sigmoid cost 300us }}
target npu on npu0 {{ launch {launch}  supports Relu, MatMul cost 5us }}
target dsp on dsp0 {{ launch 1us  supports Sigmoid, Add cost 3us }}
"""
BASE = {"memory": "64KiB", "rate": "1GBps", "back": "500MBps", "launch": "4us"}
MODEL = """
<ir_version: 10, opset_import: ["" : 21]>
g (float[64,64] x) => (float[64,64] y) {
  a = MatMul(x, x)
  b = Sigmoid(a)
  c = MatMul(b, x)
  d = Relu(c)
  e = Sigmoid(x)
  y = Add(d, e)
}
"""


LIMITS = {"40KiB": [("memory", "npu0")], "1MiB": [("launch", "npu"), ("link", "host <-> npu0")]}
"""What holds the placement back, by the memory of npu0."""


def module() -> rw.Module:
    return rw.load(onnx.parser.parse_model(MODEL))


def rules(folder: Path, **changed: str) -> rw.RuleSet:
    (folder / "rules.pat").write_text(RULES.format(**BASE | changed))
    return rw.load_rules(folder / "rules.pat")


@pytest.mark.parametrize(
    ("objective", "memory"),
    [
        pytest.param("latency", "40KiB", marks=pytest.mark.slow),
        ("latency", "1MiB"),
        pytest.param("makespan", "1MiB", marks=pytest.mark.slow),
        pytest.param("throughput", "1MiB", marks=pytest.mark.slow),
    ],
)
def test_each_change_saves_what_a_placement_on_the_changed_machine_does(
    objective: str, memory: str, tmp_path: Path
) -> None:
    def cost(**changed: str) -> int:
        changed = {"memory": memory} | changed
        return rw.place(module(), rules(tmp_path, **changed), objective=objective).costs.total

    table = rw.what_if(module(), rules(tmp_path, memory=memory), objective=objective)
    found = {(change.kind, change.name): change.cost for change in table.changes}
    assert table.cost == cost()
    if memory == "1MiB":
        assert found["link", "host <-> npu0"] == cost(rate="2GBps")
        assert found["launch", "npu"] == cost(launch="2us")
    assert found["memory", "npu0"] == cost(memory={"40KiB": "80KiB", "1MiB": "2MiB"}[memory])
    assert {name for kind, name in found if kind == "link"} == {"host <-> npu0", "host <-> dsp0"}
    assert max(found.values()) <= table.cost
    assert [*found.values()] == sorted(found.values())
    if objective == "latency":
        assert all(found[place] < table.cost for place in LIMITS[memory])


def test_energies_are_changed_by_memory_alone(tmp_path: Path) -> None:
    table = rw.what_if(module(), rules(tmp_path), objective="energy")
    assert {change.kind for change in table.changes} == {"memory"} and table.unit == "pJ"


def test_a_machine_without_anything_to_change_says_so(tmp_path: Path) -> None:
    (tmp_path / "host.pat").write_text("target host { flops 1GFLOPS  bandwidth 1GBps }\n")
    table = rw.what_if(module(), rw.load_rules(tmp_path / "host.pat"))
    assert table.changes == () and "nothing to change" in str(table)


def test_other_strategies_are_refused(tmp_path: Path) -> None:
    with pytest.raises(RewriteError, match="leave out the strategy `priority`"):
        rw.what_if(module(), rules(tmp_path), strategy="priority")


def test_the_command_prints_the_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rules(tmp_path)
    onnx.save(onnx.parser.parse_model(MODEL), tmp_path / "m.onnx")
    command = ["place", str(tmp_path / "m.onnx"), "-p", str(tmp_path / "rules.pat"), "--what-if"]
    assert main(command) == 0
    printed = capsys.readouterr().out
    assert "npu.launch: 4 us -> 2 us" in printed and "link host <-> npu0: rate x 2" in printed
    assert main([*command, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["schema"] == "rewrite_engine/what_if/1"
    assert all(change["saved"] == told["cost"] - change["cost"] for change in told["changes"])
    assert main([*command, "-o", str(tmp_path / "out")]) == 2
    assert "leave out -o" in capsys.readouterr().err
