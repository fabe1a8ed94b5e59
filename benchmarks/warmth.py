"""Settings of the makespan search, compared on seeded random task graphs: `python benchmarks/warmth.py`.

Prints, per warmth and number of moves, the geometric mean of makespan over that of the best setting. The graphs are
drawn here and are none of those that `instances.py` measures.
"""

from __future__ import annotations

import argparse
import math
import random

from rewrite_engine.egraph.objectives.makespan import earliest_plan
from rewrite_engine.egraph.objectives.moves import Moves
from rewrite_engine.egraph.objectives.search import improve
from rewrite_engine.egraph.objectives.tasks import schedule, tasks_alone
from rewrite_engine.egraph.problem import Kernel, Problem, Read, TargetInfo

HEATS = (0.0003, 0.001, 0.003)


def task_graph(seed: int, tasks: int) -> Problem:
    """Branches that part and meet, on three or four devices of different speed."""
    rng = random.Random(seed)
    devices = rng.choice((3, 4))
    speed = [rng.uniform(0.5, 2) for _ in range(devices)]
    kernels: list[Kernel] = []
    used: set[int] = set()
    copies: dict[tuple[int, int, int], int] = {}
    for value in range(1, tasks + 1):
        recent = range(max(0, value - rng.choice((3, 6, 12))), value)
        reads = tuple(Read(v) for v in sorted(rng.sample(recent, min(len(recent), rng.choice((1, 1, 2, 3))))))
        used |= {read.value for read in reads}
        work = rng.lognormvariate(0, 1)
        for device in range(devices):
            cost = round(10**6 * work * speed[device] * rng.uniform(0.7, 1.4))
            kernels.append(Kernel(value, device, cost, reads, len(kernels)))
    for value in range(tasks + 1):
        size = rng.lognormvariate(-1, 1)
        copies |= {(value, a, b): round(10**6 * size) for a in range(devices) for b in range(devices) if a != b}
    return Problem(
        devices=tuple(f"d{k}" for k in range(devices)),
        targets=tuple(TargetInfo(f"d{k}", k, 0) for k in range(devices)),
        values=tasks + 1,
        kernels=tuple(kernels),
        given=frozenset({(0, 0)}),
        resident=frozenset(),
        copies=copies,
        roots=tuple((value, 0) for value in range(1, tasks + 1) if value not in used),
        solo=frozenset(),
        names=tuple(f"v{k}" for k in range(tasks + 1)),
    )


def makespans(problem: Problem, seed: int, moves_of: tuple[int, ...]) -> dict[tuple[float, int], int]:
    """The makespan that the search ends with, by warmth and number of moves."""
    moves = Moves(problem)
    plan = earliest_plan(problem, moves)
    assert plan is not None, "a task graph has no cycle"

    def score(numbers: list[int]) -> tuple[int, float] | None:
        tasks = tasks_alone(problem, numbers, moves.reads)
        found = None if tasks is None else schedule(tasks)
        return None if found is None else (found[0], 0.0)

    found = {}
    for heat in HEATS:
        for count in moves_of:
            best = improve(moves, plan, score, count, seed, lambda: True, heat)
            assert best is not None, "the plan runs"
            found[heat, count] = best[1][0]
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--graphs", type=int, default=6, metavar="N", help="task graphs (default 6)")
    parser.add_argument("--tasks", type=int, default=140, metavar="N", help="tasks in each (default 140)")
    parser.add_argument("--moves", type=int, nargs="+", default=[1000, 3000], metavar="N", help="numbers of moves")
    options = parser.parse_args()
    logs: dict[tuple[float, int], list[float]] = {}
    for seed in range(options.graphs):
        found = makespans(task_graph(seed, options.tasks), seed, tuple(options.moves))
        least = min(found.values())
        for setting, makespan in found.items():
            logs.setdefault(setting, []).append(math.log(makespan / least))
    print("| warmth | moves | over the best setting |")
    print("| --- | --- | --- |")
    for (heat, count), mine in logs.items():
        print(f"| {heat} | {count} | {math.exp(sum(mine) / len(mine)) - 1:.2%} |")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
