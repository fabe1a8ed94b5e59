"""Plug-ins: code generators, strategies and predicates that installed packages offer through entry points.

In: a group and a name. Out: the object that the entry point names. Nothing is imported before it is asked for, and what
was found is kept for the life of the process. An object given in Python goes before an entry point of the same name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import EntryPoint, entry_points

from rewrite_engine.diagnostics import RewriteError, did_you_mean

CODEGENS = "rewrite_engine.codegens"
STRATEGIES = "rewrite_engine.strategies"
PREDICATES = "rewrite_engine.predicates"
GROUPS = {CODEGENS: "code generator", STRATEGIES: "strategy", PREDICATES: "predicate"}
"""What the entry points of each group are, in the user's words."""


@dataclass(frozen=True, slots=True, order=True)
class Plugin:
    """An entry point: `value` is "module:object", `distribution` and `version` say which package brought it."""

    group: str
    name: str
    value: str
    distribution: str
    version: str

    def __str__(self) -> str:
        return f"{GROUPS[self.group]} `{self.name}` ({self.value}) of {self.distribution} {self.version}"


@cache
def installed(group: str) -> Mapping[str, tuple[Plugin, ...]]:
    """The plug-ins of a group by name, sorted; several where several packages offer the same name."""
    found: dict[str, set[Plugin]] = {}
    for point in entry_points(group=group):
        package = point.dist
        name, version = ("an unknown package", "?") if package is None else (package.name, package.version)
        found.setdefault(point.name, set()).add(Plugin(group, point.name, point.value, name, version))
    return {name: tuple(sorted(found[name])) for name in sorted(found)}


def find(group: str, name: str) -> Plugin | None:
    """The plug-in of that name, or None. Raises RewriteError where several packages offer it."""
    plugins = installed(group).get(name, ())
    if len(plugins) > 1:
        packages = " and ".join(f"{plugin.distribution} {plugin.version}" for plugin in plugins)
        raise RewriteError(f"{GROUPS[group]} `{name}` is offered by {packages}; uninstall all but one")
    return plugins[0] if plugins else None


@cache
def load(group: str, name: str) -> object | None:
    """The object that the plug-in of that name stands for; None where there is no such plug-in.

    Raises RewriteError, naming the package, where it cannot be imported.
    """
    plugin = find(group, name)
    if plugin is None:
        return None
    try:
        loaded: object = EntryPoint(plugin.name, plugin.value, plugin.group).load()
        return loaded
    except Exception as error:
        what = f"{type(error).__name__}: {error}"
        raise RewriteError(f"the {plugin} cannot be loaded: {what}; repair or uninstall that package") from error


def unknown(group: str, name: str, built_in: tuple[str, ...] = ()) -> RewriteError:
    """The error for a name that neither the project nor a plug-in knows."""
    known = [*built_in, *installed(group)]
    there = ", ".join(known) if known else "none; install a package that offers one, or pass the object itself"
    hint = did_you_mean(name, known)
    return RewriteError(f"unknown {GROUPS[group]} `{name}`; there are {there}" + (f"; {hint}" if hint else ""))
