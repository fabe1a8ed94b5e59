"""Verification of every rule and composite of a rule file: matches are drawn by seed, judged, and what fails is shrunk.

In: a rule set. Out: a `Report`. Deterministic: the same file, seed and number of examples give the same report.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

from rewrite_engine.language import load
from rewrite_engine.language.core import CoreRule, RuleSet
from rewrite_engine.testing.in_file import own_rules
from rewrite_engine.testing.verify import guards, instance
from rewrite_engine.testing.verify.draws import Seeded
from rewrite_engine.testing.verify.field import PRIME
from rewrite_engine.testing.verify.instance import Instance, Plans
from rewrite_engine.testing.verify.judge import Difference, Verdict, judge, rejudge
from rewrite_engine.testing.verify.numbers import numbers_in
from rewrite_engine.testing.verify.prove import Proof, prove
from rewrite_engine.testing.verify.report import Counterexample, Report, RuleReport
from rewrite_engine.testing.verify.show import counterexample
from rewrite_engine.testing.verify.shrink import Failure, kept, smallest
from rewrite_engine.testing.verify.sides import Fault, Invalid, NoProgram
from rewrite_engine.testing.verify.unsatisfiable import unsatisfiable
from rewrite_engine.testing.verify.witness import Witnesses, witnesses

EXAMPLES = 24
"""Matches that are judged for each rule, unless it is asked for more."""


MOST_PROOFS = 4
"""Matches of a rule that Z3 is asked about."""

PATIENT = 400
"""Changes that are tried for each match of a rule that seems to have none."""


@dataclass(frozen=True, slots=True)
class Options:
    """`tiers` 1 to 4 (with Z3); `examples` matches per rule; `database` is a folder that keeps counterexamples.

    `protections`: what lies just outside of guards is looked at, too. Without `shrink`, a failure stays as it was met.
    """

    seed: int = 0
    examples: int = EXAMPLES
    tiers: int = 3
    database: str | None = None
    protections: bool = False
    shrink: bool = True


def verify_file(path: str | Path, options: Options = Options()) -> Report:
    """Verifies what one file declares, not what it includes. Raises PatError where the file does not hold."""
    return verify(load([path]), options)


def verify(rules: RuleSet, options: Options = Options(), names: Sequence[str] = ()) -> Report:
    """Verifies the rules and composites of the file that was loaded last; only those of `names` where given."""
    here = list(rules.sources)[-1]
    own = [rule for rule in own_rules(rules) if not names or rule.name in names]
    known = cache(lambda: witnesses(rules))
    return Report(here, tuple(verify_rule(rules, rule, options, known) for rule in own))


@dataclass(slots=True, eq=False)
class _Tally:
    """What the matches of one rule have shown so far."""

    matches: int = 0
    floats: int = 0
    exact: int = 0
    degree: int = 0
    ulps: float = 0.0
    real: bool = True
    dtypes: dict[str, None] = field(default_factory=dict)
    variants: set[int] = field(default_factory=set)
    algebras: dict[str, None] = field(default_factory=dict)
    why: dict[str, None] = field(default_factory=dict)
    notes: dict[str, None] = field(default_factory=dict)
    unlowered: str = ""
    tries: int = 0
    proofs: list[Proof] = field(default_factory=list)
    faults: dict[str, None] = field(default_factory=dict)  # of the engine's own loop nests

    def add(self, index: int, found: Instance, verdict: Verdict | None) -> None:
        self.matches += 1
        self.variants.add(index)
        self.dtypes[found.candidate.main] = None
        if verdict is None:
            return
        self.floats += 1
        self.exact += bool(verdict.exact)
        self.degree = max(self.degree, verdict.degree)
        self.ulps = max(self.ulps, verdict.ulps)
        if verdict.exact:
            self.algebras[verdict.algebra] = None
        elif verdict.why:
            self.why[verdict.why] = None
        for note in verdict.notes:
            self.notes[note] = None


def verify_rule(
    rules: RuleSet, rule: CoreRule, options: Options = Options(), known: Callable[[], Witnesses] | None = None
) -> RuleReport:
    """Verifies one rule or composite; `known` gives the matches of the file's own tests, which else are made anew."""
    begun = time.perf_counter()
    known = known or cache(lambda: witnesses(rules))
    plans = Plans(rule, numbers_in(rules, rule), rules.meanings, witnesses=known)
    tally = _Tally()
    failure: Failure | None = None
    order = list(range(len(rule.variants)))
    if options.database:
        failure = kept(plans, examine(options), _key(rule), options.database)
    count = max(options.examples, min(2 * len(order), options.examples * 3 // 2))
    for k in range(count if failure is None else 0):
        index = order[k * max(1, len(order) // count) % len(order)] if len(order) > count else order[k % len(order)]
        failure = _attempt(plans, index, ("verify", options.seed, rule.name, k), options, tally)
        if failure is not None:
            break
    if failure is None and tally.matches == 0 and options.examples:  # a narrow one: fewer matches, more patience
        plans.attempts = PATIENT
        for k in range(min(len(order), 6) + 6):
            failure = failure or _attempt(plans, order[k % len(order)], ("patient", options.seed, k), options, tally)
    shown: Counterexample | None = None
    if failure is not None:
        if options.shrink:
            failure = smallest(plans, failure, examine(options), options.seed, _key(rule), options.database)
        shown = counterexample(rules, rule, failure, options.seed)
    protections = guards.protections(rules, plans, options.seed) if options.protections and failure is None else ()
    report = _report(rule, tally, shown, options, time.perf_counter() - begun, protections)
    if report.status == "unmatched" and unsatisfiable(rules, rule):
        return replace(report, status="unsatisfiable")
    return report


def _key(rule: CoreRule) -> bytes:
    return f"rewrite_engine.verify {Path(rule.span.file).name} {rule.name}".encode()


def _attempt(plans: Plans, index: int, seed: object, options: Options, tally: _Tally) -> Failure | None:
    tally.tries += 1
    try:
        found = instance.draw(plans, index, Seeded(seed))
    except Invalid as invalid:
        tally.matches += 1
        return Failure(index, seed, None, Difference("shapes", str(invalid)), invalid)
    if found is None:
        return None
    try:
        difference, verdict = examine(options)(found, tally)
    except Invalid as invalid:
        return Failure(index, seed, None, Difference("shapes", str(invalid)), invalid)
    if difference is None and verdict is not None and options.tiers >= 4 and len(tally.proofs) < MOST_PROOFS:
        proof = prove(found.sides, found.plan, found.seed)
        tally.proofs.append(proof)
        if proof.status == "apart":  # in real numbers: what floats do with these values decides
            difference = rejudge(found.sides, found.plan)(proof.drawn)
    tally.add(index, found, verdict)
    return Failure(index, seed, found, difference) if difference is not None else None


def examine(options: Options) -> Callable[..., tuple[Difference | None, Verdict | None]]:
    """A function that judges an instance: the difference where there is one, and the verdict where one was reached."""

    def judged(found: Instance, tally: _Tally | None = None) -> tuple[Difference | None, Verdict | None]:
        if options.tiers < 2:
            return None, None
        try:
            verdict = judge(found.sides, found.plan, found.seed, options.tiers)
        except Fault as fault:
            if tally is not None:
                tally.faults[str(fault)] = None
            return None, None
        except NoProgram as missing:
            if tally is not None:
                tally.unlowered = str(missing)
            return None, None
        return verdict.difference, verdict

    return judged


def _report(
    rule: CoreRule, tally: _Tally, shown: Counterexample | None, options: Options, seconds: float, protections: object
) -> RuleReport:
    tier = min(options.tiers, 3) if tally.floats else min(options.tiers, 1)
    status = "verified" if tally.floats or options.tiers == 1 else "shapes"
    if tally.matches == 0 and shown is None:
        status, tier = "unmatched", 0
    if shown is not None:
        status = "refuted"
    exact, error = "", None
    if tally.floats and options.tiers >= 2:
        if tally.exact == tally.floats:
            error = 2 * tally.degree / PRIME
            exact = (
                f"equal in exact algebra (error < {error:.0e})"
                if "field" in tally.algebras
                else "equal in exact algebra"
            )
        elif tally.exact:
            exact = (
                f"equal in exact algebra for {tally.exact} of {tally.floats}: {next(iter(tally.why), 'not decided')}"
            )
        elif tally.why:
            exact = f"not decided in exact algebra: {next(iter(tally.why))}"
    notes = [*tally.notes]
    if tally.unlowered and not tally.floats:
        notes.append(tally.unlowered)
    notes += tally.faults
    shapes = list(dict.fromkeys(proof.shapes for proof in tally.proofs if proof.status == "proved"))
    if shapes:
        tier = 4
    notes += dict.fromkeys(f"not proved by Z3: {proof.why}" for proof in tally.proofs if proof.status == "open")
    if any(proof.status == "apart" for proof in tally.proofs) and shown is None:
        notes.append("Z3 tells the sides apart in real numbers, floats do not")
    return RuleReport(
        rule.name, rule.kind, rule.label, rule.span, status, tier, tally.matches, len(tally.variants),
        len(rule.variants), tuple(tally.dtypes), exact, error, tally.ulps, seconds, tuple(notes), shown,
        protections, tally.tries, tuple(shapes),  # type: ignore[arg-type]
    )  # fmt: skip


__all__ = ["EXAMPLES", "Options", "verify", "verify_file", "verify_rule"]
