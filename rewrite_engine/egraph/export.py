"""The placement problem for other solvers: JSON with everything in it, and a mixed-integer program in free MPS.

In: a problem. Out: text. The program is a relaxation: it minds kernels, copies and where values are read, but not
launches, the order of regions or logical cycles, so its optimum is a lower bound of the latency; without launches and
cycles it is the optimum.
"""

from __future__ import annotations

import json
from collections import defaultdict

from rewrite_engine.egraph.problem import Problem
from rewrite_engine.egraph.supply import reads_inside

SCHEMA = "rewrite_engine/problem/1"


def to_json(problem: Problem) -> str:
    """Every field of the problem; `reads` are [value, device or null], costs picoseconds (or picojoules)."""
    table = {
        "schema": SCHEMA,
        "devices": list(problem.devices),
        "targets": [{"name": t.name, "device": t.device, "launch": t.launch} for t in problem.targets],
        "values": [
            {"name": name, "resident": value in problem.resident, "solo": value in problem.solo}
            for value, name in enumerate(problem.names)
        ],
        "kernels": [
            {"value": k.value, "target": k.target, "cost": k.cost, "reads": [[r.value, r.device] for r in k.reads]}
            for k in problem.kernels
        ],
        "given": [list(memory) for memory in sorted(problem.given)],
        "copies": [[*copy, cost] for copy, cost in sorted(problem.copies.items())],
        "roots": [list(root) for root in problem.roots],
    }
    return json.dumps(table, indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def to_mps(problem: Problem) -> str:
    """Columns: `k<n>` kernel n runs, `c<value>_<from>_<to>` the value is copied. All are 0 or 1."""
    costs: dict[str, int] = {}
    rows: dict[str, tuple[str, int]] = {}  # row -> (sense, right side)
    columns: dict[str, dict[str, int]] = defaultdict(dict)
    made: dict[tuple[int, int], list[str]] = defaultdict(list)  # (value, device) -> kernels that put it there
    by_target: dict[tuple[int, int], list[str]] = defaultdict(list)
    for number, kernel in enumerate(problem.kernels):
        name = f"k{number}"
        costs[name] = kernel.cost
        by_target[kernel.value, kernel.target].append(name)
        if kernel.value not in problem.solo:
            made[kernel.value, problem.targets[kernel.target].device].append(name)
    into: dict[tuple[int, int], list[str]] = defaultdict(list)
    for (value, source, destination), cost in sorted(problem.copies.items()):
        holders = made.get((value, source), [])
        if not holders and (value, source) not in problem.given:
            continue
        name = f"c{value}_{source}_{destination}"
        costs[name] = cost
        into[value, destination].append(name)
        if (value, source) not in problem.given:  # copied only from where a kernel put it
            row = f"from_{name}"
            rows[row] = "G", 0
            columns[name][row] = -1
            for holder in holders:
                columns[holder][row] = 1
    for number, kernel in enumerate(problem.kernels):
        device = problem.targets[kernel.target].device
        for read in kernel.reads:
            where = device if read.device is None else read.device
            if read.value in problem.resident or (read.value, where) in problem.given:
                continue
            row = f"read_{number}_{read.value}_{where}"
            rows[row] = "G", 0
            columns[f"k{number}"][row] = -1
            suppliers = [*made.get((read.value, where), ()), *into.get((read.value, where), ())]
            if reads_inside(problem, kernel, read.value, read.device, frozenset({read.value})):
                suppliers += by_target.get((read.value, kernel.target), ())
            for name in dict.fromkeys(suppliers):
                if name != f"k{number}":
                    columns[name][row] = 1
    for value, device in dict.fromkeys(problem.roots):
        if value in problem.resident or (value, device) in problem.given:
            continue
        row = f"root_{value}_{device}"
        rows[row] = "G", 1
        for name in [*made.get((value, device), ()), *into.get((value, device), ())]:
            columns[name][row] = 1
    lines = ["NAME placement", "ROWS", " N cost"]
    lines += [f" {sense} {row}" for row, (sense, _) in rows.items()]
    lines += ["COLUMNS", " MARKER 'MARKER' 'INTORG'"]
    for name, cost in costs.items():
        lines.append(f" {name} cost {cost}")
        lines += [f" {name} {row} {factor}" for row, factor in columns[name].items()]
    lines += [" MARKER 'MARKER' 'INTEND'", "RHS"]
    lines += [f" RHS {row} {right}" for row, (_, right) in rows.items() if right]
    lines += ["BOUNDS", *(f" UP BND {name} 1" for name in costs), "ENDATA", ""]
    return "\n".join(lines)
