"""Placement and extraction instances of other people: `python benchmarks/instances.py [moirai] [pipeline] [gym]`.

Reads `placement/` and `extraction/` of the data folder (REWRITE_ENGINE_DATA, default ../shared/data) and prints, per
instance, what the solvers find, their bound, the best value known, and the seconds. The instances stay where they are.

The warmth and the number of moves of the makespan search were chosen among three and two on the two Moirai instances,
with one seed; `warmth.py` compares them on other graphs. Loads of pipelines are counted as `egraph.objectives.loads`
says, which is not how the best values known are counted; `partitioning.py` counts them alike.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from rewrite_engine.egraph.extract import solve
from rewrite_engine.egraph.objectives.general import search_general
from rewrite_engine.egraph.objectives.makespan import solve_makespan
from rewrite_engine.egraph.objectives.throughput import solve_throughput
from rewrite_engine.egraph.problem import Kernel, Problem, Read, Solution, TargetInfo

DATA = Path(os.environ.get("REWRITE_ENGINE_DATA", Path(__file__).resolve().parent.parent.parent / "shared" / "data"))
SCALE = 10**6

KNOWN = {
    "moirai GoogLeNet sum": 2.1793,
    "moirai GoogLeNet makespan": 1.3468,
    "moirai inceptionv4 sum": 13.7327,
    "moirai inceptionv4 makespan": 12.373,
    "gym tensat/resnet50": 4.38579,
    "gym tensat/vgg": 4.85076,
    "gym rover/mcm_3_7_21_original_8iteration_egraph": 1050,
}
"""The best values known, see the data folder's README."""


def moirai(path: Path) -> Problem:
    """Tasks with a time per device and copy times per pair of devices, from a CSV file."""
    with path.open() as file:
        rows = list(csv.DictReader(file))
    number = {row["task"]: k for k, row in enumerate(rows)}
    devices = [d for d in range(10) if f"p{d}" in rows[0]]
    reads: list[list[Read]] = [[] for _ in rows]
    for row in rows:
        for after in filter(None, row["dir_succ"].split(",")):
            reads[number[after]].append(Read(number[row["task"]]))
    kernels, copies = [], {}
    for value, row in enumerate(rows):
        for d in devices:
            kernels.append(Kernel(value, d, scaled(row[f"p{d}"]), tuple(reads[value]), len(kernels)))
            for other in devices:
                times = {scaled(text) for text in (row[f"pc{d}{other}"] or "0").split(",")}
                if other != d:
                    copies[value, d, other] = max(times)
    roots = tuple((value, 0) for value, row in enumerate(rows) if not row["dir_succ"])
    return graph(len(rows), kernels, copies, roots, [f"d{d}" for d in devices])


def pipeline(path: Path) -> Problem:
    """Operators of a network on a host and identical accelerators: an edge costs the accelerators at its ends.

    Accelerators talk through the host's memory. Instances of training also tie nodes together, which is not told here:
    they are left out.
    """
    table = json.loads(path.read_text())
    nodes = table["nodes"]
    number = {node["id"]: k for k, node in enumerate(nodes)}
    accelerators = table["maxFPGAs"]
    reads: list[dict[Read, None]] = [{} for _ in nodes]
    cost_of = [0] * len(nodes)
    read: set[int] = set()
    for edge in table["edges"]:
        source = number[edge["sourceId"]]
        reads[number[edge["destId"]]][Read(source)] = None
        cost_of[source] = max(cost_of[source], scaled(edge["cost"]))
        read.add(source)
    kernels, copies = [], {}
    for value, node in enumerate(nodes):
        places = range(accelerators + 1) if node["supportedOnFpga"] else range(1)
        for place in places:
            cost = scaled(node["fpgaLatency" if place else "cpuLatency"])
            kernels.append(Kernel(value, place, cost, tuple(reads[value]), len(kernels)))
        for a in range(accelerators + 1):
            for b in range(accelerators + 1):
                if a != b:
                    copies[value, a, b] = cost_of[value]
    roots = tuple((value, 0) for value in range(len(nodes)) if value not in read)
    names = ["host", *(f"acc{k}" for k in range(accelerators))]
    return graph(len(nodes), kernels, copies, roots, names)


