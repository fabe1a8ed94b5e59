"""Why each operator of a model went where it went, and why it did not go elsewhere.

In: a model and rule files, with the options of a placement. Out: an `Explanation`: per operator the kernels that
compute it and a verdict per other target; what holds targets back, the most expensive first. Where a dimension without
a size keeps the model from being placed, what targets can run is told all the same.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from rewrite_engine.diagnostics import RewriteError, did_you_mean
from rewrite_engine.egraph.freeze import Explored
from rewrite_engine.egraph.problem import Solution
from rewrite_engine.egraph.trace import Attempt
from rewrite_engine.graph.placed import KernelCall
from rewrite_engine.graph.terms import ABSENT, Terms
from rewrite_engine.language.core import CoreRule, RuleSet, Variant
from rewrite_engine.language.evaluate import UnboundCost
from rewrite_engine.machine import HOST
from rewrite_engine.placement.explain_cost import Alternatives, operator_names
from rewrite_engine.placement.explain_miss import Entry, Miss, closest, miss_of
from rewrite_engine.placement.explain_story import Candidate, Explanation, Obstacle, Runs, Story, Verdict
from rewrite_engine.placement.explain_words import Words
from rewrite_engine.placement.match import can_run, without_costs
from rewrite_engine.placement.objectives import find as find_objective
from rewrite_engine.placement.place import Placement, place

SOLVED = 6
"""Alternatives of an overview that are worked out to the last picosecond; --node does it for any operator."""
SOLVED_KERNELS = 40_000  # in all of them together: an overview stays quick on large models


def explain(terms: Terms, rules: RuleSet, *, node: str | None = None, **options: Any) -> Explanation:
    """Explains the placement of a graph; `options` are those of `place`.

    `node` is the name of a value of the model: the operator that computes it is explained in depth. Raises RewriteError
    as `place` does, and for a name that no operator computes.
    """
    chosen = None if node is None else _operator_of(terms, node)
    heard: list[tuple[Explored, Solution]] = []
    try:
        placement = place(terms, rules, observe=lambda explored, found: heard.append((explored, found)), **options)
        explored, solution = heard[0]
        alternatives = None
        if find_objective(options.get("objective", "latency")).additive:  # other prices are no sums of parts
            seconds, optimal = options.get("time_limit"), placement.strategy == "optimal"
            alternatives = Alternatives(explored, solution, seconds, optimal)
        teller = _Teller(explored, rules, options, placement, alternatives)
    except UnboundCost as error:
        free = without_costs(rules)
        teller = _Teller(can_run(terms, free, **options), free, options)
        return teller.tell(chosen, str(error))
    return teller.tell(chosen)


def _operator_of(terms: Terms, name: str) -> int:
    """The operator that computes a value of that name."""
    makers = {terms.values[o].name: k for k, node in enumerate(terms.nodes) for o in node.outputs if o != ABSENT}
    if name in makers:
        return makers[name]
    what = {value.name: "is a constant" for value in terms.values if value.constant is not None}
    what |= {terms.values[i].name: "is an input of the model" for i in terms.inputs}
    wrong = f"`{name}` {what[name]}" if name in what else f"no operator of the model computes `{name}`"
    hint = did_you_mean(name, makers)
    mend = f"; {hint}" if hint else f", such as `{next(iter(makers))}`" if makers else ""
    raise RewriteError(f"--node: {wrong}; give the name of an operator's result{mend}")


class _Teller:
    def __init__(
        self,
        explored: Explored,
        rules: RuleSet,
        options: Mapping[str, Any],
        placement: Placement | None = None,
        alternatives: Alternatives | None = None,
    ) -> None:
        self.explored, self.placement, self.rules, self.alternatives = explored, placement, rules, alternatives
        self.words = Words(explored, {path: text for path, (text, _) in rules.sources.items()})
        self.name = options.get("name", "model")
        self.names = operator_names(explored)
        self.spans = {rule.name: rule.span for rule in rules.rules}
        self.pins = {explored.terms.values[i].name: p for i, p in explored.terms.pins.items()} | options.get("pins", {})
        self.calls: dict[str, list[KernelCall]] = defaultdict(list)
        for step in placement.graph.steps if placement is not None else ():
            if isinstance(step, KernelCall):
                for name in step.covers:
                    self.calls[name].append(step)
        self.able: dict[tuple[str, int], tuple[str, int]] = {}  # operator and target -> cheapest capability, its cost
        for kernel in sorted(explored.problem.kernels, key=lambda kernel: (kernel.cost, kernel.payload)):
            for name in explored.covers.get(kernel.payload, ()):
                capability = explored.enodes[kernel.payload].offer.rule
                self.able.setdefault((name, kernel.target), (capability, kernel.cost))
        self.rewriting: dict[int, dict[str, None]] = defaultdict(dict)  # class -> the rules that rewrite it
        for match in explored.matches:
            if match.rule.kind == "rule":
                for root in match.roots:
                    self.rewriting[root][match.rule.name] = None
        self.naming: dict[tuple[str, str], list[tuple[CoreRule, Variant, int]]] = defaultdict(list)
        for rule in rules.rules:
            for variant in rule.variants:
                for j, pattern in enumerate(variant.nodes):
                    for op in pattern.choices or (pattern.op,):
                        self.naming[rule.target or "", op].append((rule, variant, j))

    def tell(self, chosen: int | None, unplaced: str = "") -> Explanation:
        """The explanation; in depth of the operator with that number."""
        stories = [self.story(index) for index in range(len(self.explored.terms.nodes))]
        obstacles, sources = self.obstacles(stories), self.words.sources
        found = Explanation(self.placement, tuple(stories), obstacles, sources, unplaced, name=self.name)
        if chosen is None:
            return replace(found, stories=self.with_costs(found))
        stories[chosen] = self.in_depth(stories[chosen])
        candidates = tuple(self.candidates(chosen))
        return replace(found, stories=tuple(stories), node=stories[chosen], candidates=candidates)

    # ------------------------------------------------------------ one operator

    def story(self, index: int) -> Story:
        name, node = self.names[index], self.explored.terms.nodes[index]
        runs = tuple(self._runs(name, call) for call in self.calls[name])
        here = {run.target for run in runs}
        targets = enumerate(self.explored.problem.targets)
        verdicts = [self._verdict(index, k, target.name) for k, target in targets if target.name not in here]
        if runs or self.placement is None:
            return Story(name, node.op, runs, tuple(verdicts))
        rules = dict.fromkeys(rule for value in sorted(self._outputs(index)) for rule in self.rewriting.get(value, ()))
        return Story(name, node.op, (), (), tuple(rules))

    def _outputs(self, index: int) -> set[int]:
        """The classes of an operator's results."""
        explored = self.explored
        return {explored.class_of[o] for o in explored.terms.nodes[index].outputs if o != ABSENT}

    def _runs(self, name: str, call: KernelCall) -> Runs:
        others = tuple(other for other in call.covers if other != name)
        return Runs(
            call.name, call.target, call.device, call.region, call.rule, self.spans.get(call.rule), call.cost,
            call.cost_source, others, call.rewrites,
        )  # fmt: skip

    def _verdict(self, index: int, target: int, name: str) -> Verdict:
        operator = self.names[index]
        if (operator, target) in self.able:
            rule, cost = self.able[operator, target]
            return Verdict(name, "legal", rule, self.spans.get(rule), kernel=None if self.placement is None else cost)
        place_ = self._pin(index)
        if place_ is not None and target not in self.explored.machine.targets_at(place_):
            return Verdict(name, "pinned", place_)
        attempt = closest(self.explored, self._named(index, name))
        if attempt is None:
            return Verdict(name, "unsupported")
        miss = miss_of(self.words, attempt)
        status = "refused" if miss.kind in ("guard", "unknown", "matches") else "no match"
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

    def _named(self, index: int, target: str) -> Iterator[Entry]:
        """Rules that name the operator, or what rewriting makes of it: rule, variant, pattern node, operator."""
        graph = self.explored.graph
        assert graph is not None
        outputs = self._outputs(index)
        found = dict.fromkeys(k for value in sorted(outputs) for k in graph.makers.get(value, ()))
        own = [k for k in found if self.names[index] in graph.operators[k].names]
        made = [k for k in found if not outputs & set(graph.operators[k].inputs)]  # others read their own result
        for number in dict.fromkeys([*own, *made]):
            for rule, variant, j in self.naming[target, graph.operators[number].op]:
                yield rule, variant, j, number

    # ------------------------------------------------------------ costs of alternatives

    def in_depth(self, story: Story) -> Story:
        """The story with what each alternative costs."""
        return replace(story, verdicts=tuple(self._with_cost(story.name, verdict) for verdict in story.verdicts))

    def _with_cost(self, operator: str, verdict: Verdict) -> Verdict:
        if verdict.status != "legal" or self.alternatives is None:
            return verdict
        targets = [target.name for target in self.explored.problem.targets]
        found = self.alternatives.dearer(operator, targets.index(verdict.target))
        return replace(verdict, status="impossible" if found is None else "dearer", dearer=found)

    def with_costs(self, explanation: Explanation) -> tuple[Story, ...]:
        """The stories, the first of each of the most expensive groups with what its alternatives cost."""
        stories = {story.name: story for story in explanation.stories}
        left = min(SOLVED, SOLVED_KERNELS // max(len(self.explored.problem.kernels), 1))
        for group in explanation.groups():
            asked = [verdict for verdict in group[0].verdicts if verdict.status == "legal"]
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
        return tuple(sorted(obstacles, key=lambda o: (-o.cost, -len(o.names))))  # ties: the model's order

    def candidates(self, index: int) -> Iterator[Candidate]:
        """Every rule, pattern, capability that names the operator or what rewriting makes of it; matches first."""
        among: dict[str, list[Entry]] = defaultdict(list)
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
            attempt = closest(self.explored, entries)
            assert attempt is not None
            miss = self._judged(index, rule, attempt, name in held)
            found.append(((miss.kind != "matches", *attempt.distance[:3], position), _candidate(rule, miss)))
        for _, candidate in sorted(found, key=lambda pair: pair[0]):
            yield candidate

    def _matched(self, index: int) -> set[str]:
        """The rules that egglog matched with the operator in the match."""
        outputs = self._outputs(index)
        return {match.rule.name for match in self.explored.matches if outputs & set(match.computed)}

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
