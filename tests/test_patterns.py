"""The bundled rule files: they check clean, their own tests pass, and those tests reach every declaration and guard.

"Reach" is shown by mutation: without a rule, or without a clause of a guard, a test of the same file must fail.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from rewrite_engine.diagnostics import Span
from rewrite_engine.language import check_files, load, syntax
from rewrite_engine.language.core import RuleSet
from rewrite_engine.language.core import TestCase as Case
from rewrite_engine.language.meaning import refusal
from rewrite_engine.language.text import unparse
from rewrite_engine.language.walk import walk
from rewrite_engine.machine import HOST
from rewrite_engine.operators.types import TensorType
from rewrite_engine.resources import patterns_root
from rewrite_engine.testing.in_file import run_case, run_file

ROOT = patterns_root()
FILES = sorted(str(path.relative_to(ROOT)) for path in ROOT.rglob("*.pat"))
DOUBLED = (
    "y.dtype == x.dtype", "x.rank == y.rank", "c.rank <= product.rank", "c.rank <= x.rank",
    "given(a)", "given(b)", "given(c)",
)  # fmt: skip
"""A rule keeps the type of what it replaces anyway, and a test cannot write a value of unknown dtype or rank. What is
`given` keeps rules from merging what they made, for ever."""

QUICK = frozenset({"std/batch_norm.pat", "std/gemm.pat", "machines/cores.pat", "machines/board.pat"})
"""The files whose tests are quick to run again and again; of the others that is `slow`. Once they run by themselves:
pytest collects the rule files."""

every_file = pytest.mark.parametrize("name", FILES)
every_file_run = pytest.mark.parametrize(
    "name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in FILES]
)


@cache
def rule_set(name: str) -> RuleSet:
    return load([ROOT / name])


@cache
def own(name: str) -> tuple[Any, ...]:
    """The declarations of the file itself, without those of the files that it includes."""
    scope: Any = rule_set(name).scope
    return tuple(scope.files[-1].items)  # includes come first


def declared(name: str, kind: type) -> list[Any]:
    return [item for item in own(name) if isinstance(item, kind)]


def cases_of(name: str, *verdicts: str) -> list[Case]:
    """The file's own tests with one of these verdicts, verdict by verdict."""
    verdict_of = {test.title: test.verdict for test in declared(name, syntax.TestDecl)}
    file = own(name)[-1].span.file
    cases = [case for case in rule_set(name).tests if case.file == file and verdict_of[case.title] in verdicts]
    return sorted(cases, key=lambda case: verdicts.index(verdict_of[case.title]))


def named(name: str, verdict: str) -> set[str]:
    """What the tests with a verdict name: `is`, `is not` and `runs … in`."""
    found = set()
    for test in declared(name, syntax.TestDecl):
        if test.verdict == verdict:
            found |= {test.name} if test.pattern is None else {node.name for node in walk([test.pattern])}
    return found


def operators_in(*roots: object) -> set[str]:
    """Every operator and named pattern that is written in a pattern."""
    called = (node.names for node in walk(roots) if isinstance(node, syntax.CallPattern))
    bare = (node.name for node in roots if isinstance(node, syntax.Name))
    return {operator for names in called for operator in names} | set(bare)


def clauses(guard: syntax.Expr | None) -> list[syntax.Expr]:
    """The operands of the outermost `and`s."""
    found, pending = [], [guard] if guard is not None else []
    while pending:
        part = pending.pop()
        if isinstance(part, syntax.Binary) and part.op == "and":
            pending += [part.right, part.left]
        else:
            found.append(part)
    return found


def guards(name: str) -> list[tuple[syntax.Expr, str]]:
    """Every guard clause of the file, whatever it stands in, and the name of that: a target's for its capabilities."""
    inside = [(item, target.name) for target in declared(name, syntax.TargetDecl) for item in target.items]
    outside = [(item, "") for item in own(name) if not isinstance(item, syntax.TargetDecl)]
    found = []
    for item, target in [*outside, *inside]:
        owner = target if isinstance(item, syntax.Supports) else getattr(item, "name", target)
        tails = (node.guard for node in walk([item]) if isinstance(node, syntax.Tail))
        found += [(clause, owner) for guard in tails for clause in clauses(guard)]
    return found


def likeliest_first(cases: Iterable[Case], owner: str) -> list[Case]:
    """Tests that name a declaration before all others: one of them notices, as a rule, what it is without a clause."""

    def named_there(case: Case) -> bool:
        test: Any = case.declaration
        return bool(owner == test.name or (owner == test.target and test.verdict == "rejects"))

    return sorted(cases, key=lambda case: not named_there(case))


