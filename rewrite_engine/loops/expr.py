"""Interned expressions: what one element of a compute is, as a function of iterators and of elements of tensors.

Two kinds share one class. Index expressions (dtype "index") are exact integers, always in the normal form of `index`.
Value expressions carry an element type; nothing about their arithmetic is simplified, so every rounding stays.
Equal expressions are the same object. A load outside its tensor reads the nearest element (and 0 from an empty tensor),
so both sides of a `select` may be evaluated anywhere.
"""

from __future__ import annotations

import functools
import hashlib
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from rewrite_engine.loops.dtypes import INDEX, is_float, numpy_dtype

Scalar = bool | int | float

UNARY_FUNCTIONS = frozenset(
    {"exp", "log", "log1p", "sqrt", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "asinh", "acosh",
     "atanh", "tanh", "erf", "floor", "ceil", "round", "trunc", "abs", "sign", "neg", "not", "bit_not", "isnan",
     "isinf"}
)  # fmt: skip
BINARY_FUNCTIONS = frozenset(
    {"pow", "mod", "fmod", "bit_and", "bit_or", "bit_xor", "xor", "shift_left", "shift_right", "atan2"}
)
"""What `call` knows. `round` is half to even, `mod` follows the divisor's sign, `fmod` the dividend's."""

_PREDICATES = frozenset({"isnan", "isinf", "not", "xor"})


@dataclass(frozen=True, eq=False, slots=True, weakref_slot=True)
class Expr:
    """One node. Build them with the functions below; `value` depends on `op` (see `intern`).

    Index nodes:  const, var (name, extent), lin (constant, coefficients), fdiv (divisor), imul, min, max, select, cast
    Value nodes:  const, load (tensor), cast (saturate), select, lt le eq and or, add sub mul div min max, acc, calls
    """

    op: str
    args: tuple[Expr, ...]
    dtype: str
    value: object
    digest: bytes  # of the structure: the same in every process, so it also orders terms
    inner_variables: frozenset[Expr]
    bounds: tuple[int, int] | None = field(default=None, init=False, repr=False)  # memo of `index.bounds`

    @property
    def variables(self) -> frozenset[Expr]:
        """The iterators it depends on (those of load indices included)."""
        return frozenset((self,)) if self.op == "var" else self.inner_variables

    @property
    def extent(self) -> int:
        """Of an iterator: how many values it takes, from 0."""
        assert self.op == "var" and isinstance(self.value, tuple)
        return int(self.value[1])

    @property
    def name(self) -> str:
        """The name of an iterator, or of the tensor that a load reads."""
        assert self.op in ("var", "load")
        return str(self.value[0] if isinstance(self.value, tuple) else self.value)

    def __add__(self, other: Expr | Scalar) -> Expr:
        return add(self, other)

    def __radd__(self, other: Scalar) -> Expr:
        return add(other, self)

    def __sub__(self, other: Expr | Scalar) -> Expr:
        return sub(self, other)

    def __rsub__(self, other: Scalar) -> Expr:
        return sub(other, self)

    def __mul__(self, other: Expr | Scalar) -> Expr:
        return mul(self, other)

    def __rmul__(self, other: Scalar) -> Expr:
        return mul(other, self)

    def __truediv__(self, other: Expr | Scalar) -> Expr:
        return div(self, other)

    def __rtruediv__(self, other: Scalar) -> Expr:
        return div(other, self)

    def __floordiv__(self, divisor: int) -> Expr:
        return _index.floor_divide(self, divisor)

    def __mod__(self, divisor: int) -> Expr:
        return _index.modulo(self, divisor)

    def __neg__(self) -> Expr:
        return mul(self, -1) if self.dtype == INDEX else call("neg", self)

    def __lt__(self, other: Expr | Scalar) -> Expr:
        return lt(self, other)

    def __le__(self, other: Expr | Scalar) -> Expr:
        return le(self, other)

    def __gt__(self, other: Expr | Scalar) -> Expr:
        return lt(other, self)

    def __ge__(self, other: Expr | Scalar) -> Expr:
        return le(other, self)

    def __and__(self, other: Expr) -> Expr:
        return land(self, other)

    def __or__(self, other: Expr) -> Expr:
        return lor(self, other)

    def __invert__(self) -> Expr:
        return call("not", self)

    def eq(self, other: Expr | Scalar) -> Expr:
        """The condition that both are equal (`==` compares the expressions themselves)."""
        return eq(self, other)

    def __bool__(self) -> bool:
        raise TypeError("an expression has no truth value here; use select, &, | and ~ for conditions on elements")

    def __repr__(self) -> str:
        from rewrite_engine.loops.text import text

        return text(self)


_nodes: weakref.WeakValueDictionary[bytes, Expr] = weakref.WeakValueDictionary()


