"""Random single-operator models against ONNX Runtime and ONNX's reference evaluator: what differs, what was reached.

python benchmarks/random_operators.py [COUNT] [--seed N] [--engine numpy|c]

In C, models are built into libraries of some hundred kernels, and compared with the NumPy executor (which the other
engine compares with the oracles).
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from random_operators import dtypes_of, run, run_in_c, trials

from rewrite_engine.loops.operators import OPERATORS


def main(arguments: list[str]) -> int:
    """Prints one line per operator, dtype and kind of difference; 1 when the engine broke."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("count", nargs="?", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--engine", choices=("numpy", "c"), default="numpy")
    options = parser.parse_args(arguments)
    judge = run_in_c if options.engine == "c" else (lambda found: (run(trial) for trial in found))
    start = time.perf_counter()
    kinds: Counter[str] = Counter()
    shown: Counter[tuple[str, str, str]] = Counter()
    reached: set[tuple[str, str]] = set()
    for outcome in judge(trials(options.seed, options.count)):
        trial = outcome.trial
        kinds[outcome.kind] += 1
        reached.add((trial.op, trial.dtype))
        if outcome.kind in ("agrees", "alone"):
            continue
        key = (trial.op, trial.dtype, outcome.kind)
        shown[key] += 1
        if shown[key] == 1:
            print(f"{outcome.kind:8} {trial.shown()[:150]}\n         {outcome.reason[:340]}", flush=True)
    for (op, dtype, kind), count in sorted(shown.items()):
        print(f"{kind:8} {op:28} {dtype:16} {count}")
    counts = ", ".join(f"{n} {kind}" for kind, n in sorted(kinds.items()))
    operators = len({op for op, _ in reached})
    print(f"{sum(kinds.values())} models, {operators} operators, {len(reached)} with dtypes: {counts}; "
          f"{time.perf_counter() - start:.0f} s")  # fmt: skip
    for line in missing(reached):
        print(line)
    return 1 if kinds["broke"] else 0


def missing(reached: set[tuple[str, str]]) -> list[str]:
    """Operators that no model reached, and dtypes that none of an operator's models had."""
    names = {op for op in OPERATORS if "::" not in op}
    operators = sorted(names - {op for op, _ in reached})
    lines = [f"not reached: {', '.join(operators) or 'no operator'}"]
    for op in sorted(names - set(operators)):
        left = [dtype for dtype in dtypes_of(op) if (op, dtype) not in reached]
        if left:
            lines.append(f"not reached: {op} of {', '.join(left)}")
    return lines


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
