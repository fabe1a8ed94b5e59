"""Contractions: sums of products over shared axes. MatMul, Gemm, Einsum, Conv, ConvTranspose and their integer kin."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce

from rewrite_engine.loops.build import Builder, Tensor, Unsupported
from rewrite_engine.loops.dtypes import is_float
from rewrite_engine.loops.expr import Expr, cast, const, land, mul, select
from rewrite_engine.loops.operators.common import (
    Attributes,
    Operands,
    OperatorCompute,
    along,
    integer,
    integers,
    number,
    optional,
    required,
    text,
    working_dtype,
    zero,
)

Labels = Sequence[str]


def contract(b: Builder, operands: Sequence[tuple[Tensor, Labels]], result: Labels, dtype: str) -> Tensor:
    """The sum of products of operands, Einstein's way: axes of one label are one iterator, labels not in `result` are
    summed, and an axis of size 1 broadcasts. Low-precision floats are multiplied and summed in float32."""
    extents: dict[str, int] = {}
    for tensor, labels in operands:
        for label, n in zip(labels, tensor.shape, strict=True):
            if extents.get(label, 1) == 1:
                extents[label] = n
    summed = [label for label in extents if label not in result]

    def product(*i: Expr) -> Expr:
        at = dict(zip((*result, *summed), i, strict=True))
        factors = (
            tensor.lift(
                [at[label] if n == extents[label] else 0 for label, n in zip(labels, tensor.shape, strict=True)]
            )
            for tensor, labels in operands
        )
        return reduce(mul, factors)

    shape, extra = [extents[label] for label in result], [extents[label] for label in summed]
    return b.compute(shape, product, extra, "sum" if summed else None, dtype)


def matmul(b: Builder, x: Tensor, y: Tensor, dtype: str | None = None) -> Tensor:
    """NumPy's matmul: leading axes broadcast, a vector takes part as a row (x) or a column (y)."""
    batch = [f"b{k}" for k in range(max(x.rank, y.rank) - 2)]
    of_x = ["k"] if x.rank == 1 else [*batch[len(batch) - (x.rank - 2) :], "m", "k"]
    of_y = ["k"] if y.rank == 1 else [*batch[len(batch) - (y.rank - 2) :], "k", "n"]
    result = [*batch, *(["m"] if x.rank > 1 else []), *(["n"] if y.rank > 1 else [])]
    return contract(b, [(x, of_x), (y, of_y)], result, dtype or x.dtype)


def _matmul(b: Builder, inputs: Operands, attributes: Attributes) -> list[Tensor]:
    return [matmul(b, required(inputs, 0), required(inputs, 1))]


def _gemm(b: Builder, inputs: Operands, attributes: Attributes) -> list[Tensor]:
    x, y, c = required(inputs, 0), required(inputs, 1), optional(inputs, 2)
    alpha, beta = number(attributes, "alpha"), number(attributes, "beta")
    of_x = "km" if integer(attributes, "transA") else "mk"
    of_y = "nk" if integer(attributes, "transB") else "kn"
    product = contract(b, [(x, of_x), (y, of_y)], "mn", working_dtype(x.dtype))
    if alpha == 1 and c is None and product.dtype == x.dtype:
        return [product]

    whole = is_float(x.dtype) or (alpha.is_integer() and beta.is_integer())

    def finish(v: Expr, *bias: Expr) -> Expr:
        terms = [v, *bias] if whole else [cast(term, "float64") for term in (v, *bias)]
        scaled = terms[0] if alpha == 1 else terms[0] * alpha
        return scaled + (terms[1] if beta == 1 else terms[1] * beta) if bias else scaled

    return [b.map(finish, product, *([] if c is None else [c]), dtype=x.dtype)]


