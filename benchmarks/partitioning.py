"""Instances of dnn-partitioning, counted as their authors count: `python benchmarks/partitioning.py [latency] [load]`.

Definitions ("Efficient Algorithms for Device Placement of DNN Graph Operators", 2020; latency-ip/lip.py and
throughput-ip/ip.py of msr-fiddle/dnn-partitioning):

- Every node is on one accelerator or on the host. The sizes of an accelerator's nodes are at most `maxSizePerFPGA`; the
  host's memory has no end. Nodes of one `colorClass` are on one device.
- An accelerator spends the sum of its nodes' `fpgaLatency`; the edge cost of every node elsewhere that one of its nodes
  reads, once; the edge cost of every node of its own that is read elsewhere, once, however many read it and wherever.
  The host pays for no transfer. An edge's cost is that of its source, the same for all edges of one source.
- Load: that sum per accelerator; for the host the sum of its nodes' `cpuLatency` (one core in all seven files, and no
  other number is taken). The greatest load counts. Ways back count with ways there.
- Latency: an accelerator runs all its nodes as one subgraph (q = 1 of lip.py), which starts when every node it reads is
  there and ends after the sum above; all its results are there then. A node of the host starts when what it reads is
  there, takes `cpuLatency`, and waits for no core. The last end counts. Subgraphs that wait for each other are no
  answer.

`by_definition` evaluates every answer from the file alone, apart from the engine, and insists on the same number.
Sets may be contiguous or not, as ip.py is asked. Latencies are of contiguous sets. For loads the table has both: the
least found, and the least found whose sets (the host's too) are contiguous among the nodes of the way there. Which of
the two a best known value is of, the data does not say. A chain of sets (each reads from those before it alone) is
what the authors' dynamic program finds (dp.cpp); the least of all chains is found here in the same way, and proven.
It takes colour classes without a node on the way there in the mirror image of their order, and lets nodes that take no
time go with their only neighbour, as dp.cpp does. The contiguous sets of ip.py need not be a chain, and may cost less.
The bound is the engine's for kernels alone (`critical_path` or `least_load`): transfers cost nothing in it.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

if __package__:
    from benchmarks.instances import DATA, SCALE, pipeline, scaled
else:
    from instances import DATA, SCALE, pipeline, scaled

from rewrite_engine.egraph.objectives.called import least_busy, least_contiguous, least_latency
from rewrite_engine.egraph.objectives.calls import Holdings, Network, network
from rewrite_engine.egraph.objectives.least import least_load
from rewrite_engine.egraph.objectives.makespan import critical_path

KNOWN = {
    "latency Layer_bert24_inference": 100.218,
    "latency Layer_gnmt_inference": 231.883,
    "latency Layer_resnet50_inference": 1443.8,
    "latency Operator_bert_l-3_inference": 414.4,
    "latency Operator_bert_l-6_inference": 444.0,
    "latency Operator_resnet50_inference": 839.5,
    "load Layer_bert24_inference": 17.7899,
    "load Layer_resnet50_inference": 33.7747,
    "load Layer_gnmt_inference": 32.9107,
    "load Layer_bert24_training": 41.7458,
    "load Operator_bert_l-3_inference": 27.9186,
    "load Operator_bert_l-3_training": 65.3031,
    "load Operator_resnet50_inference": 124.349,
}
"""The best values known, see the data folder's README."""


def holdings(table: dict[str, Any]) -> Holdings:
    """What a file says of bytes, memories and colour classes."""
    colours: dict[int, list[int]] = defaultdict(list)
    for k, node in enumerate(table["nodes"]):
        if "colorClass" in node:
            colours[node["colorClass"]].append(k)
    return Holdings(
        sizes=tuple(round(node["size"]) for node in table["nodes"]),
        memory=(None, *[int(table["maxSizePerFPGA"])] * table["maxFPGAs"]),
        together=tuple(map(tuple, colours.values())),
    )


