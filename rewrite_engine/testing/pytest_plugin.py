"""Rule files in pytest: each `test` block is an item, and so is each rule and composite, which some test must fire.

Installed with the package, as the plugin `rewrite_engine`. pytest then collects the `.pat` files that it is given and
those below its test paths when they hold tests (`--pat`: all of them); the ini option `pat_paths` restricts the latter
to some folders. A file that does not check is one error with every problem. Nothing is loaded before a file is met.
With one of `--pat-profile`, `--pat-tier`, `--pat-seed` and `--pat-examples`, rules and composites are verified as well,
an item each (and seed), and summarised at the end.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from rewrite_engine.diagnostics import Span
    from rewrite_engine.language.core import CoreRule, RuleSet, TestCase
    from rewrite_engine.testing.coverage import Notes
    from rewrite_engine.testing.in_file import TestResult
    from rewrite_engine.testing.verify.witness import Witnesses

_TEST = re.compile(r'^[^#"\n]*\btest\s*"', re.MULTILINE)


PROFILES = {"quick": (3, 6, 1), "usual": (3, 24, 1), "thorough": (3, 400, 5)}
"""Tier, matches per rule and number of seeds."""


class PatWarning(pytest.PytestWarning):
    """What checking a rule file warns of."""


class Unfired(Exception):
    """No test of the file makes this rule or composite match."""


class Unbuilt(Exception):
    """The graph of a test cannot be built; the message says where and why."""


class Refuted(Exception):
    """Verification does not hold; the message is the rule's line and counterexample."""


class Failed(Exception):
    """A test of a rule file did not pass; the message is the reason."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """The option `--pat`, those of verification, and the setting `pat_paths`."""
    group = parser.getgroup("rewrite_engine", "rule files (.pat)")
    group.addoption("--pat", action="store_true", help="collect .pat files without tests, too")
    group.addoption("--pat-profile", choices=sorted(PROFILES), help="verify rules and composites so thoroughly")
    group.addoption("--pat-tier", type=int, choices=(1, 2, 3, 4), help="verify them up to this tier")
    group.addoption("--pat-examples", type=int, metavar="N", help="verify so many matches of each")
    group.addoption("--pat-seed", type=int, action="append", metavar="N", help="verify by this seed (repeatable)")
    parser.addini("pat_paths", "folders whose .pat files are collected (default: all test paths)", "paths", [])


def verification(config: pytest.Config) -> tuple[int, int, tuple[int, ...]] | None:
    """Tier, matches per rule and seeds, as the options ask for; None where nothing is verified."""
    profile, tier, examples, seeds = (
        config.getoption(f"pat_{name}") for name in ("profile", "tier", "examples", "seed")
    )
    if profile is None and tier is None and examples is None and not seeds:
        return None
    if examples is not None and examples < 1:
        raise pytest.UsageError(f"--pat-examples: expected at least 1, found {examples}")
    usual = PROFILES[profile or "usual"]
    return tier or usual[0], examples or usual[1], tuple(seeds or range(usual[2]))


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """A line per rule and seed that was verified, without the counterexamples, which stand with the failures."""
    lines = [
        text
        for reports in terminalreporter.stats.values()
        for report in reports
        for name, text in getattr(report, "user_properties", ())
        if name == "verified" and getattr(report, "when", "") == "call"
    ]
    if lines:
        terminalreporter.section("verification of rules")
        for line in lines:
            terminalreporter.write_line(line)


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> PatFile | None:
    """A rule file that was named, or that a search met in one of the folders that are searched."""
    if file_path.suffix != ".pat":
        return None
    named = parent.session.isinitpath(file_path)
    folders: list[Path] = parent.config.getini("pat_paths")
    if not named and folders and not any(file_path.is_relative_to(folder) for folder in folders):
        return None
    if not parent.config.getoption("--pat") and not _TEST.search(file_path.read_text(errors="replace")):
        return None
    return PatFile.from_parent(parent, path=file_path)


class PatFile(pytest.File):
    """A rule file, and what its tests have shown so far."""

    @cached_property
    def loaded(self) -> tuple[RuleSet, Notes]:
        """The rules, with notes of what fires. Raises PatError with every problem of the file."""
        from rewrite_engine.language import load
        from rewrite_engine.testing.coverage import watch

        return watch(load([self.path]))

    @cached_property
    def witnesses(self) -> Witnesses:
        """The matches that the file's own tests make."""
        from rewrite_engine.testing.verify.witness import witnesses

        return witnesses(self.loaded[0])

    @cached_property
    def results(self) -> dict[Span, TestResult]:
        """The results of the tests that have run, by place."""
        return {}

    def collect(self) -> Iterator[pytest.Item]:
        """Rules and composites first, then tests."""
        from rewrite_engine.testing.in_file import own_rules, own_tests

        rules, _ = self.loaded
        for text in rules.warnings:
            warnings.warn_explicit(PatWarning(text), None, str(self.path), lineno=0)  # the text says which line
        own = own_rules(rules)
        for rule in own:
            yield RuleItem.from_parent(self, name=_title(rule), rule=rule)
        for case in own_tests(rules)[1]:
            yield CaseItem.from_parent(self, name=case.title, case=case)
        asked = verification(self.config)
        for rule, seed in ((rule, seed) for rule in own for seed in (asked[2] if asked else ())):
            yield VerifiedItem.from_parent(self, name=f"{_title(rule)} verified by seed {seed}", rule=rule, seed=seed)

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], *_: Any) -> Any:
        """The problems of a file that does not check, each with its line and caret."""
        return _shown(excinfo.value) or super().repr_failure(excinfo)

    def run(self, case: TestCase) -> TestResult:
        """The result of one test, which runs once."""
        from rewrite_engine.testing.in_file import run_case

        if case.span not in self.results:
            self.results[case.span] = run_case(self.loaded[0], case)
        return self.results[case.span]

    def fires(self, rule: CoreRule) -> bool:
        """Whether the rule matches in some test; runs those that have not run yet until one does."""
        from rewrite_engine.testing.coverage import declared_as
        from rewrite_engine.testing.in_file import own_tests

        rules, notes = self.loaded
        cases = own_tests(rules)[1]
        for case in (None, *cases):
            if case is not None and case.span not in self.results:
                self.run(case)
            if any(name == declared_as(rule) for name, _ in notes.held):
                return True
        return False


