"""An explanation as text: what the placement costs, each kind of operator with its verdicts, the obstacles.

In: an `Explanation`. Out: lines for people; places in rule files as `file:line:column`, obstacles with the line itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from rewrite_engine.diagnostics import Problem, Span, render
from rewrite_engine.placement.explain import Candidate, Explanation, Obstacle, Runs, Story, Verdict
from rewrite_engine.placement.explain_cost import Copied, Dearer
from rewrite_engine.placement.explain_miss import Miss

NAMED = 3  # operators of a group that are named
OBSTACLES = 12  # that are shown with their line
CANDIDATES = 12
COPIES = 3
MOVED = 3


def text_of(explanation: Explanation) -> str:
    """Everything that the explanation holds, as `rewrite-engine explain` prints it."""
    lines = [*_placement(explanation), ""]
    if explanation.node is not None:
        lines += [*_in_depth(explanation, explanation.node), ""]
        lines += _candidates(explanation)
    else:
        lines += ["operators, the most expensive kinds first"]
        for group in explanation.groups():
            lines += _group(group)
        lines += ["", *_obstacles(explanation)]
    return "\n".join(lines).rstrip()


def time_of(picoseconds: int, sign: bool = False) -> str:
    """A time as people read it."""
    return f"{picoseconds / 10**6:{'+' if sign else ''},.3f} us"


def _placement(explanation: Explanation) -> Iterator[str]:
    placement, count = explanation.placement, len(explanation.stories)
    if placement is None:
        yield f"operators  {count}"
        yield f"placement  none: {explanation.unplaced}"
        yield "           what follows is what targets can run, without costs"
        return
    costs = placement.costs
    yield f"model      {placement.graph.name}: {count} operators"
    yield (
        f"placement  {placement.status} ({placement.strategy}, {placement.objective}): {time_of(costs.total)}: "
        f"kernels {time_of(costs.kernels)}, copies {time_of(costs.copies)}, launches {time_of(costs.launches)}"
    )
    if placement.saturation != "complete":
        yield f"           the search for rewrites stopped at its limit ({placement.saturation})"


def quoted(names: Sequence[str], most: int) -> str:
    """Names in quotes, the first ones of many."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(f"`{name}`" for name in names[:most]) + more


# ---------------------------------------------------------------- kinds of operators


def _group(group: Sequence[Story]) -> Iterator[str]:
    first = group[0]
    yield f"{len(group)} {first.op}: {quoted([story.name for story in group], NAMED)}"
    kernels = {run.kernel: run.cost for story in group for run in story.runs}
    for number, run in enumerate(first.runs):
        cost = f", {time_of(sum(kernels.values()))} in all" if number == 0 else ""
        yield f"  {run.target}: runs there{_by(run.rule, run.span, run.target)}{_through(run)}{cost}"
    if len(first.runs) > 1:
        yield f"  computed {len(first.runs)} times: a kernel keeps its result to itself, and others read it too"
    if not first.runs and not first.verdicts:
        yield f"  {_nowhere(first)}"
    if any(verdict.dearer is not None for verdict in first.verdicts) and len(group) > 1:
        yield f"  of `{first.name}`:"
    for verdict in first.verdicts:
        yield f"  {_verdict(verdict)}"


def _nowhere(story: Story) -> str:
    rules = f" ({', '.join(story.rewrites)})" if story.rewrites else ""
    return f"nowhere: rewriting has left nothing of it to compute{rules}"


def _by(rule: str, span: Span | None, target: str) -> str:
    return "" if rule == target else f" by {rule}" + (f" ({span})" if span is not None else "")


def _through(run: Runs) -> str:
    return f" after {', '.join(run.rewrites)}" if run.rewrites else ""


def _verdict(verdict: Verdict) -> str:
    """One line: what is in the way, where the rule file says so."""
    target, miss = verdict.target, verdict.miss
    by = _by(verdict.rule, verdict.span, target)
    match verdict.status:
        case "legal":
            cost = f", its kernel {time_of(verdict.kernel)}" if verdict.kernel is not None else ""
            return f"{target}: could run there{by}{cost}"
        case "dearer":
            assert verdict.dearer is not None
            return f"{target}: could run there{by}, {_total(verdict.dearer)}: {_parts(verdict.dearer)}"
        case "impossible":
            return f"{target}: could run there{by}, but nothing brings its values there and back; give links"
        case "pinned":
            return f"{target}: pinned to {verdict.rule}"
        case "unsupported":
            return f"{target}: no capability names it"
    assert miss is not None
    return f"{target}: {verdict.status}, {_near(miss)} ({miss.span}): {miss.text}{_hint(miss)}"


def _near(miss: Miss) -> str:
    fits = f", {miss.fitting} of {miss.operators} operators fit" if miss.operators > 1 else ""
    return f"nearest is {miss.rule}{fits}"


def _hint(miss: Miss) -> str:
    return f"; {miss.hint}" if miss.hint else ""


# ---------------------------------------------------------------- legal but dearer


def _total(dearer: Dearer) -> str:
    about = "" if dearer.exact else "about "
    if dearer.total == 0:
        return "at the same cost"
    return f"{about}{time_of(abs(dearer.total))} {'dearer' if dearer.total > 0 else 'cheaper'}"


def _parts(dearer: Dearer) -> str:
    """Because of what: the parts of the difference, the operator's own kernels, and whole copies."""
    others = dearer.kernels - dearer.kernel
    parts = [("its kernels", dearer.kernel), ("other kernels", others), ("copies", dearer.copies)]
    parts.append(("launches", dearer.launches))
    return ", ".join(f"{name} {time_of(cost, sign=True)}" for name, cost in parts if cost) or "all parts alike"


