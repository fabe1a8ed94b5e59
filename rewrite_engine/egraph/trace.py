"""Near misses: how far a pattern fits around one operator of the e-graph, and the first thing that does not.

In: an explored e-graph with its operators, a variant, and a pattern node laid on an operator. Out: the `Attempt` with
the fewest things wrong. It describes; what matches is egglog's answer, in `Explored.matches` and the kernels.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from rewrite_engine.diagnostics import Span
from rewrite_engine.egraph.encode import ABSENT_TYPE
from rewrite_engine.egraph.freeze import Explored
from rewrite_engine.egraph.offers import with_rest
from rewrite_engine.egraph.operator_graph import Applied
from rewrite_engine.language.core import ABSENT, CoreRule, Facts, PatternNode, Refusal, Variant
from rewrite_engine.language.lower import choose, expand_rest
from rewrite_engine.operators import find
from rewrite_engine.operators.types import TensorType

MOST_STEPS = 2000
"""Steps of laying operators on a pattern that one attempt takes; the nearest miss among them is described."""


@dataclass(frozen=True, slots=True, eq=False)
class Failure:
    """One thing that does not fit at pattern node `node`.

    `kind`: "operator" (`value` is not computed by that operator), "reader" (no such operator reads `value`),
    "extra_input", "missing_input", "other_value" (the slot is `other` elsewhere), "not_constant", "no_result" (the
    operator has no such result), "no_type" or "guard" (`refusal` says which clause, and the values that it saw).
    """

    kind: str
    node: int
    value: int = ABSENT  # class
    applied: int | None = None  # the operator at hand
    position: int = 0
    slot: int = ABSENT
    other: int = ABSENT
    refusal: Refusal | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Attempt:
    """A pattern laid on operators: `placed` by pattern node, `slots` by slot. Nothing failed: it `holds`."""

    rule: CoreRule
    variant: Variant
    placed: Mapping[int, int]
    slots: Mapping[int, int]
    failures: tuple[Failure, ...]

    @property
    def holds(self) -> bool:
        return not self.failures

    @property
    def fitting(self) -> int:
        """How many of the pattern's operators are there just as it wants them."""
        wrong = {failure.node for failure in self.failures if failure.kind != "guard"}
        return len(set(self.placed) - wrong)

    @property
    def distance(self) -> tuple[int, bool, int, int]:
        """Orders attempts: the nearest miss first."""
        lost = len(self.variant.nodes) - len(self.placed)
        structural = any(failure.kind != "guard" for failure in self.failures)
        wrong = sum(f.kind not in ("operator", "reader") for f in self.failures)
        return (lost + wrong, structural, -self.fitting, self.variant.index)


@dataclass(frozen=True, slots=True, eq=False)
class _State:
    step: int = 0
    placed: Mapping[int, int] = field(default_factory=dict)
    slots: Mapping[int, int] = field(default_factory=dict)
    more: Mapping[int, tuple[int, ...]] = field(default_factory=dict)  # further inputs, by pattern node
    failures: tuple[Failure, ...] = ()
    lost: int = 0
    wrong: int = 0

    @property
    def cost(self) -> int:
        return self.lost + self.wrong


def nearest(
    explored: Explored,
    rule: CoreRule,
    variant: Variant,
    node: int,
    applied: int,
    *,
    most: int | None = None,
    steps: int = MOST_STEPS,
) -> Attempt | None:
    """The attempt with the fewest things wrong that lays pattern node `node` on operator number `applied`.

    None when every one has more than `most` things wrong, or none is complete after so many `steps`.
    """
    tracer = _Tracer(explored, rule, variant)
    best: Attempt | None = None
    pending = [_State()]
    plan = _plan(variant, node)
    for _ in range(steps):
        if not pending:
            break
        state = pending.pop()
        if (most is not None and state.cost > most) or (best is not None and state.cost > best.distance[0]):
            continue
        if state.step < len(plan):
            further = [*tracer.further(state, *plan[state.step], applied if state.step == 0 else None)]
            further.reverse()  # the first of equal ones is the next
            pending += sorted(further, key=lambda s: -s.cost)
            continue
        attempt = tracer.finished(state)
        if best is None or attempt.distance < best.distance:
            best = attempt
        if best.holds:
            break
    return best if best is None or most is None or best.distance[0] <= most else None


@lru_cache(maxsize=4096)
def _plan(variant: Variant, start: int) -> tuple[tuple[int, bool], ...]:
    """The pattern's nodes from one of them outwards: what it reads, then what reads it.

    True beside a node that shares no value with those before it: it may be anywhere.
    """
    makers = {slot: j for j, node in enumerate(variant.nodes) for slot in node.outputs if slot != ABSENT}
    order: list[int] = []
    plan: list[tuple[int, bool]] = []
    for first in (start, *range(len(variant.nodes))):
        if first not in order:
            plan.append((first, True))
            order.append(first)
            _spread(variant, makers, order, plan)
    return tuple(plan)