def intern(op: str, args: tuple[Expr, ...] = (), dtype: str = INDEX, value: object = None) -> Expr:
    """The one node of this structure. It simplifies nothing: callers hand it normal forms."""
    content = "\0".join((op, dtype, repr(value))).encode()
    digest = hashlib.blake2b(b"".join([content, *[arg.digest for arg in args]]), digest_size=16).digest()
    node = _nodes.get(digest)
    if node is None:
        free = frozenset[Expr]().union(*[arg.variables for arg in args])
        node = _nodes[digest] = Expr(op, args, dtype, value, digest, free)
    return node


def const(value: Scalar, dtype: str) -> Expr:
    """A constant, rounded to `dtype`."""
    if dtype == INDEX:
        return intern("const", (), INDEX, int(value))
    if dtype == "bool":
        return intern("const", (), dtype, bool(value))
    element = numpy_dtype(dtype).type(value)
    return intern("const", (), dtype, float(element) if is_float(dtype) else int(element))


@functools.lru_cache(maxsize=1 << 14)
def var(name: str, extent: int) -> Expr:
    """An iterator over 0 .. extent-1; one that can only be 0 is the constant 0."""
    return const(0, INDEX) if extent == 1 else intern("var", (), INDEX, (name, int(extent)))


def load(tensor: str, indices: Iterable[Expr | int], dtype: str) -> Expr:
    """The element of a tensor at `indices` (one per axis)."""
    return intern("load", tuple(wrap(index, INDEX) for index in indices), dtype, tensor)


def accumulator(dtype: str) -> Expr:
    """Inside an epilogue: the finished value of the reduction."""
    return intern("acc", (), dtype)


def wrap(value: Expr | Scalar, dtype: str) -> Expr:
    """The expression itself, or a Python number as a constant of `dtype`."""
    return value if isinstance(value, Expr) else const(value, dtype)


def cast(value: Expr, dtype: str, saturate: bool = True) -> Expr:
    """The value as `dtype`; `saturate` matters to 8-bit floats only. A cast to "index" makes data an index."""
    if value.dtype == dtype:
        return value
    if value.op == "const" and value.dtype == INDEX:
        assert isinstance(value.value, int)
        return const(value.value, dtype)
    return intern("cast", (value,), dtype, saturate)


def call(name: str, *args: Expr | Scalar, dtype: str | None = None) -> Expr:
    """A function of `UNARY_FUNCTIONS` or `BINARY_FUNCTIONS`, of the arguments' type unless `dtype` says otherwise."""
    arity = 1 if name in UNARY_FUNCTIONS else 2 if name in BINARY_FUNCTIONS else 0
    if arity != len(args):
        raise ValueError(f"unknown function {name!r} of {len(args)} arguments")
    operands = _same_type(args)
    if name == "not" and operands[0].op == "const":
        return const(not operands[0].value, "bool")
    return intern(name, operands, dtype or ("bool" if name in _PREDICATES else operands[0].dtype))


def bitcast(value: Expr, dtype: str) -> Expr:
    """The value with the same bits, of another dtype of the same width."""
    return value if value.dtype == dtype else intern("bitcast", (value,), dtype)


def add(a: Expr | Scalar, b: Expr | Scalar) -> Expr:
    """a + b."""
    return _arithmetic("add", a, b)


def sub(a: Expr | Scalar, b: Expr | Scalar) -> Expr:
    """a - b."""
    return _arithmetic("sub", a, b)


def mul(a: Expr | Scalar, b: Expr | Scalar) -> Expr:
    """a * b."""
    return _arithmetic("mul", a, b)


def div(a: Expr | Scalar, b: Expr | Scalar) -> Expr:
    """a / b of values: integers truncate towards zero, and x / 0 is 0 for them."""
    return intern("div", (pair := _same_type((a, b))), pair[0].dtype)


def minimum(a: Expr | Scalar, b: Expr | Scalar) -> Expr:
    """The smaller; NaN if either is."""
    return _extremum("min", a, b)


def maximum(a: Expr | Scalar, b: Expr | Scalar) -> Expr:
    """The larger; NaN if either is."""
    return _extremum("max", a, b)


def lt(a: Expr | Scalar, b: Expr | Scalar) -> Expr:
    """The condition a < b, decided by bounds where it can be."""
    return _compare("lt", a, b)


def le(a: Expr | Scalar, b: Expr | Scalar) -> Expr:
    """The condition a <= b, decided by bounds where it can be."""
    return _compare("le", a, b)


def eq(a: Expr | Scalar, b: Expr | Scalar) -> Expr:
    """The condition a == b, decided by bounds where it can be."""
    return _compare("eq", a, b)


def land(*conditions: Expr) -> Expr:
    """All of the conditions (true for none)."""
    return _logical("and", conditions)


def lor(*conditions: Expr) -> Expr:
    """Any of the conditions (false for none)."""
    return _logical("or", conditions)


