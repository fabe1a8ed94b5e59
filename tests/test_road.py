"""The whole road on real models: placed, proven, lowered, written, reloaded, run and compared with ONNX Runtime."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import numpy as np
import onnx
import pytest
from backend_graphs import edited
from models import MAIN_MODELS, find_model, get_model, largest_error, run_reference
from small_machines import BOARD, CHAIN
from test_verify_plan import drop_node

import rewrite_engine as rw
from rewrite_engine import api
from rewrite_engine.backend.bundle import Bundle
from rewrite_engine.backend.check import SEPARATION, TOLERANCE, compare
from rewrite_engine.backend.inputs import random_inputs
from rewrite_engine.diagnostics import RewriteError
from rewrite_engine.graph import load, strip
from rewrite_engine.graph.placed import CopyCall, KernelCall
from rewrite_engine.passes import LowerLoops, PassError, Place, PlanMemory, Sequential

ROOT = Path(__file__).parent.parent
RULES = "board.pat"
EVERY = [pytest.param(name, marks=pytest.mark.slow) if name == "light_resnet50" else name for name in MAIN_MODELS]
MOVES = {"Dropout", "Expand", "Pad", "Reshape", "Transpose"}


@dataclass(frozen=True)
class Road:
    """A model on its way: what every stage made of it."""

    module: api.Module
    placement: api.Placement
    bundle: Bundle

    @property
    def report(self) -> dict:
        return json.loads(self.bundle.extra_files["placement.json"])


@cache
def rules() -> api.RuleSet:
    return rw.load_rules(RULES)


@cache
def _road(name: str) -> Road:
    module = rw.load(get_model(name), dims=MAIN_MODELS[name])
    placement = rw.place(module, rules())
    return Road(module, placement, rw.compile(module, rules(), placement=placement))


def road(name: str) -> Road:
    find_model(name)  # skips where it is not there
    return _road(name)


@pytest.fixture(scope="module")
def mobilenet() -> Road:
    return road("mobilenetv2.legacy")


# ---------------------------------------------------------------- the placement


@pytest.mark.parametrize("name", EVERY)
def test_the_placement_is_proven_and_its_cost_the_sum_of_its_parts(name):
    found = road(name).report
    cost, launches = found["cost"], {t.name: t.launch for t in road(name).placement.machine.targets}
    assert cost["kernels"] == sum(kernel["cost"] for kernel in found["kernels"])
    assert cost["copies"] == sum(copy["cost"] for copy in found["copies"])
    assert cost["launches"] == sum(launches[region["target"]] for region in found["regions"])
    assert cost["total"] == cost["kernels"] + cost["copies"] + cost["launches"]
    assert sum(r["cost"] for r in found["regions"]) == cost["kernels"] + cost["launches"]
    assert found["saturation"] == "complete"
    assert found["bound"] <= cost["total"]
    if found["status"] == "optimal":
        assert found["bound"] == cost["total"] and found["gap"] == "0.000000"
    else:
        assert found["status"] == "feasible" and float(found["gap"]) > 0


@pytest.mark.parametrize("name", EVERY)
def test_no_baseline_is_better_and_every_single_target_is_worse(name):
    found = road(name).report
    total, baselines = found["cost"]["total"], found["baselines"]
    assert {"priority", "largest", "dp", "single:host", "single:fastlib", "single:npu"} <= baselines.keys()
    assert all(total <= cost for cost in baselines.values())
    assert all(total < cost for key, cost in baselines.items() if key.startswith("single:"))


@pytest.mark.parametrize("name", EVERY)
def test_the_placement_is_mixed(name):
    found = road(name).report
    share = Counter(kernel["target"] for kernel in found["kernels"])
    large = [target for target, count in share.items() if count >= 0.2 * len(found["kernels"])]
    assert len(large) >= 2 and len(found["regions"]) >= 2 and len(found["copies"]) >= 1


@pytest.mark.parametrize("name", EVERY)
def test_every_operator_is_accounted_for(name):
    """What computes lies in some kernel; what only moves may have been found to change nothing."""
    here, found = road(name), road(name).report
    covered = {node for kernel in found["kernels"] for node in kernel["nodes"]}
    terms = api.to_terms(here.module)
    names = {terms.values[next(o for o in node.outputs if o >= 0)].name: node.op for node in terms.nodes}
    assert covered <= names.keys() and {names[name] for name in names.keys() - covered} <= MOVES
    assert [k["id"] for k in found["kernels"]] == [id_ for r in found["regions"] for id_ in r["kernels"]]
    assert len({k["id"] for k in found["kernels"]}) == len(found["kernels"])


# ---------------------------------------------------------------- the numbers


@pytest.mark.parametrize("name", EVERY)
def test_the_bundle_computes_what_the_model_computes(name, tmp_path):
    here = road(name)
    here.bundle.save(tmp_path / "bundle")
    bundle = Bundle.open(tmp_path / "bundle")
    report = compare(bundle, bundle.extra_files["source.onnx"])
    assert report.ok, report.problems
    assert report.largest_error <= TOLERANCE and all(check.repeatable for check in report.checks)
    assert min(report.separations.values()) >= SEPARATION * TOLERANCE and {c.seed for c in report.checks} == {0, 1}


@pytest.mark.parametrize("name", EVERY)
def test_the_placed_model_is_the_model(name):
    """Without its annotations, the placed model gives the same numbers in ONNX Runtime."""
    here = road(name)
    feed = random_inputs(here.bundle.inputs, 3)
    plain = strip(load(onnx.load_model_from_string(here.bundle.extra_files["model.onnx"])).model)
    assert largest_error(run_reference(plain, feed), run_reference(get_model(name), feed)) <= TOLERANCE


BLOCKED = """
import sys
class Block:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {"onnx", "onnx_ir", "onnxruntime", "egglog", "lark"}:
            raise ImportError(name + " is not for running")
