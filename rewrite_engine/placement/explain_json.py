"""Matches and explanations as dictionaries: what `match --json` and `explain --json` print. Costs are in `unit`."""

from __future__ import annotations

from rewrite_engine.diagnostics import Span
from rewrite_engine.language.evaluate import plain_value
from rewrite_engine.placement.explain_cost import Copied, Dearer
from rewrite_engine.placement.explain_miss import Miss
from rewrite_engine.placement.explain_story import Candidate, Explanation, Obstacle, Runs, Story, Verdict
from rewrite_engine.placement.match import Matched, Matches, Unmatched

EXPLAIN, MATCH = "rewrite_engine/explain/1", "rewrite_engine/match/1"


def explain_json(explanation: Explanation) -> dict[str, object]:
    """The explanation; with a node asked for, that node's story and its candidates instead of all operators."""
    placement = explanation.placement
    found: dict[str, object] = {
        "schema": EXPLAIN,
        "unit": "ps" if placement is None else placement.unit,
        "model": explanation.name,
        "unplaced": explanation.unplaced,
        "placement": None
        if placement is None
        else {
            "status": placement.status,
            "strategy": placement.strategy,
            "objective": placement.objective,
            "saturation": placement.saturation,
            "cost": {
                "total": placement.costs.total,
                "kernels": placement.costs.kernels,
                "copies": placement.costs.copies,
                "launches": placement.costs.launches,
            },
        },
    }
    if explanation.node is not None:
        found["operator"] = _story(explanation.node)
        found["candidates"] = [_candidate(candidate) for candidate in explanation.candidates]
    else:
        found["operators"] = [_story(story) for story in explanation.stories]
        found["obstacles"] = [_obstacle(obstacle) for obstacle in explanation.obstacles]
    return found


def match_json(matches: Matches) -> dict[str, object]:
    """All matches, and the rules without any."""
    return {
        "schema": MATCH,
        "saturation": matches.saturation,
        "matches": [_matched(found) for found in matches.matches],
        "unmatched": [_unmatched(unmatched) for unmatched in matches.unmatched],
        "left_out": list(matches.left_out),
    }


def _place(span: Span | None) -> dict[str, object]:
    return {} if span is None else {"file": span.file, "line": span.line, "column": span.column}


def _story(story: Story) -> dict[str, object]:
    found: dict[str, object] = {
        "name": story.name,
        "op": story.op,
        "runs": [_runs(run) for run in story.runs],
        "elsewhere": [_verdict(verdict) for verdict in story.verdicts],
    }
    return found | ({"rewritten_by": list(story.rewrites)} if story.rewrites else {})


def _runs(run: Runs) -> dict[str, object]:
    return {
        "kernel": run.kernel,
        "target": run.target,
        "device": run.device,
        "region": run.region,
        "rule": run.rule,
        **_place(run.span),
        "cost": run.cost,
        "cost_source": run.cost_source,
        "with": list(run.with_),
        "rewrites": list(run.rewrites),
    }


def _verdict(verdict: Verdict) -> dict[str, object]:
    found: dict[str, object] = {"target": verdict.target, "status": verdict.status}
    if verdict.rule:
        found |= {"rule": verdict.rule, **_place(verdict.span)}
    if verdict.kernel is not None:
        found["kernel"] = verdict.kernel
    if verdict.miss is not None:
        found["miss"] = _miss(verdict.miss)
    if verdict.dearer is not None:
        found["dearer"] = _dearer(verdict.dearer)
    return found


def _miss(miss: Miss) -> dict[str, object]:
    return {
        "rule": miss.rule,
        "kind": miss.kind,
        **_place(miss.span),
        "message": miss.text,
        "hint": miss.hint,
        "node": miss.value,
        "fitting": miss.fitting,
        "operators": miss.operators,
    }


def _dearer(dearer: Dearer) -> dict[str, object]:
    return {
        "total": dearer.total,
        "kernels": dearer.kernels,
        "copies": dearer.copies,
        "launches": dearer.launches,
        "own_kernels": dearer.kernel,
        "exact": dearer.exact,
        "moved": [{"name": name, "from": old, "to": new} for name, old, new in dearer.moved],
        "more_copies": [_copied(copied) for copied in dearer.more],
        "fewer_copies": [_copied(copied) for copied in dearer.fewer],
    }


def _copied(copied: Copied) -> dict[str, object]:
    return {"value": copied.value, "from": copied.source, "to": copied.destination, "cost": copied.cost}


def _obstacle(obstacle: Obstacle) -> dict[str, object]:
    return {
        "target": obstacle.target,
        "op": obstacle.op,
        "nodes": list(obstacle.names),
        "count": obstacle.count,
        "cost": obstacle.cost,
        "verdict": _verdict(obstacle.verdict),
    }


def _candidate(candidate: Candidate) -> dict[str, object]:
    return {
        "rule": candidate.rule,
        "kind": candidate.kind,
        **_place(candidate.span),
        "matches": candidate.matches,
        "miss": _miss(candidate.miss),
    }


def _matched(found: Matched) -> dict[str, object]:
    return {
        "rule": found.rule,
        "kind": found.kind,
        "target": found.target,
        **_place(found.span),
        "nodes": [
            {"op": node.op, "name": node.name, "attributes": {k: _json(v) for k, v in node.attributes.items()}}
            for node in found.nodes
        ],
        "captures": [
            {"name": c.name, "value": c.value, "type": c.type, "constant": c.constant, "elements": _json(c.elements)}
            for c in found.captures
        ],
    }


def _unmatched(unmatched: Unmatched) -> dict[str, object]:
    return {
        "rule": unmatched.rule,
        "kind": unmatched.kind,
        "target": unmatched.target,
        **_place(unmatched.span),
        "wanted": list(unmatched.wanted),
        "miss": None if unmatched.miss is None else _miss(unmatched.miss),
    }


def _json(value: object) -> object:
    """A value as JSON holds it: what has no such form (graphs, tensors, NaN) as its text."""
    found = plain_value(value)
    if isinstance(found, (list, tuple)):
        return [_json(item) for item in found]
    if isinstance(found, float):
        return found if abs(found) < float("inf") else str(found)
    return found if found is None or isinstance(found, (bool, int, str)) else str(found)
