"""An explanation as text: what the placement costs, each kind of operator with its verdicts, the obstacles.

In: an `Explanation`. Out: lines for people; places in rule files as `file:line:column`, obstacles with the line itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rewrite_engine.diagnostics import Problem, Span, render
from rewrite_engine.machine import HOST
from rewrite_engine.placement.explain_cost import Copied, Dearer
from rewrite_engine.placement.explain_miss import Miss
from rewrite_engine.placement.explain_story import Candidate, Explanation, Obstacle, Runs, Story, Verdict

NAMED = 3  # operators of a group that are named
OBSTACLES = 12  # that are shown with their line
CANDIDATES = 12
CHANGES = 3  # copies, and operators that move, of an alternative


def text_of(explanation: Explanation) -> str:
    """Everything that the explanation holds, as `rewrite-engine explain` prints it."""
    return "\n".join(_Writer(explanation).lines()).rstrip()


def amount(value: int, unit: str, sign: bool = False) -> str:
    """A time ("ps") or an energy ("pJ") as people read it."""
    return f"{value / 10**6:{'+' if sign else ''},.3f} {'us' if unit == 'ps' else 'uJ'}"


def quoted(names: Sequence[str], most: int) -> str:
    """Names in quotes, the first ones of many."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(f"`{name}`" for name in names[:most]) + more


