"""Every ONNX node test through the operators' computes: totals, then each case that does not pass, with the reason.

python benchmarks/node_tests.py [WORD]   runs the cases whose name contains WORD (all by default).
"""

from __future__ import annotations

import sys
import time
import warnings
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from onnx_node_cases import all_cases, judge


def main(word: str) -> int:
    """Prints the totals and the failing cases; 1 when a case mismatched or broke."""
    warnings.simplefilter("ignore")
    start = time.perf_counter()
    verdicts = [judge(case) for case in all_cases() if word in case.name]
    totals = Counter(verdict.outcome for verdict in verdicts)
    for verdict in verdicts:
        if verdict.outcome != "pass":
            print(f"{verdict.outcome:12} {verdict.name:60} {verdict.reason}")
    counts = ", ".join(f"{totals[outcome]} {outcome}" for outcome in ("pass", "mismatch", "error", "unsupported"))
    print(f"{len(verdicts)} cases: {counts}; {time.perf_counter() - start:.1f} s")
    return 1 if totals["mismatch"] + totals["error"] else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1] if len(sys.argv) > 1 else ""))
