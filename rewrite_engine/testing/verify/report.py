"""What verification found: a report per rule, and the lines that are printed of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from rewrite_engine.diagnostics import Span

TIERS = ("", "shapes and dtypes", "exact algebra", "floats", "proved for some shapes")


@dataclass(frozen=True, slots=True)
class Counterexample:
    """Where a rule is wrong: the reason, a test block that fails while it is, and Python that shows both sides."""

    reason: str
    test: str
    python: str
    left: str
    right: str


@dataclass(frozen=True, slots=True)
class Protection:
    """A clause of a guard, and what happens just outside of it."""

    span: Span
    clause: str
    outside: str


@dataclass(frozen=True, slots=True)
class RuleReport:
    """`status` is "verified", "refuted", "shapes" (no loop nest: only shapes and dtypes), "unmatched": nothing was
    found that satisfies the pattern and its guard, which is no proof of anything, or "unsatisfiable": there is nothing.

    `tier` is the highest one that was reached; `matches` were judged, in `variants` of `of_variants`. `error` bounds
    the probability that exact algebra is wrong for a shape; None where it was not decided. `ulps` is the largest
    distance in units in the last place. `tries` are the matches that were looked for; `proved` are the shapes for
    which Z3 proved the sides equal in real arithmetic.
    """

    name: str
    kind: str
    label: str
    span: Span
    status: str
    tier: int
    matches: int
    variants: int
    of_variants: int
    dtypes: tuple[str, ...] = ()
    exact: str = ""
    error: float | None = None
    ulps: float = 0.0
    seconds: float = 0.0
    notes: tuple[str, ...] = ()
    counterexample: Counterexample | None = None
    protections: tuple[Protection, ...] = ()
    tries: int = 0
    proved: tuple[str, ...] = ()

    @property
    def passed(self) -> bool:
        return self.status in ("verified", "shapes", "unmatched")

    def line(self) -> str:
        """One line: the rule, the tier, what was established."""
        if self.status == "refuted":
            assert self.counterexample is not None
            return f"{self.span}: REFUTED: {self.name}: {self.counterexample.reason}"
        if self.status == "unmatched":
            wanted = f"no match was found in {self.tries} tries; a test that fires would show that there is one"
            return f"{self.span}: warning: {self.name}: not verified: {wanted}"
        if self.status == "unsatisfiable":
            return f"{self.span}: UNSATISFIABLE: {self.name}: its guard contradicts itself, so that it never matches"
        found = [f"tier {self.tier} ({TIERS[self.tier]})"]
        if self.exact:
            found.append(self.exact)
        if self.tier >= 3:
            found.append("floats equal" if self.ulps == 0 and self.label == "exact" else f"within {self.ulps:.3g} ulp")
        if self.proved:
            found.append(f"proved in real arithmetic for {' and for '.join(self.proved)}, and no more")
        found.append(f"{self.matches} matches in {', '.join(self.dtypes)}")
        if self.variants < self.of_variants:
            found.append(f"{self.variants} of {self.of_variants} variants")
        return f"{self.span}: verified: {self.name}: {'; '.join(found)}"


@dataclass(frozen=True, slots=True)
class Report:
    """All rules and composites of one rule file, in its order."""

    file: str
    rules: tuple[RuleReport, ...] = field(default_factory=tuple)

    @property
    def passed(self) -> bool:
        return all(rule.passed for rule in self.rules)

    def failed(self) -> Sequence[RuleReport]:
        """Those that were refuted, or that nothing can satisfy."""
        return [rule for rule in self.rules if not rule.passed]
