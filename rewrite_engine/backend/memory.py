"""Memory plan: where every value of a placed graph lives, and when.

In: a placed graph and the devices' capacities. Out: one storage per value and, per device, how many bytes that takes.
Each device is one address space: intermediates first, sharing bytes over time (the arena), then graph inputs and
outputs, then parameters. The last three are live for the whole run and nothing ever overwrites them; views of them are
the only other values in their bytes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

from rewrite_engine.backend.packing import (
    ALIGNMENT,
    Block,
    Planner,
    align,
    check_layout,
    pack,
    peak_of_live_bytes,
    pool,
)
from rewrite_engine.backend.sharing import NO_SHARING, Lives, Sharing, roots
from rewrite_engine.diagnostics import RewriteError, did_you_mean
from rewrite_engine.graph.placed import CopyCall, KernelCall, PlacedGraph
from rewrite_engine.operators.types import ITEM_BITS, TensorType

SCHEMA = "rewrite_engine/memory/1"
HOST = "host"
ARENA = ("pinned", "intermediate")
"""Kinds of values that live in the arena."""

DEVICE_TYPES = (12, 16, 4, 7, 8, 10, 15, 2)
"""DLPack device types that stand for the devices beside the host (which is 1, kDLCPU), in the order in which they are
given out: ext_dev, hexagon, opencl, vulkan, metal, rocm, webgpu, cuda. A graph executor tells devices apart by type, so
each device needs a type of its own; what API answers to that type is the executor's own business."""


@dataclass(frozen=True, slots=True)
class Storage:
    """The bytes of one value: `offset` and `size` in bytes within its device, live from step `first` to step `last`.

    A step is an index into the placed graph's steps, both ends included. `root` is the value that owns the bytes: the
    value itself, unless it is a view of another one or was computed in place of it; the bytes are held as long as any
    of these is live. `storage_id` is for executors that know no offsets: values with the same one share an allocation,
    which is as large as the largest of them. A pinned value is one that stays readable to the end of the run.
    """

    value: str
    root: str
    kind: str  # "input" | "output" | "parameter" | "pinned" | "intermediate"
    device: str
    offset: int
    size: int
    first: int
    last: int
    storage_id: int
    alignment: int = ALIGNMENT


@dataclass(frozen=True, slots=True)
class DeviceUse:
    """Bytes of one device. `lower_bound` is the peak of live intermediate bytes, which no arena can beat; bytes that
    several values share count once.

    `pooled` is what an executor takes for intermediates that allocates each storage id on its own. `peak` is the arena
    together with graph inputs and outputs; `weights` come on top. `extent` is the size of the whole address space,
    alignment gaps included. `device_type` is the DLPack type that stands for the device in graph.json.
    """

    device: str
    device_type: int
    capacity: int | None
    arena: int
    lower_bound: int
    pooled: int
    inputs_outputs: int
    weights: int
    peak: int
    extent: int


@dataclass(frozen=True, slots=True)
class MemoryPlan:
    """Storages of all values: graph inputs, parameters by name, then results in step order. The host comes first."""

    steps: int
    devices: tuple[DeviceUse, ...]
    storages: tuple[Storage, ...]

    def by_value(self) -> dict[str, Storage]:
        """Storages by the name of their value."""
        return {storage.value: storage for storage in self.storages}

    def by_device(self) -> dict[str, DeviceUse]:
        """Byte counts by the name of the device."""
        return {use.device: use for use in self.devices}

    def to_json(self) -> dict[str, object]:
        """The content of memory.json."""
        return {
            "schema": SCHEMA,
            "steps": self.steps,
            "devices": [asdict(use) for use in self.devices],
            "storages": [asdict(storage) for storage in self.storages],
        }

    @classmethod
    def from_json(cls, data: Mapping[str, object]) -> MemoryPlan:
        """The plan that `to_json` wrote. Raises RewriteError for anything else."""
        if not isinstance(data, Mapping) or data.get("schema") != SCHEMA:
            found = data.get("schema") if isinstance(data, Mapping) else type(data).__name__
            raise RewriteError(f"memory plan: expected schema `{SCHEMA}`, found `{found}`")
        steps = data.get("steps")
        if not isinstance(steps, int):
            raise RewriteError(f"memory plan: expected an integer `steps`, found {steps!r}")
        devices = tuple(DeviceUse(**row) for row in _rows(data, "devices", DeviceUse))
        return cls(steps, devices, tuple(Storage(**row) for row in _rows(data, "storages", Storage)))


_OPTIONAL = "capacity"
_NAMES = {"value", "root", "kind", "device"}


