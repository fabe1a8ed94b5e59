"""The tests that rule files hold: each builds its graph, asks the e-graph and compares with the verdict.

In: a rule file. Out: a `TestResult` per test, with the reason where it fails. `runs` and `rejects` are about
capabilities alone, `is` about matching, `=>` about rewriting, `place` about the optimum.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from rewrite_engine import operators
from rewrite_engine.diagnostics import PatError, Problem, RewriteError, Span, render_all
from rewrite_engine.egraph.encode import attribute_key, constant_key
from rewrite_engine.egraph.explore import explore
from rewrite_engine.egraph.freeze import Explored
from rewrite_engine.graph.placed import CopyCall, KernelCall, PlacedGraph
from rewrite_engine.graph.terms import ABSENT, Terms
from rewrite_engine.language import load, syntax
from rewrite_engine.language.core import CoreRule, RuleSet, TestCase, answers_to
from rewrite_engine.language.lower import anonymous
from rewrite_engine.language.names import LoweringError
from rewrite_engine.language.scope import Scope
from rewrite_engine.machine import HOST, build
from rewrite_engine.placement.place import place
from rewrite_engine.testing.graphs import GraphBuilder


@dataclass(frozen=True, slots=True)
class TestResult:
    """One test's outcome; `reason` says what was found where it did not pass.

    Where the test itself cannot be built, `where` is the place that says so, and `shown` everything with carets.
    """

    title: str
    span: Span
    passed: bool
    reason: str = ""
    where: Span | None = None
    shown: str = ""


def run_file(path: str | Path) -> list[TestResult]:
    """Runs the tests of one file (not those of the files it includes). Raises PatError where the file does not hold."""
    rules = load([path])
    return [run_case(rules, case) for case in own_tests(rules)[1]]


def own_tests(rules: RuleSet) -> tuple[str, list[TestCase]]:
    """The path of the one file that was loaded, and its tests without those of the files that it includes."""
    here = list(rules.sources)[-1]  # in loading order: a file comes after those that it includes
    return here, [case for case in rules.tests if case.file == here]


def own_rules(rules: RuleSet) -> list[CoreRule]:
    """The rules and composites of the one file that was loaded, without those of the files that it includes."""
    here = list(rules.sources)[-1]
    kinds = ("rule", "composite")
    return [rule for rule in rules.rules if rule.span.file == here and rule.kind in kinds and not rule.defines]


def run_case(rules: RuleSet, case: TestCase) -> TestResult:
    """Runs one test."""
    declaration = case.declaration
    assert isinstance(declaration, syntax.TestDecl)
    try:
        reason = _VERDICTS[declaration.verdict](rules, declaration)
    except PatError as error:
        texts = {path: text for path, (text, _) in rules.sources.items()}
        found = [replace(p, message=f"{case.title}: {p.message}", severity="FAILED") for p in error.problems]
        first = error.problems[0]
        return TestResult(case.title, case.span, False, first.message, first.span, render_all(found, texts))
    except RewriteError as error:
        reason = str(error)
    return TestResult(case.title, case.span, not reason, reason)


def _graph(rules: RuleSet, test: syntax.TestDecl) -> tuple[GraphBuilder, tuple[int, ...]]:
    builder = GraphBuilder(rules.scope, {path: text for path, (text, _) in rules.sources.items()})  # type: ignore[arg-type]
    return builder, builder.graph(test.subject, test.where)


def _runs(rules: RuleSet, test: syntax.TestDecl) -> str:
    builder, outputs = _graph(rules, test)
    terms = builder.terms(outputs)
    explored = _capabilities(rules, terms, test.target or HOST)
    if test.name is None:
        missing = _not_run(explored, test.target or HOST)
        return f"{test.target} does not run {', '.join(missing)}" if missing else ""
    wanted = f"{test.target}.{test.name}"
    everything = {next(terms.values[o].name for o in node.outputs if o != ABSENT) for node in terms.nodes}
    best: set[str] = set()
    for payload, node in enumerate(explored.enodes):
        if node.fused is not None and answers_to(node.fused.rule, wanted):
            best = max(best, set(explored.covers[payload]), key=len)
    if best == everything:
        return ""
    return f"`{wanted}` covers {', '.join(sorted(best)) or 'nothing'}; expected {', '.join(sorted(everything))}"


def _rejects(rules: RuleSet, test: syntax.TestDecl) -> str:
    builder, outputs = _graph(rules, test)
    explored = _capabilities(rules, builder.terms(outputs), test.target or HOST)
    return "" if _not_run(explored, test.target or HOST) else f"{test.target} runs all of it"


def _capabilities(rules: RuleSet, terms: Terms, target: str) -> Explored:
    """What targets can do with the graph as it is written: no rewrites."""
    machine = build(rules).restrict([target]).without_costs()
    return explore(terms, [rule for rule in rules.rules if rule.kind != "rule"], machine)


def _not_run(explored: Explored, target: str) -> list[str]:
    """The operators that lie in no kernel of the target, when it computes everything that it can."""
    problem = explored.problem
    index = next(k for k, t in enumerate(problem.targets) if t.name == target)
    available = set(problem.resident) | {value for value, _ in problem.given}
    kernels = [k for k in problem.kernels if k.target == index]
    grown = True
    while grown:
        grown = False
        for kernel in kernels:
            if kernel.value not in available and all(read.value in available for read in kernel.reads):
                available.add(kernel.value)
                grown = True
    if all(value in available for value, _ in problem.roots):
        return []
    terms = explored.terms
    return [
        f"{node.op} ({terms.values[node.outputs[0]].name})"
        for node in terms.nodes
        if explored.class_of[node.outputs[0]] not in available
    ]


def _is(rules: RuleSet, test: syntax.TestDecl) -> str:
    match test.pattern:
        case syntax.ValuePattern(name=name):
            return "" if _matches(rules, test, _called(rules, test, name)) else f"it is not {name}"
        case syntax.Node() as pattern:
            return "" if _matches(rules, test, [_anonymous(rules, pattern)]) else "it is not matched by that pattern"
        case _:
            raise RewriteError(f"{test.span}: expected a pattern after `is`")


def _is_not(rules: RuleSet, test: syntax.TestDecl) -> str:
    name = test.name or ""
    return f"it is {name}" if _matches(rules, test, _called(rules, test, name)) else ""


def _called(rules: RuleSet, test: syntax.TestDecl, name: str) -> list[CoreRule]:
    """The patterns, composites and rules that a test means by a name."""
    found = [rule for rule in rules.rules if answers_to(rule, name)]
    if not found:
        raise RewriteError(f"{test.span}: no pattern, composite or rule is called `{name}`")
    return found


def _anonymous(rules: RuleSet, pattern: syntax.Pattern) -> CoreRule:
    """The pattern of a test itself."""
    assert isinstance(rules.scope, Scope)
    try:
        return anonymous(rules.scope, pattern, "that pattern")
    except LoweringError as error:
        texts = {path: text for path, (text, _) in rules.sources.items()}
        raise PatError([Problem(error.span, str(error), error.hint)], texts) from None


def _matches(rules: RuleSet, test: syntax.TestDecl, known: Sequence[CoreRule]) -> bool:
    """Whether the graph's results are the roots of a match of one of these patterns, composites or rules."""
    builder, outputs = _graph(rules, test)
    asked = [replace(rule, kind="pattern", target=None) for rule in known]
    explored = explore(builder.terms(outputs), asked, build(rules).without_costs())
    wanted = tuple(explored.class_of[o] for o in outputs)
    return any(match.roots == wanted for match in explored.matches)