def gym(path: Path) -> Problem:
    """An e-graph in the JSON format of extraction-gym: classes as values, e-nodes as kernels of one target."""
    table = json.loads(path.read_text())
    nodes = table["nodes"]
    classes: dict[str, int] = {}
    for node in nodes.values():
        classes.setdefault(node["eclass"], len(classes))
    kernels = []
    for node in nodes.values():
        value = classes[node["eclass"]]
        operands = dict.fromkeys(classes[nodes[child]["eclass"]] for child in node["children"])
        if value not in operands:
            reads = tuple(Read(operand) for operand in operands)
            kernels.append(Kernel(value, 0, scaled(node["cost"]), reads, len(kernels)))
    roots = tuple((classes[root], 0) for root in dict.fromkeys(table["root_eclasses"]))
    return graph(len(classes), kernels, {}, roots, ["host"])


def scaled(number: str | float) -> int:
    """The file's number as a whole one."""
    return round(float(number or 0) * SCALE)


def graph(
    values: int, kernels: list[Kernel], copies: dict[tuple[int, int, int], int], roots: tuple[tuple[int, int], ...],
    devices: list[str],
) -> Problem:  # fmt: skip
    """A problem without inputs, constants or launches; every device has one target."""
    return Problem(
        devices=tuple(devices),
        targets=tuple(TargetInfo(name, k, 0) for k, name in enumerate(devices)),
        values=values,
        kernels=tuple(kernels),
        given=frozenset(),
        resident=frozenset(),
        copies=copies,
        roots=roots,
        solo=frozenset(),
        names=tuple(f"v{k}" for k in range(values)),
    )


def runs(kinds: list[str], only: str, limit: float, tries: int | None) -> Iterator[tuple[str, Solution, float]]:
    """(name, solution, seconds) of every instance asked for."""
    if "moirai" in kinds:
        for name in ("GoogLeNet", "inceptionv4"):
            path = DATA / "placement" / "moirai" / f"{name}.csv"
            if only in path.stem:
                problem = moirai(path)
                started = time.perf_counter()
                best = solve(problem, time_limit=limit)
                yield f"moirai {path.stem} sum", best, time.perf_counter() - started
                started = time.perf_counter()
                found = solve_makespan(problem, [best], tries=tries, time_limit=limit)
                yield f"moirai {path.stem} makespan", found, time.perf_counter() - started
    if "pipeline" in kinds:
        for path in sorted((DATA / "placement" / "dnn-partitioning" / "throughput").glob("*_inference.json")):
            if only in path.stem:
                problem = pipeline(path)
                started = time.perf_counter()
                found = solve_throughput(problem, [], tries=tries, time_limit=limit)
                yield f"pipeline {path.stem}", found, time.perf_counter() - started
    if "gym" in kinds:
        for path in sorted((DATA / "extraction").glob("*/*.json")):
            if only in path.stem:
                problem = gym(path)
                started = time.perf_counter()
                first = search_general(problem, tries or 20_000, seconds=limit / 2)
                left = limit - (time.perf_counter() - started)
                found = solve(problem, time_limit=left, cutoff=first)
                yield f"gym {path.parent.name}/{path.stem}", found, time.perf_counter() - started


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("kinds", nargs="*", metavar="KIND", help="moirai, pipeline, gym (default: all)")
    parser.add_argument("--only", default="", metavar="TEXT", help="instances whose name holds it")
    parser.add_argument("--time-limit", type=float, default=60, metavar="S", help="seconds per instance (default 60)")
    parser.add_argument("--tries", type=int, metavar="N", help="moves of a local search (default: by size)")
    options = parser.parse_args()
    kinds = options.kinds or ["moirai", "pipeline", "gym"]
    if not DATA.exists():
        print(f"{DATA} is not there; set REWRITE_ENGINE_DATA", file=sys.stderr)
        return 2
    print("| instance | found | bound | status | best known | seconds |")
    print("| --- | --- | --- | --- | --- | --- |")
    for name, found, seconds in runs(kinds, options.only, options.time_limit, options.tries):
        known = KNOWN.get(name, "")
        row = [name, f"{found.cost / SCALE:.6g}", f"{found.bound / SCALE:.6g}", found.status, known, f"{seconds:.2f}"]
        print("| " + " | ".join(map(str, row)) + " |", flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
