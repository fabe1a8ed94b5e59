"""What an explanation holds: per operator the kernels that run it and a verdict per other target, and the obstacles."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from rewrite_engine.diagnostics import Span
from rewrite_engine.placement.explain_cost import Dearer
from rewrite_engine.placement.explain_miss import Miss
from rewrite_engine.placement.place import Placement


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

    `status`: "legal" (it could: `rule` says how, by a kernel of `kernel` ps or pJ), "dearer" (the same, where `dearer`
    says what it would cost in all; for objectives that are sums), "impossible" (it could, but then nothing brings its
    values there and back), "pinned" (elsewhere, to `rule`), "refused" (a clause of `miss` is false, or not known to be
    true), "no match" (the nearest capability does not fit), or "unsupported" (no capability names the operator).
    """

    target: str
    status: str
    rule: str = ""
    span: Span | None = None
    miss: Miss | None = None
    kernel: int | None = None
    dearer: Dearer | None = None


@dataclass(frozen=True, slots=True)
class Story:
    """An operator of the model, by its first output. Without `runs`, rewriting has left nothing of it to compute.

    More than one run: it is computed more than once, as where a kernel keeps a value to itself that others read too.
    """

    name: str
    op: str
    runs: tuple[Runs, ...]
    verdicts: tuple[Verdict, ...]
    rewrites: tuple[str, ...] = ()  # without `runs`: the rules that rewrite it


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
    """Every operator's story in the model's order, what holds targets back, and for one operator all candidates.

    `unplaced` says why there is no placement; then nothing costs anything. `sources` are the rule files' texts by path.
    """

    placement: Placement | None
    stories: tuple[Story, ...]
    obstacles: tuple[Obstacle, ...]
    sources: Mapping[str, str]
    unplaced: str = ""
    node: Story | None = None
    candidates: tuple[Candidate, ...] = ()
    name: str = "model"

    def __str__(self) -> str:
        from rewrite_engine.placement.explain_text import text_of

        return text_of(self)

    def groups(self) -> list[tuple[Story, ...]]:
        """Stories that are alike but for numbers: the same operator, kernels and verdicts; the most expensive first."""
        found: dict[tuple[object, ...], list[Story]] = defaultdict(list)
        for story in self.stories:
            found[_kind(story)].append(story)
        return sorted(map(tuple, found.values()), key=lambda group: -sum(_cost(story) for story in group))


def _kind(story: Story) -> tuple[object, ...]:
    runs = tuple((run.target, run.rule, run.rewrites) for run in story.runs)
    legal = ("dearer", "impossible")  # worked out for the first of a group only
    verdicts = tuple(
        (v.target, "legal" if v.status in legal else v.status, v.rule, v.miss and (v.miss.kind, v.miss.span))
        for v in story.verdicts
    )
    return (story.op, runs, verdicts, story.rewrites)


def _cost(story: Story) -> int:
    return sum(run.cost for run in story.runs)
