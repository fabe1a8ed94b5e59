"""Resolved names: from parsed files, with who includes whom, to one `Scope` that checking and lowering read.

Every syntax node knows its file (`node.span.file`). A file sees its own declarations and those of the files that it
includes, directly or not: look a name up with `scope.lets_in(file)` and `scope.patterns_in(file)`, where `file` is that
of the node that reads the name. Targets, devices, links, rules and tests are shared by all files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeVar

from rewrite_engine import operators
from rewrite_engine.diagnostics import Problem, Span
from rewrite_engine.language import each, extends
from rewrite_engine.language.declared import facts
from rewrite_engine.language.syntax import (
    Composite,
    DeviceDecl,
    Expr,
    Let,
    Limit,
    LinkDecl,
    OperatorDecl,
    OptionDecl,
    PatternDecl,
    Requires,
    RuleDecl,
    RuleFile,
    Supports,
    TargetDecl,
    TestDecl,
    Without,
)

if TYPE_CHECKING:
    from rewrite_engine.language.core import CoreRule
    from rewrite_engine.language.meaning import Meaning
    from rewrite_engine.operators import Operator

HOST = "host"
NOWHERE = Span("<built in>", 1, 1, 1, 1)
"""Where the device and the target `host` stand when no file mentions them."""


@dataclass(frozen=True, slots=True, eq=False)
class TargetScope:
    """One target, all its openings merged. `items` are its capabilities, file by file (by path), in the order written.

    `launch`, `flops` and `bandwidth` are None where no file gives them (a launch then is 0). `span` is None for a
    `host` that no file opens. An option is read by its bare name in the target's guards, costs and `with` values.
    """

    name: str
    device: str
    span: Span | None
    launch: Expr | None = None
    flops: Expr | None = None
    bandwidth: Expr | None = None
    options: Mapping[str, Expr] = field(default_factory=dict)
    requires: tuple[Expr, ...] = ()
    items: tuple[Supports | Composite, ...] = ()
    openings: tuple[TargetDecl, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Scope:
    """Everything that the files declare, by name; see the module's docstring for who sees what.

    `lets` and `patterns` are flat: the first of each name in loading order. `visible` gives, per file, the files whose
    `let`s and patterns it sees (itself first); `clashes` the names that would mean several things there.
    """

    files: tuple[RuleFile, ...]
    visible: Mapping[str, tuple[str, ...]]
    lets: Mapping[str, Let]
    patterns: Mapping[str, PatternDecl]
    targets: Mapping[str, TargetScope]
    devices: Mapping[str, DeviceDecl]
    links: tuple[LinkDecl, ...]
    rules: tuple[RuleDecl, ...]
    tests: tuple[TestDecl, ...]
    operators: Mapping[str, OperatorDecl]
    lets_by_file: Mapping[str, Mapping[str, Let]]
    patterns_by_file: Mapping[str, Mapping[str, PatternDecl]]
    clashes: Mapping[str, Mapping[str, tuple[Span, ...]]]
    broken: Mapping[str, frozenset[str]]
    incomplete: frozenset[str] = frozenset()  # files that miss an include: their unknown names are no further problem
    predicates: Mapping[str, Callable[..., bool | None]] = field(default_factory=dict)  # Python's, for guards
    capabilities: tuple[CoreRule, ...] = ()  # Python's; each target's join its `supports`
    declared: Mapping[str, Operator] = field(default_factory=dict)  # the facts of `operators`
    meanings: Mapping[str, Meaning] = field(default_factory=dict)  # what `operators` compute, once they are lowered

    def lets_in(self, file: str) -> Mapping[str, Let]:
        """The `let`s that `file` sees, by name."""
        return self.lets_by_file.get(file, self.lets)

    def patterns_in(self, file: str) -> Mapping[str, PatternDecl]:
        """The named patterns that `file` sees, by name."""
        return self.patterns_by_file.get(file, self.patterns)

    def operator(self, name: str) -> Operator | None:
        """The facts of an operator, of the operator table or declared by the files."""
        return operators.find(name) or self.declared.get(name)

    def texts(self) -> dict[str, str]:
        """The text of each file, by path."""
        return {file.path: file.source for file in self.files}

    def all_patterns(self) -> tuple[PatternDecl, ...]:
        """Every named pattern of every file, in loading order."""
        return tuple(item for file in self.files for item in file.items if isinstance(item, PatternDecl))


def build(
    files: Sequence[RuleFile], visible: Mapping[str, tuple[str, ...]], incomplete: frozenset[str] = frozenset()
) -> tuple[Scope, list[Problem]]:
    """The scope of `files` (in loading order) and the problems of names: declared twice, reopened wrongly."""
    problems: list[Problem] = []
    declared = frozenset(item.name for file in files for item in file.items if isinstance(item, OperatorDecl))
    files = each.expand(files, declared, problems)
    broken = {
        file.path: frozenset().union(*(other.broken for other in files if other.path in visible[file.path]))
        for file in files
    }
    by_file: dict[str, dict[str, Let | PatternDecl]] = {}
    for file in files:
        named = [item for item in file.items if isinstance(item, Let | PatternDecl)]
        by_file[file.path] = _unique(named, lambda item: item.name, "name", problems)
    lets_by_file: dict[str, Mapping[str, Let]] = {}
    patterns_by_file: dict[str, Mapping[str, PatternDecl]] = {}
    clashes: dict[str, Mapping[str, tuple[Span, ...]]] = {}
    for file in files:
        seen: dict[str, list[Let | PatternDecl]] = {}
        for path in visible[file.path]:
            for name, item in by_file.get(path, {}).items():
                seen.setdefault(name, []).append(item)
        first = {name: items[0] for name, items in seen.items()}
        lets_by_file[file.path] = {n: item for n, item in first.items() if isinstance(item, Let)}
        patterns_by_file[file.path] = {n: item for n, item in first.items() if isinstance(item, PatternDecl)}
        clashes[file.path] = {n: tuple(item.span for item in items) for n, items in seen.items() if len(items) > 1}
    lets: dict[str, Let] = {}
    patterns: dict[str, PatternDecl] = {}
    for names in by_file.values():
        for name, item in names.items():
            if isinstance(item, Let):
                lets.setdefault(name, item)
            else:
                patterns.setdefault(name, item)
    everything = [item for file in files for item in file.items]
    devices = _devices([item for item in everything if isinstance(item, DeviceDecl)], problems)
    links = [item for item in everything if isinstance(item, LinkDecl)]
    _unique_links(links, problems)
    rules = _unique([item for item in everything if isinstance(item, RuleDecl)], lambda r: r.name, "rule", problems)
    declarations = _unique(
        [item for item in everything if isinstance(item, OperatorDecl)], lambda o: o.name, "operator", problems
    )
    tests = [item for item in everything if isinstance(item, TestDecl)]
    for file in files:
        titled = [test for test in tests if test.span.file == file.path]
        _unique(titled, lambda test: test.title, "test", problems)
    openings = _targets([item for item in everything if isinstance(item, TargetDecl)], problems)
    missing = frozenset().union(*broken.values(), "*" if incomplete else "")
    scope = Scope(
        files=tuple(files),
        visible=MappingProxyType(dict(visible)),
        lets=lets,
        patterns=patterns,
        targets=extends.resolve(openings, {file.path: file.source for file in files}, missing, problems),
        devices=devices,
        links=tuple(links),
        rules=tuple(rules.values()),
        tests=tuple(tests),
        operators=declarations,
        declared=facts(declarations, lets),
        lets_by_file=lets_by_file,
        patterns_by_file=patterns_by_file,
        clashes=clashes,
        broken=broken,
        incomplete=incomplete,
    )
    return scope, problems


Declared = TypeVar("Declared", bound=Let | PatternDecl | DeviceDecl | RuleDecl | OperatorDecl | TestDecl | Composite)


def _unique(
    items: Sequence[Declared], name_of: Callable[[Declared], str], what: str, problems: list[Problem]
) -> dict[str, Declared]:
    """The items by name; every further one of a name is a problem that points at the first."""
    found: dict[str, Declared] = {}
    for item in items:
        first = found.setdefault(name_of(item), item)
        if first is not item:
            problems.append(_twice(item.span, f"{what} `{name_of(item)}` is declared twice", first.span))
    return found


def _twice(span: Span, message: str, first: Span) -> Problem:
    return Problem(span, message, hint="rename or remove one of them", notes=((first, "first declared here"),))


def _devices(items: Sequence[DeviceDecl], problems: list[Problem]) -> dict[str, DeviceDecl]:
    declared = _unique(items, lambda item: item.name, "device", problems)
    return {HOST: declared.get(HOST, DeviceDecl(NOWHERE, HOST, ())), **declared}


def _unique_links(links: Sequence[LinkDecl], problems: list[Problem]) -> None:
    found: dict[tuple[str, str], LinkDecl] = {}
    for link in links:
        ways = [(link.source, link.destination)] + ([(link.destination, link.source)] if link.both else [])
        for source, destination in ways:
            first = found.setdefault((source, destination), link)
            if first is not link:
                message = f"the link `{source} -> {destination}` is declared twice"
                problems.append(_twice(link.span, message, first.span))
                break


def _targets(openings: Sequence[TargetDecl], problems: list[Problem]) -> dict[str, TargetScope]:
    """Targets by name, `host` first; what each opening gives is merged in the order of paths, not of loading."""
    grouped: dict[str, list[TargetDecl]] = {HOST: []}
    for opening in openings:
        grouped.setdefault(opening.name, []).append(opening)
    return {name: _merged(name, parts, problems) for name, parts in grouped.items()}


def _merged(name: str, openings: Sequence[TargetDecl], problems: list[Problem]) -> TargetScope:
    by_file: dict[str, TargetDecl] = {}
    for opening in openings:
        first = by_file.setdefault(opening.span.file, opening)
        if first is not opening:
            problems.append(_twice(opening.span, f"target `{name}` is opened twice in one file", first.span))
    ordered = [by_file[path] for path in sorted(by_file)]
    limits: dict[str, Limit] = {}
    options: dict[str, OptionDecl] = {}
    requires: list[Expr] = []
    items: list[Supports | Composite] = []
    composites: dict[str, Composite] = {}
    for item in (item for opening in ordered for item in opening.items):
        match item:
            case Limit():
                given = limits.setdefault(item.kind, item)
                if given is not item:
                    message = f"`{item.kind}` of target `{name}` is given twice"
                    problems.append(_twice(item.span, message, given.span))
            case OptionDecl():
                option = options.setdefault(item.name, item)
                if option is not item:
                    message = f"option `{item.name}` of target `{name}` is given twice"
                    problems.append(_twice(item.span, message, option.span))
            case Requires():
                requires.append(item.guard)
            case Composite():
                composite = composites.setdefault(item.name, item)
                if composite is not item:
                    message = f"composite `{item.name}` of target `{name}` is declared twice"
                    problems.append(_twice(item.span, message, composite.span))
                else:
                    items.append(item)
            case Supports():
                items.append(item)
            case Without():
                pass  # see `extends`
    return TargetScope(
        name=name,
        device=_device(name, ordered, problems),
        span=openings[0].span if openings else None,
        launch=limits["launch"].value if "launch" in limits else None,
        flops=limits["flops"].value if "flops" in limits else None,
        bandwidth=limits["bandwidth"].value if "bandwidth" in limits else None,
        options={option.name: option.value for option in options.values()},
        requires=tuple(requires),
        items=tuple(items),
        openings=tuple(ordered),
    )


def _device(name: str, openings: Sequence[TargetDecl], problems: list[Problem]) -> str:
    """The device that the openings agree on; `host` is on `host`."""
    given = [opening for opening in openings if opening.device is not None]
    if name == HOST:
        for opening in given:
            if opening.device != HOST:
                problems.append(Problem(opening.span, f"target `host` is on device `host`, not on `{opening.device}`"))
        return HOST
    if not given:
        if openings and not any(opening.extends for opening in openings):
            problems.append(
                Problem(
                    openings[0].span, f"target `{name}` names no device", hint=f"write `target {name} on DEVICE {{`"
                )
            )
        return HOST
    for opening in given[1:]:
        if opening.device != given[0].device:
            message = f"target `{name}` is reopened on device `{opening.device}`, but it is on `{given[0].device}`"
            problems.append(Problem(opening.span, message, notes=((given[0].span, "opened here"),)))
    return str(given[0].device)
