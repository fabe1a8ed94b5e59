"""Execution of a bundle's graph.json with one memory per device; every misplaced or premature read is an error.

In: a bundle (graph.json, memory plan, functions, a callable for each symbol, parameters). Out: the graph's outputs.
Before each run every byte beside the parameters is poisoned (0xFF: NaN in floats), and so are a step's results before
it starts: nothing left over can look right. Reads graph.json as an independent executor would; proving it beforehand
is `verify_plan`'s work.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from rewrite_engine.backend.functions import Function
from rewrite_engine.backend.graph_reader import Entry, Node, ReadGraph, read_graph
from rewrite_engine.backend.memory import HOST, MemoryPlan, Storage
from rewrite_engine.backend.native import How, Native
from rewrite_engine.backend.packing import ALIGNMENT
from rewrite_engine.diagnostics import RewriteError, did_you_mean
from rewrite_engine.loops import dtypes
from rewrite_engine.loops.checks import OutOfRange
from rewrite_engine.operators.types import ITEM_BITS, TensorType

Observer = Callable[["StepTime", Mapping[str, np.ndarray]], None]
"""Sees the results of a kernel, by name of the value, before anything else runs."""

Kernel = Callable[[Sequence[np.ndarray], Sequence[np.ndarray]], None]
"""Reads the input arrays and fills the output arrays, which are contiguous and in device memory."""

POISON = 0xFF


class Runnable(Protocol):
    """What an executor needs of a bundle: `graph` is the content of graph.json, functions and kernels are by symbol."""

    @property
    def graph(self) -> Mapping[str, object]: ...
    @property
    def plan(self) -> MemoryPlan: ...
    @property
    def functions(self) -> Mapping[str, Function]: ...
    @property
    def kernels(self) -> Mapping[str, Kernel]: ...
    @property
    def parameters(self) -> Mapping[str, np.ndarray]: ...


@dataclass(frozen=True, slots=True, eq=False)
class DeviceArray:
    """A value in a device's memory. `array` is a view of the device's bytes."""

    value: str
    device: str
    array: np.ndarray

    def poison(self) -> None:
        """Fill the value's bytes with 0xFF."""
        self.array.reshape(-1).view(np.uint8)[...] = POISON


@dataclass(frozen=True, slots=True)
class StepTime:
    """Wall-clock seconds of one kernel or copy. `ran` says what did the work: "c", "numpy", "target" (the target's own
    code), "host" (a host operator), "copy" or "view" (nothing ran); `reason` why that was not C, where it is a
    kernel."""

    name: str
    function: str
    device: str
    seconds: float
    ran: str = "numpy"
    reason: str = ""


class DeviceMemory:
    """The bytes of one device, aligned to 64, with the parameters resident."""

    def __init__(self, device: str, extent: int) -> None:
        self.device = device
        room = np.empty(extent + ALIGNMENT, dtype=np.uint8)
        start = -room.ctypes.data % ALIGNMENT
        self._bytes = room[start : start + extent]

    def array(self, storage: Storage, tensor: TensorType) -> DeviceArray:
        """The storage's bytes as an array of the given type. Raises RewriteError where they are not in this memory."""
        dtype, shape = numpy_dtype(tensor.dtype), tensor.shape or ()
        sizes = [size for size in shape if isinstance(size, int)]
        needed = int(np.prod(sizes, dtype=np.int64)) * dtype.itemsize
        if storage.device != self.device or storage.offset + needed > len(self._bytes):
            raise RewriteError(
                f"value `{storage.value}`: expected {needed} bytes at {storage.offset} of `{self.device}`, which has "
                f"{len(self._bytes)}, found a storage on `{storage.device}`"
            )
        window = self._bytes[storage.offset : storage.offset + needed]
        return DeviceArray(storage.value, self.device, window.view(dtype).reshape(sizes))

    def poison(self, end: int) -> None:
        """Fill the bytes before `end` (where the parameters begin) with 0xFF."""
        self._bytes[:end] = POISON


def numpy_dtype(name: str) -> np.dtype:
    """The NumPy dtype of an element type by name ("float32", "bfloat16", "int4"); RewriteError for an unknown one."""
    if name not in ITEM_BITS or name == "string":
        raise RewriteError(f"expected the name of a numeric dtype, found `{name}`")
    return dtypes.numpy_dtype(name)


