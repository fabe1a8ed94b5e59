"""`reduce`: the smallest model on which a command still fails."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from rewrite_engine.cli import main
from rewrite_engine.diagnostics import RewriteError
from rewrite_engine.graph.cut import Step, apply, is_valid
from rewrite_engine.testing.reduce import Check, reduce, replay

FIND = """
import sys
content = open(sys.argv[-1], "rb").read()
ops = [op for op in ("Conv", "Relu", "Tanh", "If", "Erf") if op.encode() in content]
"""


def chain(length: int = 12, at: int = 7) -> onnx.ModelProto:
    """A chain of convolutions and activations, with one `Tanh` after `at` of them, two outputs and an If."""
    weight = numpy_helper.from_array(np.arange(4 * 4 * 9, dtype=np.float32).reshape(4, 4, 3, 3), "w")
    nodes, last = [], "x"
    for k in range(length):
        nodes.append(helper.make_node("Conv", [last, "w"], [f"c{k}"], pads=[1, 1, 1, 1]))
        nodes.append(helper.make_node("Tanh" if k == at else "Relu", [f"c{k}"], [f"r{k}"]))
        last = f"r{k}"
    branch = [
        helper.make_graph(
            [helper.make_node(op, [last], [name])], name, [], [helper.make_tensor_value_info(name, 1, None)]
        )
        for op, name in (("Neg", "n"), ("Abs", "a"))
    ]
    nodes.append(helper.make_node("If", ["flag"], ["z"], then_branch=branch[0], else_branch=branch[1]))
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes, "g", [value("x", 1, [2, 4, 8, 8]), value("flag", TensorProto.BOOL, [])],
        [value(last, 1, [2, 4, 8, 8]), value("z", 1, [2, 4, 8, 8])], [weight],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=10)
    onnx.checker.check_model(model, full_check=True)
    return model


@pytest.fixture
def saved(tmp_path):
    path = tmp_path / "model.onnx"
    onnx.save(chain(4, 2), path)
    return path


def script(tmp_path, condition: str) -> str:
    """A command that ends with status 3, and prints what it saw, where the condition holds."""
    path = tmp_path / "check.py"
    path.write_text(FIND + f"bad = {condition}\nprint('found', ops)\nsys.exit(3 if bad else 0)\n")
    return f"{sys.executable} {path}"


class InProcess(Check):
    """The same decision without a process for each model."""

    def run(self, model):
        from rewrite_engine.testing.reduce.check import Outcome

        ops = [node.op_type for node in onnx.load(model).graph.node]
        return Outcome(3 if self.command in ops else 0, "")


def reduced(op: str):
    said, saved_ = [], []
    return reduce(chain(), InProcess(op), said.append, saved_.append), said, saved_


@pytest.mark.parametrize("op", ["Tanh", "Relu", "Conv", "If"])
def test_one_operator_is_left(op):
    done, said, saved_ = reduced(op)
    assert [node.op_type for node in done.model.graph.node] == [op]
    assert is_valid(done.model) and len(said) == len(done.steps) == len(saved_) > 1
    assert done.model.SerializeToString(deterministic=True) == saved_[-1]
    sizes = [d.dim_value for v in done.model.graph.input for d in v.type.tensor_type.shape.dim]
    assert sizes and max(sizes) <= (4 if op == "Conv" else 1), done.model.graph.input
    assert not done.model.graph.initializer


def test_two_operators_that_belong_together():
    class Both(InProcess):
        def run(self, model):
            from rewrite_engine.testing.reduce.check import Outcome

            graph = onnx.load(model).graph
            makers = {name: node.op_type for node in graph.node for name in node.output}
            found = any(n.op_type == "Relu" and makers.get(n.input[0]) == "Conv" for n in graph.node)
            return Outcome(int(found), "")

    done = reduce(chain(), Both("unused"), lambda _: None, lambda _: None)
    assert [node.op_type for node in done.model.graph.node] == ["Conv", "Relu"]


def test_the_same_steps_again_and_replayed():
    one, other = reduced("Tanh")[0], reduced("Tanh")[0]
    assert one.steps == other.steps and one.runs == other.runs
    assert replay(chain(), one.steps).SerializeToString() == one.model.SerializeToString()


def test_the_command(saved, tmp_path, capsys):
    output = tmp_path / "small.onnx"
    command = script(tmp_path, "'Tanh' in ops")
    assert main(["reduce", str(saved), "--check", command, "-o", str(output), "--json"]) == 0
    shown = capsys.readouterr()
    steps = json.loads(shown.out)
    assert [node.op_type for node in onnx.load(output).graph.node] == ["Tanh"] and steps["nodes"] == 1
    assert shown.err.splitlines()[0].startswith("1: only the nodes ")
    (tmp_path / "steps.json").write_text(shown.out)
    again = tmp_path / "again.onnx"
    assert main(["reduce", str(saved), "--replay", str(tmp_path / "steps.json"), "-o", str(again)]) == 0
    assert again.read_bytes() == output.read_bytes()


def test_a_pattern_on_the_output(saved, tmp_path):
    output = tmp_path / "small.onnx"
    command = script(tmp_path, "False")
    given = ["--check", f"{command} {{}}", "--pattern", r"found \[.*'If'", "-o", str(output)]
    assert main(["reduce", str(saved), *given]) == 0
    assert [node.op_type for node in onnx.load(output).graph.node] == ["If"]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["--check", "{check}"], "the command does not fail on the model itself: it ends with status 0"),
        (["--check", "{check}", "--pattern", "nowhere"], "expected output that matches nowhere"),
        (["--check", "{check}", "--pattern", "("], "--pattern: missing )"),
        (["--check", "/nowhere/at/all"], "--check: cannot run /nowhere/at/all: No such file or directory"),
        (["--check", "'"], "--check: No closing quotation"),
        ([], "expected --check COMMAND, or --replay STEPS.json"),
        (["--replay", "/nowhere.json"], "cannot read /nowhere.json"),
    ],
)
def test_what_cannot_be_is_one_clear_message(saved, tmp_path, capsys, given, message):
    given = [word.replace("{check}", script(tmp_path, "'Erf' in ops")) for word in given]
    assert main(["reduce", str(saved), *given, "-o", str(tmp_path / "out.onnx")]) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "out.onnx").exists()


def test_another_failure_is_not_the_failure(tmp_path):
    """A part of the model on which the command fails with another status is not kept."""

    class Other(InProcess):
        def run(self, model):
            from rewrite_engine.testing.reduce.check import Outcome

            ops = [node.op_type for node in onnx.load(model).graph.node]
            return Outcome(1 if {"Tanh", "If"} <= set(ops) else 2, "")

    done = reduce(chain(), Other("unused"), lambda _: None, lambda _: None)
    assert {"Tanh", "If"} <= {node.op_type for node in done.model.graph.node}


def test_an_interrupt_keeps_the_smallest_so_far(saved, tmp_path):
    output = tmp_path / "small.onnx"
    slow = script(tmp_path, "'Tanh' in ops").replace("check.py", "slow.py")
    (tmp_path / "slow.py").write_text("import time; time.sleep(0.2)\n" + (tmp_path / "check.py").read_text())
    given = [sys.executable, "-c", "from rewrite_engine.cli import entry; entry()", "reduce", str(saved)]
    process = subprocess.Popen([*given, "--check", slow, "-o", str(output)], stderr=subprocess.PIPE, text=True)
    limit = time.monotonic() + 60
    while not output.exists() and time.monotonic() < limit:
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    _, told = process.communicate(timeout=60)
    assert process.returncode == 130 and "the smallest model so far is" in told
    assert 0 < len(onnx.load(output).graph.node) < 9


def test_steps_that_make_no_model():
    model = chain()
    assert apply(model, Step("nodes", ("nothing",))) is None
    assert apply(model, Step("input", ("nothing",))) is None
    assert apply(model, Step("fill", ("nothing",))) is None
    before = model.SerializeToString()
    for step in (Step("nodes", ("c3", "r3")), Step("outputs", ("z",)), Step("input", ("w",)), Step("resize", (), 8, 1)):
        found = apply(model, step)
        assert found is not None and is_valid(found), step
    assert model.SerializeToString() == before


def shell(path, text):
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


def test_a_command_that_fails_once_only_is_refused(saved, tmp_path):
    once = shell(tmp_path / "once.sh", f"test -e {tmp_path}/ran && exit 0; touch {tmp_path}/ran; exit 1")
    with pytest.raises(RewriteError, match="fails on the model, but not each time"):
        reduce(onnx.load(saved), Check(once), lambda _: None, lambda _: None)


def test_a_command_that_stops_failing_is_said():
    """It fails on the model twice and on the first smaller one, then never again."""
    runs = []

    class Fading(InProcess):
        def run(self, model):
            from rewrite_engine.testing.reduce.check import Outcome

            runs.append(model)
            return Outcome(1 if len(runs) <= 3 else 0, "")

    told = []
    done = reduce(chain(), Fading("unused"), told.append, lambda _: None)
    assert len(done.steps) == 1 and done.runs == len(runs)
    assert told[-1].startswith("warning: the command does not fail each time")


def test_what_a_late_command_started_is_stopped_with_it(tmp_path):
    late = shell(tmp_path / "late.sh", f"(sleep 2; touch {tmp_path}/left) & sleep 60")
    started = time.monotonic()
    assert Check(late, timeout=0.5).run(tmp_path / "model.onnx").status is None
    assert time.monotonic() - started < 10
    time.sleep(2.5)
    assert not (tmp_path / "left").exists()


def test_a_command_that_hangs_names_the_limit(saved, tmp_path):
    hangs = shell(tmp_path / "hangs.sh", "sleep 60")
    with pytest.raises(RewriteError, match=r"it runs for more than 0.2 s \(--timeout\)"):
        reduce(onnx.load(saved), Check(hangs, timeout=0.2), lambda _: None, lambda _: None)
