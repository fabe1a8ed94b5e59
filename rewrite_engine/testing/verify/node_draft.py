"""One operator while its operands are being chosen: what is settled, what is open, and how shapes are drawn."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rewrite_engine import operators
from rewrite_engine.language.functions import numpy_dtype
from rewrite_engine.testing.verify.draws import Source, chance, choice

Array = np.ndarray[Any, Any]
Shape = tuple[int, ...]
LARGEST = 600
"""Elements of a tensor beyond which a drawn shape is cut down."""


@dataclass(slots=True)
class NodeDraft:
    """`present[k]`: whether operand k is there; its shape, dtype and elements are None while they are open.

    A sampler settles what is open: `shapes`, `values` (of operands that are read as numbers), `attributes`.
    """

    op: str
    source: Source
    sizes: Sequence[int]  # what dimensions are drawn from
    present: list[bool]
    dtypes: list[str]
    shapes: list[Shape | None]
    values: list[Array | None]
    attributes: dict[str, Any]
    ranks: list[int | None]  # what the operands' ranks should be, where the pattern says so
    fixed: frozenset[str] = frozenset()  # attributes that the pattern gives
    n_outputs: int = 1
    result_rank: int | None = None  # what the pattern says of the first result
    formals: list[str] = field(default_factory=list)

    def open(self, position: int) -> bool:
        """Whether the operand is there and its shape is not settled."""
        return position < len(self.present) and self.present[position] and self.shapes[position] is None

    def there(self, position: int) -> bool:
        """Whether the operand is there."""
        return position < len(self.present) and self.present[position]

    def size(self) -> int:
        """A dimension."""
        return choice(self.source, self.sizes)

    def shape(self, position: int = 0, least: int = 0, most: int = 5) -> Shape:
        """A shape for an open operand, or the one it has."""
        if position < len(self.shapes) and (known := self.shapes[position]) is not None:
            return known
        wanted = self.ranks[position] if position < len(self.ranks) else None
        if wanted is None or not least <= wanted <= most:
            wanted = choice(self.source, [r for r in (2, 3, 1, 2, 4, 0, 3, 5) if least <= r <= most])
        found = limited(tuple(self.size() for _ in range(wanted)))
        if self.there(position):
            self.shapes[position] = found
        return found

    def settle(self, position: int, shape: Sequence[int]) -> None:
        """Gives an open operand its shape."""
        if self.open(position):
            self.shapes[position] = tuple(shape)

    def whole(self, position: int, numbers: Sequence[int]) -> None:
        """Gives an open operand, a list of whole numbers, its elements."""
        if self.there(position) and self.values[position] is None and self.shapes[position] is None:
            self.values[position] = np.asarray(numbers, numpy_dtype(self.dtypes[position]))
            self.shapes[position] = (len(numbers),)

    def attribute(self, name: str, value: object) -> Any:
        """An attribute that is open; what it is then."""
        return self.attributes.setdefault(name, value)

    def axis(self, rank: int, name: str = "axis") -> int:
        """An axis of a tensor of that rank, as an attribute."""
        if name in self.attributes:
            return int(self.attributes[name])
        axis = self.source.integer(0, max(rank - 1, 0))
        return int(self.attribute(name, axis - rank if chance(self.source, 3) else axis))

    def partner(self, position: int, result: Shape) -> None:
        """An operand that broadcasts with a shape: mostly as it is, or with ones, other axes, or one element."""
        if not self.open(position):
            return
        wanted = self.ranks[position]
        source = self.source
        if wanted is not None and wanted <= len(result):
            result = result[len(result) - wanted :]
        kind = source.integer(0, 7)
        if kind <= 2:
            self.settle(position, result)
        elif kind == 3 and wanted is None:
            self.settle(position, result[source.integer(0, len(result)) :])
        elif kind == 4:
            self.settle(position, [1 if chance(source, 2) else n for n in result])
        elif kind == 5 and wanted is None and len(result) < 5:
            self.settle(position, limited((self.size(), *result)))
        elif kind == 6 and wanted is None and len(result) < 5:
            self.settle(position, (1,) * (len(result) + source.integer(0, 1)))
        else:
            self.settle(position, [self.size() if n == 1 and chance(source, 2) else n for n in result])

    @property
    def facts(self) -> operators.Operator | None:
        return operators.find(self.op)


def limited(shape: Shape) -> Shape:
    """The shape with its largest dimensions cut until it has few enough elements."""
    found = list(shape)
    while math.prod(found) > LARGEST:
        found[found.index(max(found))] = 1
    return tuple(found)


def joined(shapes: Sequence[Shape | None]) -> Shape | None:
    """What settled shapes broadcast to; None where there are none, or they do not fit."""
    known = [shape for shape in shapes if shape is not None]
    try:
        return tuple(np.broadcast_shapes(*known)) if known else None
    except ValueError:
        return None
