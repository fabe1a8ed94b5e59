"""`check` and `test`: problems in rule files, and the tests they hold."""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from rewrite_engine.cli.text import counted, paint, say
from rewrite_engine.diagnostics import render_all
from rewrite_engine.language import check_files

if TYPE_CHECKING:
    from rewrite_engine.testing.coverage import Coverage


def check(options: argparse.Namespace) -> int:
    """Prints every problem; status 1 where there are errors."""
    problems, sources = check_files(options.files)
    counts = Counter(problem.severity for problem in problems)
    if options.json:
        rows = [
            {"file": p.span.file, "line": p.span.line, "column": p.span.column, "severity": p.severity,
             "message": p.message, "hint": p.hint}
            for p in sorted(problems, key=lambda p: (p.span, p.message))
        ]  # fmt: skip
        print(json.dumps(rows, indent=1, sort_keys=True))
    elif problems:
        print(paint(render_all(problems, sources), options.color, sys.stdout))
    files = counted(len(options.files), "file")
    say(options, f"{files}: {counted(counts['error'], 'error')}, {counted(counts['warning'], 'warning')}")
    return 1 if counts["error"] else 0


def test(options: argparse.Namespace) -> int:
    """Runs the tests of the named files and verifies their rules; status 1 where one fails.

    What the tests do not reach changes no status.
    """
    from rewrite_engine.cli.verification import as_json, print_reports, verify_files
    from rewrite_engine.testing.in_file import run_file

    measured: list[Coverage] = []
    if options.coverage:
        from rewrite_engine.testing.coverage import measure

        measured = [measure(path) for path in options.files]
        results = [result for coverage in measured for result in coverage.results]
    else:
        results = [result for path in options.files for result in run_file(path)]
    failed = [result for result in results if not result.passed]
    without: dict[str, list[str]] = {path: [] for path in options.files}
    drafted = {path: _drafts(path, without[path]) for path in options.files} if options.write else {}
    reports = verify_files(options)
    if options.json:
        rows = [
            {"file": r.span.file, "line": r.span.line, "title": r.title, "passed": r.passed, "reason": r.reason}
            | ({"at": {"line": r.where.line, "column": r.where.column}} if r.where is not None else {})
            for r in results
        ]
        found: dict[str, object] = {"tests": rows, "rules": as_json(reports)}
        if options.write:
            found["drafts"] = drafted
        if options.coverage:
            found["coverage"] = list(map(_as_json, measured))
        print(json.dumps(found, indent=1, sort_keys=True))
    else:
        for result in failed if not options.verbose else results:
            mark = "ok" if result.passed else "FAILED"
            line = f"{result.span}: {mark}: {result.title}" + (f": {result.reason}" if result.reason else "")
            print(paint(result.shown or line, options.color, sys.stdout))
        print_reports(reports, options)
        for coverage in measured:
            _print_coverage(coverage)
        for path, texts in drafted.items():
            _append(path, texts)
            for name in without[path]:
                print(f"{path}: no match was found for `{name}`: write a test that it is to pass")
        print(f"{len(results) - len(failed)} passed, {len(failed)} failed")
    return 1 if failed or not all(report.passed for report in reports) else 0


def _drafts(path: str, without: list[str]) -> list[str]:
    from rewrite_engine.testing.drafts import drafts

    return drafts(path, without)


def _append(path: str, texts: list[str]) -> None:
    """Puts drafts at the end of a rule file, which is replaced as a whole."""
    from rewrite_engine.files import write_file

    if texts:
        old = Path(path).read_bytes()
        ended = old if old.endswith(b"\n") else old + b"\n"
        write_file(Path(path), ended + ("\n" + "\n".join(texts) + "\n").encode())
    print(f"{path}: {len(texts)} tests drafted")


def _print_coverage(coverage: Coverage) -> None:
    for missed in coverage.unreached:
        print(f"{missed.span}: {missed.kind} `{missed.text}` {missed.why}")
    parts = [f"{_percent(*count)} of {count[1]} {kind}s" for kind, count in coverage.counts.items() if count[1]]
    print(f"{coverage.file}: reached {', '.join(parts) or 'nothing, for there is nothing to reach'}")


def _percent(reached: int, total: int) -> str:
    """Whole percent; 100% and 0% only where it is all or nothing."""
    return f"{min(max(round(100 * reached / total), reached > 0), 100 if reached == total else 99)}%"


def _as_json(coverage: Coverage) -> dict[str, object]:
    return {
        "file": coverage.file,
        "reached": {f"{kind}s": {"reached": n, "total": total} for kind, (n, total) in coverage.counts.items()},
        "unreached": [
            {"line": m.span.line, "column": m.span.column, "kind": m.kind, "text": m.text, "why": m.why}
            for m in coverage.unreached
        ],
    }