def _spread(variant: Variant, makers: Mapping[int, int], order: list[int], plan: list[tuple[int, bool]]) -> None:
    """All nodes that hang together with the last one, added in place."""
    pending = order[-1:]
    for j in pending:
        node = variant.nodes[j]
        beside = [makers[slot] for slot in node.inputs if slot in makers]
        for shared in (set(node.outputs), set(node.inputs)):
            beside += [k for k, other in enumerate(variant.nodes) if set(other.inputs) & shared - {ABSENT}]
        new = [k for k in dict.fromkeys(beside) if k not in order]
        pending += new
        order += new
        plan += [(k, False) for k in new]


class _Tracer:
    def __init__(self, explored: Explored, rule: CoreRule, variant: Variant) -> None:
        assert explored.graph is not None, "explore the model with trace=True"
        self.explored, self.graph = explored, explored.graph
        self.rule, self.variant = rule, variant
        # Further inputs may be absent where `egraph.candidates` lists those that are there, and in capabilities.
        self.gaps = rule.kind == "supports" or any(node.choices for node in variant.nodes)

    # ------------------------------------------------------------ laying operators on nodes

    def further(self, state: _State, node: int, anywhere: bool, only: int | None) -> Iterator[_State]:
        """The state with each operator that may stand at a pattern node, or with none where there is no such one."""
        pattern = self.variant.nodes[node]
        wanted = pattern.choices or (pattern.op,)
        candidates, failure = ((only,), None) if only is not None else self._candidates(state, node, anywhere)
        fitting = [c for c in candidates if self.graph.operators[c].op in wanted]
        for candidate in fitting:
            for swapped in self._orders(self.graph.operators[candidate], pattern):
                yield self._laid(state, node, candidate, swapped)
        if not fitting:
            failures = state.failures if failure is None else (*state.failures, failure)
            yield _State(state.step + 1, state.placed, state.slots, state.more, failures, state.lost + 1, state.wrong)

    def _candidates(self, state: _State, node: int, anywhere: bool) -> tuple[Sequence[int], Failure | None]:
        """Operators that compute what the node must compute, else those that read what it must read."""
        pattern = self.variant.nodes[node]
        for slot in pattern.outputs:
            if slot in state.slots:
                value = state.slots[slot]
                return self.graph.makers.get(value, ()), Failure("operator", node, value, slot=slot)
        made = {slot for other in self.variant.nodes for slot in other.outputs}
        for slot in sorted(set(pattern.inputs) - {ABSENT}, key=lambda slot: (slot not in made, slot)):
            if slot in state.slots:
                value = state.slots[slot]
                return self.graph.users.get(value, ()), Failure("reader", node, value, slot=slot)
        return (range(len(self.graph.operators)) if anywhere else ()), None  # (): all that it hangs on is missing

    def _orders(self, applied: Applied, pattern: PatternNode) -> tuple[bool, ...]:
        facts = find(applied.op)
        swaps = facts is not None and facts.commutative and len(applied.inputs) == 2 and len(applied.outputs) == 1
        return (False, True) if swaps and pattern.rest != "*" else (False,)

    def _laid(self, state: _State, node: int, number: int, swapped: bool) -> _State:
        """The state with an operator laid on a pattern node, and all that does not fit there."""
        pattern, applied = self.variant.nodes[node], self.graph.operators[number]
        given = applied.inputs[::-1] if swapped else applied.inputs
        places = (1, 0) if swapped else ()
        slots, failures = dict(state.slots), []

        def bind(slot: int, value: int, position: int) -> None:
            known = slots.setdefault(slot, value)
            if known != value:
                failures.append(Failure("other_value", node, value, number, position, slot, known))
            elif self.variant.slots[slot].constant and self.explored.classes[value].constant is None:
                failures.append(Failure("not_constant", node, value, number, position, slot))

        for position, slot in enumerate(pattern.outputs):
            if slot != ABSENT:
                value = applied.outputs[position] if position < len(applied.outputs) else ABSENT
                if value == ABSENT:
                    failures.append(Failure("no_result", node, slots.get(slot, ABSENT), number, position, slot))
                else:
                    bind(slot, value, position)
        if len(applied.outputs) < len(pattern.outputs) and not failures:
            failures.append(Failure("no_result", node, ABSENT, number, len(pattern.outputs) - 1))
        for position, slot in enumerate(pattern.inputs):
            value = given[position] if position < len(given) else ABSENT
            place = places[position] if position < len(places) else position
            if slot == ABSENT and value != ABSENT:
                failures.append(Failure("extra_input", node, value, number, place))
            elif slot != ABSENT and value == ABSENT:
                failures.append(Failure("missing_input", node, ABSENT, number, place, slot))
            elif slot != ABSENT:
                bind(slot, value, place)
        rest = given[len(pattern.inputs) :]
        for position, value in enumerate(rest, len(pattern.inputs)):
            if pattern.rest is None and value != ABSENT:
                failures.append(Failure("extra_input", node, value, number, position))
            elif pattern.rest is not None and value == ABSENT and not self.gaps:
                failures.append(Failure("missing_input", node, ABSENT, number, position))
        more = {**state.more, node: rest} if pattern.rest is not None else state.more
        placed = {**state.placed, node: number}
        wrong = state.wrong + len(failures)
        return _State(state.step + 1, placed, slots, more, (*state.failures, *failures), state.lost, wrong)

    # ------------------------------------------------------------ the verdict

    def finished(self, state: _State) -> Attempt:
        """The attempt; where all operators are there, with what the rule's own clauses say."""
        settled, slots = self._settled(state)
        failures = state.failures
        if not failures and not state.lost:
            failed = self._clauses(state, settled, slots)
            failures = () if failed is None else (failed,)
        return Attempt(self.rule, settled, state.placed, slots, failures)

    def _settled(self, state: _State) -> tuple[Variant, dict[int, int]]:
        """The variant with the operators and the further inputs that are there, and the classes of its slots."""
        nodes = self.variant.nodes
        chosen = {j: self.graph.operators[k].op for j, k in state.placed.items() if nodes[j].choices}
        variant = choose(self.variant, chosen) if chosen else self.variant
        slots = dict(state.slots)
        if state.more and self.rule.kind == "supports":
            variant = self._form(variant, self.graph.operators[state.placed[0]])
        elif state.more:
            variant = expand_rest(variant, {j: [v != ABSENT for v in rest] for j, rest in state.more.items()})
        for j, rest in state.more.items():
            written = len(nodes[j].inputs)
            outputs = self.graph.operators[state.placed[j]].outputs
            ends = [*zip(variant.nodes[j].inputs[written:], rest, strict=False)]
            for slot, value in (*ends, *zip(variant.nodes[j].outputs, outputs, strict=False)):
                if slot != ABSENT:
                    slots.setdefault(slot, value)
        return variant, slots

    def _form(self, variant: Variant, applied: Applied) -> Variant:
        """A form of `supports` with remaining inputs, over the operator at hand."""
        classes, count = self.explored.classes, len(applied.inputs)
        kinds = [ABSENT_TYPE if v == ABSENT else classes[v].type for v in (*applied.inputs, *applied.outputs)]
        known = [kind if isinstance(kind, TensorType) else ABSENT_TYPE for kind in kinds]
        return with_rest(variant, [None if kind == ABSENT_TYPE else kind for kind in known[:count]], known[count:])

    def _clauses(self, state: _State, variant: Variant, slots: Mapping[int, int]) -> Failure | None:
        classes = self.explored.classes
        types = [classes[slots[i]].type for i in range(len(variant.slots))]
        for slot, kind in enumerate(types):
            if not isinstance(kind, TensorType) or kind == ABSENT_TYPE:
                return Failure("no_type", self._home(variant, slot), slots[slot], slot=slot)
            if variant.slots[slot].constant and classes[slots[slot]].constant is None:  # a member of a list
                return Failure("not_constant", self._home(variant, slot), slots[slot], slot=slot)
        constants = [classes[slots[i]].constant for i in range(len(variant.slots))]
        asked = [s.constant or s.reads_value or s.asks_constant for s in variant.slots]
        readers = [self.graph.readers.get(slots[i], (0, False)) for i in range(len(variant.slots))]
        known = Facts(
            types=tuple(types),  # type: ignore[arg-type]
            constants=tuple(c if s.reads_value else None for c, s in zip(constants, variant.slots, strict=True)),
            is_constant=tuple(c is not None and a for c, a in zip(constants, asked, strict=True)),
            attributes=tuple(self.graph.operators[state.placed[j]].attributes for j in range(len(variant.nodes))),
            readers=tuple(count for count, _ in readers),
            is_output=tuple(output for _, output in readers),
        )
        found = self.explored.machine.ask(self.rule, variant, known)
        if not isinstance(found, Refusal):
            return None
        home = _written_at(variant, found.span)
        return Failure("guard", home, ABSENT, state.placed[home], refusal=found)

    def _home(self, variant: Variant, slot: int) -> int:
        """A node of the pattern that reads or computes a slot."""
        return next((j for j, node in enumerate(variant.nodes) if slot in node.inputs or slot in node.outputs), 0)


def _written_at(variant: Variant, span: Span) -> int:
    """The pattern's node in whose text a clause stands, the innermost; a guard's is the last one."""
    around = [
        (node.span.end_line - node.span.line, node.span.end_column - node.span.column, -j)
        for j, node in enumerate(variant.nodes)
        if node.span is not None and _holds(node.span, span)
    ]
    return -min(around)[-1] if around else len(variant.nodes) - 1


def _holds(outer: Span, inner: Span) -> bool:
    start, end = (outer.line, outer.column), (outer.end_line, outer.end_column)
    within = start <= (inner.line, inner.column) and (inner.end_line, inner.end_column) <= end
    return outer.file == inner.file and within
