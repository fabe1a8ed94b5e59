"""One application of an operator as the rules of type inference see it, and arithmetic on dimensions.

A dimension is a size, a symbol (equal to itself) or unknown; a shape is None when not even the rank is known.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Sized
from dataclasses import dataclass
from typing import Any

import numpy as np

from rewrite_engine.diagnostics import RewriteError
from rewrite_engine.operators.effective import MOST_AXES
from rewrite_engine.operators.facts import Operator
from rewrite_engine.operators.types import Dimension, TensorType

Array = np.ndarray[Any, Any]
Shape = tuple[Dimension, ...]
Shapes = Sequence[Shape | None]


class TypeMismatch(RewriteError):
    """Inputs or attributes that an operator does not take: a dtype, rank, channel count or shape that cannot be."""


@dataclass(frozen=True, slots=True)
class Call:
    """An operator, its effective attributes, the types of its inputs (None: absent) and those that are constants."""

    operator: Operator
    attributes: Mapping[str, Any]
    inputs: Sequence[TensorType | None]
    constants: Sequence[Array | None]
    n_outputs: int

    def given(self, position: int) -> bool:
        """Whether the operand is there."""
        return position < len(self.inputs) and self.inputs[position] is not None

    def shape(self, position: int) -> Shape | None:
        """The operand's shape; None when it is absent or of unknown rank."""
        type_ = self.inputs[position] if position < len(self.inputs) else None
        return None if type_ is None else type_.shape

    def constant(self, position: int) -> Array | None:
        """The operand's elements, when they are known."""
        return self.constants[position] if position < len(self.constants) else None

    def ints(self, position: int) -> tuple[int, ...] | None:
        """The elements of a constant operand as ints, flattened; None when they are not known. Raises for others."""
        value = self.constant(position)
        if value is None:
            return None
        flat = np.asarray(value).reshape(-1)
        if flat.dtype.kind not in "iub" and not all(_is_whole(v) for v in flat):
            raise self.fail(f"{self.label(position)} holds something other than whole numbers")
        return tuple(int(v) for v in flat)

    def one(self, position: int) -> int | None:
        """The one element of a constant operand; None when it is not known. Raises for another number of elements."""
        found = self.ints(position)
        if found is not None and len(found) != 1:
            raise self.fail(f"{self.label(position)} has {len(found)} elements, expected 1")
        return None if found is None else found[0]

    def counted(self, what: str, values: Sized, expected: int) -> None:
        """Raises unless there are as many values as expected."""
        if len(values) != expected:
            raise self.fail(f"{what} has {len(values)} elements, expected {expected}")

    def attributes_counted(self, names: Sequence[str], expected: int) -> None:
        """Raises unless each of these attributes, where given, has as many elements as expected (`pads`: twice)."""
        for name in names:
            found = self.attributes.get(name)
            if found is not None:
                self.counted(f"attribute {name}", found, 2 * expected if name == "pads" else expected)

    def axis(self, axis: int, rank: int) -> int:
        """The axis counted from the front; raises when it is outside [-rank, rank)."""
        if not -rank <= axis < rank:
            raise self.fail(f"axis {axis} is outside [-{rank}, {rank})")
        return axis % rank

    def axes(self, axes: Iterable[int], rank: int) -> tuple[int, ...]:
        """Several axes counted from the front; raises when one is out of range or named twice."""
        found = tuple(self.axis(a, rank) for a in axes)
        if len(set(found)) != len(found):
            raise self.fail(f"axes {list(axes)} name one axis twice")
        return found

    def label(self, position: int) -> str:
        """The operand as messages name it: input 1 (W)."""
        formal = self.operator.input(position)
        return f"input {position} ({formal.name if formal else '?'})"

    def fail(self, message: str) -> TypeMismatch:
        """The error: the operator, the message, and the types of the inputs at hand."""
        shown = ", ".join("none" if t is None else str(t) for t in self.inputs)
        return TypeMismatch(f"{self.operator.name}: {message}; inputs are ({shown})")

    def expect_rank(self, position: int, *ranks: int) -> Shape | None:
        """The operand's shape, whose rank must be one of these when it is known."""
        shape = self.shape(position)
        if shape is not None and len(shape) not in ranks:
            wanted = " or ".join(str(r) for r in ranks)
            raise self.fail(f"{self.label(position)} has rank {len(shape)}, expected {wanted}")
        return shape

    def same(self, left: Dimension, right: Dimension, what: str) -> Dimension:
        """Two dimensions that must be equal, as the better known one; raises when they are different sizes."""
        if isinstance(left, int) and isinstance(right, int) and left != right:
            raise self.fail(f"{what} differ: {left} and {right}")
        if isinstance(left, int) or right is None:
            return left
        return right if isinstance(right, int) or left is None else left

    def broadcast(self, shapes: Iterable[Shape | None]) -> Shape | None:
        """The common shape under NumPy's broadcasting; None when a rank is unknown. Raises when there is none."""
        result: Shape = ()
        for shape in shapes:
            if shape is None:
                return None
            longer, shorter = (result, shape) if len(result) >= len(shape) else (shape, result)
            offset = len(longer) - len(shorter)
            tail = tuple(self._stretch(a, b) for a, b in zip(longer[offset:], shorter, strict=True))
            result = longer[:offset] + tail
        return result

    def _stretch(self, left: Dimension, right: Dimension) -> Dimension:
        if left == right or right == 1:
            return left
        if left == 1:
            return right
        if isinstance(left, int) and isinstance(right, int):
            raise self.fail(f"dimensions {left} and {right} do not broadcast")
        if isinstance(left, int) or isinstance(right, int):
            return left if isinstance(left, int) else right
        return None  # two symbols: either may turn out to be 1

    def unknown_of_rank(self, position: int) -> Shape | None:
        """Unknown dimensions, as many as the operand (a vector of sizes) has elements; None when that is not known."""
        shape = self.shape(position)
        count = shape[0] if shape is not None and len(shape) == 1 else None
        if isinstance(count, int) and count > MOST_AXES:
            raise self.fail(f"{self.label(position)} asks for {count} axes; at most {MOST_AXES} are possible")
        return (None,) * count if isinstance(count, int) else None

    def broadcast_to(self, position: int, target: Shape) -> None:
        """Raises unless the operand broadcasts to the target without changing it."""
        shape = self.shape(position) or ()
        if len(shape) > len(target):
            raise self.fail(f"{self.label(position)} has more axes than the result")
        for dim, wanted in zip(reversed(shape), reversed(target), strict=False):
            if isinstance(dim, int) and isinstance(wanted, int) and dim not in (1, wanted):
                raise self.fail(f"{self.label(position)} does not broadcast to {list(target)}")

    def divided(self, dim: Dimension, divisor: int, what: str) -> Dimension:
        """The size over the divisor; raises when that is no whole number."""
        if isinstance(dim, int):
            if divisor < 1 or dim % divisor:
                raise self.fail(f"{what} {dim} are not a multiple of {divisor}")
            return dim // divisor
        return dim if divisor == 1 else None