def _becomes(rules: RuleSet, test: syntax.TestDecl) -> str:
    builder, outputs = _graph(rules, test)
    terms = builder.terms(outputs)
    goal, results = _goal(builder, test)
    allow = ("exact", "reassociates", "approximates")
    machine = build(rules).restrict([HOST]).without_costs()
    explored = explore(terms, rules.rules, machine, allow=allow, trace=True)
    found = _find(explored, goal, len(terms.nodes), results)
    wanted = [explored.class_of[o] for o in outputs]
    if found == wanted:
        return ""
    return "the rules do not lead there" if None in found else "the rules lead there from another value"


def _goal(builder: GraphBuilder, test: syntax.TestDecl) -> tuple[Terms, tuple[int, ...]]:
    """The right-hand side, built on the same inputs."""
    assert test.result is not None
    results = builder.result(test.result)
    return builder.terms(results), results


def _find(explored: Explored, goal: Terms, first: int, results: Sequence[int]) -> list[int | None]:
    """The classes of a goal's results, looked up in the e-graph from its inputs upwards; None where it is not there."""
    assert explored.graph is not None
    table: dict[object, tuple[int, ...]] = {}
    for applied in explored.graph.operators:
        attributes = attribute_key(applied.attributes)
        for inputs in {applied.inputs, _ordered(applied.op, applied.inputs)}:
            table.setdefault((applied.op, inputs, len(applied.outputs), attributes), applied.outputs)
    constants = {
        (str(info.constant.dtype), info.constant.shape, info.constant.tobytes()): number
        for number, info in enumerate(explored.classes)
        if info.constant is not None
    }
    classes: dict[int, int | None] = dict(enumerate(explored.class_of))
    for index, value in enumerate(goal.values):
        if index not in classes and value.constant is not None:
            array = value.constant
            classes[index] = constants.get((str(array.dtype), array.shape, array.tobytes()))
    for term in goal.nodes[first:]:
        inputs = tuple(ABSENT if i == ABSENT else classes.get(i) for i in term.inputs)
        key = (term.op, inputs, len(term.outputs), attribute_key(term.attributes))
        found = table.get(key) or table.get((key[0], _ordered(term.op, inputs), *key[2:]), ())
        known = {o: c for o, c in zip(term.outputs, found, strict=False) if c != ABSENT}
        classes |= dict.fromkeys(term.outputs) | known
    return [classes.get(i) for i in results]


