"""What `test` does beyond the tests that files hold: verifies every rule and composite and prints what was found."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rewrite_engine.cli.text import paint

if TYPE_CHECKING:
    from rewrite_engine.testing.verify import Report, RuleReport

DATABASE = ".hypothesis/rewrite_engine"
"""Where counterexamples are kept, below the working directory; nothing is written while there are none."""


def verify_files(options: argparse.Namespace) -> list[Report]:
    """A report per file, by the options `--seed`, `--examples` and `--tier`; none where `--no-verify` is given."""
    if options.no_verify:
        return []
    from rewrite_engine.testing.verify import Options, verify_file

    chosen = Options(options.seed, options.examples, options.tier, DATABASE, options.verbose)
    return [verify_file(path, chosen) for path in options.files]


def print_reports(reports: Sequence[Report], options: argparse.Namespace) -> None:
    """A line per rule, with its tier; counterexamples in full."""
    for report in reports:
        for rule in report.rules:
            print(paint(rule.line(), options.color, sys.stdout))
            _print_details(rule, options)
    rules = [rule for report in reports for rule in report.rules]
    if rules:
        failed = [rule for rule in rules if not rule.passed]
        open_ = sum(rule.status == "unmatched" for rule in rules)
        without = f", {open_} without a match" if open_ else ""
        print(f"{len(rules) - len(failed) - open_} rules verified, {len(failed)} not{without}")


def _print_details(rule: RuleReport, options: argparse.Namespace) -> None:
    found = rule.counterexample
    if found is not None:
        if found.left or found.right:
            print(f"  left:  {found.left}\n  right: {found.right}")
        for text in (found.test, found.python):
            if text:
                print("\n".join(f"    {line}".rstrip() for line in ["", *text.splitlines()]))
        print()
    if options.verbose:
        for note in rule.notes:
            print(f"  note: {note}")
        for protection in rule.protections:
            print(f"  outside of `{protection.clause}`: {protection.outside}")


def as_json(reports: Sequence[Report]) -> list[dict[str, object]]:
    """The reports as `--json` prints them: a row per rule."""
    return [
        {
            "file": report.file,
            "line": rule.span.line,
            "rule": rule.name,
            "kind": rule.kind,
            "label": rule.label,
            "status": rule.status,
            "tier": rule.tier,
            "matches": rule.matches,
            "variants": {"tried": rule.variants, "total": rule.of_variants},
            "dtypes": list(rule.dtypes),
            "exact": rule.exact,
            "ulps": rule.ulps,
            "notes": list(rule.notes),
            "outside": {p.clause: p.outside for p in rule.protections},
            "counterexample": None
            if rule.counterexample is None
            else {
                "reason": rule.counterexample.reason,
                "test": rule.counterexample.test,
                "python": rule.counterexample.python,
                "left": rule.counterexample.left,
                "right": rule.counterexample.right,
            },
        }
        for report in reports
        for rule in report.rules
    ]


__all__ = ["as_json", "print_reports", "verify_files"]
