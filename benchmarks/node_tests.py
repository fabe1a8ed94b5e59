"""Every ONNX node test through the engine: totals, then each case that does not pass, with the reason.

python benchmarks/node_tests.py [WORD] [--engine numpy|c]   runs the cases whose name contains WORD (all by default).
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from onnx_node_cases import all_cases, judge, judge_in_c


def main(arguments: list[str]) -> int:
    """Prints the totals and the cases that do not pass, in C those on the host too; 1 when one mismatched or broke."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("word", nargs="?", default="", help="a part of the cases' names")
    parser.add_argument("--engine", choices=("numpy", "c"), default="numpy", help="what runs them")
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    start = time.perf_counter()
    cases = [case for case in all_cases() if options.word in case.name]
    verdicts = judge_in_c(cases) if options.engine == "c" else [judge(case) for case in cases]
    totals = Counter(verdict.outcome for verdict in verdicts)
    for verdict in verdicts:
        if verdict.outcome != "pass" or verdict.reason:
            print(f"{verdict.outcome:12} {verdict.name:60} {verdict.reason}")
    counts = ", ".join(f"{totals[outcome]} {outcome}" for outcome in ("pass", "mismatch", "error", "unsupported"))
    print(f"{options.engine}: {len(verdicts)} cases: {counts}; {time.perf_counter() - start:.1f} s")
    return 1 if totals["mismatch"] + totals["error"] else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
