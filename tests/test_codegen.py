"""Code generators that make a target's kernels, and memory planners that lay out its memory."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rewrite_engine as rw
from rewrite_engine.backend.codegen import generate, read_targets
from rewrite_engine.backend.packing import ALIGNMENT, Block, align, check_layout
from rewrite_engine.passes.stages import PlanMemory
from tests.models import parse
from tests.plugging import module, rules_of

# ---------------------------------------------------------------- code generators


class Doubling:
    """Makes Relu, and marks what it made by doubling it; declines everything else."""

    name = "doubling"
    version = "1"

    def generate(self, call: Any, types: Mapping[str, Any], parameters: Mapping[str, Any]) -> bytes | None:
        assert set(types) == {*call.inputs, *call.outputs}
        return b"relu" if [node.op for node in call.body] == ["Relu"] else None

    def load(self, artifact: bytes) -> Any:
        if artifact != b"relu":
            raise ValueError(f"what is {artifact!r}?")

        def kernel(inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray]) -> None:
            outputs[0][...] = 2 * np.maximum(inputs[0], 0)

        return kernel


def relu_of_relu() -> rw.Module:
    body = "g (float[1,4,32,32] x) => (float[1,4,32,32] y) { a = Relu(x)\n b = Neg(a)\n y = Relu(b) }"
    return rw.load(parse(body))


def test_a_target_runs_its_own_code(tmp_path: Path) -> None:
    bundle = rw.compile(relu_of_relu(), rules_of("supports Relu, Neg"), targets={"t": Doubling()})
    x = -np.arange(4096, dtype=np.float32).reshape(1, 4, 32, 32) + 9
    executor = bundle.executor("numpy")
    expected = 2 * np.maximum(-2 * np.maximum(x, 0), 0)
    assert np.array_equal(executor.run({"x": x})["y"], expected)
    assert sorted(t.ran for t in executor.times) == ["copy", "copy", "numpy", "target", "target"]
    assert len(bundle.artifacts) == 1 and len(bundle.functions) == 2  # both Relus share a function
    bundle.save(tmp_path / "b")
    assert np.array_equal(rw.Bundle.open(tmp_path / "b", [Doubling()]).run({"x": x})["y"], expected)
    with pytest.raises(rw.RewriteError, match=r"target `t` was made by the code generator `doubling`"):
        rw.Bundle.open(tmp_path / "b").run({"x": x})
    newer = Doubling()
    newer.version = "2"
    with pytest.warns(RuntimeWarning, match="made by doubling 1; 2 is installed"):
        rw.Bundle.open(tmp_path / "b", [newer]).run({"x": x})


def test_an_artifact_is_checked_when_it_is_read(tmp_path: Path) -> None:
    rw.compile(relu_of_relu(), rules_of("supports Relu, Neg"), targets={"t": Doubling()}).save(tmp_path / "b")
    file = next((tmp_path / "b" / "kernels").glob("*.bin"))
    file.write_bytes(b"other")
    with pytest.raises(rw.RewriteError, match="changed or damaged"):
        rw.Bundle.open(tmp_path / "b", [Doubling()])
    manifest = json.loads((tmp_path / "b" / "manifest.json").read_text())
    manifest["files"][f"kernels/{file.name}"]["sha256"] = hashlib.sha256(b"other").hexdigest()
    (tmp_path / "b" / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(rw.RewriteError, match="expected the artifact of hash"):
        rw.Bundle.open(tmp_path / "b", [Doubling()])


def test_a_generator_that_fails_is_named() -> None:
    class Failing(Doubling):
        def generate(self, call: Any, types: Any, parameters: Any) -> Any:
            raise OSError("no licence")

    class Texts(Doubling):
        def generate(self, call: Any, types: Any, parameters: Any) -> Any:
            return "text"

    class Forgetful(Doubling):
        def generate(self, call: Any, types: Any, parameters: Any) -> Any:
            return b"else"

    class Crashing(Doubling):
        def load(self, artifact: bytes) -> Any:
            return lambda inputs, outputs: inputs[7]

    rules = rules_of("supports Relu, Neg")
    with pytest.raises(rw.RewriteError, match=r"kernel `t.Relu.1` \(t.supports.0\): OSError: no licence"):
        rw.compile(module(), rules, targets={"t": Failing()})
    with pytest.raises(rw.RewriteError, match="expected bytes or None, found str"):
        rw.compile(module(), rules, targets={"t": Texts()})
    with pytest.raises(rw.RewriteError, match="the artifact cannot be loaded: ValueError: what is b'else'"):
        rw.compile(module(), rules, targets={"t": Forgetful()}).executor()
    executor = rw.compile(module(), rules, targets={"t": Crashing()}).executor()
    with pytest.raises(rw.RewriteError, match="code generator `doubling`, kernel `t_Relu_1` failed: IndexError"):
        executor.run({"x": np.zeros((1, 4, 32, 32), np.float32)})


@pytest.mark.parametrize(
    ("targets", "message"),
    [
        ({"q": Doubling()}, "no target is called `q`; there are host, t"),
        ({"t": Doubling}, "found the class Doubling; make an object of it"),
        ({"t": "nothing"}, "unknown code generator `nothing`; there are none"),
        ({"t": {"cpu": "a53"}}, "`t`: expected a code generator or its name, found options"),
        ({"host": {"cpus": "a53"}}, "no option `cpus`; there are cc, cpu, triple; did you mean `cpu`"),
        ({"host": {"cpu": 3}}, "host option `cpu`: expected a text, found 3"),
    ],
)
def test_what_targets_may_be(targets: Any, message: str) -> None:
    with pytest.raises(rw.RewriteError, match=message):
        read_targets(targets, ["host", "t"])


def test_options_of_the_host_are_kept(tmp_path: Path) -> None:
    host = {"triple": "aarch64-linux-gnu", "cpu": "cortex-a53"}
    bundle = rw.compile(module(), rules_of(), targets={"host": host}, engine="numpy")
    bundle.save(tmp_path / "b")
    opened = rw.Bundle.open(tmp_path / "b")
    assert opened.host_options == {"cpu": "cortex-a53", "triple": "aarch64-linux-gnu"}
    assert json.loads((tmp_path / "b" / "metadata.json").read_text())["host"] == opened.host_options


def test_targets_as_names_still_choose() -> None:
    bundle = rw.compile(module(), rules_of("supports Relu"), targets=["host"])
    assert {function.target for function in bundle.functions.values()} == {"host"}


def test_targets_without_a_generator_are_loop_nests() -> None:
    placement = rw.place(module(), rules_of("supports Relu"))
    assert generate(placement.graph, {}) == {}


# ---------------------------------------------------------------- memory planners


def one_after_another(blocks: Sequence[Block]) -> dict[str, int]:
    """No sharing at all."""
    offsets, end = {}, 0
    for block in blocks:
        offsets[block.name] = end
        end = align(end + block.size)
    return offsets


def test_a_planner_can_be_replaced(tmp_path: Path) -> None:
    rules = rules_of("supports Neg")
    rows = " ".join(f"{b} = Softmax({a})" for a, b in zip("xabc", "abcy", strict=True))
    module = rw.load(parse(f"g (float[1,4,32,32] x) => (float[1,4,32,32] y) {{ {rows} }}"))
    shared = rw.compile(module, rules)
    apart = rw.compile(module, rules, planner=one_after_another)
    arenas = [bundle.plan.by_device()["host"].arena for bundle in (shared, apart)]
    own = [s for s in apart.plan.storages if (s.kind, s.device) == ("intermediate", "host") and s.root == s.value]
    assert arenas[0] < arenas[1] == sum(s.size for s in own)
    assert apart.verify() == []
    x = np.linspace(-1, 1, 4096, dtype=np.float32).reshape(1, 4, 32, 32)
    apart.save(tmp_path / "b")
    assert np.array_equal(rw.Bundle.open(tmp_path / "b").run({"x": x})["y"], shared.run({"x": x})["y"])
    memory = json.loads(apart.extra_files["placement.json"])["memory"]["host"]
    assert memory["peak"] == apart.plan.by_device()["host"].peak
    assert PlanMemory(one_after_another).planner is one_after_another


@pytest.mark.parametrize(
    ("planner", "message"),
    [
        (lambda blocks: {}, r"expected an offset for each of \d blocks, found none for"),
        (lambda blocks: None, r"expected an offset for each of \d blocks"),
        (lambda blocks: {b.name: 0 for b in blocks}, "share bytes and are both live at step"),
        (lambda blocks: {b.name: 10**6 * k + 8 for k, b in enumerate(blocks)}, "expected a multiple of 64"),
    ],
)
def test_a_layout_that_does_not_hold_is_refused(planner: Any, message: str) -> None:
    with pytest.raises(rw.RewriteError, match=f"memory planner, device `host`: .*{message}"):
        rw.compile(module(), rules_of(), planner=planner)


def test_blocks_that_are_not_live_together_may_share() -> None:
    blocks = [Block("a", ALIGNMENT, 0, 1), Block("b", ALIGNMENT, 2, 3), Block("c", 0, 0, 3)]
    check_layout(blocks, {"a": 0, "b": 0, "c": 0}, "planner")
    with pytest.raises(rw.RewriteError, match="`a` and `b` share bytes and are both live at step 1"):
        check_layout([blocks[0], Block("b", 1, 1, 3)], {"a": 0, "b": 0}, "planner")