class Executor:
    """Runs a bundle again and again; `times` holds the steps of the last run.

    Nothing is proven first, and nothing has to be: a run checks each read and write as it happens. Raises RewriteError
    when the graph is malformed, a parameter is missing or has another type, or a value has no storage.
    """

    def __init__(self, bundle: Runnable, native: Native | None = None) -> None:
        """`native` runs what it can in C; without it, kernels run in NumPy."""
        graph, problems = read_graph(bundle.graph)
        if graph is None:
            raise RewriteError("graph.json: " + "; ".join(problems))
        self.times: tuple[StepTime, ...] = ()
        self._graph: ReadGraph = graph
        self._functions = bundle.functions
        self._kernels = dict(bundle.kernels)
        self._parameters = bundle.parameters
        memories = {use.device: DeviceMemory(use.device, use.extent) for use in bundle.plan.devices}
        storages = bundle.plan.by_value()
        self._arrays = [_array(entry, storages, memories) for entry in graph.entries]
        arguments = [node.outputs[0] for node in graph.nodes if node.kind == "argument"]
        self._entry = {graph.entries[entry].name: entry for entry in arguments}
        for name in (*graph.inputs, *graph.parameters):
            if name not in self._entry:
                raise RewriteError(f"graph.json: expected a null node for `{name}`, found none")
        self._roots = [storages[entry.name].root for entry in graph.entries]
        self._sharers: dict[str, list[int]] = {}
        for number, root in enumerate(self._roots):
            self._sharers.setdefault(root, []).append(number)
        self._scratch = [(memories[device], end) for device, end in _parameter_starts(bundle.plan)]
        self._load_parameters()
        self._native = native
        self._bound = {} if native is None else self._bind(native)

    @property
    def origin(self) -> str:
        """What runs the kernels: where their library comes from, or NumPy."""
        return "NumPy" if self._native is None else self._native.origin

    @property
    def inputs(self) -> dict[str, TensorType]:
        """Types of the graph's inputs by name, in order."""
        return {name: self._graph.entries[self._entry[name]].type for name in self._graph.inputs}

    def run(self, inputs: Mapping[str, np.ndarray], observe: Observer | None = None) -> dict[str, np.ndarray]:
        """Outputs by the model's names, as arrays of their own. `observe` sees the results of every kernel.

        Raises RewriteError for inputs that are missing, unknown or of another type, for a kernel that is given an
        operand in the wrong memory, for positions in data that lie outside of their axis, for a value read before it is
        written, and for a parameter that was overwritten.
        """
        checked = self._check_inputs(inputs)
        for memory, end in self._scratch:
            memory.poison(end)
        # Inputs and parameters are there from the start; a value a node has not computed yet is not.
        written = {self._entry[name] for name in (*self._graph.inputs, *self._graph.parameters)}
        for name, array in checked.items():
            self._arrays[self._entry[name]].array[...] = array
        times = []
        for node in self._graph.nodes:
            if node.kind == "argument":
                continue
            seconds = self._step(node, written)
            device = self._graph.entries[node.outputs[0]].device if node.outputs else HOST
            how = self._how(node)
            times.append(StepTime(node.name, node.function, device, seconds, how.ran, how.reason))
            if node.kind != "view":  # what was in these bytes before is gone
                for entry in node.outputs:
                    written.difference_update(self._sharers[self._roots[entry]])
            written.update(node.outputs)
            if observe is not None and node.kind == "kernel":
                results = [self._arrays[entry] for entry in node.outputs]
                observe(times[-1], {result.value: result.array for result in results})
        self.times = tuple(times)
        self._check_parameters()
        outputs = {}
        found = tuple(self._graph.entries[entry].name for entry in self._graph.heads)
        if found != self._graph.outputs:
            raise RewriteError(f"graph.json: expected the outputs {list(self._graph.outputs)}, found {list(found)}")
        for name, entry in zip(self._graph.output_names, self._graph.heads, strict=True):
            if entry not in written:
                raise RewriteError(f"graph output `{name}` was never written")
            outputs[name] = self._arrays[entry].array.copy()
        return outputs

    def value(self, name: str) -> np.ndarray:
        """A copy of what is in a value's bytes now: after a run that is its own for outputs and pinned values, while
        other values may have had their bytes taken over. Raises RewriteError for a value that the graph has not."""
        found = next((array for array in self._arrays if array.value == name), None)
        if found is None:
            hint = did_you_mean(name, (array.value for array in self._arrays))
            raise RewriteError(f"the graph has no value `{name}`" + (f"; {hint}" if hint else ""))
        return found.array.copy()

    def _how(self, node: Node) -> How:
        if node.kind in ("copy", "view"):
            return How(node.kind)
        if self._native is not None:
            return self._native.how[node.function]
        return How("numpy" if self._functions[node.function].generator is None else "target")

    def _bind(self, native: Native) -> dict[tuple[int, ...], Callable[[], None]]:
        """The calls that run in C, by the entries that they write; what a kernel refuses, it refuses when it runs."""
        calls = []
        for node in self._graph.nodes:
            how = native.how.get(node.function)
            if node.kind != "kernel" or how is None or how.ran != "c":
                continue
            operands = [self._arrays[entry] for entry in node.inputs]
            results = [self._arrays[entry] for entry in node.outputs]
            try:
                self._kernel(node, operands, results)
            except RewriteError:
                continue
            names = [operand.value for operand in operands]
            for position in native.kernels[node.function].constants:
                if names[position] not in self._parameters:
                    raise RewriteError(
                        f"`{node.name}`: operand {position}: expected a parameter, found `{names[position]}`"
                    )
            calls.append((node.outputs, (node.function, [o.array for o in operands], [r.array for r in results])))
        bound = native.bind([call for _, call in calls])
        return {entries: run for (entries, _), run in zip(calls, bound, strict=True)}

    def _load_parameters(self) -> None:
        for name in self._graph.parameters:
            if name not in self._parameters:
                raise RewriteError(f"parameter `{name}`: expected it among the stored parameters, found it missing")
            target, stored = self._arrays[self._entry[name]].array, self._parameters[name]
            if target.dtype != stored.dtype or target.shape != stored.shape:
                expected, found = _describe(target), _describe(stored)
                raise RewriteError(f"parameter `{name}`: expected {expected} as in graph.json, found {found}")
            target[...] = stored

    def _check_parameters(self) -> None:
        """Parameters are as they were loaded: an overwritten one gives right results once and wrong ones after that."""
        for name in self._graph.parameters:
            resident = np.ascontiguousarray(self._arrays[self._entry[name]].array)
            stored = np.ascontiguousarray(self._parameters[name])
            if not np.array_equal(resident.reshape(-1).view(np.uint8), stored.reshape(-1).view(np.uint8)):
                device = self._arrays[self._entry[name]].device
                raise RewriteError(f"parameter `{name}` on `{device}` was overwritten during the run")

    def _check_inputs(self, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        expected = self.inputs
        for name in inputs:
            if name not in expected:
                hint = did_you_mean(name, expected)
                known = f"expected {', '.join(f'`{known}`' for known in expected)}"
                raise RewriteError(f"unknown input `{name}`: {known}" + (f"; {hint}" if hint else ""))
        checked = {}
        for name, tensor in expected.items():
            if name not in inputs:
                raise RewriteError(f"missing input `{name}`: expected {tensor}")
            array = np.asarray(inputs[name])
            if array.dtype != numpy_dtype(tensor.dtype) or array.shape != tensor.shape:
                raise RewriteError(f"input `{name}`: expected {tensor}, found {_describe(array)}")
            checked[name] = array
        return checked

    def _step(self, node: Node, written: set[int]) -> float:
        """Run one kernel or copy on handles; both refuse what is not there. Returns the seconds of the work itself."""
        for entry in node.inputs:
            if entry not in written:
                name = self._graph.entries[entry].name
                raise RewriteError(f"`{node.name}` reads value `{name}` before anything wrote it")
        operands = [self._arrays[entry] for entry in node.inputs]
        results = [self._arrays[entry] for entry in node.outputs]
        move = _copy(node, operands, results) if node.kind == "copy" else self._kernel(node, operands, results)
        if node.kind == "view":
            move = _see(node, operands, results)
        expected, found = node.facts.get("inputs"), [operand.value for operand in operands]
        if expected != found:
            raise RewriteError(f"`{node.name}`: expected the operands {expected}, found {found}")
        given_roots = [self._roots[entry] for entry in node.inputs]
        for entry, result in zip(node.outputs, results, strict=True):
            if self._roots[entry] not in given_roots:
                result.poison()
            elif node.kind == "kernel":
                self._check_in_place(node, [at for at, root in enumerate(given_roots) if root == self._roots[entry]])
        bound = self._bound.get(node.outputs)
        given, made = [operand.array for operand in operands], [result.array for result in results]
        started = time.perf_counter()
        try:
            if bound is None:
                move(given, made)
            else:
                bound()
        except OutOfRange as error:
            raise RewriteError(f"kernel `{node.name}`: {error}") from error
        return time.perf_counter() - started

    def _check_in_place(self, node: Node, positions: Sequence[int]) -> None:
        """A kernel may overwrite these operands."""
        allowed = self._functions[node.function].in_place
        if not set(positions) <= set(allowed):
            raise RewriteError(
                f"kernel `{node.name}`: expected to overwrite none of the operands but {list(allowed)}, "
                f"found {list(positions)}"
            )

    def _kernel(self, node: Node, operands: Sequence[DeviceArray], results: Sequence[DeviceArray]) -> Kernel:
        """The node's kernel, which accepts these arguments."""
        function, kernel = self._functions.get(node.function), self._kernels.get(node.function)
        if function is None or kernel is None:
            raise RewriteError(f"`{node.name}`: expected a kernel `{node.function}`, found none of that symbol")
        if len(operands) != len(function.inputs) or len(results) != len(function.outputs):
            expected = f"{len(function.inputs)} operands and {len(function.outputs)} results"
            raise RewriteError(f"kernel `{node.name}`: expected {expected}, found {len(operands)} and {len(results)}")
        for position, operand in enumerate(operands):
            _accept(node, "operand", position, operand, function.inputs[position], function.input_device(position))
        for position, result in enumerate(results):
            _accept(node, "result", position, result, function.outputs[position], function.device)
        return kernel


def _accept(node: Node, side: str, position: int, given: DeviceArray, tensor: TensorType, device: str) -> None:
    """A kernel's own check of an argument: in its memory, of its type."""
    where = f"kernel `{node.name}`: {side} {position}, value `{given.value}`"
    if given.device != device:
        raise RewriteError(f"{where}: expected it on device `{device}`, found it on `{given.device}`")
    if given.array.dtype != numpy_dtype(tensor.dtype) or given.array.shape != tensor.shape:
        raise RewriteError(f"{where}: expected {tensor}, found {_describe(given.array)}")


def _copy(node: Node, operands: Sequence[DeviceArray], results: Sequence[DeviceArray]) -> Kernel:
    """Moving bytes from one memory to another: one value, between the devices that the copy names."""
    if len(operands) != 1 or len(results) != 1:
        raise RewriteError(f"copy `{node.name}`: expected one operand and one result")
    source, result = operands[0], results[0]
    where = f"copy `{node.name}` of `{source.value}`"
    if source.array.dtype != result.array.dtype or source.array.shape != result.array.shape:
        raise RewriteError(f"{where}: expected {_describe(source.array)}, found {_describe(result.array)}")
    for end, array in (("from", source), ("to", result)):
        if node.facts.get(end) != array.device:
            raise RewriteError(f"{where}: expected {end} device `{node.facts.get(end)}`, found `{array.device}`")
    return _move


def _see(node: Node, operands: Sequence[DeviceArray], results: Sequence[DeviceArray]) -> Kernel:
    """Nothing moves: the result of a view lies where one of its operands does."""
    (result,) = results
    if not any(operand.array.ctypes.data == result.array.ctypes.data for operand in operands):
        raise RewriteError(
            f"view `{node.name}`: expected `{result.value}` in the bytes of an operand, found it elsewhere"
        )
    return _stay


def _stay(inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray]) -> None:
    """The bytes are there."""


def _move(inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray]) -> None:
    outputs[0][...] = inputs[0]


def _array(entry: Entry, storages: Mapping[str, Storage], memories: Mapping[str, DeviceMemory]) -> DeviceArray:
    storage, memory = storages.get(entry.name), memories.get(entry.device)
    if storage is None:
        raise RewriteError(f"value `{entry.name}`: expected a storage in the memory plan, found none")
    if memory is None:
        raise RewriteError(f"value `{entry.name}`: expected a device with a memory, found `{entry.device}`")
    return memory.array(storage, entry.type)


def _parameter_starts(plan: MemoryPlan) -> list[tuple[str, int]]:
    """Where the parameters begin, by device: all that is before them is scratch."""
    parameters = [storage for storage in plan.storages if storage.kind == "parameter"]
    return [
        (use.device, min((row.offset for row in parameters if row.device == use.device), default=use.extent))
        for use in plan.devices
    ]


def _describe(array: np.ndarray) -> str:
    return str(TensorType(array.dtype.name, array.shape))
