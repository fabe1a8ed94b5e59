"""Clauses of a draft to checks of a match: types, literals, attributes, guards. Each says why it does not hold."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from rewrite_engine import operators
from rewrite_engine.diagnostics import Span
from rewrite_engine.language import arithmetic, names, subjects, syntax, values
from rewrite_engine.language.compile import Code, Compiler, Env, ReadsAbsent, conjuncts
from rewrite_engine.language.expand import Builder
from rewrite_engine.language.forks import AttributeClause, EqualClause, LiteralClause, TypeClause
from rewrite_engine.language.names import Frame, LoweringError
from rewrite_engine.language.program import Check, Match
from rewrite_engine.language.reasons import why
from rewrite_engine.language.text import unparse
from rewrite_engine.language.values import Unknown, ValueSet, View
from rewrite_engine.operators.types import ITEM_BITS

# ---------------------------------------------------------------- guards


def guard_checks(compiler: Compiler, guard: syntax.Expr, env: Env, settled: list[Span]) -> list[Check]:
    """One check per conjunct; those that read an absent capture are left out, those that always hold `settled`."""
    found = []
    for clause in conjuncts(guard):
        try:
            check = _guard(compiler, clause, env)
        except ReadsAbsent as absent:
            if isinstance(clause, syntax.Unary) or (isinstance(clause, syntax.Binary) and clause.op == "or"):
                message = f"`{absent}` may be absent here; inside `or` and `not` only present({absent}) may speak of it"
                raise LoweringError(clause.span, message) from None
            continue
        if check is None:
            settled.append(clause.span)
        else:
            found.append(check)
    return found


def _guard(compiler: Compiler, clause: syntax.Expr, env: Env) -> Check | None:
    code = compiler.compile(clause, env)
    say = why(compiler, clause, env)
    if code.constant and code.value is True:
        return None
    run = code.run

    def check(match: Match) -> str | None:
        known = values.truth(run(match))
        if known is True:
            return None
        text = unparse(clause)
        if isinstance(known, Unknown):
            return f"`{text}` is not known to hold: {known.reason}"
        shown = say(match)
        return f"`{text}` does not hold" + (f": {shown}" if shown else "")

    return Check(clause.span, check, lambda: subjects.of_guard(compiler, clause, env))


def equal_check(compiler: Compiler, clause: EqualClause) -> Check:
    """A `with` value that must be what its name stands for already."""
    code = compiler.compile(clause.value, Env(clause.frame, clause.value.span.file))
    name = syntax.Name(clause.span, clause.name)
    before = compiler.compile(name, Env(clause.frame, clause.span.file))

    def check(match: Match) -> str | None:
        left, right = before.run(match), code.run(match)
        if values.truth(arithmetic.compare("==", left, right)) is True or arithmetic.close(left, right) is True:
            return None
        return f"`{clause.name}` is {values.show(left)}, but {values.show(right)} by `with`"

    return Check(clause.span, check)


# ---------------------------------------------------------------- types


@dataclass(frozen=True, slots=True)
class _Bound:
    """A name in a type: bound where it is met first, equal after that."""

    name: str
    number: int


_Dimension = int | None | str | _Bound | Code


def type_check(compiler: Compiler, builder: Builder, clause: TypeClause) -> Check:
    """The dtype and the dimensions of a value; names bind dimensions, across the whole variant."""
    slot = compiler.numbers[clause.cell.slot]
    kind = clause.type
    if kind.dims.count("...") > 1:
        raise LoweringError(kind.span, "a type has at most one `...`")
    dtype = _dtype_part(compiler, builder, kind, clause.frame)
    parts: list[_Dimension] = []
    for dim in kind.dims:
        if not isinstance(dim, str) or dim == "...":
            parts.append(dim)
            continue
        cell = builder.cell(clause.frame, dim)
        if cell.state == names.DIMENSION:
            parts.append(_Bound(dim, cell.number))
        else:
            parts.append(compiler.compile(syntax.Name(kind.span, dim), Env(clause.frame, kind.span.file)))
    return Check(
        kind.span,
        lambda match: _check_type(match, match.view(slot), dtype, parts),
        lambda: subjects.OfType(slot, lambda match: _wanted(match, dtype, parts)),
    )


def _wanted(match: Match, dtype: object, parts: list[_Dimension]) -> tuple[tuple[str, ...] | None, list[object]]:
    """The dtypes and dimensions that a type asks for, as far as they are settled for this match."""
    if isinstance(dtype, _Bound):
        dtype = match.bound.get(dtype.number)
    allowed = dtype.items if isinstance(dtype, ValueSet) else (dtype,)
    sizes: list[object] = []
    for part in parts:
        if isinstance(part, Code):
            part = part.run(match)  # type: ignore[assignment]
        elif isinstance(part, _Bound):
            part = match.bound.get(part.number)  # type: ignore[assignment]
        sizes.append(part if isinstance(part, int) or part == "..." else None)
    return None if dtype is None else tuple(str(name) for name in allowed), sizes


def _dtype_part(compiler: Compiler, builder: Builder, kind: syntax.TypePattern, frame: Frame) -> object:
    """None, a dtype, a set of dtypes, or a variable."""
    name = kind.dtype
    if name is None or name in ITEM_BITS:
        return name
    if name in compiler.scope.lets_in(kind.span.file):
        code = compiler.compile(syntax.Name(kind.span, name), Env(None, kind.span.file))
        if not code.constant or not isinstance(code.value, (str, ValueSet)):
            raise LoweringError(kind.span, f"`{name}` is not a dtype or a set of dtypes")
        return code.value
    return _Bound(name, builder.cell(frame, name).number)


def _check_type(match: Match, view: View, dtype: object, parts: list[_Dimension]) -> str | None:
    actual = view.type.dtype
    match dtype:
        case None:
            pass
        case _Bound():
            if match.bound.setdefault(dtype.number, actual) != actual:
                return f"`{view.name}` is {actual}, but `{dtype.name}` is {match.bound[dtype.number]}"
        case ValueSet():
            if actual not in dtype.items:
                return f"`{view.name}` is {actual}, not one of {values.show(dtype)}"
        case _:
            if actual != dtype:
                return f"`{view.name}` is {actual}, not {dtype}"
    shape = values.shape(view)
    if isinstance(shape, Unknown):
        return None if parts == ["..."] else f"`{view.name}` must have a known rank: {shape.reason}"
    assert isinstance(shape, tuple)
    wanted: list[Any] = list(parts)
    if "..." in wanted:
        at = wanted.index("...")
        wanted[at : at + 1] = [None] * (len(shape) - len(wanted) + 1)
        if len(shape) < len(parts) - 1:
            return f"`{view.name}` has rank {len(shape)}, at least {len(parts) - 1} expected"
    if len(wanted) != len(shape):
        return f"`{view.name}` has rank {len(shape)}, not {len(wanted)}"
    for axis, (want, found) in enumerate(zip(wanted, shape, strict=True)):
        reason = _check_dimension(match, view, axis, want, found)
        if reason is not None:
            return reason
    return None


def _check_dimension(match: Match, view: View, axis: int, want: Any, found: object) -> str | None:
    if want is None:
        return None
    label = str(want)
    if isinstance(want, Code):
        want = want.run(match)
        label = values.show(want)
    elif isinstance(want, _Bound):
        label = f"`{want.name}`"
        if want.number not in match.bound:
            match.bound[want.number] = found
            return None
        want = match.bound[want.number]
        label += f" = {values.show(want)}"
    same = arithmetic.compare("==", found, want)
    if isinstance(same, Unknown):
        return f"dimension {axis} of `{view.name}` must be {label}: {same.reason}"
    return None if same else f"dimension {axis} of `{view.name}` is {values.show(found)}, not {label}"


# ---------------------------------------------------------------- attributes


def attribute_check(compiler: Compiler, clause: AttributeClause) -> Check:
    """An attribute that is there, is absent, or equals a value (or is absent, too); axes count modulo the rank."""
    node, name = compiler.node_numbers[clause.node], clause.name
    if clause.value is None:
        absent = clause.absent

        def presence(match: Match) -> str | None:
            if (name in match.facts.attributes[node]) != absent:
                return None
            return f"{match.variant.nodes[node].op} has {'an' if absent else 'no'} attribute `{name}`"

        return Check(clause.span, presence, lambda: subjects.OfAttribute(node, name, None, absent))
    code = compiler.compile(clause.value, Env(clause.frame, clause.value.span.file))

    def check(match: Match) -> str | None:
        op, attributes = match.variant.nodes[node].op, match.facts.attributes[node]
        if name not in attributes:
            return None if clause.absent else f"{op} has no attribute `{name}`"
        found, wanted = attributes[name], code.run(match)
        if isinstance(wanted, Unknown):
            return f"`{name}` of {op} cannot be compared: {wanted.reason}"
        rank = _axis_rank(match, node, name)
        any_of = wanted.items if isinstance(wanted, values.ValueSet) else (wanted,)
        if any(_same(_axes(found, rank), _axes(item, rank)) for item in any_of):
            return None
        return f"`{name}` of {op} is {values.show(found)}, not {values.show(wanted)}"

    return Check(clause.span, check, lambda: subjects.OfAttribute(node, name, code.run))


def named_check(span: Span, node: int, named: Mapping[str, frozenset[str]]) -> Check:
    """A declared operator has no attributes but those that its declaration names: they may mean anything."""

    def check(match: Match) -> str | None:
        op, attributes = match.variant.nodes[node].op, match.facts.attributes[node]
        unnamed = sorted(attributes.keys() - named.get(op, attributes.keys()))
        if not unnamed:
            return None
        shown = f"{unnamed[0]}={values.show(attributes[unnamed[0]])}"
        return f"operator {op} has attribute {shown} that its declaration does not name"

    return Check(span, check)


def _axis_rank(match: Match, node: int, name: str) -> int | None:
    """The number modulo which an attribute's axes are counted, where it has axes and the rank is known."""
    operator = operators.find(match.variant.nodes[node].op)
    inputs = match.node(node).inputs
    if operator is None or name not in operator.axis_attributes or not inputs or inputs[0] is None:
        return None
    rank = inputs[0].type.rank
    return None if rank is None else rank + operator.axis_attributes[name]


