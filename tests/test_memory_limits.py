"""Device memory as a hard limit: against every assignment of a small model, and where nothing fits."""

from __future__ import annotations

import itertools
import random
from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import pytest
from models import parse
from onnx import numpy_helper
from test_brute_wide import random_board, random_model

import rewrite_engine as rw
from rewrite_engine.graph import to_terms
from rewrite_engine.language import load_text
from rewrite_engine.placement.memory_limits import too_small, uses
from rewrite_engine.placement.place import place

SIZES = (64, 96, 32, 80)
LINES = "\n".join(f"v{k} = MatMul({'x' if not k else f'v{k - 1}'}, w{k})" for k in range(len(SIZES)))
SHAPES = [16, *SIZES]


def model() -> onnx.ModelProto:
    """A chain of products with weights of different sizes."""
    last = len(SIZES) - 1
    text = f"g (float[4,16] x) => (float[4,{SIZES[-1]}] y) {{\n{LINES}\ny = Relu(v{last})\n}}"
    found = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : 21]>\n{text}')
    rng = np.random.default_rng(0)
    for k, (rows, columns) in enumerate(itertools.pairwise(SHAPES)):
        weights = rng.standard_normal((rows, columns)).astype(np.float32)
        found.graph.initializer.append(numpy_helper.from_array(weights, f"w{k}"))
    return found


def rules(folder: Path, memory: int, launch: str = "0us") -> rw.RuleSet:
    path = folder / f"npu{memory}.pat"
    path.write_text(
        f"device npu0 {{ memory {memory}B }}\nlink host <-> npu0: 200ns + bytes / 8GBps\n"
        "target host { flops 2GFLOPS bandwidth 4GBps }\n"
        f"target npu on npu0 {{ launch {launch} supports MatMul cost 100ns + macs / 100GMACS }}\n"
    )
    return rw.load_rules(path)


@pytest.mark.parametrize("kilobytes", [8, 21, 46, 1000])
def test_the_best_that_fits_of_all_assignments(tmp_path: Path, kilobytes: int) -> None:
    module = rw.load(model())
    memory = kilobytes * 1024
    found = rw.place(module, rules(tmp_path, memory))
    assert not too_small(found.graph, found.machine)
    free = rules(tmp_path, 10**7)
    costs = []
    for where in itertools.product(["host", "npu"], repeat=len(SIZES)):
        pinned = rw.place(module, free, pins={f"v{k}": place for k, place in enumerate(where)})
        if uses(pinned.graph, pinned.machine)["npu0"].total <= memory:
            costs.append(pinned.costs.total)
    assert found.bound <= min(costs) <= found.costs.total
    assert found.costs.total == min(costs) == found.bound
    assert found.status == ("optimal" if found.bound == found.costs.total else "feasible")


def test_a_limit_that_does_not_bind_changes_nothing(tmp_path: Path) -> None:
    module = rw.load(model())
    wide, tight = (rw.place(module, rules(tmp_path, memory)) for memory in (10**7, 10**6))
    assert (wide.costs, wide.status, wide.bound) == (tight.costs, "optimal", tight.bound)


def test_other_objectives_mind_memory_too(tmp_path: Path) -> None:
    module = rw.load(model())
    for objective in ("makespan", "throughput"):
        found = rw.place(module, rules(tmp_path, 21 * 1024), objective=objective)
        assert not too_small(found.graph, found.machine)
        assert found.bound <= found.costs.total


def test_memory_that_grows_never_costs(tmp_path: Path) -> None:
    module = rw.load(model())
    costs = [rw.place(module, rules(tmp_path, kilobytes * 1024)).costs.total for kilobytes in (8, 21, 46, 1000)]
    assert costs == sorted(costs, reverse=True)


def test_what_needs_the_device_whatever_it_holds_is_left_to_the_plan(tmp_path: Path) -> None:
    module = rw.load(model())
    small = rules(tmp_path, 1024)
    pins = {f"v{k}": "npu" for k in range(len(SIZES))}
    placement = rw.place(module, small, pins=pins)
    assert too_small(placement.graph, placement.machine)
    with pytest.raises(rw.diagnostics.RewriteError, match="device `npu0` is too small"):
        rw.compile(module, small, placement=placement)


@pytest.mark.parametrize(
    ("objective", "models"),
    [
        ("latency", 6),
        ("energy", 6),
        *(
            pytest.param(objective, models, marks=pytest.mark.slow)
            for objective, models in (("latency", 200), ("energy", 200), ("makespan", 20), ("throughput", 20))
        ),
    ],
)
def test_baselines_that_fit_are_never_better_and_others_have_no_cost(objective: str, models: int) -> None:
    fitted = refused = 0
    for seed in range(models):
        rng = random.Random(f"memory {seed}")
        graph = to_terms(rw.load(parse(random_model(rng, 3 + seed % 6))))
        board = load_text(random_board(rng, memory=True))
        found = place(graph, board, objective=objective, allow=(), time_limit=2.0)
        if too_small(found.graph, found.machine):
            assert not any(found.baselines.values()), seed
            continue
        for name, cost in found.baselines.items():
            alone = place(graph, board, objective=objective, allow=(), strategy=name, time_limit=2.0)
            fits = not too_small(alone.graph, alone.machine)
            assert cost == (alone.costs.total if fits else None), (seed, name)
            assert cost is None or found.costs.total <= cost, (seed, name)
            fitted, refused = fitted + fits, refused + (not fits)
    assert fitted >= models and refused >= models / 2
