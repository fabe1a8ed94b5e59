"""Placed graphs for the backend's tests: one small graph written out, random ones from a seed, and fake kernels.

A fake kernel computes exactly what its name says, so a test knows the right numbers without the loops room.
"""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from rewrite_engine.backend.functions import Function, share_functions
from rewrite_engine.backend.graph_json import graph_json
from rewrite_engine.backend.memory import MemoryPlan, plan
from rewrite_engine.backend.runtime import Kernel, numpy_dtype
from rewrite_engine.graph.placed import CopyCall, KernelCall, PlacedGraph
from rewrite_engine.operators.types import TensorType


def kernel(
    name: str,
    inputs: Sequence[str],
    outputs: Sequence[str],
    device: str = "host",
    host_inputs: Sequence[str] = (),
) -> KernelCall:
    """A kernel call without a body: the backend never reads bodies."""
    return KernelCall(
        name=name,
        target="cpu" if device == "host" else device.rstrip("0123456789"),
        device=device,
        region=f"region.{device}",
        rule=name.rpartition(".")[0],
        inputs=tuple(inputs),
        outputs=tuple(outputs),
        host_inputs=frozenset(host_inputs),
        body=(),
        inner_types={},
        attributes={},
        cost=1,
        cost_source="formula",
        covers=tuple(outputs),
    )


def copied(value: str, output: str, source: str, destination: str, size: int) -> CopyCall:
    return CopyCall(value, output, source, destination, size, 1)


F23 = TensorType("float32", (2, 3))


def small_graph() -> PlacedGraph:
    """Two devices, copies both ways, a weight on each, a size read on the host, and bytes that can be reused.

    twice = x + x;  a = copy(twice);  sum = a + w;  positive = max(sum, 0);  shifted = reshape(positive, size);
    back = copy(shifted);  y = back + v
    """
    types = dict.fromkeys(("x", "twice", "a", "w", "sum", "positive", "shifted", "back", "v", "y"), F23)
    return PlacedGraph(
        name="small",
        inputs=("x", "size"),
        outputs=("y",),
        parameters={"w": np.full((2, 3), -1.5, np.float32), "v": np.arange(6, dtype=np.float32).reshape(2, 3)},
        steps=(
            kernel("host.twice.1", ["x", "x"], ["twice"]),
            copied("twice", "a", "host", "npu0", 24),
            kernel("npu.add.1", ["a", "w"], ["sum"], "npu0"),
            kernel("npu.relu.1", ["sum"], ["positive"], "npu0"),
            kernel("npu.shape.1", ["positive", "size"], ["shifted"], "npu0", host_inputs=["size"]),
            copied("shifted", "back", "npu0", "host", 24),
            kernel("host.add.1", ["back", "v"], ["y"]),
        ),
        types={**types, "size": TensorType("int64", (2,))},
        devices={
            **dict.fromkeys(("x", "size", "twice", "back", "v", "y"), "host"),
            **dict.fromkeys(("a", "w", "sum", "positive", "shifted"), "npu0"),
        },
    )


def small_inputs(seed: int = 0) -> dict[str, np.ndarray]:
    x = np.random.default_rng(seed).standard_normal((2, 3)).astype(np.float32)
    return {"x": x, "size": np.array([2, 3], np.int64)}


def small_answer(inputs: Mapping[str, np.ndarray]) -> np.ndarray:
    return np.maximum(inputs["x"] + inputs["x"] - 1.5, 0) + np.arange(6, dtype=np.float32).reshape(2, 3)


def _add(inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray]) -> None:
    outputs[0][...] = sum(array.astype(np.float64) for array in inputs)


def _relu(inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray]) -> None:
    outputs[0][...] = np.maximum(inputs[0], 0)


def _reshape(inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray]) -> None:
    outputs[0][...] = inputs[0].reshape(tuple(inputs[1]))