def select(condition: Expr, then: Expr | Scalar, otherwise: Expr | Scalar) -> Expr:
    """`then` where the condition holds, else `otherwise`. At least one of the two is an expression."""
    a, b = _same_type((then, otherwise))
    if condition.op == "const":
        return a if condition.value else b
    if a is b:
        return a
    if a.op == "select" and a.args[2] is b:  # select(p, select(q, x, z), z) => select(p & q, x, z)
        return intern("select", (land(condition, a.args[0]), a.args[1], b), a.dtype)
    return intern("select", (condition, a, b), a.dtype)


def _same_type(values: Sequence[Expr | Scalar]) -> tuple[Expr, ...]:
    """The operands as expressions of their one type, which numbers take."""
    dtype = next((value.dtype for value in values if isinstance(value, Expr)), None)
    operands = []
    for value in values:
        if dtype is None or (isinstance(value, Expr) and value.dtype != dtype):
            shown = ", ".join(value.dtype if isinstance(value, Expr) else repr(value) for value in values)
            raise TypeError(f"operands of one type expected, found {shown}; cast one of them")
        operands.append(value if isinstance(value, Expr) else const(value, dtype))
    return tuple(operands)


def _arithmetic(op: str, a: Expr | Scalar, b: Expr | Scalar) -> Expr:
    pair = _same_type((a, b))
    if pair[0].dtype == INDEX:
        return {"add": _index.add, "sub": _index.subtract, "mul": _index.multiply}[op](*pair)
    return intern(op, pair, pair[0].dtype)


def _extremum(op: str, a: Expr | Scalar, b: Expr | Scalar) -> Expr:
    pair = _same_type((a, b))
    if pair[0].dtype == INDEX:
        low, high = _index.bounds(_index.subtract(*pair))
        if high <= 0 or low >= 0:
            return pair[0] if (high <= 0) == (op == "min") else pair[1]
    return intern(op, pair, pair[0].dtype)


def _compare(op: str, a: Expr | Scalar, b: Expr | Scalar) -> Expr:
    pair = _same_type((a, b))
    if pair[0].dtype == INDEX:
        known = _index.decide(op, *_index.bounds(_index.subtract(pair[1], pair[0])))
        if known is not None:
            return const(known, "bool")
    return intern(op, pair, "bool")


def _logical(op: str, conditions: Sequence[Expr]) -> Expr:
    neutral = op == "and"
    kept: dict[Expr, None] = {}
    for condition in conditions:
        if condition.op == "const":
            if bool(condition.value) != neutral:
                return condition
        else:
            kept.update(dict.fromkeys(condition.args if condition.op == op else (condition,)))
    if not kept:
        return const(neutral, "bool")
    return intern(op, tuple(kept), "bool") if len(kept) > 1 else next(iter(kept))


# ---------------------------------------------------------------- walks


def postorder(*roots: Expr) -> Iterator[Expr]:
    """Every node below `roots` once, arguments before their users."""
    done: set[Expr] = set()
    stack = [(root, False) for root in reversed(roots)]
    while stack:
        node, expanded = stack.pop()
        if node in done:
            continue
        if expanded or not node.args:
            done.add(node)
            yield node
        else:
            stack.append((node, True))
            stack.extend((arg, False) for arg in reversed(node.args))


def loads(*roots: Expr) -> list[Expr]:
    """Every load below `roots`, those inside indices included."""
    return [node for node in postorder(*roots) if node.op == "load"]


def rebuild(node: Expr, args: Sequence[Expr]) -> Expr:
    """The node with other arguments, back in normal form."""
    rule = _REBUILD.get(node.op)
    if rule is not None:
        return rule(*args)
    if node.op == "lin":
        return _index.combine(node, args)
    if node.op == "fdiv":
        assert isinstance(node.value, int)
        return _index.floor_divide(args[0], node.value)
    if node.op == "cast":
        return cast(args[0], node.dtype, bool(node.value))
    return intern(node.op, tuple(args), node.dtype, node.value)


def substitute(
    root: Expr, replacements: Mapping[Expr, Expr], on_load: Callable[[Expr], Expr | None] | None = None
) -> Expr:
    """`root` with nodes replaced; `on_load` may replace each load once its own indices are done (None keeps it)."""
    done: dict[Expr, Expr] = dict(replacements)
    for node in postorder(root):
        if node in done:
            continue
        args = [done[arg] for arg in node.args]
        result = node if all(map(_same, args, node.args)) else rebuild(node, args)
        if on_load is not None and result.op == "load":
            loaded = on_load(result)
            result = result if loaded is None else loaded
        done[node] = result
    return done[root]


def _same(a: Expr, b: Expr) -> bool:
    return a is b


from rewrite_engine.loops import index as _index  # noqa: E402  (the normal form of indices is built from the nodes above)

_REBUILD: Mapping[str, Callable[..., Expr]] = {
    "add": add, "sub": sub, "mul": mul, "imul": mul, "div": div, "min": minimum, "max": maximum, "lt": lt, "le": le,
    "eq": eq, "and": land, "or": lor, "select": select, "not": lambda a: call("not", a),
}  # fmt: skip
