"""`check` and `test`: problems in rule files, and the tests they hold."""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter

from rewrite_engine.cli.text import paint, say
from rewrite_engine.diagnostics import render_all
from rewrite_engine.language import check_files


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
    files = f"{len(options.files)} file{'s' if len(options.files) > 1 else ''}"
    say(options, f"{files}: {counts['error']} errors, {counts['warning']} warnings")
    return 1 if counts["error"] else 0


def test(options: argparse.Namespace) -> int:
    """Runs the tests of the named files; status 1 where one fails."""
    from rewrite_engine.testing.in_file import run_file

    results = [result for path in options.files for result in run_file(path)]
    failed = [result for result in results if not result.passed]
    if options.json:
        rows = [{"file": r.span.file, "line": r.span.line, "title": r.title, "passed": r.passed, "reason": r.reason}
                for r in results]  # fmt: skip
        print(json.dumps(rows, indent=1, sort_keys=True))
    else:
        for result in failed if not options.verbose else results:
            mark = "ok" if result.passed else "FAILED"
            line = f"{result.span}: {mark}: {result.title}" + (f": {result.reason}" if result.reason else "")
            print(paint(line, options.color, sys.stdout))
        print(f"{len(results) - len(failed)} passed, {len(failed)} failed")
    return 1 if failed else 0
