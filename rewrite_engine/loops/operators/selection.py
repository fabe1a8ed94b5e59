"""Operators whose results are as long as the elements say: NonMaxSuppression and Unique, read on the host."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from rewrite_engine.loops.arithmetic import Array
from rewrite_engine.loops.build import Builder, Tensor
from rewrite_engine.loops.dtypes import LOW_PRECISION
from rewrite_engine.loops.operators.common import Attributes, Operands, OperatorCompute, integer, optional, required


def _non_max_suppression(b: Builder, inputs: Operands, attributes: Attributes) -> list[Tensor]:
    """Rows (batch, class, box): per class the boxes by falling score that overlap none chosen before them."""
    boxes, scores = b.value(required(inputs, 0)), b.value(required(inputs, 1))
    most, overlap, least = (_scalar(b, optional(inputs, k)) for k in (2, 3, 4))
    if integer(attributes, "center_point_box"):
        centre, half = boxes[..., :2], boxes[..., 2:] / 2
        corners = np.concatenate([centre - half, centre + half], -1)
    else:
        corners = np.concatenate(
            [np.minimum(boxes[..., :2], boxes[..., 2:]), np.maximum(boxes[..., :2], boxes[..., 2:])], -1
        )
    rows: list[tuple[int, int, int]] = []
    for batch, of_batch in enumerate(scores):
        for kind, of_class in enumerate(of_batch):
            order = np.argsort(-of_class, kind="stable")
            wanted = [int(k) for k in order if least is None or of_class[k] > least]
            rows += [(batch, kind, k) for k in _apart(corners[batch], wanted, int(most or 0), overlap or 0.0)]
    return [b.constant(np.array(rows, np.int64).reshape(len(rows), 3))]


def _apart(corners: Array, order: list[int], most: int, overlap: float) -> list[int]:
    """The first `most` of `order` whose intersection over union with every one kept before is at most `overlap`."""
    area = np.prod(corners[:, 2:] - corners[:, :2], axis=1)
    kept: list[int] = []
    for k in order:
        if len(kept) >= most:
            break
        others = corners[kept]
        sides = np.minimum(others[:, 2:], corners[k, 2:]) - np.maximum(others[:, :2], corners[k, :2])
        shared = np.prod(np.maximum(sides, 0), axis=1)
        union = area[kept] + area[k] - shared
        if not np.any((shared > overlap * union) & (shared > 0)):
            kept.append(k)
    return kept


def _scalar(b: Builder, operand: Tensor | None) -> float | None:
    return None if operand is None else float(b.value(operand).reshape(-1)[0])


def _unique(b: Builder, inputs: Operands, attributes: Attributes) -> list[Tensor]:
    """The distinct elements (slices, along `axis`), where each is first, which each is, and how many there are."""
    x = b.value(required(inputs, 0))
    axis = integer(attributes, "axis") if "axis" in attributes else None
    keys = x.astype(np.float32) if x.dtype.name in LOW_PRECISION else x
    slices = keys.reshape(-1, 1) if axis is None else np.moveaxis(keys, axis, 0).reshape(keys.shape[axis], -1)
    _, first, inverse, counts = np.unique(slices, return_index=True, return_inverse=True, return_counts=True, axis=0)
    inverse = inverse.reshape(-1)
    if not integer(attributes, "sorted"):
        order = np.argsort(first, kind="stable")
        place = np.argsort(order, kind="stable")
        first, counts, inverse = first[order], counts[order], place[inverse]
    distinct = x.reshape(-1)[first] if axis is None else np.take(x, first, axis)
    facts = [np.asarray(fact, np.int64) for fact in (first, inverse, counts)]
    return [b.constant(distinct), *(b.constant(fact) for fact in facts)]


SELECTION: Mapping[str, OperatorCompute] = {
    "NonMaxSuppression": _non_max_suppression,
    "Unique": _unique,
}
"""Operator -> compute."""
