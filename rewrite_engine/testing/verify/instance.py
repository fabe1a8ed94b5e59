"""One match of a rule to be judged, as Hypothesis and seeds draw it: a variant, a candidate, what is known of it.

In: a rule and a source of choices. Out: an `Instance`; None where no match was found.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from rewrite_engine import operators
from rewrite_engine.diagnostics import RewriteError
from rewrite_engine.language.core import ABSENT, CoreRule, Facts, Refusal
from rewrite_engine.language.lower import choose, expand_rest
from rewrite_engine.language.meaning import Meaning
from rewrite_engine.operators.types import Dimension, TensorType
from rewrite_engine.testing.verify.candidate import Candidate, Unfit
from rewrite_engine.testing.verify.declared import infer_node
from rewrite_engine.testing.verify.draws import Seeded, Source, chance, choice
from rewrite_engine.testing.verify.plan import Plan, plan
from rewrite_engine.testing.verify.repair import ATTEMPTS, find_match
from rewrite_engine.testing.verify.sides import Invalid, Sides, sides
from rewrite_engine.testing.verify.witness import Witnesses, near

MOST_REST = 3


@dataclass(frozen=True, slots=True, eq=False, repr=False)  # written out, it would hold the whole rule file
class Instance:
    """A match with its sides; `symbols` names the sizes that the rule was not told, `seed` is that of the values."""

    sides: Sides
    plan: Plan
    candidate: Candidate
    seed: int
    symbols: Mapping[int, tuple[Dimension, ...]] = field(default_factory=dict)
    hidden: frozenset[int] = frozenset()  # constants that the rule was not told
    unranked: frozenset[int] = frozenset()  # inputs of which it was not even told the rank


@dataclass(slots=True, eq=False)
class Plans:
    """The plans of a rule's variants, each made once."""

    rule: CoreRule
    numbers: Sequence[float]
    meanings: Mapping[str, Meaning] = field(default_factory=dict, repr=False)  # of operators that rule files declare
    attempts: int = ATTEMPTS  # changes that are tried for each match
    witnesses: Callable[[], Witnesses] = field(default=dict, repr=False)  # matches of the file's own tests
    made: dict[tuple[object, ...], Plan] = field(default_factory=dict)

    def draw(self, index: int, source: Source) -> Plan:
        """The plan of a variant, with so many remaining inputs and operators of sets chosen."""
        variant = self.rule.variants[index]
        shared: dict[str, int] = {}
        counts = {}
        for k, node in enumerate(variant.nodes):
            if node.rest is not None:
                facts = operators.find(node.op)
                most = MOST_REST
                if facts is not None and facts.max_inputs is not None:
                    most = max(facts.max_inputs - len(node.inputs), 0)
                if node.rest not in shared:
                    shared[node.rest] = source.integer(0, min(most, MOST_REST))
                counts[k] = shared[node.rest]
        chosen = {k: choice(source, node.choices) for k, node in enumerate(variant.nodes) if node.choices}
        key = (index, tuple(counts.items()), tuple(chosen.items()))
        if key not in self.made:
            self.made[key] = plan(choose(expand_rest(variant, counts), chosen), self.numbers, self.meanings)
        return self.made[key]