def _ordered(op: str, inputs: tuple[int | None, ...]) -> tuple[int | None, ...]:
    """The inputs as they are looked up: those of a commutative operator in ascending order."""
    facts = operators.find(op)
    known = [i for i in inputs if i is not None]
    return tuple(sorted(known)) if facts is not None and facts.commutative and len(known) == len(inputs) else inputs


def _place(rules: RuleSet, test: syntax.TestDecl) -> str:
    builder, outputs = _graph(rules, test)
    terms = builder.terms(outputs)
    placement = place(terms, rules)
    calls = [step for step in placement.graph.steps if isinstance(step, KernelCall)]
    elsewhere = sorted({call.target for call in calls} - {test.target})
    if elsewhere:
        return f"the optimum runs on {', '.join(elsewhere)}"
    goal, results = _goal(builder, test)
    numbers = _Numbers()
    wanted = numbers.of_terms(goal, results)
    found = numbers.of_placed(placement.graph)
    if found == wanted:
        return ""
    computed = ", ".join(node.op for call in calls for node in call.body)
    return f"the optimum computes something else: {computed}"


class _Numbers:
    """Numbers values by what computes them, so that two graphs on the same inputs can be compared."""

    def __init__(self) -> None:
        self._known: dict[object, int] = {}

    def _of(self, key: object) -> int:
        return self._known.setdefault(key, len(self._known))

    def _node(self, op: str, attributes: Mapping[str, object], inputs: Sequence[int]) -> int:
        facts = operators.find(op)
        operands = tuple(sorted(inputs) if facts is not None and facts.commutative else inputs)
        return self._of((op, attribute_key(attributes), operands))

    def of_terms(self, terms: Terms, results: Sequence[int]) -> list[int]:
        found = {ABSENT: ABSENT}
        for index, value in enumerate(terms.values):
            if value.constant is not None:
                found[index] = self._of(constant_key(value.constant))
        for index in terms.inputs:
            found[index] = self._of(("input", terms.values[index].name))
        for node in terms.nodes:
            whole = self._node(node.op, node.attributes, [found[i] for i in node.inputs])
            found |= {output: self._of((whole, k)) for k, output in enumerate(node.outputs)}
        return [found[i] for i in results]

    def of_placed(self, graph: PlacedGraph) -> list[int]:
        found = {"": ABSENT}
        found |= {name: self._of(constant_key(array)) for name, array in graph.parameters.items()}
        found |= {name: self._of(("input", name)) for name in graph.inputs}
        for step in graph.steps:
            if isinstance(step, CopyCall):
                found[step.output] = found[step.value]
                continue
            for node in step.body:
                whole = self._node(node.op, node.attributes, [found[i] for i in node.inputs])
                found |= {output: self._of((whole, k)) for k, output in enumerate(node.outputs) if output}
        return [found[name] for name in graph.outputs]


_VERDICTS: Mapping[str, Callable[[RuleSet, syntax.TestDecl], str]] = {
    "runs": _runs,
    "rejects": _rejects,
    "is": _is,
    "is not": _is_not,
    "becomes": _becomes,
    "place": _place,
}
