"""By how much the optimum beats each baseline, over an experiment's results: `python benchmarks/seeded.py FOLDER`.

Reads results.csv of a `sweep` (see seeded.toml). Ends with status 1 where a baseline is better than the optimum.
"""

from __future__ import annotations

import csv
import sys
from pathlib import Path
from statistics import median


def main() -> int:
    with (Path(sys.argv[1]) / "results.csv").open() as file:
        rows = [row for row in csv.DictReader(file) if row["cost"] and row["strategy"] == "optimal"]
    proven = sum(row["status"] == "optimal" for row in rows)
    print(f"{len(rows)} instances, {proven} proven optimal\n")
    print("| baseline | instances | equal | median | most | never better |")
    print("| --- | --- | --- | --- | --- | --- |")
    names = [name for name in rows[0] if name.startswith("baseline ")]
    better = False
    for name in [*names, "best of them"]:
        ratios = []
        for row in rows:
            known = [int(row[each]) for each in (names if name == "best of them" else [name]) if row[each]]
            if known:
                ratios.append(min(known) / int(row["cost"]))
        better |= any(ratio < 1 for ratio in ratios)
        equal = sum(ratio == 1 for ratio in ratios)
        shown = name.removeprefix("baseline ")
        never = "yes" if min(ratios) >= 1 else "NO"
        print(f"| {shown} | {len(ratios)} | {equal} | {median(ratios):.2f}x | {max(ratios):.2f}x | {never} |")
    return 1 if better else 0


if __name__ == "__main__":
    raise SystemExit(main())
