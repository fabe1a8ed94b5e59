"""Positions, problems, caret printing and did-you-mean.

Every stage reports what is wrong as a `Problem` with a `Span`; whatever reaches a user is a `RewriteError`: one clear
message that says where, what was expected, what was found and the next step.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, order=True)
class Span:
    """A stretch of source text; lines and columns count from 1, `end_column` is one past the last character."""

    file: str
    line: int
    column: int
    end_line: int
    end_column: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"

    def to(self, other: Span) -> Span:
        """The stretch from the start of this span to the end of `other`."""
        return Span(self.file, self.line, self.column, other.end_line, other.end_column)


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing wrong (or, as a warning, likely wrong) in a rule file."""

    span: Span
    message: str
    hint: str | None = None
    severity: str = "error"  # "error" | "warning"
    notes: tuple[tuple[Span, str], ...] = ()


class RewriteError(Exception):
    """Bad input or usage: one message for the user, never a traceback. `status` is the exit status of the command."""

    status = 2


class LimitReached(RewriteError):
    """A limit of time or size stopped the work before there was any answer."""

    status = 3


class PatError(RewriteError):
    """A rule file that does not hold: carries every problem found, errors first in source order."""

    def __init__(self, problems: Sequence[Problem], sources: Mapping[str, str]) -> None:
        self.problems = tuple(problems)
        super().__init__(render_all(self.problems, sources))


def suggest(word: str, candidates: Iterable[str]) -> str | None:
    """The candidate most like `word`, or None when nothing is close. Ties go to the alphabetically first."""
    names = sorted(set(candidates))
    folded = {name.lower(): name for name in reversed(names)}
    if word.lower() in folded and folded[word.lower()] != word:
        return folded[word.lower()]
    close = difflib.get_close_matches(word, names, n=1, cutoff=0.7)
    return close[0] if close else None


def did_you_mean(word: str, candidates: Iterable[str]) -> str | None:
    """The hint "did you mean `x`?", or None."""
    best = suggest(word, candidates)
    return f"did you mean `{best}`?" if best else None


def render(problem: Problem, sources: Mapping[str, str]) -> str:
    """The problem as text: position and message, then the line with a caret and the hint, then notes."""
    text = [f"{problem.span}: {problem.severity}: {problem.message}", *_excerpt(problem.span, sources, problem.hint)]
    for span, message in problem.notes:
        text += [f"{span}: note: {message}", *_excerpt(span, sources, None)]
    return "\n".join(text)


def render_all(problems: Iterable[Problem], sources: Mapping[str, str]) -> str:
    """All problems, in source order, separated by newlines."""
    ordered = sorted(problems, key=lambda p: (p.span, p.severity, p.message))
    return "\n".join(render(p, sources) for p in ordered)


def _excerpt(span: Span, sources: Mapping[str, str], hint: str | None) -> list[str]:
    lines = sources.get(span.file, "").splitlines()
    if not 1 <= span.line <= len(lines):
        return [f"  {hint}"] if hint else []
    line = lines[span.line - 1].replace("\t", " ")
    number = str(span.line)
    width = (span.end_column if span.end_line == span.line else len(line) + 1) - span.column
    carets = " " * (span.column - 1) + "^" * max(1, min(width, len(line) + 1 - span.column))
    return [f"{number} | {line}".rstrip(), f"{' ' * len(number)} | {carets}" + (f" {hint}" if hint else "")]