def _einsum(b: Builder, inputs: Operands, attributes: Attributes) -> list[Tensor]:
    operands = [required(inputs, i) for i in range(len(inputs))]
    left, arrow, right = text(attributes, "equation").replace(" ", "").partition("->")
    terms = left.split(",")
    hidden = [tensor.rank - len(term.replace("...", "")) for term, tensor in zip(terms, operands, strict=True)]
    ellipsis = [f"...{k}" for k in range(max(hidden))]

    def labels(term: str, count: int) -> list[str]:
        before, dots, after = term.partition("...")
        return [*before, *(ellipsis[len(ellipsis) - count :] if dots else []), *after]

    all_labels = [labels(term, count) for term, count in zip(terms, hidden, strict=True)]
    if arrow:
        result = labels(right, len(ellipsis))
    else:
        every = [label for term in all_labels for label in term]
        once = sorted(label for label in set(every) if every.count(label) == 1 and label not in ellipsis)
        result = [*(ellipsis if "..." in left else []), *once]
    return [contract(b, list(zip(operands, all_labels, strict=True)), result, operands[0].dtype)]


# ---- convolutions ---------------------------------------------------------------------------------------------------


def window_sizes(attributes: Attributes, sizes: Sequence[int], kernel: Sequence[int], ceil: bool = False) -> list[int]:
    """The number of windows along each spatial axis; `ceil` lets a last one that starts within reach beyond the end."""
    strides, dilations, pads = (integers(attributes, name) for name in ("strides", "dilations", "pads"))
    counts = []
    for axis, (size, k, stride, dilation) in enumerate(zip(sizes, kernel, strides, dilations, strict=True)):
        begin, end = pads[axis], pads[axis + len(kernel)]
        room = size + begin + end - (k - 1) * dilation - 1
        count = (-(-room // stride) if ceil else room // stride) + 1
        if ceil and (count - 1) * stride >= size + begin:
            count -= 1
        counts.append(max(count, 0))
    return counts


def window_indices(attributes: Attributes, windows: Sequence[Expr], taps: Sequence[Expr]) -> list[Expr]:
    """The input position of each tap of each window, counted without the padding."""
    strides, dilations, pads = (integers(attributes, name) for name in ("strides", "dilations", "pads"))
    return [
        window * stride + tap * dilation - pad
        for window, tap, stride, dilation, pad in zip(windows, taps, strides, dilations, pads, strict=False)
    ]


def convolve(b: Builder, x: Tensor, w: Tensor, attributes: Attributes, dtype: str) -> Tensor:
    """y[n, m, o...] = sum over c, k... of x[n, group's c, o*stride + k*dilation - pad] * w[m, c, k...]; 0 outside x."""
    spatial, kernel = x.rank - 2, w.shape[2:]
    groups, (filters, depth) = integer(attributes, "group"), w.shape[:2]
    if depth * groups != x.shape[1] or filters % groups:
        raise Unsupported(f"Conv of {x.shape[1]} channels with weights {list(w.shape)} in {groups} groups")

    def product(*i: Expr) -> Expr:
        n, m, *rest = i
        windows, c, taps = rest[:spatial], rest[spatial], rest[spatial + 1 :]
        channel = m // (filters // groups) * depth + c
        value = b.load_padded(x, [n, channel, *window_indices(attributes, windows, taps)], 0)
        return value * w.lift([m, c, *taps])

    shape = [x.shape[0], filters, *window_sizes(attributes, x.shape[2:], kernel)]
    return b.compute(shape, product, [depth, *kernel], "sum", dtype)


def add_bias(b: Builder, y: Tensor, bias: Tensor | None, dtype: str) -> Tensor:
    """y plus a bias per channel (axis 1), as `dtype`; y itself when there is nothing to do."""
    if bias is None:
        return y if y.dtype == dtype else b.map(lambda v: v, y, dtype=dtype)
    return b.map(lambda v, c: v + c, y, along(b, bias, y.rank, 1), dtype=dtype)


def _conv(b: Builder, inputs: Operands, attributes: Attributes) -> list[Tensor]:
    x, w, bias = required(inputs, 0), required(inputs, 1), optional(inputs, 2)
    return [add_bias(b, convolve(b, x, w, attributes, working_dtype(x.dtype)), bias, x.dtype)]


def _conv_transpose(b: Builder, inputs: Operands, attributes: Attributes) -> list[Tensor]:
    """In gather form: y[o] sums x[i] * w[k] over the i and k with i*stride + k*dilation - pad = o."""
    x, w, bias = required(inputs, 0), required(inputs, 1), optional(inputs, 2)
    spatial, kernel, groups = x.rank - 2, w.shape[2:], integer(attributes, "group")
    strides, dilations, pads = (integers(attributes, name) for name in ("strides", "dilations", "pads"))
    extra = integers(attributes, "output_padding")
    sizes = [
        (x.shape[2 + d] - 1) * strides[d] + (kernel[d] - 1) * dilations[d] + 1 + extra[d] - pads[d] - pads[d + spatial]
        for d in range(spatial)
    ]
    filters, depth = w.shape[1], x.shape[1] // groups  # per group

    def product(*i: Expr) -> Expr:
        n, m, *rest = i
        out, c, taps = rest[:spatial], rest[spatial], rest[spatial + 1 :]
        channel = m // filters * depth + c
        reach = [out[d] + pads[d] - taps[d] * dilations[d] for d in range(spatial)]
        fits = land(*((reach[d] % strides[d]).eq(0) for d in range(spatial)))
        value = b.load_padded(x, [n, channel, *(reach[d] // strides[d] for d in range(spatial))], 0)
        return select(fits, value, zero(value)) * w.lift([channel, m % filters, *taps])

    shape = [x.shape[0], filters * groups, *sizes]
    y = b.compute(shape, product, [depth, *kernel], "sum", working_dtype(x.dtype))
    return [add_bias(b, y, bias, x.dtype)]


# ---- integers -------------------------------------------------------------------------------------------------------


def shifted(b: Builder, x: Tensor, zero_point: Tensor | None) -> Tensor:
    """x - zero_point in int32 (the zero point already broadcasts with x)."""
    if zero_point is None:
        return b.map(lambda v: cast(v, "int32"), x)
    return b.map(lambda v, z: cast(v, "int32") - cast(z, "int32"), x, zero_point)


def per_axis(b: Builder, parameter: Tensor, rank: int, axis: int) -> Tensor:
    """A scale, zero point or bias for one axis, ready to broadcast; one for the whole tensor stays as it is."""
    if parameter.rank != 1 or parameter.shape[0] == 1 or rank < 2:
        return parameter
    return along(b, parameter, rank, axis % rank)


def _zero_point(b: Builder, parameter: Tensor | None, rank: int, axis: int) -> Tensor | None:
    return None if parameter is None else per_axis(b, parameter, rank, axis)


def _matmul_integer(b: Builder, inputs: Operands, attributes: Attributes) -> list[Tensor]:
    x, y = required(inputs, 0), required(inputs, 1)
    left = shifted(b, x, _zero_point(b, optional(inputs, 2), x.rank, -2))
    right = shifted(b, y, _zero_point(b, optional(inputs, 3), y.rank, -1))
    return [matmul(b, left, right)]


def _conv_integer(b: Builder, inputs: Operands, attributes: Attributes) -> list[Tensor]:
    x, w = required(inputs, 0), required(inputs, 1)
    weights = shifted(b, w, _zero_point(b, optional(inputs, 3), w.rank, 0))
    return [convolve(b, shifted(b, x, optional(inputs, 2)), weights, attributes, "int32")]


def _determinant(b: Builder, inputs: Operands, attributes: Attributes) -> list[Tensor]:
    """Along the first row where the matrices are small, else on the host by elimination."""
    x = required(inputs, 0)
    outer, size = x.shape[:-2], x.shape[-1]
    if size > 3:
        return b.host("determinant", [x], [(outer, x.dtype)])

    def element(*i: Expr) -> Expr:
        a = [[x.lift((*i, row, column)) for column in range(size)] for row in range(size)]
        if size < 2:
            return a[0][0] if size else const(1, working_dtype(x.dtype))
        if size == 2:
            return a[0][0] * a[1][1] - a[0][1] * a[1][0]
        minors = [a[1][(k + 1) % 3] * a[2][(k + 2) % 3] - a[1][(k + 2) % 3] * a[2][(k + 1) % 3] for k in range(3)]
        return a[0][0] * minors[0] + a[0][1] * minors[1] + a[0][2] * minors[2]

    return [b.compute(outer, element, dtype=x.dtype)]


CONTRACTIONS: Mapping[str, OperatorCompute] = {
    "Det": _determinant,
    "Conv": _conv,
    "ConvInteger": _conv_integer,
    "ConvTranspose": _conv_transpose,
    "Einsum": _einsum,
    "Gemm": _gemm,
    "MatMul": _matmul,
    "MatMulInteger": _matmul_integer,
}
"""Operator -> compute."""