def _rows(data: Mapping[str, object], key: str, row_type: type) -> Iterator[dict[str, Any]]:
    """The rows under `key`, each checked to have exactly the fields of `row_type` with their types."""
    rows = data.get(key)
    names = [field.name for field in fields(row_type)]
    if not isinstance(rows, list):
        raise RewriteError(f"memory plan: expected a list `{key}`, found {type(rows).__name__}")
    for index, row in enumerate(rows):
        if not isinstance(row, dict) or sorted(row) != sorted(names):
            expected_names = ", ".join(names)
            raise RewriteError(f"memory plan: `{key}` row {index}: expected the fields {expected_names}, found {row!r}")
        for name, item in row.items():
            expected = str if name in _NAMES else int
            if not isinstance(item, expected) and not (name == _OPTIONAL and item is None):
                message = f"expected {expected.__name__} for `{name}`, found {item!r}"
                raise RewriteError(f"memory plan: `{key}` row {index}: {message}")
        yield row


def device_types(devices: Sequence[str]) -> dict[str, int]:
    """DLPack device type by device name: the host is 1, the others get `DEVICE_TYPES` in the order of their names."""
    others = sorted(set(devices) - {HOST})
    if len(others) > len(DEVICE_TYPES):
        raise RewriteError(f"graph.json can tell {len(DEVICE_TYPES)} devices from the host, found {', '.join(others)}")
    return {HOST: 1, **dict(zip(others, DEVICE_TYPES, strict=False))}