def draw(plans: Plans, index: int, source: Source) -> Instance | None:
    """A match of a variant. Raises `Invalid` where the rule builds no graph.

    About every second match of a rule is one of which less is known than there is to know, as in models with free
    dimensions: the rule must be right for whatever it did not see.
    """
    rule = plans.rule
    made = plans.draw(index, source)
    blind = source.integer(1, 4095) if rule.kind == "rule" and chance(source, 2) else 0
    candidate = None
    if blind:
        candidate = find_match(made, source, rule, attempts=20, view=lambda c: unknown(c, blind).facts)
        blind = blind if candidate is not None else 0
    if candidate is None:
        candidate = find_match(made, source, rule, attempts=plans.attempts)
    if candidate is None and (known := plans.witnesses().get((rule.name, index))):
        facts = choice(source, known)
        candidate = find_match(made, source, rule, begin=lambda plan, source: near(plan, source, facts))
    if candidate is None:
        return None
    seed = source.integer(0, 255)
    seen = unknown(candidate, blind) if blind else None
    try:
        both = sides(rule, candidate, seen.facts if seen is not None else None)
    except Invalid as invalid:
        if seen is not None:
            names = dict(zip(made.free, invalid.left.inputs, strict=False))
            invalid.symbols = {names[slot]: shape for slot, shape in seen.symbols.items()}
            invalid.hidden = frozenset(names[slot] for slot in seen.hidden)
            invalid.unranked = tuple(names[slot] for slot in sorted(seen.unranked))
        raise
    if isinstance(both, Refusal):
        return None
    if seen is None:
        return Instance(both, made, candidate, seed)
    return Instance(both, made, candidate, seed, seen.symbols, seen.hidden, seen.unranked)


@dataclass(frozen=True, slots=True, eq=False)
class Unseen:
    """What a rule is told of a match: symbols for some sizes, and nothing of some numbers that decide shapes."""

    facts: Facts
    symbols: Mapping[int, tuple[Dimension, ...]]
    hidden: frozenset[int]
    unranked: frozenset[int] = frozenset()


def unknown(c: Candidate, policy: int) -> Unseen:
    """The same match, of which less is known; `policy` says of what. Raises `Unfit` where types need to be known."""
    variant, random = c.plan.variant, Seeded(policy)
    symbols: dict[int, tuple[Dimension, ...]] = {}
    types: dict[int, TensorType] = {}
    unranked: set[int] = set()
    hides = policy % 2 == 0
    hidden = frozenset(
        slot
        for slot in c.plan.free
        if slot in c.values
        and slot not in c.plan.literals
        and not variant.slots[slot].constant
        and hides
        and random.integer(0, 1)
    )
    for slot in c.plan.free:
        kind = c.types[slot]
        types[slot] = kind
        own = random.integer(0, 3)
        if slot in c.values or not kind.shape:
            continue
        if policy % 4 == 1 and own and slot not in c.plan.ranks:  # not even the rank
            unranked.add(slot)
            types[slot] = TensorType(kind.dtype, None)
            continue
        shape: list[Dimension] = list(kind.shape)
        for axis, size in enumerate(kind.shape):
            assert isinstance(size, int)
            if (policy >> 4 >> min(size, 7)) & 1:  # the same for all dimensions of a size
                shape[axis] = f"N{size}"
            elif own == 3 and policy % 3 == 0:
                shape[axis] = f"M{slot}_{axis}"
        if shape != list(kind.shape):
            symbols[slot] = tuple(shape)
            types[slot] = TensorType(kind.dtype, tuple(shape))
    effective: list[Mapping[str, object]] = []
    for index, (node, written) in enumerate(zip(variant.nodes, c.written, strict=True)):
        inputs = [None if slot == ABSENT else types[slot] for slot in node.inputs]
        constants = [None if slot in hidden else c.values.get(slot) for slot in node.inputs]
        try:
            attributes, results = infer_node(c.plan.meanings, node.op, written, inputs, constants, len(node.outputs))
        except (RewriteError, ArithmeticError, ValueError, TypeError, LookupError) as error:
            raise Unfit(index, str(error)) from None
        effective.append(attributes)
        types.update((slot, kind) for slot, kind in zip(node.outputs, results, strict=True) if slot != ABSENT)
    seen = c.facts()
    facts = replace(
        seen,
        types=tuple(types[k] for k in range(len(variant.slots))),
        constants=tuple(None if k in hidden else array for k, array in enumerate(seen.constants)),
        is_constant=tuple(known and k not in hidden for k, known in enumerate(seen.is_constant)),
        attributes=tuple(effective),
    )
    return Unseen(facts, symbols, hidden, frozenset(unranked))
