"""Reading rule files: where a name is looked for, includes first, each file once, who sees whom.

In: paths as the user wrote them. Out: the parsed files in loading order, with every problem of reading and parsing.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rewrite_engine.diagnostics import Problem, RewriteError, did_you_mean
from rewrite_engine.language.parsing import parse
from rewrite_engine.language.resync import EVERYTHING
from rewrite_engine.language.syntax import Include, RuleFile

SUBFOLDERS = ("", "targets", "machines", "std")
"""Where in a folder of the pattern path a bare name is looked for."""


@dataclass(slots=True)
class Sources:
    """`files` in loading order; `visible` per file, itself first; `named` are those that the user asked for."""

    files: list[RuleFile] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    includes: dict[str, list[str]] = field(default_factory=dict)
    named: list[str] = field(default_factory=list)
    incomplete: set[str] = field(default_factory=set)
    digests: dict[str, str] = field(default_factory=dict)  # sha256 of each file's bytes
    whole: frozenset[Path] | None = None  # the files that are read with their tests; None: all

    @property
    def texts(self) -> dict[str, str]:
        """The text of each file, for messages."""
        return {file.path: file.source for file in self.files}

    @property
    def visible(self) -> dict[str, tuple[str, ...]]:
        """The files whose declarations each file sees: itself, then what it includes, directly or not."""
        return {file.path: self._reach(file.path) for file in self.files}

    def _reach(self, path: str) -> tuple[str, ...]:
        found: dict[str, None] = {}
        pending = [path]
        while pending:
            here = pending.pop()
            if here not in found:
                found[here] = None
                pending.extend(reversed(self.includes.get(here, [])))
        return tuple(found)

    def blind(self) -> frozenset[str]:
        """The files that may miss names because an include, their own or one further on, could not be read."""
        return frozenset(path for path, seen in self.visible.items() if self.incomplete & set(seen))


@dataclass(slots=True)
class _Open:
    """A file whose includes are being read."""

    file: RuleFile
    identity: Path
    left: Iterator[Include]


def read(paths: Sequence[str | Path], search: Sequence[Path], every_test: bool = True) -> Sources:
    """The files at `paths` and all that they include. `RewriteError` for a named file that cannot be found or read.

    Without `every_test` the tests of files that are only included are passed over.
    """
    result, known = Sources(), dict[Path, str]()
    places = [_named(str(path), search) for path in paths]
    result.whole = None if every_test else frozenset(place.resolve() for place in places)
    for path, place in zip(paths, places, strict=True):
        shown = _display(place, str(path), search)
        text = _text(place, shown)
        if place.resolve() in known:
            shown = known[place.resolve()]
        else:
            _read_all(text, shown, place, search, result, known)
        if shown not in result.named:
            result.named.append(shown)
    return result


def text_of(path: str | Path) -> str:
    """The text of one file at a path; `RewriteError` where there is none or it cannot be read."""
    place = Path(path)
    if not place.is_file():
        found = "found a folder" if place.is_dir() else "there is none"
        raise RewriteError(f"{path}: expected a rule file, {found}")
    return _text(place, str(path))


def read_text(text: str, path: str, search: Sequence[Path]) -> Sources:
    """As `read`, for a text; its includes are looked for beside `path`."""
    result = Sources(named=[path])
    _read_all(text, path, Path(path), search, result, {})
    return result


def _read_all(
    text: str, shown: str, place: Path, search: Sequence[Path], result: Sources, known: dict[Path, str]
) -> None:
    """Depth first without recursion: a file is finished, and listed, after everything that it includes."""
    stack = [_open(text, shown, place, result, known)]
    while stack:
        here = stack[-1]
        include = next(here.left, None)
        if include is None:
            result.files.append(here.file)
            stack.pop()
            continue
        path = here.file.path
        found = _included(include, here.identity, search)
        if isinstance(found, Problem):
            result.problems.append(found)
            result.incomplete.add(path)
            continue
        identity = found.resolve()
        chain = [entry.identity for entry in stack]
        if identity in chain:
            names = [entry.file.path for entry in stack[chain.index(identity) :]]
            message = f"include cycle: {' -> '.join([*names, names[0]])}"
            result.problems.append(Problem(include.span, message, "move what both need to a third file"))
            continue
        if identity not in known:
            shown = _display(found, os.path.join(os.path.dirname(path), include.path), search)
            try:
                text = _text(found, shown)
            except RewriteError as error:
                result.problems.append(Problem(include.span, str(error)))
                result.incomplete.add(path)
                continue
            stack.append(_open(text, shown, found, result, known))
        result.includes[path].append(known[identity])


def _open(text: str, shown: str, place: Path, result: Sources, known: dict[Path, str]) -> _Open:
    identity = place.resolve()
    if shown in result.includes:  # another file that looks the same
        shown = str(identity)
    known[identity] = shown
    file, problems = parse(text, shown, tests=result.whole is None or identity in result.whole)
    result.problems.extend(problems)
    result.includes[shown] = []
    result.digests[shown] = hashlib.sha256(text.encode()).hexdigest()
    if EVERYTHING in file.broken:
        result.incomplete.add(shown)
    return _Open(file, identity, iter([item for item in file.items if isinstance(item, Include)]))


def _named(path: str, search: Sequence[Path]) -> Path:
    """The file that the user means: a path, or a name on the pattern path."""
    places = [Path(path)]
    if not Path(path).is_absolute():
        places += [root / folder / path for root in search for folder in SUBFOLDERS]
    for place in places:
        if os.path.isfile(place):  # where `is_file` raises for what is no name of a file, this says no
            return place
    if os.path.isdir(path):
        raise RewriteError(f"{path}: expected a rule file, found a folder")
    bundled = sorted({file.name for root in search for folder in SUBFOLDERS for file in (root / folder).glob("*.pat")})
    looked = ", ".join(["here", *(str(root) for root in search)])
    hint = did_you_mean(Path(path).name, bundled)
    raise RewriteError(f"{path}: no such rule file; looked in {looked}" + (f"; {hint}" if hint else ""))


def _included(include: Include, beside: Path, search: Sequence[Path]) -> Path | Problem:
    """The included file: beside the including one, then on the pattern path, never outside of both."""
    roots = [beside.parent, *search]
    escaped = False
    for root in roots:
        place = root / include.path
        try:
            inside = any(place.resolve().is_relative_to(allowed.resolve()) for allowed in roots)
            found = inside and place.is_file()
        except (OSError, ValueError, RuntimeError) as error:  # no name of a file, or links that go in a circle
            reason = error.strerror if isinstance(error, OSError) else str(error)
            return Problem(include.span, f"the path cannot be followed: {reason}")
        escaped |= not inside
        if found:
            return place
    if escaped:
        message = f'"{include.path}" leaves the folder of this file and the pattern path'
        return Problem(include.span, message, "a rule file includes files beside or below it, or bundled ones")
    if any((root / include.path).is_dir() for root in roots):
        return Problem(include.span, f'expected a rule file, "{include.path}" is a folder', "include its files by name")
    looked = " and ".join(str(root) for root in roots)
    return Problem(include.span, f'no such file "{include.path}"', f"looked in {looked}")


def _display(place: Path, written: str, search: Sequence[Path]) -> str:
    """How the file is called in messages and reports: a bundled one the same wherever it is installed."""
    for root in search:
        if place.resolve().is_relative_to(root.resolve()):
            return str(Path(root.name, place.resolve().relative_to(root.resolve())))
    return os.path.normpath(written)


def _text(place: Path, shown: str) -> str:
    try:
        return place.read_bytes().decode("utf-8")
    except OSError as error:
        raise RewriteError(f"{shown}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise RewriteError(f"{shown}:{line}: not UTF-8 text (byte {error.object[error.start]:#04x})") from None
