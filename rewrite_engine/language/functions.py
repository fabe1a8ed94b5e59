"""The functions of guards, costs and templates, as a table that the checker lists and evaluation calls.

A function takes evaluated arguments and returns a value (see `values`); what has no meaning raises `EvaluationError`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from rewrite_engine.language.arithmetic import binary, broadcasts_into, close, compare
from rewrite_engine.language.units import Quantity
from rewrite_engine.language.values import (
    Array,
    EvaluationError,
    Unknown,
    View,
    conjunction,
    disjunction,
    numpy_value,
    plain,
    shape,
    show,
    truth,
    wide,
)
from rewrite_engine.operators.types import ITEM_BITS

LARGEST = 1 << 28
"""The most elements of a constant that a function computes."""
LONGEST = 1 << 20
"""The longest list."""


@dataclass(frozen=True, slots=True)
class Function:
    """`arity` is the least and the most arguments. `function` is None for names that mean more than their arguments.

    `result` is "bool", "number", "list", "constant" or "any". `elements`: the arguments' elements are read, so that
    captures among them must be constants; otherwise only types are looked at.
    """

    name: str
    arity: tuple[int, int]
    doc: str
    function: Callable[..., object] | None
    result: str
    elements: bool = True


def _first_unknown(value: object) -> Unknown | None:
    """The unknown in a value, or in a list anywhere."""
    if isinstance(value, Unknown):
        return value
    if isinstance(value, tuple):
        return next((found for item in value if (found := _first_unknown(item)) is not None), None)
    return None


def _known(function: Callable[..., object]) -> Callable[..., object]:
    """The function, but unknown where an argument is."""

    def call(*arguments: object) -> object:
        for argument in arguments:
            unknown = _first_unknown(argument)
            if unknown is not None:
                return Unknown(unknown.reason, None, unknown.dimension)
        return function(*arguments)

    return call


def _truths(value: object) -> tuple[object, ...]:
    value = plain(value)
    if isinstance(value, np.ndarray):
        return (bool(np.all(value)),)
    return value if isinstance(value, tuple) else (value,)


def _every(value: object) -> object:
    return conjunction(tuple(_every(item) if isinstance(item, tuple) else item for item in _truths(value)))


def _some(value: object) -> object:
    value = plain(value)
    if isinstance(value, np.ndarray):
        return bool(np.any(value))
    items = value if isinstance(value, tuple) else (value,)
    return disjunction(tuple(_some(item) if isinstance(item, tuple) else truth(item) for item in items))


def _axes(value: object) -> tuple[int, ...] | int | None:
    if value is None:
        return None
    axes = numpy_value(value)
    return tuple(int(axis) for axis in axes) if isinstance(axes, np.ndarray) else int(axes)


def _reduction(numpy: Callable[..., Any], start: object) -> Callable[..., object]:
    def reduce(value: object, axes: object = None) -> object:
        if _first_unknown(value) is not None or _first_unknown(axes) is not None:
            return _known(reduce)(value, axes)
        value = plain(value)
        if isinstance(value, np.ndarray):
            if value.size == 0 and start is None:
                raise EvaluationError("the largest or smallest of no elements has no value")
            result: object = numpy(wide(value), axis=_axes(axes))
            return plain(result)
        if not isinstance(value, tuple):
            return value
        if not value and start is None:
            raise EvaluationError("the largest or smallest of an empty list has no value")
        return _fold(numpy, value, start)

    return reduce


def _fold(numpy: Callable[..., Any], items: tuple[object, ...], start: object) -> object:
    symbol = {np.sum: "+", np.prod: "*", np.max: ">", np.min: "<"}[numpy]
    result = start if not items else items[0]
    for item in items[1:]:
        if symbol in "+*":
            result = binary(symbol, result, item)
        elif truth(compare(symbol, item, result)) is True:
            result = item
    return result


def _extreme(numpy: Callable[..., Any], pairwise: Callable[..., Any]) -> Callable[..., object]:
    """`max(list)`, `max(constant)`, `max(constant, [axes])`, `max(a, b, …)`."""
    reduce = _reduction(numpy, None)

    def extreme(first: object, *others: object) -> object:
        if not others or (len(others) == 1 and isinstance(others[0], tuple) and isinstance(first, (View, np.ndarray))):
            return reduce(first, *others)
        values = [plain(value) for value in (first, *others)]
        if any(isinstance(value, np.ndarray) for value in values):
            result: object = wide(numpy_value(values[0]))
            for value in values[1:]:
                result = pairwise(result, wide(numpy_value(value)))
            return result
        return reduce(tuple(values))

    return extreme


def _elementwise(numpy: Callable[[Any], Any]) -> Callable[[object], object]:
    def apply(value: object) -> object:
        with np.errstate(all="ignore"):
            operand: Any = wide(numpy_value(value))
            result: object = numpy(np.asarray(operand))
        listed = isinstance(plain(value), tuple)
        if isinstance(result, np.ndarray) and listed:
            return tuple(result.tolist())
        return plain(result) if not isinstance(plain(value), np.ndarray) else np.asarray(result)

    return _known(apply)


def _absolute(value: object) -> object:
    value = plain(value)
    if isinstance(value, Quantity):
        return Quantity(abs(value.amount), value.dimension)
    if isinstance(value, (int, float, Fraction)):
        return abs(value)
    if isinstance(value, tuple):
        return tuple(_absolute(item) for item in value)
    operand: Any = wide(numpy_value(value))
    return np.abs(operand)


def _round(numpy: Callable[[Any], Any], plainly: Callable[[Any], int]) -> Callable[[object], object]:
    def apply(value: object) -> object:
        value = plain(value)
        if isinstance(value, (int, float, Fraction)) and math.isfinite(value):
            return plainly(value)
        if isinstance(value, tuple):
            return tuple(apply(item) for item in value)
        return numpy(wide(numpy_value(value)))

    return _known(apply)


def _item(value: object) -> object:
    value = plain(value)
    if isinstance(value, (int, float, Fraction, Quantity)):
        return value
    if isinstance(value, tuple) and len(value) == 1:
        return value[0]
    if isinstance(value, np.ndarray) and value.size == 1:
        return plain(value.reshape(())[()])
    raise EvaluationError(f"item() needs exactly one element, found {show(value)}")


def _length(value: object) -> object:
    if isinstance(value, tuple):
        return len(value)
    if isinstance(value, View):
        if value.type.shape is not None and len(value.type.shape) == 1:
            found = shape(value)
            assert isinstance(found, tuple)
            return found[0]
        raise EvaluationError(f"len() needs a list, found {show(value)}; write `.rank` or `.numel`")
    if isinstance(value, np.ndarray) and value.ndim == 1:
        return len(value)
    raise EvaluationError(f"len() needs a list, found {show(value)}")


def _is_static(value: object) -> object:
    if not isinstance(value, View):
        raise EvaluationError(f"is_static() needs a captured value, found {show(value)}")
    return value.type.numel is not None


def _is_const(value: object) -> object:
    if not isinstance(value, View):
        raise EvaluationError(f"is_const() needs a captured value, found {show(value)}")
    return value.is_constant


def _broadcasts(left: object, right: object) -> object:
    one, other = (shape(value) if isinstance(value, View) else value for value in (left, right))
    return broadcasts_into(one, other)


def _constant(value: object) -> Array:
    return np.asarray(numpy_value(value))


def _sizes(value: object) -> tuple[int, ...]:
    found = _constant(value)
    return tuple(int(size) for size in found.ravel())


def _dtype(value: object) -> np.dtype[Any]:
    if not isinstance(value, str) or value not in ITEM_BITS:
        raise EvaluationError(f"expected a dtype, found {show(value)}")
    return numpy_dtype(value)


def numpy_dtype(name: str) -> np.dtype[Any]:
    """The NumPy (or ml_dtypes) dtype of that name."""
    if name == "string":
        return np.dtype(object)
    try:
        return np.dtype(name)
    except TypeError:
        import ml_dtypes

        found: np.dtype[Any] = np.dtype(getattr(ml_dtypes, name))
        return found


def _limits(value: object) -> tuple[Any, Any]:
    dtype = _dtype(value)
    if dtype.kind == "b":
        return False, True
    if dtype.kind in "iu":
        return int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)
    import ml_dtypes

    integer = dtype.name.startswith(("int", "uint"))
    limits: Any = ml_dtypes
    info = limits.iinfo(dtype) if integer else limits.finfo(dtype)
    return (int(info.min), int(info.max)) if integer else (float(info.min), float(info.max))


def _cast(value: object, dtype: object) -> object:
    with np.errstate(all="ignore"):
        return _constant(value).astype(_dtype(dtype))


def _transpose(value: object, perm: object = None) -> object:
    return np.transpose(_constant(value), None if perm is None else _sizes(perm))


def _concat(parts: object, axis: object = 0) -> object:
    if not isinstance(parts, tuple):
        raise EvaluationError(f"concat() needs a list of constants, found {show(parts)}")
    if all(isinstance(item, tuple) for item in parts):
        return tuple(item for items in parts for item in items)
    return np.concatenate([np.asarray(wide(_constant(item))) for item in parts], axis=int(numpy_value(axis)))


def _full(sizes: object, value: object, dtype: object = None) -> object:
    return np.full(_room(_sizes(sizes)), numpy_value(value), None if dtype is None else _dtype(dtype))


def _iota(count: object) -> object:
    (length,) = _room((int(numpy_value(count)),), LONGEST)
    return tuple(range(length))


def _shaped(numpy: Callable[[Any, tuple[int, ...]], Any]) -> Callable[[object, object], object]:
    return _known(lambda value, sizes: numpy(_constant(value), _room(_sizes(sizes))))


def _room(sizes: tuple[int, ...], most: int = LARGEST) -> tuple[int, ...]:
    """The sizes, where a computed constant or list may have that many elements."""
    count = math.prod(sizes)
    if count > most:
        raise EvaluationError(f"{count} elements are too many: {most} at most")
    return sizes


def _guarded(function: Callable[..., object]) -> Callable[..., object]:
    """The function, with NumPy's complaints (shapes that do not fit, axes out of range) as `EvaluationError`."""

    def call(*arguments: object) -> object:
        try:
            return function(*arguments)
        except (ValueError, TypeError, IndexError, OverflowError, MemoryError) as error:
            raise EvaluationError(str(error) or "there is not enough memory") from None

    return call


