"""`--set PATH=VALUE`: numbers and options of rule files, changed for one run. A scope in, the changed scope out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from rewrite_engine.diagnostics import Problem, RewriteError, did_you_mean
from rewrite_engine.language import syntax, units
from rewrite_engine.language.dimensions import COST_NAMES, MismatchAt, check_dimension, dimension_of
from rewrite_engine.language.parsing import parse_value
from rewrite_engine.language.scope import HOST, Scope, TargetScope
from rewrite_engine.language.syntax import DeviceDecl, Expr, LinkDecl
from rewrite_engine.language.units import Dimension

_LIMITS = {"launch": units.TIME, "flops": units.FLOP_RATE, "bandwidth": units.BANDWIDTH}
_LINK_FIELDS = {"cost": units.TIME, "energy": units.ENERGY, "rate": units.BANDWIDTH}


def apply(scope: Scope, settings: Mapping[str, str]) -> Scope:
    """The scope with `settings` applied, in alphabetical order of their paths.

    Paths: `TARGET.OPTION`, `TARGET.launch|flops|bandwidth`, `DEVICE.memory`, `A->B.rate|cost|energy`. `RewriteError`
    for a path that nothing declares and for a value of another kind.
    """
    for path in sorted(settings):
        scope = _set(scope, path, settings[path])
    return scope


def of_machine(scope: Scope, path: str) -> bool:
    """Whether a path is a number that no rule reads: a launch, a memory or what a link costs."""
    owner, _, field = path.rpartition(".")
    if "->" in owner or field == "launch":
        return True
    return field == "memory" and owner in scope.devices and owner not in scope.targets


def paths(scope: Scope) -> tuple[str, ...]:
    """Every path that a setting may name, sorted."""
    found = [f"{device}.memory" for device in scope.devices]
    for target in scope.targets.values():
        found += [f"{target.name}.{name}" for name in (*_LIMITS, *target.options)]
    for link in scope.links:
        found += [f"{source}->{destination}.{field}" for source, destination in _ways(link) for field in _LINK_FIELDS]
    return tuple(sorted(found))


def _ways(link: LinkDecl) -> list[tuple[str, str]]:
    forth = (link.source, link.destination)
    return [forth, forth[::-1]] if link.both else [forth]


def _set(scope: Scope, path: str, text: str) -> Scope:
    value = parse_value(text, f"--set {path}={text}")
    if isinstance(value, Problem):
        raise RewriteError(f"--set {path}={text}: {value.message}")
    owner, _, field = path.rpartition(".")
    source, arrow, destination = owner.partition("->")
    if arrow:
        ends = (source.strip(), destination.strip())
        changed = [_linked(link, ends, field, value, path, text) for link in scope.links]
        if field in _LINK_FIELDS and any(ends in _ways(link) for link in scope.links):
            return replace(scope, links=tuple(part for parts in changed for part in parts))
    target = scope.targets.get(owner)
    if target is not None and (field in _LIMITS or field in target.options):
        return replace(scope, targets={**scope.targets, owner: _limited(target, field, value, path, text)})
    if field == "memory" and owner in scope.devices:
        _expect(value, units.BYTES, path, text)
        device = replace_memory(scope.devices[owner], value)
        return replace(scope, devices={**scope.devices, owner: device})
    hint = did_you_mean(path.replace(" ", ""), paths(scope))
    raise RewriteError(
        f"--set {path}: the rule files declare no such setting" + (f"; {hint}" if hint else _known(scope))
    )


def _known(scope: Scope) -> str:
    return f"; there are {', '.join(paths(scope))}"


def _limited(target: TargetScope, field: str, value: Expr, path: str, text: str) -> TargetScope:
    if field == "launch":
        _expect(value, units.TIME, path, text)
        if target.name == HOST:
            raise RewriteError(f"--set {path}: target `host` has launch 0: it starts no regions")
        return replace(target, launch=value)
    if field == "flops":
        _expect(value, units.FLOP_RATE, path, text)
        return replace(target, flops=value)
    if field == "bandwidth":
        _expect(value, units.BANDWIDTH, path, text)
        return replace(target, bandwidth=value)
    before = dimension_of(target.options[field], {})
    if before is not None:
        _expect(value, before, path, text)
    return replace(target, options={**target.options, field: value})


def replace_memory(device: DeviceDecl, value: Expr) -> DeviceDecl:
    """The device with another size of memory."""
    others = tuple(field for field in device.fields if field[0] != "memory")
    return replace(device, fields=(*others, ("memory", value)))


def _linked(
    link: LinkDecl, ends: tuple[str, str], field: str, value: Expr, path: str, text: str
) -> tuple[LinkDecl, ...]:
    """The link changed in one direction; one that goes both ways then becomes two."""
    if ends not in _ways(link) or field not in _LINK_FIELDS:
        return (link,)
    _expect(value, _LINK_FIELDS[field], path, text, ("bytes",) if field != "rate" else ())
    one = replace(link, source=ends[0], destination=ends[1], both=False)
    if field == "cost":
        one = replace(one, cost=value)
    elif field == "energy":
        one = replace(one, energy=value)
    else:
        rates = [part for part in _parts(link.cost) if _is_rate(part)]
        if len(rates) != 1:
            raise RewriteError(f"--set {path}={text}: the cost of this link has {len(rates)} rates, expected one; "
                               f"set `{ends[0]}->{ends[1]}.cost`")  # fmt: skip
        one = replace(one, cost=substitute(link.cost, lambda part: value if part is rates[0] else None))
    back = replace(link, source=ends[1], destination=ends[0], both=False)
    return (one, back) if link.both else (one,)


def _is_rate(part: Expr) -> bool:
    unit = units.lookup(part.unit) if isinstance(part, syntax.Quantity) else None
    return unit is not None and unit.dimension == units.BANDWIDTH


def _parts(expr: Expr) -> list[Expr]:
    found: list[Expr] = []
    substitute(expr, lambda part: found.append(part))
    return found


def substitute(expr: Expr, change: Callable[[Expr], Expr | None]) -> Expr:
    """The arithmetic of `expr` with each part for which `change` gives one replaced; the parser bounds the nesting."""
    changed = change(expr)
    if changed is not None:
        return changed
    match expr:
        case syntax.Binary():
            return replace(expr, left=substitute(expr.left, change), right=substitute(expr.right, change))
        case syntax.Unary():
            return replace(expr, operand=substitute(expr.operand, change))
        case syntax.Conditional():
            then, otherwise = substitute(expr.then, change), substitute(expr.otherwise, change)
            return replace(expr, test=substitute(expr.test, change), then=then, otherwise=otherwise)
        case syntax.Call():
            return replace(expr, args=tuple(substitute(argument, change) for argument in expr.args))
        case _:
            return expr


def _expect(value: Expr, wanted: Dimension, path: str, text: str, names: tuple[str, ...] = ()) -> None:
    """Refuse a value that measures something else, has an unknown unit, or reads a name beyond `names`."""
    try:
        check_dimension(value, wanted, {name: COST_NAMES[name] for name in names})
    except MismatchAt as mismatch:
        raise RewriteError(f"--set {path}={text}: {mismatch}") from None
    for part in _parts(value):
        if isinstance(part, syntax.Quantity) and units.lookup(part.unit) is None:
            hint = did_you_mean(part.unit, units.names())
            raise RewriteError(f"--set {path}={text}: unknown unit `{part.unit}`" + (f"; {hint}" if hint else ""))
        if isinstance(part, syntax.Name) and part.name not in (*names, "true", "false"):
            raise RewriteError(f"--set {path}={text}: expected a number, found the name `{part.name}`")