def storage_bytes(value: str, tensor: TensorType) -> int:
    """Bytes that the value takes in a device's memory: elements below eight bits take a byte each, so that kernels can
    address them. Raises RewriteError for a size that is not known and for strings."""
    count, bits = tensor.numel, ITEM_BITS.get(tensor.dtype)
    if tensor.dtype == "string":
        raise RewriteError(f"memory: value `{value}` is {tensor}: strings have no place in a device's memory")
    if count is None or bits is None:
        message = f"memory: value `{value}` is {tensor}: expected a known dtype and known sizes"
        named = next((size for size in tensor.shape or () if isinstance(size, str)), None)
        mend = "declare the shapes of the inputs in the model" if named is None else f"bind it with --dim {named}=SIZE"
        raise RewriteError(f"{message}; {mend}")
    return count * ((bits + 7) // 8)


def plan(
    placed: PlacedGraph,
    capacities: Mapping[str, int | None],
    planner: Planner = pack,
    *,
    sharing: Mapping[str, Sharing] = NO_SHARING,
    pinned: Collection[str] = (),
) -> MemoryPlan:
    """Storages for every value of `placed`. `capacities` are bytes by device; None or absent means no limit.

    `planner` lays out the intermediates of each device in turn. `sharing`, by kernel name, says which results may have
    the bytes of an operand; `pinned` names values whose bytes nothing overwrites until the end of the run. Raises
    RewriteError where a layout does not hold, for a pinned value that no kernel computes, and where a device's weights
    and peak exceed its capacity, naming the largest values on it.
    """
    storages = _place(placed, planner, sharing, frozenset(pinned))
    types = device_types([HOST, *placed.devices.values()])
    uses = tuple(_use(device, types[device], capacities.get(device), storages, len(placed.steps)) for device in types)
    for use in uses:
        _check_capacity(use, storages)
    return MemoryPlan(len(placed.steps), uses, tuple(storages))


def lifetimes(placed: PlacedGraph, pinned: Collection[str] = ()) -> dict[str, tuple[int, int]]:
    """First and last step at which each value must hold its bytes. Inputs, outputs and parameters: the whole run;
    pinned values: from their step to the end."""
    first = dict.fromkeys((*placed.inputs, *placed.parameters), 0)
    last = dict.fromkeys(first, 0)
    for step, call in enumerate(placed.steps):
        reads, writes = operands(call)
        for name in reads:
            if name not in first:
                raise RewriteError(f"memory: step {step} reads `{name}`, which no earlier step computes")
            last[name] = step
        for name in writes:
            if name in first:
                raise RewriteError(f"memory: step {step} computes `{name}` a second time")
            first[name] = last[name] = step
    whole = (0, max(0, len(placed.steps) - 1))
    for name in (*placed.inputs, *placed.parameters, *placed.outputs):
        if name not in first:
            raise RewriteError(f"memory: no step computes the graph output `{name}`")
        first[name], last[name] = whole
    for name in pinned:
        if name not in first:
            hint = did_you_mean(name, first)
            raise RewriteError(f"memory: no step computes the pinned value `{name}`" + (f"; {hint}" if hint else ""))
        last[name] = whole[1]
    return {name: (first[name], last[name]) for name in first}


def operands(call: KernelCall | CopyCall) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Values that a step reads and values that it writes."""
    return ((call.value,), (call.output,)) if isinstance(call, CopyCall) else (call.inputs, call.outputs)


def _kind(placed: PlacedGraph, name: str, pinned: Collection[str]) -> str:
    if name in placed.inputs:
        return "input"
    if name in placed.parameters:
        return "parameter"
    if name in placed.outputs:
        return "output"
    return "pinned" if name in pinned else "intermediate"


def _place(
    placed: PlacedGraph, planner: Planner, sharing: Mapping[str, Sharing], pinned: frozenset[str]
) -> list[Storage]:
    """Storages in the order of the plan: inputs, parameters by name, results in step order."""
    lives = lifetimes(placed, pinned)
    order = [*placed.inputs, *sorted(placed.parameters), *(o for call in placed.steps for o in operands(call)[1])]
    kinds = {name: _kind(placed, name, pinned) for name in order}
    sizes = {name: storage_bytes(name, placed.types[name]) for name in order}
    facts = Lives(kinds, sizes, {name: last for name, (_, last) in lives.items()})
    ways = [roots(placed, sharing, facts, in_place) for in_place in (True, False)]
    if ways[0] == ways[1]:
        ways.pop()
    owners: dict[str, str] = {}
    offsets: dict[str, int] = {}
    shares: dict[str, tuple[str, int | str]] = {name: (placed.devices[name], name) for name in order}
    for device in device_types([HOST, *placed.devices.values()]):
        here = [name for name in order if placed.devices[name] == device]
        laid = [_arena(here, way, kinds, sizes, lives, planner, device) for way in ways]
        end, arena, packed, way = min(laid, key=lambda found: found[0])
        for kind in ("input", "output", "parameter"):
            for name in (name for name in here if kinds[name] == kind):
                packed[name] = align(end)
                end = packed[name] + sizes[name]
        owners.update((name, way[name]) for name in here)
        offsets.update((name, packed[way[name]]) for name in here)
        shares.update((name, (device, number)) for name, number in pool(arena).items())
    identifiers: dict[tuple[str, int | str], int] = {}
    storages = []
    for name in order:
        number = identifiers.setdefault(shares[owners[name]], len(identifiers))
        device, (first, last) = placed.devices[name], lives[name]
        storages.append(
            Storage(name, owners[name], kinds[name], device, offsets[name], sizes[name], first, last, number)
        )
    return storages


_Arena = tuple[int, list[Block], dict[str, int], Mapping[str, str]]  # its end, its blocks, their offsets, the roots


def _arena(
    here: Sequence[str],
    root: Mapping[str, str],
    kinds: Mapping[str, str],
    sizes: Mapping[str, int],
    lives: Mapping[str, tuple[int, int]],
    planner: Planner,
    device: str,
) -> _Arena:
    """The arena of one device: a block for each root, held while it or anything in its bytes is live."""
    held: dict[str, tuple[int, int]] = {}
    for name in here:
        first, last = held.get(root[name], lives[name])
        held[root[name]] = min(first, lives[name][0]), max(last, lives[name][1])
    blocks = [Block(name, sizes[name], *held[name]) for name in here if root[name] == name and kinds[name] in ARENA]
    layout = planner(tuple(blocks))
    if planner is not pack:
        check_layout(blocks, layout, f"memory planner, device `{device}`")
    packed = {name: int(offset) for name, offset in layout.items()}
    return max((packed[block.name] + block.size for block in blocks), default=0), blocks, packed, root


def _use(device: str, kind: int, capacity: int | None, storages: Sequence[Storage], steps: int) -> DeviceUse:
    here = [storage for storage in storages if storage.device == device]
    arena = [storage for storage in here if storage.kind in ARENA and storage.root == storage.value]
    lasts = {storage.root: 0 for storage in here}
    for storage in here:
        lasts[storage.root] = max(lasts[storage.root], storage.last)
    blocks = [Block(storage.value, storage.size, storage.first, lasts[storage.value]) for storage in arena]
    pools: dict[int, int] = {}
    for storage in arena:
        pools[storage.storage_id] = max(storage.size, pools.get(storage.storage_id, 0))
    arena_size = max((storage.offset + storage.size for storage in arena), default=0)
    inputs_outputs = sum(storage.size for storage in here if storage.kind in ("input", "output"))
    return DeviceUse(
        device=device,
        device_type=kind,
        capacity=capacity,
        arena=arena_size,
        lower_bound=peak_of_live_bytes(blocks, steps),
        pooled=sum(pools.values()),
        inputs_outputs=inputs_outputs,
        weights=sum(storage.size for storage in here if storage.kind == "parameter"),
        peak=arena_size + inputs_outputs,
        extent=max((storage.offset + storage.size for storage in here), default=0),
    )


def _check_capacity(use: DeviceUse, storages: Sequence[Storage]) -> None:
    needed = use.weights + use.peak
    if use.capacity is None or needed <= use.capacity:
        return
    here = [storage for storage in storages if storage.device == use.device]
    largest = sorted(here, key=lambda storage: (-storage.size, storage.value))[:3]
    names = ", ".join(f"`{storage.value}` ({storage.kind}, {storage.size} bytes)" for storage in largest)
    raise RewriteError(
        f"device `{use.device}` is too small: expected at most {use.capacity} bytes, needed {needed} "
        f"({use.weights} of weights and a peak of {use.peak}); largest values: {names}; "
        f"give it more memory or move kernels off it"
    )