def _is_whole(value: Any) -> bool:
    return bool(np.isreal(value) and np.isfinite(value) and value == int(value))


def product(dims: Iterable[Dimension]) -> Dimension:
    """The product: a size, a single symbol, or unknown; zero whatever the others are."""
    size, symbols = 1, []
    for dim in dims:
        if isinstance(dim, int):
            size *= dim
        else:
            symbols.append(dim)
    if size == 0 or not symbols:
        return size
    return symbols[0] if size == 1 and len(symbols) == 1 else None


def total(dims: Iterable[Dimension]) -> Dimension:
    """The sum: a size, a symbol to which nothing is added, or unknown."""
    terms = [d for d in dims if d != 0]
    if len(terms) == 1:
        return terms[0]
    sizes = [d for d in terms if isinstance(d, int)]
    return sum(sizes) if len(sizes) == len(terms) else None


def quotient(dims: Sequence[Dimension], divisors: Sequence[Dimension]) -> Dimension | float:
    """The product of `dims` over that of `divisors`, symbols cancelled; a float when it is no whole number."""
    if None in dims or None in divisors:
        return None
    above, below = Counter(d for d in dims if isinstance(d, str)), Counter(d for d in divisors if isinstance(d, str))
    above, below = above - below, below - above
    size, divisor = 1, 1
    for dim in dims:
        size *= dim if isinstance(dim, int) else 1
    for dim in divisors:
        divisor *= dim if isinstance(dim, int) else 1
    if divisor == 0 or below:
        return None
    if not above:
        return size // divisor if size % divisor == 0 else size / divisor
    return next(iter(above)) if size == divisor and above.total() == 1 else None