def by_definition(table: dict[str, Any], places: Sequence[int], kind: str) -> int:
    """What a placement costs, from the file alone; places that break a rule are an AssertionError."""
    nodes, cost = table["nodes"], {e["sourceId"]: scaled(e["cost"]) for e in table["edges"]}
    at = {node["id"]: place for node, place in zip(nodes, places, strict=True)}
    spent, held = defaultdict(int), defaultdict(int)
    colours: dict[int, set[int]] = defaultdict(set)
    for node in nodes:
        place = at[node["id"]]
        assert not place or node["supportedOnFpga"], f"node {node['id']} is not supported on an accelerator"
        spent[place] += scaled(node["fpgaLatency" if place else "cpuLatency"])
        held[place] += node["size"]
        colours[node.get("colorClass", ("own", node["id"]))].add(place)
    assert all(len(found) == 1 for found in colours.values()), "nodes of one colour are apart"
    assert all(held[k] <= table["maxSizePerFPGA"] for k in held if k), "an accelerator holds too much"
    assert max(at.values()) <= table["maxFPGAs"], "there are not so many accelerators"
    crossing = [(e["sourceId"], e["destId"]) for e in table["edges"] if at[e["sourceId"]] != at[e["destId"]]]
    for source, reader in {(source, at[reader]) for source, reader in crossing}:
        spent[reader] += cost[source] if reader else 0
    for source in {source for source, _ in crossing}:
        spent[at[source]] += cost[source] if at[source] else 0
    if kind == "load":
        return max(spent.values())
    latency = dict.fromkeys(at, 0)
    for _ in range(len(nodes) + 1):  # the equations of lip.py, until nothing changes
        before = dict(latency)
        start: dict[int, int] = defaultdict(int)
        arrived: dict[int, int] = defaultdict(int)
        for edge in table["edges"]:
            source, reader = edge["sourceId"], edge["destId"]
            arrived[reader] = max(arrived[reader], latency[source])
            if at[source] != at[reader]:
                start[at[reader]] = max(start[at[reader]], latency[source])
        for node in nodes:
            k, place = node["id"], at[node["id"]]
            latency[k] = start[place] + spent[place] if place else arrived[k] + scaled(node["cpuLatency"])
        if latency == before:
            return max(latency.values())
    raise AssertionError("subgraphs wait for each other")


def contiguous(table: dict[str, Any], places: Sequence[int], host_free: bool = False) -> bool:
    """Whether no way leads out of a device's set and back in, among nodes of the way there; the host's may."""
    number = {node["id"]: k for k, node in enumerate(table["nodes"])}
    back = {node["id"] for node in table["nodes"] if node["isBackwardNode"]}
    after: dict[int, list[int]] = defaultdict(list)
    for edge in table["edges"]:
        if not {edge["sourceId"], edge["destId"]} & back:
            after[number[edge["sourceId"]]].append(number[edge["destId"]])
    for device in sorted(set(places) - ({0} if host_free else set())):
        todo = [w for v, p in enumerate(places) if p == device for w in after[v] if places[w] != device]
        seen = set(todo)
        while todo:
            for reader in after[todo.pop()]:
                if places[reader] == device:
                    return False
                if reader not in seen:
                    seen.add(reader)
                    todo.append(reader)
    return True


def runs(kinds: Sequence[str], only: str, seconds: float, seed: int) -> Iterator[list[object]]:
    """A row of the table per instance."""
    for kind in kinds:
        folder = DATA / "placement" / "dnn-partitioning" / ("latency" if kind == "latency" else "throughput")
        for path in sorted(folder.glob("*.json")):
            if only in path.stem:
                yield _row(kind, path, seconds, seed)


def _row(kind: str, path: Path, seconds: float, seed: int) -> list[object]:
    table = json.loads(path.read_text())
    problem = pipeline(path)
    net: Network = network(problem, holdings(table))
    started = time.perf_counter()
    whole: int | None = None
    chains = ""
    if kind == "latency":
        found = least_latency(net, orders=10**6, tries=20_000, rounds=10**6, seed=seed, seconds=seconds)
        bound = critical_path(problem)
    else:
        assert table["maxCPUs"] == 1, "loads of several cores are not counted here"
        late = frozenset(k for k, node in enumerate(table["nodes"]) if node["isBackwardNode"])
        found = least_busy(net, late, orders=10**6, tries=400_000, rounds=10**6, seed=seed, seconds=seconds)
        cut, least = least_contiguous(net, late, orders=10**6, tries=100_000, rounds=10**6, seed=seed, seconds=seconds)
        assert contiguous(table, cut.places), f"{path.stem}: the cut is not contiguous"
        assert by_definition(table, cut.places, kind) == cut.cost, path.stem
        whole = cut.cost
        chains = "not proven" if least is None else f"{least / SCALE:.8g}"
        bound = least_load(problem)
    spent = time.perf_counter() - started
    checked = by_definition(table, found.places, kind)
    assert checked == found.cost, f"{path.stem}: {checked} by definition, {found.cost} by the engine"
    name = f"{kind} {path.stem}"
    if contiguous(table, found.places, host_free=kind == "latency"):
        whole = found.cost if whole is None else min(whole, found.cost)
    assert whole is not None, f"{path.stem}: not contiguous"
    costs = [f"{cost / SCALE:.8g}" for cost in (found.cost, whole)]
    return [name, *costs, chains, f"{bound / SCALE:.6g}", KNOWN.get(name, ""), f"{spent:.1f}"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("kinds", nargs="*", metavar="KIND", help="latency, load (default: both)")
    parser.add_argument("--only", default="", metavar="TEXT", help="instances whose name holds it")
    parser.add_argument("--time-limit", type=float, default=60, metavar="S", help="seconds per instance (default 60)")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    if not DATA.exists():
        print(f"{DATA} is not there; set REWRITE_ENGINE_DATA", file=sys.stderr)
        return 2
    print("| instance | found | contiguous | chains | bound | best known | seconds |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for row in runs(options.kinds or ["latency", "load"], options.only, options.time_limit, options.seed):
        print("| " + " | ".join(map(str, row)) + " |", flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
