"""Why each operator of a model went where it went, and why it did not go elsewhere.

In: a model and rule files, with the options of a placement. Out: an `Explanation`: per operator the kernels that
compute it and a verdict per other target; what holds targets back, the most expensive first.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from rewrite_engine.diagnostics import RewriteError, Span, did_you_mean
from rewrite_engine.egraph.freeze import Explored
from rewrite_engine.egraph.problem import Solution
from rewrite_engine.egraph.trace import Attempt, nearest
from rewrite_engine.graph.placed import KernelCall
from rewrite_engine.graph.terms import ABSENT, Terms
from rewrite_engine.language.core import CoreRule, RuleSet, Variant
from rewrite_engine.machine import HOST
from rewrite_engine.placement.explain_cost import Alternatives, Dearer, operator_names
from rewrite_engine.placement.explain_miss import Miss, Words, miss_of
from rewrite_engine.placement.place import Placement, place

SOLVED = 6
"""Alternatives of an overview that are worked out to the last picosecond; --node does it for any operator."""
SOLVED_KERNELS = 40_000  # in all of them together: an overview stays quick on large models


@dataclass(frozen=True, slots=True)
class Runs:
    """A kernel that computes an operator. `with_` are the other operators in it, by first output; cost in ps."""

    kernel: str
    target: str
    device: str
    region: str
    rule: str
    span: Span | None
    cost: int
    cost_source: str
    with_: tuple[str, ...]
    rewrites: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Verdict:
    """Why an operator does not run on a target.

    `status`: "dearer" (it could: `rule` says how, `dearer` what it would cost more, where that was worked out),
    "impossible" (it could, but then nothing brings its values there and back), "pinned" (elsewhere), "refused" (a
    clause of `miss` is false, or not known to be true), "no match" (the nearest capability does not fit), or
    "unsupported" (no capability names the operator).
    """

    target: str
    status: str
    rule: str = ""
    span: Span | None = None
    miss: Miss | None = None
    dearer: Dearer | None = None


@dataclass(frozen=True, slots=True)
class Story:
    """An operator of the model, by its first output. Without `runs`, rewriting has left nothing of it to compute."""

    name: str
    op: str
    runs: tuple[Runs, ...]
    verdicts: tuple[Verdict, ...]


@dataclass(frozen=True, slots=True)
class Candidate:
    """A rule, pattern or composite that names the operator: it matches there, or the nearest miss."""

    rule: str
    kind: str
    span: Span
    miss: Miss

    @property
    def matches(self) -> bool:
        return self.miss.kind == "matches"


@dataclass(frozen=True, slots=True)
class Obstacle:
    """What keeps operators off a target: `names` of `count` operators `op`, which cost `cost` ps where they run now."""

    target: str
    op: str
    verdict: Verdict
    names: tuple[str, ...]
    count: int
    cost: int


@dataclass(frozen=True, slots=True, eq=False)
class Explanation:
    """Every operator's story in the model's order, what holds targets back, and for one operator all candidates."""

    placement: Placement
    stories: tuple[Story, ...]
    obstacles: tuple[Obstacle, ...]
    node: Story | None = None
    candidates: tuple[Candidate, ...] = ()

    def groups(self) -> list[tuple[Story, ...]]:
        """Stories that are alike but for numbers: the same operator, kernels and verdicts; the most expensive first."""
        found: dict[tuple[object, ...], list[Story]] = defaultdict(list)
        for story in self.stories:
            found[_kind(story)].append(story)
        return sorted(map(tuple, found.values()), key=lambda group: -sum(_cost(story) for story in group))


def explain(terms: Terms, rules: RuleSet, *, node: str | None = None, **options: Any) -> Explanation:
    """Explains the placement of a graph; `options` are those of `place`.

    `node` is the name of a value of the model: the operator that computes it is explained in depth. Raises RewriteError
    as `place` does, and for a name that no operator computes.
    """
    heard: list[tuple[Explored, Solution]] = []
    placement = place(terms, rules, observe=lambda explored, solution: heard.append((explored, solution)), **options)
    explored, solution = heard[0]
    chosen = None if node is None else _operator_of(explored.terms, node)
    teller = _Teller(explored, solution, placement, rules, options)
    stories = [teller.story(index) for index in range(len(explored.terms.nodes))]
    if chosen is None:
        explanation = Explanation(placement, tuple(stories), teller.obstacles(stories))
        return replace(explanation, stories=teller.with_costs(explanation))
    stories[chosen] = teller.in_depth(stories[chosen])
    candidates = tuple(teller.candidates(chosen))
    return Explanation(placement, tuple(stories), teller.obstacles(stories), stories[chosen], candidates)


def _operator_of(terms: Terms, name: str) -> int:
    """The operator that computes a value of that name."""
    for index, node in enumerate(terms.nodes):
        if any(o != ABSENT and terms.values[o].name == name for o in node.outputs):
            return index
    names = [terms.values[o].name for node in terms.nodes for o in node.outputs if o != ABSENT]
    hint = did_you_mean(name, names)
    raise RewriteError(
        f"--node: no operator of the model computes `{name}`; give the name of an operator's result"
        + (f"; {hint}" if hint else f", such as `{names[0]}`" if names else "")
    )


def _kind(story: Story) -> tuple[object, ...]:
    runs = tuple((run.target, run.rule, run.rewrites) for run in story.runs)
    verdicts = tuple((v.target, v.status, v.rule, v.miss and (v.miss.kind, v.miss.span)) for v in story.verdicts)
    return (story.op, runs, verdicts)


def _cost(story: Story) -> int:
    return sum(run.cost for run in story.runs)


class _Teller:
    def __init__(
        self, explored: Explored, solution: Solution, placement: Placement, rules: RuleSet, options: Mapping[str, Any]
    ) -> None:
        self.explored, self.placement, self.rules = explored, placement, rules
        self.words = Words(explored, {path: text for path, (text, _) in rules.sources.items()})
        self.alternatives = Alternatives(explored, solution, options.get("time_limit"), placement.strategy == "optimal")
        self.names = operator_names(explored)
        self.spans = {rule.name: rule.span for rule in rules.rules}
        self.pins = {explored.terms.values[i].name: p for i, p in explored.terms.pins.items()} | options.get("pins", {})
        self.calls: dict[str, list[KernelCall]] = defaultdict(list)
        for step in placement.graph.steps:
            if isinstance(step, KernelCall):
                for name in step.covers:
                    self.calls[name].append(step)
        self.able: dict[tuple[str, int], str] = {}  # operator and target -> the cheapest kernel's capability
        for kernel in sorted(explored.problem.kernels, key=lambda kernel: (kernel.cost, kernel.payload)):
            for name in explored.covers.get(kernel.payload, ()):
                self.able.setdefault((name, kernel.target), explored.enodes[kernel.payload].offer.rule)
        self.naming: dict[tuple[str, str], list[tuple[CoreRule, Variant, int]]] = defaultdict(list)
        for rule in rules.rules:
            for variant in rule.variants:
                for j, pattern in enumerate(variant.nodes):
                    for op in pattern.choices or (pattern.op,):
                        self.naming[rule.target or "", op].append((rule, variant, j))

    # ------------------------------------------------------------ one operator

    def story(self, index: int) -> Story:
        name, node = self.names[index], self.explored.terms.nodes[index]
        runs = tuple(self._runs(name, call) for call in self.calls[name])
        here = {run.target for run in runs}
        targets = enumerate(self.explored.problem.targets)
        verdicts = [self._verdict(index, k, target.name) for k, target in targets if target.name not in here]
        return Story(name, node.op, runs, tuple(verdicts) if runs else ())

    def _runs(self, name: str, call: KernelCall) -> Runs:
        others = tuple(other for other in call.covers if other != name)
        return Runs(
            call.name, call.target, call.device, call.region, call.rule, self.spans.get(call.rule), call.cost,
            call.cost_source, others, call.rewrites,
        )  # fmt: skip

    def _verdict(self, index: int, target: int, name: str) -> Verdict:
        operator = self.names[index]
        rule = self.able.get((operator, target))
        if rule is not None:
            return Verdict(name, "dearer", rule, self.spans.get(rule))
        place_ = self._pin(index)
        if place_ is not None and target not in self.explored.machine.targets_at(place_):
            return Verdict(name, "pinned", place_)
        attempt = self._nearest(index, [*self._named(index, name)])
        if attempt is None:
            return Verdict(name, "unsupported")
        miss = miss_of(self.words, attempt)
        status = "refused" if miss.kind in ("guard", "matches") else "no match"
        if miss.kind == "matches":
            miss = replace(miss, text=self._unused(attempt))
        return Verdict(name, status, attempt.rule.name, attempt.rule.span, miss)

    def _pin(self, index: int) -> str | None:
        outputs = self.explored.terms.nodes[index].outputs
        names = (self.explored.terms.values[o].name for o in outputs if o != ABSENT)
        return next((self.pins[name] for name in names if name in self.pins), None)

    def _unused(self, attempt: Attempt) -> str:
        """Why what matches is no kernel for the operator."""
        if self.explored.saturation != "complete":
            return f"it fits, but the search for rewrites had stopped at its limit ({self.explored.saturation})"
        return "it matches, but its kernel would read its own result"

    def _named(self, index: int, target: str) -> Iterator[tuple[CoreRule, Variant, int, int]]:
        """Rules that name the operator, or what rewriting makes of it: rule, variant, pattern node, operator."""
        explored = self.explored
        assert explored.graph is not None
        outputs = [explored.class_of[o] for o in explored.terms.nodes[index].outputs if o != ABSENT]
        found = dict.fromkeys(k for value in outputs for k in explored.graph.makers.get(value, ()))
        own = [k for k in found if self.names[index] in explored.graph.operators[k].names]
        for number in dict.fromkeys([*own, *found]):
            for rule, variant, j in self.naming[target, explored.graph.operators[number].op]:
                yield rule, variant, j, number

    def _nearest(self, index: int, among: Sequence[tuple[CoreRule, Variant, int, int]]) -> Attempt | None:
        best: Attempt | None = None
        for rule, variant, j, number in among:
            most = None if best is None else best.distance[0]
            attempt = nearest(self.explored, rule, variant, j, number, most=most)
            if attempt is not None and (best is None or attempt.distance[:3] < best.distance[:3]):
                best = attempt
        return best

    # ------------------------------------------------------------ costs of alternatives

    def in_depth(self, story: Story) -> Story:
        """The story with what each alternative costs."""
        return replace(story, verdicts=tuple(self._with_cost(story.name, verdict) for verdict in story.verdicts))

    def _with_cost(self, operator: str, verdict: Verdict) -> Verdict:
        if verdict.status != "dearer":
            return verdict
        targets = [target.name for target in self.explored.problem.targets]
        found = self.alternatives.dearer(operator, targets.index(verdict.target))
        return replace(verdict, dearer=found) if found is not None else replace(verdict, status="impossible")

    def with_costs(self, explanation: Explanation) -> tuple[Story, ...]:
        """The stories, the first of each of the most expensive groups with what its alternatives cost."""
        stories = {story.name: story for story in explanation.stories}
        left = min(SOLVED, SOLVED_KERNELS // max(len(self.explored.problem.kernels), 1))
        for group in explanation.groups():
            asked = [verdict for verdict in group[0].verdicts if verdict.status == "dearer"]
            if asked and len(asked) <= left:
                left -= len(asked)
                stories[group[0].name] = self.in_depth(group[0])
        return tuple(stories.values())

    # ------------------------------------------------------------ summaries

    def obstacles(self, stories: Sequence[Story]) -> tuple[Obstacle, ...]:
        """What keeps operators off targets, by what they cost now; the host runs everything, so it is none's wish."""
        counts: dict[str, int] = defaultdict(int)
        found: dict[tuple[object, ...], list[tuple[Story, Verdict]]] = defaultdict(list)
        for story in stories:
            counts[story.op] += 1
            for v in story.verdicts:
                if v.status in ("refused", "no match", "unsupported") and v.target != HOST:
                    found[v.target, story.op, v.status, v.miss and (v.miss.kind, v.miss.span)].append((story, v))
        obstacles = [
            Obstacle(
                v.target, first.op, v, tuple(story.name for story, _ in group), counts[first.op],
                sum({run.kernel: run.cost for story, _ in group for run in story.runs}.values()),
            )
            for group in found.values()
            for first, v in group[:1]
        ]  # fmt: skip
        return tuple(sorted(obstacles, key=lambda o: (-o.cost, -len(o.names), o.target, o.op)))

    def candidates(self, index: int) -> Iterator[Candidate]:
        """Every rule, pattern, capability that names the operator or what rewriting makes of it; matches first."""
        among: dict[str, list[tuple[CoreRule, Variant, int, int]]] = defaultdict(list)
        targets = [target.name for target in self.explored.problem.targets]
        for target in ("", *targets):
            for entry in self._named(index, target):
                among[entry[0].name].append(entry)
        held = self._matched(index)
        found: list[tuple[tuple[object, ...], Candidate]] = []
        for position, (name, entries) in enumerate(among.items()):
            rule = entries[0][0]
            if rule.defines:
                continue
            attempt = self._nearest(index, entries)
            assert attempt is not None
            miss = self._judged(index, rule, attempt, name in held)
            found.append(((miss.kind != "matches", *attempt.distance[:3], position), _candidate(rule, miss)))
        for _, candidate in sorted(found, key=lambda pair: pair[0]):
            yield candidate

    def _matched(self, index: int) -> set[str]:
        """The rules that egglog matched with the operator in the match."""
        explored = self.explored
        outputs = {explored.class_of[o] for o in explored.terms.nodes[index].outputs if o != ABSENT}
        return {match.rule.name for match in explored.matches if outputs & set(match.computed)}

    def _judged(self, index: int, rule: CoreRule, attempt: Attempt, held: bool) -> Miss:
        """The miss; "matches" is egglog's word, and for single operators that of the kernels."""
        miss = miss_of(self.words, attempt)
        if held and miss.kind != "matches":
            return replace(miss, kind="matches", text="it matches, in another place of the pattern", hint="")
        if rule.kind == "supports" or held or miss.kind != "matches":
            return miss
        if rule.kind == "rule" and self.explored.saturation == "complete":
            return replace(miss, kind="off", text=f"it fits, but --allow leaves out rules that are `{rule.label}`")
        return replace(miss, kind="off", text=self._unused(attempt))


def _candidate(rule: CoreRule, miss: Miss) -> Candidate:
    return Candidate(rule.name, rule.kind, rule.span, miss)