class PatItem(pytest.Item):
    """An item at a place of a rule file."""

    parent: PatFile

    def __init__(self, *, span: Span, **given: Any) -> None:
        super().__init__(**given)
        self.span = span

    def reportinfo(self) -> tuple[Path, int, str]:
        """Where the declaration stands; pytest counts lines from 0."""
        return self.path, self.span.line - 1, self.name

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], *_: Any) -> Any:
        """Position, message, the line and a caret; anything unexpected as pytest shows it."""
        from rewrite_engine.diagnostics import Problem, render

        error = excinfo.value
        if isinstance(error, Unbuilt):
            return str(error)
        if isinstance(error, Refuted):
            return str(error)
        if not isinstance(error, Failed | Unfired):
            return _shown(error) or super().repr_failure(excinfo)
        texts = {path: text for path, (text, _) in self.parent.loaded[0].sources.items()}
        return render(Problem(self.span, str(error)), texts)


class CaseItem(PatItem):
    """A `test` block."""

    def __init__(self, *, case: TestCase, **given: Any) -> None:
        super().__init__(span=case.span, **given)
        self.case = case

    def runtest(self) -> None:
        """Raises `Failed` with the reason."""
        result = self.parent.run(self.case)
        if result.shown:
            raise Unbuilt(result.shown)
        if not result.passed:
            raise Failed(f"{result.title}: {result.reason}")


class RuleItem(PatItem):
    """A rule or a composite."""

    def __init__(self, *, rule: CoreRule, **given: Any) -> None:
        super().__init__(span=rule.span, **given)
        self.rule = rule

    def runtest(self) -> None:
        """Raises `Unfired` where no test makes it match."""
        if not self.parent.fires(self.rule):
            raise Unfired(f"no test makes the {self.name} match")


class VerifiedItem(PatItem):
    """A rule or a composite, verified by one seed."""

    def __init__(self, *, rule: CoreRule, seed: int, **given: Any) -> None:
        super().__init__(span=rule.span, **given)
        self.rule, self.seed = rule, seed

    def runtest(self) -> None:
        """Raises `Refuted` with the counterexample, or where nothing can satisfy the guard."""
        from rewrite_engine.testing.verify import Options, verify_rule

        asked = verification(self.config)
        assert asked is not None
        rules, _ = self.parent.loaded
        options = Options(seed=self.seed, examples=asked[1], tiers=asked[0])
        report = verify_rule(rules, self.rule, options, lambda: self.parent.witnesses)
        self.user_properties.append(("verified", f"{report.line()}; seed {self.seed}, {report.seconds:.1f} s"))
        if not report.passed:
            found = report.counterexample
            texts = [] if found is None else [f"left:  {found.left}", f"right: {found.right}", found.test, found.python]
            raise Refuted("\n".join([report.line(), *texts]))


def _title(rule: CoreRule) -> str:
    """How a rule is listed: pytest gives dots in names a meaning of their own."""
    if rule.target is None:
        return f"{rule.kind} {rule.name}"
    return f"{rule.kind} {rule.name.removeprefix(f'{rule.target}.')} of {rule.target}"


def _shown(error: BaseException) -> str | None:
    """A message for users as it is."""
    from rewrite_engine.diagnostics import RewriteError

    return str(error) if isinstance(error, RewriteError) else None