class _Writer:
    def __init__(self, explanation: Explanation) -> None:
        self.explanation = explanation
        self.unit = explanation.placement.unit if explanation.placement is not None else "ps"
        self.numbers = {
            (obstacle.target, name): number
            for number, obstacle in enumerate(explanation.obstacles, 1)
            for name in obstacle.names
        }

    def amount(self, value: int, sign: bool = False) -> str:
        return amount(value, self.unit, sign)

    def lines(self) -> Iterator[str]:
        explanation = self.explanation
        yield from self._placement()
        yield ""
        if explanation.node is not None:
            yield from self._in_depth(explanation.node)
            yield ""
            yield from self._candidates()
            return
        yield "operators, the most expensive kinds first"
        for group in explanation.groups():
            yield from self._group(group)
        yield ""
        yield from self._obstacles()

    def _placement(self) -> Iterator[str]:
        explanation, placement = self.explanation, self.explanation.placement
        count = len(explanation.stories)
        yield f"model      {explanation.name}: {count} operator{'' if count == 1 else 's'}"
        if placement is None:
            yield f"placement  none: {explanation.unplaced}"
            yield "           what follows is what targets can run, without costs"
            return
        costs = placement.costs
        yield (
            f"placement  {placement.status} ({placement.strategy}, {placement.objective}): {self.amount(costs.total)}: "
            f"kernels {self.amount(costs.kernels)}, copies {self.amount(costs.copies)}, "
            f"launches {self.amount(costs.launches)}"
        )
        if placement.saturation != "complete":
            yield f"           the search for rewrites stopped at its limit ({placement.saturation})"

    # ------------------------------------------------------------ kinds of operators

    def _group(self, group: Sequence[Story]) -> Iterator[str]:
        first = group[0]
        yield f"{len(group)} {first.op}: {quoted([story.name for story in group], NAMED)}"
        kernels = {run.kernel: run.cost for story in group for run in story.runs}
        for number, run in enumerate(first.runs):
            cost = f", {self.amount(sum(kernels.values()))} in all" if number == 0 else ""
            yield f"  {run.target}: runs there{_by(run.rule, run.span, run.target)}{_through(run)}{cost}"
        yield from _remarks(first)
        for verdict in first.verdicts:
            obstacle = self.numbers.get((verdict.target, first.name))
            if obstacle is not None and verdict.miss is not None:
                yield f"  {verdict.target}: {verdict.status}, obstacle {obstacle}"
            else:
                of = f" (of `{first.name}`)" if verdict.dearer is not None and len(group) > 1 else ""
                yield f"  {self._verdict(verdict)}{of}"

    def _verdict(self, verdict: Verdict) -> str:
        """One line: what is in the way, where the rule file says so."""
        target, miss, by = verdict.target, verdict.miss, _by(verdict.rule, verdict.span, verdict.target)
        match verdict.status:
            case "legal":
                cost = f", its kernel {self.amount(verdict.kernel)}" if verdict.kernel is not None else ""
                return f"{target}: could run there{by}{cost}"
            case "dearer":
                assert verdict.dearer is not None
                return f"{target}: could run there{by}, {self._dearer(verdict.dearer)}"
            case "impossible":
                return f"{target}: could run there{by}, but nothing brings its values there and back; give links"
            case "pinned":
                return f"{target}: pinned to {verdict.rule}"
            case "unsupported":
                return f"{target}: no capability names it"
        assert miss is not None
        hint = f"; {miss.hint}" if miss.hint else ""
        return f"{target}: {verdict.status}, {_near(miss)} ({miss.span}): {miss.text}{hint}"

    def _dearer(self, dearer: Dearer) -> str:
        """By how much and because of what: the operator's own kernels, others, copies, launches."""
        about = "" if dearer.exact else "about "
        parts = [
            ("its kernels", dearer.kernel), ("other kernels", dearer.kernels - dearer.kernel),
            ("copies", dearer.copies), ("launches", dearer.launches),
        ]  # fmt: skip
        because = ", ".join(f"{name} {self.amount(cost, sign=True)}" for name, cost in parts if cost)
        if dearer.total == 0:
            total = f"{about}at the same cost"
        else:
            total = f"{about}{self.amount(abs(dearer.total))} {'dearer' if dearer.total > 0 else 'cheaper'}"
        return f"{total}: {because}" if because else total

    def _changes(self, dearer: Dearer, own: str) -> Iterator[str]:
        for word, copies in (("copied as well", dearer.more), ("copied no more", dearer.fewer)):
            if copies:
                rest = f" and {len(copies) - CHANGES} more" if len(copies) > CHANGES else ""
                yield f"{word}: {', '.join(map(self._copied, copies[:CHANGES]))}{rest}"
        others = [(name, old, new) for name, old, new in dearer.moved if name != own]
        if others:
            rest = f" and {len(others) - CHANGES} more" if len(others) > CHANGES else ""
            yield f"moves with it: {', '.join(f'`{n}` from {old} to {new}' for n, old, new in others[:CHANGES])}{rest}"

    def _copied(self, copied: Copied) -> str:
        return f"`{copied.value}` {copied.source} -> {copied.destination} ({self.amount(copied.cost)})"

    # ------------------------------------------------------------ one operator

    def _in_depth(self, story: Story) -> Iterator[str]:
        yield f"{story.op} `{story.name}`"
        for run in story.runs:
            how = f"{_by(run.rule, run.span, run.target)}{_through(run)}"
            yield f"  {run.target}: runs there{how}, kernel {run.kernel}: {self.amount(run.cost)} ({run.cost_source})"
            if run.with_:
                yield f"    together with {quoted(run.with_, 2 * NAMED)}"
        yield from _remarks(story)
        for verdict in story.verdicts:
            if verdict.miss is not None:
                yield f"  {verdict.target}: {verdict.status}, {_near(verdict.miss)}"
                yield from _indented(self._excerpt(verdict.miss), 4)
                continue
            yield f"  {self._verdict(verdict)}"
            if verdict.dearer is not None:
                yield from (f"    {line}" for line in self._changes(verdict.dearer, story.name))

    def _excerpt(self, miss: Miss) -> str:
        """The clause with a caret, as problems of rule files are shown."""
        problem = Problem(miss.span, miss.text, miss.hint or None, severity="note")
        return render(problem, self.explanation.sources)

    def _candidates(self) -> Iterator[str]:
        candidates = self.explanation.candidates
        if not candidates:
            yield "no rule, pattern or capability names it"
            return
        matching = [candidate for candidate in candidates if candidate.matches]
        if matching:
            yield "matches of"
            for candidate in matching:
                where = "" if candidate.miss.text == "it matches" else f": {candidate.miss.text}"
                yield f"  {_title(candidate)}{where}"
        groups = list(_alike([candidate for candidate in candidates if not candidate.matches]))
        node = self.explanation.node
        told = {(v.miss.span, v.miss.text) for v in node.verdicts if v.miss is not None} if node is not None else set()
        if groups:
            yield "no match of, the nearest first"
        for group in groups[:CANDIDATES]:
            for candidate in group:
                miss = candidate.miss
                fits = f": {miss.fitting} of {miss.operators} operators fit" if miss.operators > 1 else ""
                yield f"  {_title(candidate)}{fits}"
            if (group[0].miss.span, group[0].miss.text) in told:
                yield "    as above"
            else:
                yield from _indented(self._excerpt(group[0].miss), 4)
        if len(groups) > CANDIDATES:
            yield f"  and {sum(map(len, groups[CANDIDATES:]))} more"

    # ------------------------------------------------------------ obstacles

    def _obstacles(self) -> Iterator[str]:
        obstacles = self.explanation.obstacles
        if not obstacles:
            targets = any(verdict.target != HOST for story in self.explanation.stories for verdict in story.verdicts)
            ran = any(run.target != HOST for story in self.explanation.stories for run in story.runs)
            yield f"obstacles  none: {'whatever runs could run anywhere' if targets or ran else 'there is no target'}"
            return
        yield "obstacles, the most expensive first"
        for number, obstacle in enumerate(obstacles[:OBSTACLES], 1):
            yield self._heading(number, obstacle)
            yield f"   {quoted(obstacle.names, NAMED)}"
            miss = obstacle.verdict.miss
            if miss is None:
                yield f"   no capability of {obstacle.target} names {obstacle.op}"
            else:
                yield f"   {obstacle.verdict.status}, {_near(miss)}"
                yield from _indented(self._excerpt(miss), 3)
        for number, obstacle in enumerate(obstacles[OBSTACLES:], OBSTACLES + 1):
            yield f"{self._heading(number, obstacle)}; {self._verdict(obstacle.verdict)}"

    def _heading(self, number: int, obstacle: Obstacle) -> str:
        placed = self.explanation.placement is not None
        cost = f", {self.amount(obstacle.cost)} where they run now" if placed else ""
        return f"{number}. {obstacle.target}: {len(obstacle.names)} of {obstacle.count} {obstacle.op}{cost}"