sys.meta_path.insert(0, Block())
import numpy as np
from rewrite_engine.backend.bundle import Bundle
bundle = Bundle.open(sys.argv[1])
outputs = bundle.run(dict(np.load(sys.argv[2])))
np.savez(sys.argv[3], **outputs)
"""


def test_a_bundle_needs_numpy_alone(mobilenet, tmp_path):
    """No kernel calls ONNX Runtime or a reference evaluator: none of them can be imported where it runs."""
    mobilenet.bundle.save(tmp_path / "bundle")
    feed = random_inputs(mobilenet.bundle.inputs, 5)
    np.savez(tmp_path / "in.npz", **feed)
    command = [sys.executable, "-c", BLOCKED, *(str(tmp_path / name) for name in ("bundle", "in.npz", "out.npz"))]
    subprocess.run(command, check=True)
    here, there = mobilenet.bundle.run(feed), np.load(tmp_path / "out.npz")
    assert list(there) == list(here) == ["1735"]
    assert all(there[name].tobytes() == array.tobytes() for name, array in here.items())


# ---------------------------------------------------------------- what must not run


def copies_of(graph: dict) -> list[int]:
    return [k for k, n in enumerate(graph["nodes"]) if n.get("attrs", {}).get("func_name") == "__copy"]


@pytest.mark.parametrize("name", ["mobilenetv2.legacy", pytest.param("bert12.legacy", marks=pytest.mark.slow)])
def test_no_copy_can_be_left_out(name):
    bundle = road(name).bundle
    copies = copies_of(dict(bundle.graph))
    assert len(copies) == len(road(name).report["copies"]) >= 2
    feed = random_inputs(bundle.inputs, 0)
    for node in copies:
        graph = edited(bundle.graph)
        drop_node(graph, node, rewire=True)
        damaged = replace(bundle, graph=graph)
        assert damaged.verify()
        with pytest.raises(RewriteError):
            damaged.run(feed)


def test_a_kernel_refuses_an_argument_from_the_wrong_device(mobilenet):
    """The first kernel on the accelerator is given a value of the host's of the same type."""
    graph = json.loads(json.dumps(mobilenet.bundle.graph))
    copy = copies_of(graph)[0]
    reader = next(n for n in graph["nodes"] if any(e[0] == copy for e in n["inputs"]) and n["op"] == "tvm_op")
    reader["inputs"] = [graph["nodes"][copy]["inputs"][0] if e[0] == copy else e for e in reader["inputs"]]
    damaged = replace(mobilenet.bundle, graph=graph)
    with pytest.raises(RewriteError, match=r"npu0"):
        damaged.run(random_inputs(mobilenet.bundle.inputs, 0))
    assert any("npu0" in problem for problem in damaged.verify())


# ---------------------------------------------------------------- the same bytes

SAME = """
import json, sys
import rewrite_engine as rw
from rewrite_engine import api
module = rw.load(sys.argv[1], dims=json.loads(sys.argv[3]))
rules = rw.load_rules(sys.argv[2])
files = api.report(module, rw.place(module, rules, objective=sys.argv[4]))
sys.stdout.buffer.write(files["placement.json"])
"""


def placed_by(python: str, seed: int, name: str = "mobilenetv2.legacy", objective: str = "latency") -> bytes:
    command = [python, "-c", SAME, str(find_model(name)), RULES, json.dumps(MAIN_MODELS[name]), objective]
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "PYTHONHASHSEED": str(seed)}
    return subprocess.run(command, check=True, capture_output=True, env=environment).stdout