def _table() -> Mapping[str, Function]:
    many = 99
    rows: list[tuple[str, tuple[int, int], str, str, Callable[..., object] | None]] = [
        ("all", (1, 1), "all(list): every element holds", "bool", _every),
        ("any", (1, 1), "any(list): some element holds", "bool", _some),
        ("close", (2, 3), "close(a, b): equal within 1e-5 relative, or the tolerance given", "bool", _closely),
        ("sum", (1, 2), "sum(list), sum(constant, [axes])", "number", _reduction(np.sum, 0)),
        ("prod", (1, 2), "prod(list), prod(constant, [axes])", "number", _reduction(np.prod, 1)),
        ("min", (1, many), "min(list), min(constant, [axes]), min(a, b, …)", "number", _extreme(np.min, np.minimum)),
        ("max", (1, many), "max(list), max(constant, [axes]), max(a, b, …)", "number", _extreme(np.max, np.maximum)),
        ("abs", (1, 1), "abs(a), element by element", "any", _known(_absolute)),
        ("sqrt", (1, 1), "sqrt(a), element by element", "any", _elementwise(np.sqrt)),
        ("exp", (1, 1), "exp(a), element by element", "any", _elementwise(np.exp)),
        ("log", (1, 1), "log(a), the natural logarithm, element by element", "any", _elementwise(np.log)),
        ("floor", (1, 1), "floor(a), element by element", "any", _round(np.floor, math.floor)),
        ("ceil", (1, 1), "ceil(a), element by element", "any", _round(np.ceil, math.ceil)),
        ("item", (1, 1), "item(c): the only element of a constant, as a number", "number", _known(_item)),
        ("reshape", (2, 2), "reshape(constant, shape)", "constant", _shaped(np.reshape)),
        ("expand", (2, 2), "expand(constant, shape): broadcast to a shape", "constant", _shaped(np.broadcast_to)),
        ("transpose", (1, 2), "transpose(constant, perm), reversed without perm", "constant", _known(_transpose)),
        ("cast", (2, 2), "cast(constant, dtype)", "constant", _known(_cast)),
        ("concat", (1, 2), "concat([a, b], axis): constants one after another", "constant", _known(_concat)),
        ("full", (2, 3), "full(shape, value, dtype)", "constant", _known(_full)),
        ("iota", (1, 1), "iota(n): [0, 1, …, n - 1]", "list", _known(_iota)),
    ]
    types_only: list[tuple[str, tuple[int, int], str, str, Callable[..., object] | None]] = [
        ("len", (1, 1), "len(list): the number of elements", "number", _known(_length)),
        ("lowest", (1, 1), "lowest(dtype): the least finite value", "number", _known(lambda d: _limits(d)[0])),
        ("highest", (1, 1), "highest(dtype): the largest finite value", "number", _known(lambda d: _limits(d)[1])),
        ("is_static", (1, 1), "is_static(x): every dimension is a known size", "bool", _is_static),
        ("is_const", (1, 1), "is_const(x): known at compile time", "bool", _is_const),
        ("broadcasts", (2, 2), "broadcasts(a, b): a can be broadcast to the shape of b", "bool", _broadcasts),
        ("present", (1, 1), "present(b): an optional capture is there", "bool", None),
        ("default", (2, 2), "default(b, v): an optional capture, or v where it is absent", "any", None),
        ("readers", (1, 1), "readers(y): how many operators of the original graph read y", "number", None),
        ("is_graph_output", (1, 1), "is_graph_output(y): y is an output of the original graph", "bool", None),
        ("supported", (1, 1), "supported(conv): this target runs that operator by itself", "bool", None),
        ("profile", (1, 1), 'profile("key"): a measured cost, in `cost` only', "number", None),
    ]
    table = [Function(n, a, d, f and _guarded(f), r) for n, a, d, r, f in rows]
    table += [Function(n, a, d, f and _guarded(f), r, elements=False) for n, a, d, r, f in types_only]
    return {function.name: function for function in table}


def _closely(left: object, right: object, tolerance: object = 1e-5) -> object:
    return close(left, right, float(numpy_value(tolerance)))


TABLE = _table()
"""Every function by name."""


def find(name: str) -> Function | None:
    """The function of that name, or None.

    >>> find("iota").arity, find("close").function((1, 2), (1, 2))
    ((1, 1), True)
    """
    return TABLE.get(name)


def names() -> tuple[str, ...]:
    """The names of all functions, sorted."""
    return tuple(sorted(TABLE))