def _moves(dearer: Dearer, own: str) -> Iterator[str]:
    for word, copies in (("copied as well", dearer.more), ("copied no more", dearer.fewer)):
        if copies:
            rest = f" and {len(copies) - COPIES} more" if len(copies) > COPIES else ""
            yield f"{word}: {', '.join(map(_copied, copies[:COPIES]))}{rest}"
    others = [(name, old, new) for name, old, new in dearer.moved if name != own]
    if others:
        rest = f" and {len(others) - MOVED} more" if len(others) > MOVED else ""
        yield f"moves with it: {', '.join(f'`{n}` from {old} to {new}' for n, old, new in others[:MOVED])}{rest}"


def _copied(copied: Copied) -> str:
    return f"`{copied.value}` {copied.source} -> {copied.destination} ({time_of(copied.cost)})"


# ---------------------------------------------------------------- one operator


def _in_depth(explanation: Explanation, story: Story) -> Iterator[str]:
    yield f"{story.op} `{story.name}`"
    for run in story.runs:
        yield (
            f"  {run.target}: runs there{_by(run.rule, run.span, run.target)}{_through(run)}, kernel {run.kernel}: "
            f"{time_of(run.cost)} ({run.cost_source})"
        )
        if run.with_:
            yield f"    together with {quoted(run.with_, 2 * NAMED)}"
    if len(story.runs) > 1:
        yield f"  computed {len(story.runs)} times: a kernel keeps its result to itself, and others read it too"
    if not story.runs and not story.verdicts:
        yield f"  {_nowhere(story)}"
    for verdict in story.verdicts:
        if verdict.miss is not None:
            yield f"  {verdict.target}: {verdict.status}, {_near(verdict.miss)}"
            yield from _indented(_excerpt(verdict.miss, explanation.sources))
            continue
        yield f"  {_verdict(verdict)}"
        if verdict.dearer is not None:
            yield from (f"    {line}" for line in _moves(verdict.dearer, story.name))


def _indented(text: str) -> Iterator[str]:
    return (f"    {line}" for line in text.splitlines())


def _excerpt(miss: Miss, sources: Mapping[str, str]) -> str:
    """The clause with a caret, as problems of rule files are shown; `value` tells which operator it is about."""
    return render(Problem(miss.span, miss.text, miss.hint or None, severity="note"), sources)


def _candidates(explanation: Explanation) -> Iterator[str]:
    if not explanation.candidates:
        yield "no rule, pattern or capability names it"
        return
    matching = [candidate for candidate in explanation.candidates if candidate.matches]
    missed = [candidate for candidate in explanation.candidates if not candidate.matches]
    if matching:
        yield "matches of"
        yield from (f"  {_title(c)}" + _elsewhere(c) for c in matching)
    if missed:
        yield "no match of, the nearest first"
    groups = list(_alike(missed))
    for group in groups[:CANDIDATES]:
        yield from (f"  {_title(candidate)}{_fitting(candidate.miss)}" for candidate in group)
        yield from _indented(_excerpt(group[0].miss, explanation.sources))
    if len(groups) > CANDIDATES:
        yield f"  and {sum(map(len, groups[CANDIDATES:]))} more"


def _alike(candidates: Sequence[Candidate]) -> Iterator[list[Candidate]]:
    """Candidates that miss at the same clause in the same way, as composites do that use one pattern."""
    groups: dict[tuple[object, ...], list[Candidate]] = {}
    for candidate in candidates:
        miss = candidate.miss
        groups.setdefault((miss.span, miss.text, miss.hint), []).append(candidate)
    yield from groups.values()


def _fitting(miss: Miss) -> str:
    return f": {miss.fitting} of {miss.operators} operators fit" if miss.operators > 1 else ""


def _title(candidate: Candidate) -> str:
    return f"{candidate.kind} {candidate.rule} ({candidate.span})"


def _elsewhere(candidate: Candidate) -> str:
    return "" if candidate.miss.text == "it matches" else f": {candidate.miss.text}"


# ---------------------------------------------------------------- obstacles


def _obstacles(explanation: Explanation) -> Iterator[str]:
    obstacles = explanation.obstacles
    if not obstacles:
        yield "obstacles  none: every operator could run on every target"
        return
    yield "obstacles, the most expensive first"
    for number, obstacle in enumerate(obstacles[:OBSTACLES], 1):
        yield from _obstacle(number, obstacle, explanation)
    for number, obstacle in enumerate(obstacles[OBSTACLES:], OBSTACLES + 1):
        yield f"{_heading(number, obstacle, explanation)}: {_verdict(obstacle.verdict)}"


def _heading(number: int, obstacle: Obstacle, explanation: Explanation) -> str:
    cost = f", {time_of(obstacle.cost)} where they run now" if explanation.placement is not None else ""
    return f"{number}. {obstacle.target}: {len(obstacle.names)} of {obstacle.count} {obstacle.op}{cost}"


def _obstacle(number: int, obstacle: Obstacle, explanation: Explanation) -> Iterator[str]:
    verdict = obstacle.verdict
    yield _heading(number, obstacle, explanation)
    yield f"   {quoted(obstacle.names, NAMED)}"
    if verdict.miss is None:
        yield f"   no capability of {obstacle.target} names {obstacle.op}"
        return
    yield f"   {verdict.status}, {_near(verdict.miss)}"
    yield from (f"   {line}" for line in _excerpt(verdict.miss, explanation.sources).splitlines())