def _axes(value: object, rank: int | None) -> object:
    if rank is None:
        return value
    if isinstance(value, tuple):
        return tuple(_axes(item, rank) for item in value)
    return value + rank if isinstance(value, int) and value < 0 else value


def _same(found: object, wanted: object) -> bool:
    wanted = values.dtype_code(wanted) if isinstance(found, int) else wanted
    if isinstance(found, np.ndarray) or isinstance(wanted, (np.ndarray, View)):
        return arithmetic.close(found, wanted) is True
    if isinstance(found, tuple) and isinstance(wanted, tuple):
        return len(found) == len(wanted) and all(_same(a, b) for a, b in zip(found, wanted, strict=True))
    if isinstance(found, float):
        return not isinstance(wanted, (str, tuple)) and arithmetic.close(found, wanted) is True
    return arithmetic.compare("==", found, wanted) is True


# ---------------------------------------------------------------- literals


def literal_check(compiler: Compiler, clause: LiteralClause) -> Check:
    """A constant operand that equals a literal."""
    code = compiler.compile(clause.value, Env(clause.frame, clause.value.span.file))
    slot, node, position = compiler.numbers[clause.slot], compiler.node_numbers[clause.node], clause.position

    def check(match: Match) -> str | None:
        view, wanted = match.view(slot), code.run(match)
        array = values.elements(view)
        rank = _input_axis_rank(match, node, position)
        if rank is not None:
            wanted = _axes(wanted, rank)
            array = np.where(array < 0, array + rank, array)
        if not literal_equals(wanted, array):
            return f"the constant is {values.show(array)}, not {values.show(wanted)}"
        return None if isinstance(wanted, tuple) else _keeps_shape(match, node, view)

    return Check(clause.span, check, lambda: subjects.OfLiteral(slot, code.run))