def without_clause(rules: RuleSet, span: Span) -> RuleSet:
    """The rules as if that clause had not been written."""

    def kept(variant: Any) -> Any:
        checks = tuple(check for check in variant.program.checks if check.span != span)
        return replace(variant, program=replace(variant.program, checks=checks))

    return replace(rules, rules=tuple(replace(rule, variants=tuple(map(kept, rule.variants))) for rule in rules.rules))


def noticed(rules: RuleSet, cases: Iterable[Case]) -> bool:
    """Whether one of the tests fails."""
    return any(not run_case(rules, case).passed for case in cases)


def test_every_folder_holds_rule_files() -> None:
    assert {name.split("/")[0] for name in FILES} == {"std", "targets", "machines"}
    assert {"targets/fastlib.pat", "targets/npu.pat", "machines/board.pat"} <= set(FILES)


@every_file
def test_it_checks_clean(name: str) -> None:
    problems, _ = check_files([ROOT / name])
    assert problems == []


@pytest.mark.second_python
@every_file_run
def test_its_own_tests_pass(name: str) -> None:
    results = run_file(ROOT / name)
    assert results
    assert [f"{result.title}: {result.reason}" for result in results if not result.passed] == []


@every_file
def test_every_pattern_is_matched_and_refused(name: str) -> None:
    patterns = {pattern.name for pattern in declared(name, syntax.PatternDecl)}
    assert patterns - named(name, "is") == set()
    assert patterns - named(name, "is not") == set()


@every_file
def test_every_composite_runs_and_is_refused(name: str) -> None:
    composites = {
        c.name for target in declared(name, syntax.TargetDecl) for c in target.items if isinstance(c, syntax.Composite)
    }
    assert composites - named(name, "runs") == set()
    assert composites - named(name, "is not") == set()


@every_file
def test_every_supported_operator_runs_and_every_capability_is_refused(name: str) -> None:
    tests = declared(name, syntax.TestDecl)
    for target in declared(name, syntax.TargetDecl):
        if target.name == HOST:
            continue  # it runs everything
        mine = [test for test in tests if test.target == target.name]
        run = operators_in(*((t.subject, t.where) for t in mine if t.verdict == "runs" and t.name is None))
        refused = operators_in(*((t.subject, t.where) for t in mine if t.verdict == "rejects"))
        for capability in (item for item in target.items if isinstance(item, syntax.Supports)):
            offered = operators_in(*capability.forms)
            assert offered - run == set(), f"no test runs them on {target.name}"
            assert offered & refused, f"no test is refused by {capability.span}"
        assert {t.result is not None for t in mine if t.verdict == "place"} == {True}, "no test of the optimum"


@every_file
def test_no_declared_operator_has_a_meaning_with_an_attribute_that_is_not_named(name: str) -> None:
    meanings = rule_set(name).meanings
    for operator in declared(name, syntax.OperatorDecl):
        found = refusal(meanings[operator.name].rule, {"unheard_of": 1}, *operands(operator), 1)
        assert found == f"operator {operator.name} has attribute unheard_of=1 that its declaration does not name"


def operands(operator: syntax.OperatorDecl) -> tuple[list[TensorType], list[None]]:
    """Values of unknown type for every input of a declared operator."""
    return [TensorType("?", None)] * len(operator.parameters), [None] * len(operator.parameters)


@every_file_run
def test_every_rule_is_missed_where_it_fires(name: str) -> None:
    rules, firing = rule_set(name), cases_of(name, "becomes")
    assert not noticed(rules, firing)
    for rule in declared(name, syntax.RuleDecl):
        less = replace(rules, rules=tuple(r for r in rules.rules if r.name.removesuffix("<=") != rule.name))
        assert noticed(less, firing), f"no test misses the rule {rule.name}"


@every_file
def test_every_rule_has_a_test_that_must_not_fire(name: str) -> None:
    """The optimum leaves the graph as it is, or the pattern on the left is refused."""
    kept = [test for test in declared(name, syntax.TestDecl) if test.verdict == "place"]
    refused = named(name, "is not")
    for rule in declared(name, syntax.RuleDecl):
        if isinstance(rule.left, syntax.CallPattern) and rule.left.names == ("Identity",):
            continue  # there is no Identity that it does not hold for
        roots = operators_in(rule.left, rule.tail.where)
        assert roots & refused or any(roots & operators_in(test.subject) for test in kept), rule.name


@every_file_run
def test_every_guard_clause_is_needed_by_a_test(name: str) -> None:
    rules = rule_set(name)
    cases = cases_of(name, "is not", "rejects", "runs", "place")
    assert not noticed(rules, cases)
    spared = [
        f"{clause.span}: {unparse(clause)}"
        for clause, owner in guards(name)
        if not noticed(without_clause(rules, clause.span), likeliest_first(cases, owner))
    ]
    assert [clause for clause in spared if not clause.endswith(DOUBLED)] == []
