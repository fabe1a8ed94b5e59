"""Seconds and states of the exact extraction on layered problems: `python benchmarks/extract.py [values ...]`.

The problems look like transformers (residual streams, branches, fused kernels) on four targets and three devices; even
layers are alike, so steps repeat. With `--mixed` no two values cost the same, which is the hard case.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from brute_force import layered_problem

from rewrite_engine.egraph.extract import solve
from rewrite_engine.egraph.extract.program import Outcome, Program
from rewrite_engine.egraph.problem import Problem


def mixed(problem: Problem) -> Problem:
    """The same problem with every cost off by up to 20 %."""
    rng = random.Random(1)
    kernels = tuple(replace(k, cost=int(k.cost * rng.uniform(0.8, 1.2))) for k in problem.kernels)
    return replace(problem, kernels=kernels)


def measure(problem: Problem, time_limit: float) -> str:
    """One row of the table."""
    outcomes: list[Outcome] = []
    run = Program.run

    def recorded(self: Program, *arguments: object) -> Outcome:
        outcomes.append(run(self, *arguments))  # type: ignore[arg-type]
        return outcomes[-1]

    Program.run = recorded  # type: ignore[method-assign, assignment]
    start = time.perf_counter()
    solution = solve(problem, time_limit=time_limit)
    seconds = time.perf_counter() - start
    Program.run = run  # type: ignore[method-assign]
    states = max((outcome.states for outcome in outcomes), default=0)
    repeated = outcomes[-1].repeated if outcomes else 0
    launched = {c.region for c in solution.choices if problem.targets[problem.kernels[c.kernel].target].launch}
    gap = (solution.cost - solution.bound) / solution.cost
    return (
        f"{problem.values:>7} {len(problem.kernels):>8} {seconds:>8.2f} {states:>7} {repeated:>8} {len(launched):>8} "
        f"{len(solution.copies):>7} {solution.cost:>14} {gap:>7.2%}  {solution.status}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("values", nargs="*", type=int, default=[200, 500, 1000, 5000])
    parser.add_argument("--mixed", action="store_true", help="no two values cost the same")
    parser.add_argument("--targets", type=int, default=4)
    parser.add_argument("--time-limit", type=float, default=60)
    arguments = parser.parse_args()
    print(
        f"{'values':>7} {'kernels':>8} {'seconds':>8} {'states':>7} {'repeated':>8} {'launches':>8} {'copies':>7} ",
        end="",
    )
    print(f"{'cost':>14} {'gap':>7}  status")
    for values in arguments.values:
        problem = layered_problem(values, 1, arguments.targets)
        print(measure(mixed(problem) if arguments.mixed else problem, arguments.time_limit), flush=True)


if __name__ == "__main__":
    main()
