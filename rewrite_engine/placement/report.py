"""placement.json and search.json: a placement as stable bytes, and how it was found.

In: a `Placement` and what is known of the model and of memory. Out: dictionaries; `dump` writes them with sorted keys.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version

from rewrite_engine.graph.placed import CopyCall, KernelCall, PlacedGraph
from rewrite_engine.placement.place import Placement

SCHEMA = "rewrite_engine/placement/1"


@dataclass(frozen=True, slots=True)
class MemoryUse:
    """Bytes on one device: `weights` and the `peak` of live values; `capacity` None without a limit."""

    capacity: int | None
    weights: int
    peak: int


def placement_json(
    placement: Placement, model: Mapping[str, object], memory: Mapping[str, MemoryUse]
) -> dict[str, object]:
    """The placement as INTERFACES defines it; `model` has name, sha256 and nodes."""
    graph, costs = placement.graph, placement.costs
    total = costs.total
    gap = 0 if not total else (total - placement.bound) * 10**6 / total
    return {
        "schema": SCHEMA,
        "model": dict(model),
        "rules": [{"path": path, "sha256": digest} for path, digest in placement.rules.items()],
        "strategy": placement.strategy,
        "objective": placement.objective,
        "unit": placement.unit,
        "status": placement.status,
        "saturation": placement.saturation,
        "cost": {"total": total, "kernels": costs.kernels, "copies": costs.copies, "launches": costs.launches},
        "bound": placement.bound,
        "gap": f"{gap / 10**6:.6f}",
        "kernels": [_kernel(step) for step in graph.steps if isinstance(step, KernelCall)],
        "copies": [
            {"value": step.value, "from": step.source, "to": step.destination, "bytes": step.bytes, "cost": step.cost}
            for step in graph.steps
            if isinstance(step, CopyCall)
        ],
        "regions": regions(graph, {target.name: target.launch for target in placement.machine.targets}),
        "memory": {
            device: {"capacity": use.capacity, "weights": use.weights, "peak": use.peak}
            for device, use in memory.items()
        },
        "baselines": dict(placement.baselines),
    }


def search_json(placement: Placement) -> dict[str, object]:
    """Times, sizes of the search and versions: what may differ between runs."""
    return {
        "seconds": {stage: round(seconds, 6) for stage, seconds in placement.seconds.items()},
        "enodes": placement.enodes,
        "classes": placement.classes,
        "rounds": placement.rounds,
        "versions": {name: version(name) for name in ("egglog", "lark", "numpy", "onnx", "onnx-ir", "rewrite-engine")},
    }


def dump(value: object) -> bytes:
    """JSON with sorted keys, indented, ending in a newline."""
    return (json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False) + "\n").encode()


def _kernel(call: KernelCall) -> dict[str, object]:
    found: dict[str, object] = {
        "id": call.name,
        "target": call.target,
        "device": call.device,
        "rule": call.rule,
        "nodes": list(call.covers),
        "inputs": list(call.inputs),
        "outputs": list(call.outputs),
        "cost": call.cost,
        "cost_source": call.cost_source,
        "region": call.region,
    }
    if call.rewrites:
        found["rewrites"] = list(call.rewrites)
    return found


def regions(graph: PlacedGraph, launches: Mapping[str, int]) -> list[dict[str, object]]:
    """Per region: its kernels in order, what it reads from outside, what others read of it, its cost with launch."""
    calls: dict[str, list[KernelCall]] = defaultdict(list)
    readers: dict[str, set[str]] = defaultdict(set)
    for step in graph.steps:
        if isinstance(step, KernelCall):
            calls[step.region].append(step)
            for name in step.inputs:
                readers[name].add(step.region)
        else:
            readers[step.value].add("")
    for name in graph.outputs:
        readers[name].add("")
    found = []
    for name, group in calls.items():
        made = {output: None for call in group for output in call.outputs}
        outside = dict.fromkeys(i for call in group for i in call.inputs if i not in made)
        found.append(
            {
                "name": name,
                "target": group[0].target,
                "device": group[0].device,
                "kernels": [call.name for call in group],
                "inputs": list(outside),
                "outputs": [output for output in made if readers[output] - {name}],
                "cost": launches[group[0].target] + sum(call.cost for call in group),
            }
        )
    return found