def _spread(inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray]) -> None:
    """Every output element is the sum of all input elements plus the output's number: any element type and shape."""
    total = sum(float(array.astype(np.float64).sum()) for array in inputs) % 7
    for number, output in enumerate(outputs):
        output[...] = total + number


FAKES: dict[str, Kernel] = {"twice": _add, "add": _add, "relu": _relu, "shape": _reshape, "spread": _spread}
"""What the kernel `device.NAME.1` computes, by NAME."""


@dataclass(frozen=True)
class FakeBundle:
    """What an executor and `verify` need, with fake kernels."""

    graph: dict[str, Any]
    plan: MemoryPlan
    functions: Mapping[str, Function]
    kernels: Mapping[str, Kernel]
    parameters: Mapping[str, np.ndarray]

    @property
    def parameter_types(self) -> dict[str, TensorType]:
        return {name: TensorType(array.dtype.name, array.shape) for name, array in self.parameters.items()}

    def with_graph(self, graph: dict[str, Any]) -> FakeBundle:
        return replace(self, graph=graph)


def fake_bundle(placed: PlacedGraph) -> FakeBundle:
    memory_plan = plan(placed, {})
    calls = [call for call in placed.steps if isinstance(call, KernelCall)]
    kinds = {call.name: call.name.split(".")[1] for call in calls}
    functions, symbols = share_functions(placed, kinds, dict.fromkeys(kinds, 0))
    kernels = {symbols[name]: FAKES[kind] for name, kind in kinds.items()}
    graph = graph_json(placed, memory_plan, symbols)
    return FakeBundle(json.loads(json.dumps(graph)), memory_plan, functions, kernels, placed.parameters)


def edited(graph: dict[str, Any]) -> dict[str, Any]:
    """A copy to change."""
    return copy.deepcopy(graph)


_TYPES = [TensorType("float32", shape) for shape in ((), (7,), (2, 3), (4, 5, 6), (0, 3), (33, 9))]
_TYPES += [TensorType("int64", (5,)), TensorType("bool", (11,)), TensorType("bfloat16", (3, 3))]


def random_graph(seed: int, size: int = 12) -> PlacedGraph:
    """A placed graph of about `size` kernels on three devices; values are copied where they are read."""
    choose = random.Random(seed)
    devices: dict[str, str] = {}
    types: dict[str, TensorType] = {}
    steps: list[KernelCall | CopyCall] = []
    copies: dict[tuple[str, str], str] = {}

    def declare(name: str, device: str, tensor: TensorType) -> str:
        devices[name], types[name] = device, tensor
        return name

    places = ["host", "npu0", "dsp0"]
    inputs = [declare(f"in{i}", "host", choose.choice(_TYPES)) for i in range(choose.randint(1, 3))]
    weights = [declare(f"w{i}", choose.choice(places), choose.choice(_TYPES)) for i in range(choose.randint(0, 4))]
    values = [*inputs, *weights]

    def present(name: str, device: str) -> str:
        if devices[name] == device:
            return name
        if (name, device) not in copies:
            output = declare(f"{name}@{device}", device, types[name])
            steps.append(copied(name, output, devices[name], device, types[name].bytes or 0))
            copies[name, device] = output
        return copies[name, device]

    for index in range(size):
        device = choose.choice(places)
        reads = [present(choose.choice(values), device) for _ in range(choose.randint(1, 3))]
        writes = [declare(f"v{index}_{i}", device, choose.choice(_TYPES)) for i in range(choose.randint(1, 2))]
        steps.append(kernel(f"{device.rstrip('0')}.spread.{index}", reads, writes, device))
        values += writes
    computed = values[len(inputs) + len(weights) :]
    outputs = list(dict.fromkeys([computed[-1], *choose.sample(computed, min(2, len(computed)))]))
    outputs = [present(name, "host") for name in outputs]
    parameters = {name: np.ones(types[name].shape, numpy_dtype(types[name].dtype)) for name in weights}
    return PlacedGraph("random", tuple(inputs), tuple(outputs), parameters, tuple(steps), types, devices)