@pytest.mark.parametrize(
    ("name", "seeds", "objective"),
    [
        ("mobilenetv2.legacy", 3, "latency"),
        *(
            pytest.param(name, 20, objective, marks=pytest.mark.slow)
            for name, objective in (
                ("mobilenetv2.legacy", "latency"),
                ("distilbert6.legacy_dyn", "latency"),
                ("light_resnet50", "energy"),
                ("resnet18.legacy", "makespan"),
                ("resnet18.legacy", "throughput"),
            )
        ),
    ],
)
def test_the_same_bytes_for_every_hash_seed(name, seeds, objective):
    find_model(name)
    with ThreadPoolExecutor(2) as pool:
        found = set(pool.map(lambda seed: placed_by(sys.executable, seed, name, objective), range(seeds)))
    assert len(found) == 1 and json.loads(found.pop())["kernels"]


@pytest.mark.second_python
@pytest.mark.parametrize("name", ["mobilenetv2.legacy", pytest.param("bert12.legacy", marks=pytest.mark.slow)])
def test_the_same_bytes_on_another_python_and_egglog(name):
    other = os.environ.get("REWRITE_ENGINE_SECOND_PYTHON")
    if other is None:
        pytest.skip("REWRITE_ENGINE_SECOND_PYTHON does not name an interpreter with the package and another egglog")
    assert placed_by(other, 1, name) == placed_by(sys.executable, 2, name)


def test_the_same_bytes_in_one_process(mobilenet):
    again = rw.compile(rw.load(get_model("mobilenetv2.legacy")), rules())
    one, two = mobilenet.bundle.files(), again.files()
    assert one.keys() == two.keys()
    assert [name for name in one if one[name] != two[name]] == ["search.json"]  # times


# ---------------------------------------------------------------- passes


def test_passes_give_what_compile_gives(mobilenet):
    place = Place(rules())
    module = Sequential([place, LowerLoops(), PlanMemory()])(mobilenet.module)
    calls = [step for step in mobilenet.placement.graph.steps if isinstance(step, KernelCall)]
    assert set(module.lowered) == {call.name for call in calls}
    placed = rw.graph.read_placed(module.model)
    capacities = {device.name: device.memory for device in module.machine.devices}
    from rewrite_engine.backend.bundle import build

    bundle = build(placed, module.lowered, capacities).with_c()
    expected = mobilenet.bundle.files()
    assert {name: content == expected[name] for name, content in bundle.files().items()} == dict.fromkeys(
        bundle.files(), True
    )
    assert bundle.plan == module.memory == mobilenet.bundle.plan
    assert [n for n, a in bundle.parameters.items() if a.tobytes() != mobilenet.bundle.parameters[n].tobytes()] == []


def test_passes_leave_the_module_they_are_given(mobilenet):
    module = rw.load(onnx.load_model_from_string(mobilenet.module.source.original))
    before = rw.graph.model_bytes(module.model)
    Sequential([Place(rules(), placement=mobilenet.placement), LowerLoops()])(module)
    assert rw.graph.model_bytes(module.model) == before and not module.lowered


def test_a_half_lowered_module_is_saved_reloaded_and_lowered(mobilenet, tmp_path):
    placed = Place(rules(), placement=mobilenet.placement).run(mobilenet.module)
    rw.graph.save(placed, tmp_path / "placed.onnx")
    again = LowerLoops().run(rw.load(tmp_path / "placed.onnx"))
    assert again.lowered.keys() == LowerLoops().run(placed).lowered.keys()


def test_what_passes_require_and_ensure():
    from models import parse

    module = rw.load(parse(CHAIN))
    board = rw.language.load_text(BOARD)
    for step in (LowerLoops(), PlanMemory(), Sequential([PlanMemory(), Place(board)])):
        with pytest.raises(PassError, match=r"the module is not placed .*; run Place first"):
            Sequential([step])(module)
    done = Sequential([Place(board), LowerLoops()])(module)
    with pytest.raises(PassError, match="Place: the module has lowered kernels already"):
        Sequential([Place(board)])(done)
    with pytest.raises(PassError, match="PlanMemory: the module has no machine; run Place first"):
        Sequential([PlanMemory()])(replace(done, machine=None))
    with pytest.raises(PassError, match=r"LowerLoops: no program for host\.Relu"):
        LowerLoops().ensures(replace(done, lowered={}))

    class Lazy(PlanMemory):
        def run(self, module):
            return module

    with pytest.raises(PassError, match="PlanMemory: the result has no memory plan"):
        Sequential([Lazy()])(done)
    assert Sequential([])(module) is module


def test_copies_are_of_the_bytes_that_move(mobilenet):
    graph = mobilenet.placement.graph
    for step in graph.steps:
        if isinstance(step, CopyCall):
            assert step.bytes == graph.types[step.value].bytes
            assert graph.devices[step.value] == step.source and graph.devices[step.output] == step.destination
