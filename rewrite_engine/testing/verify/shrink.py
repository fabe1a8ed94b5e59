"""From a failure to the smallest one: Hypothesis shrinks the choices, then the values are made simple one by one.

Failures are kept in Hypothesis' example database under the rule's name, so that the next run begins with them.
"""

from __future__ import annotations

import contextlib
import json
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from rewrite_engine.loops.dtypes import is_float
from rewrite_engine.testing.verify import instance
from rewrite_engine.testing.verify.draws import Drawn, Recorded, Source
from rewrite_engine.testing.verify.instance import Instance, Plans
from rewrite_engine.testing.verify.judge import Difference, rejudge
from rewrite_engine.testing.verify.sides import Invalid, NoProgram

MOST_RUNS = 250
"""Matches that are drawn while shrinking."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Failure:
    """A match for which the sides differ; `invalid` where what the rule builds is no graph, and `found` None."""

    index: int
    seed: object
    found: Instance | None
    difference: Difference
    invalid: Invalid | None = None
    choices: tuple[int, ...] = ()

    def __repr__(self) -> str:
        return f"Failure({self.difference.message})"

    def _repr_pretty_(self, printer: Any, _: bool) -> None:
        """What Hypothesis prints: by itself it would go through all fields, down to the rule file."""
        printer.text(repr(self))


_PLAIN = ("float32", "float64", "float16", "int32", "int64")


class _Enough(BaseException):
    """Ends the search; nothing of Hypothesis may catch it."""


Examine = Callable[[Instance], tuple[Difference | None, object]]


def smallest(plans: Plans, failure: Failure, examine: Examine, seed: int, key: bytes, database: str | None) -> Failure:
    """The smallest failure of the same variant that was met while shrinking, with simple values; it is kept."""
    best = failure
    for met in _search(plans, failure.index, examine, seed):
        if _size(met) < _size(best):
            best = met
    if database and best.choices:
        _database(database).save(key, json.dumps([best.index, *best.choices]).encode())
    return _simple(best)


def kept(plans: Plans, examine: Examine, key: bytes, database: str) -> Failure | None:
    """A failure that an earlier run has kept and that still is one; those that no longer are one are forgotten."""
    held = _database(database)
    for text in sorted(held.fetch(key)):
        try:
            index, *choices = [int(n) for n in json.loads(text)]
            known = 0 <= index < len(plans.rule.variants)
            found = _judged(plans, index, Recorded(choices), examine, 0) if known else None
        except (ValueError, TypeError):
            found = None
        if found is not None:
            return replace(found, choices=tuple(choices))
        held.delete(key, text)
    return None


def _database(folder: str) -> Any:
    from hypothesis.database import DirectoryBasedExampleDatabase

    return DirectoryBasedExampleDatabase(folder)


def _judged(plans: Plans, index: int, source: Source, examine: Examine, seed: object) -> Failure | None:
    """The failure that these choices give, if they give one."""
    try:
        found = instance.draw(plans, index, source)
        if found is None:
            return None
        difference, _ = examine(found)
    except Invalid as invalid:
        return Failure(index, seed, None, Difference("shapes", str(invalid)), invalid)
    return None if difference is None else Failure(index, seed, found, difference)


def _search(plans: Plans, index: int, examine: Examine, seed: int) -> list[Failure]:
    import hypothesis
    from hypothesis import strategies as st

    met: list[Failure] = []
    runs = 0

    @st.composite
    def failures(draw: Any) -> Failure | None:
        nonlocal runs
        runs += 1
        if runs > MOST_RUNS:
            raise _Enough
        source = Drawn(draw)
        found = _judged(plans, index, source, examine, seed)
        return None if found is None else replace(found, choices=tuple(source.choices))

    def refuted(drawn: Failure | None) -> bool:
        if drawn is not None:
            met.append(drawn)
        return drawn is not None

    settings = hypothesis.settings(
        max_examples=MOST_RUNS // 2,
        deadline=None,
        database=None,
        suppress_health_check=list(hypothesis.HealthCheck),
        phases=[hypothesis.Phase.generate, hypothesis.Phase.shrink],
        verbosity=hypothesis.Verbosity.quiet,
        print_blob=False,
    )
    errors = hypothesis.errors
    with contextlib.suppress(_Enough, errors.NoSuchExample, errors.Flaky, errors.Unsatisfiable):
        hypothesis.find(failures(), refuted, settings=settings, random=random.Random(seed))
    return met


def _size(failure: Failure) -> tuple[int, ...]:
    """Fewer elements first, then fewer unknowns, fewer and smaller sizes, plain dtypes."""
    found = failure.found
    if failure.invalid is not None:
        shapes = [kind.shape or () for kind in failure.invalid.left.inputs.values()]
        sizes = [int(n) for shape in shapes for n in shape]  # type: ignore[arg-type]
        return (0, 0, 0, sum(sizes), len(sizes))
    assert found is not None
    c = found.candidate
    elements = [int(np.prod([int(n) for n in kind.shape or ()])) for kind in c.types.values()]  # type: ignore[arg-type]
    empty = sum(1 for n in elements if n == 0)
    dtype = _PLAIN.index(c.main) if c.main in _PLAIN else len(_PLAIN)
    unknown, axes = len(found.symbols) + len(found.hidden), sum(len(kind.shape or ()) for kind in c.types.values())
    return (empty, unknown, dtype, sum(elements), axes)


# ---------------------------------------------------------------- values


def _simple(failure: Failure) -> Failure:
    """The same failure with as many inputs as possible zero, one, or a small whole number."""
    if failure.found is None or not failure.difference.drawn:
        return failure
    found, drawn, best = failure.found, dict(failure.difference.drawn), failure.difference

    differ = rejudge(found.sides, found.plan)

    def holds(candidate: Mapping[str, np.ndarray[Any, Any]]) -> Difference | None:
        try:
            return differ(candidate)
        except (NoProgram, ArithmeticError, ValueError):
            return None

    tries = 0
    for name, array in list(drawn.items()):
        for number in (0, 1):
            after = holds({**drawn, name: np.full_like(array, number)})
            if after is not None:
                drawn[name], best = np.full_like(array, number), after
                break
        else:
            if is_float(array.dtype.name):
                with np.errstate(all="ignore"):
                    whole = np.where(np.isfinite(array.astype(np.float64)), np.round(array.astype(np.float64)), array)
                    rounded = np.asarray(whole).astype(array.dtype)
                after = holds({**drawn, name: rounded})
                if after is not None:
                    drawn[name], best = rounded, after
            for at in range(min(array.size, 16)):
                for number in (0, 1, 2):
                    if tries > 80:
                        break
                    tries += 1
                    changed = np.array(drawn[name])
                    if changed.reshape(-1)[at] == number:
                        break
                    changed.reshape(-1)[at] = number
                    after = holds({**drawn, name: changed})
                    if after is not None:
                        drawn[name], best = changed, after
                        break
    return replace(failure, difference=best)