def literal_equals(wanted: object, array: np.ndarray[Any, Any]) -> bool:
    """Whether the elements are the literal: integers exactly, others after rounding or within 1e-5 relative.

    A scalar literal equals every element; a list equals the elements as wholes, of the same shape.
    """
    literal = np.asarray(values.numpy_value(wanted))
    if isinstance(wanted, tuple):
        if literal.shape != array.shape:
            return False
    elif array.size == 0:
        return False
    if array.dtype.kind in "iub" or array.dtype.name in ("int4", "uint4", "int2", "uint2"):
        return (
            bool(np.all(array.astype(np.int64) == literal))
            if array.dtype.kind != "u"
            else bool(np.all(array.astype(np.uint64).astype(object) == literal))
        )
    if array.dtype.kind in "OUS":
        return bool(np.all(array == literal))
    with np.errstate(all="ignore"):
        rounded = literal.astype(array.dtype).astype(np.float64)
    wide, target = array.astype(np.float64), literal.astype(np.float64)
    equal = (wide == rounded) | np.isclose(wide, target, rtol=1e-5, atol=0.0)
    return bool(np.all(equal))


def _input_axis_rank(match: Match, node: int, position: int) -> int | None:
    """The rank modulo which a constant operand's axes are counted, where it names axes."""
    pattern = match.variant.nodes[node]
    operator = operators.find(pattern.op)
    formal = operator.input(position) if operator is not None else None
    if formal is None or formal.name not in ("axes", "axis"):
        return None
    view = match.node(node).inputs[0]
    if pattern.op == "Unsqueeze":
        outputs = match.node(node).outputs
        view = outputs[0] if outputs else None
    return None if view is None else view.type.rank


def _keeps_shape(match: Match, node: int, literal: View) -> str | None:
    """A scalar literal stands for any uniform constant that does not change the other operand's shape."""
    shape = values.shape(literal)
    operator = operators.find(match.variant.nodes[node].op)
    if shape == () or operator is None or not operator.pointwise:
        return None
    others = [view for view in match.node(node).inputs if view is not None and view.slot != literal.slot]
    reason = f"the constant of shape {values.show(shape)} changes the shape of its other operand"
    for other in others:
        fits = arithmetic.broadcasts_into(shape, values.shape(other))
        if fits is True:
            return None
        if isinstance(fits, Unknown):
            reason = f"{reason}, for all that is known: {fits.reason}"
    return reason