def _remarks(story: Story) -> Iterator[str]:
    """What the runs of an operator alone do not say."""
    if len(story.runs) > 1:
        yield f"  computed {len(story.runs)} times: a kernel keeps its result to itself, and others read it too"
    if not story.runs and not story.verdicts:
        rules = f" ({', '.join(story.rewrites)})" if story.rewrites else ""
        yield f"  nowhere: rewriting has left nothing of it to compute{rules}"


def _by(rule: str, span: Span | None, target: str) -> str:
    return "" if rule == target else f" by {rule}" + (f" ({span})" if span is not None else "")


def _through(run: Runs) -> str:
    return f" after {', '.join(run.rewrites)}" if run.rewrites else ""


def _near(miss: Miss) -> str:
    fits = f", {miss.fitting} of {miss.operators} operators fit" if miss.operators > 1 else ""
    return f"nearest is {miss.rule}{fits}"


def _indented(text: str, by: int) -> Iterator[str]:
    return (f"{' ' * by}{line}" for line in text.splitlines())


def _alike(candidates: Sequence[Candidate]) -> Iterator[list[Candidate]]:
    """Candidates that miss at the same clause in the same way, as composites do that use one pattern."""
    groups: dict[tuple[object, ...], list[Candidate]] = {}
    for candidate in candidates:
        miss = candidate.miss
        groups.setdefault((miss.span, miss.text, miss.hint), []).append(candidate)
    yield from groups.values()


def _title(candidate: Candidate) -> str:
    return f"{candidate.kind} {candidate.rule} ({candidate.span})"
