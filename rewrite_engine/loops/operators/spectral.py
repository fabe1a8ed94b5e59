"""Spectral operators: DFT and STFT as contractions with a constant table."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from rewrite_engine.loops.build import Builder, Tensor, Unsupported
from rewrite_engine.loops.dtypes import numpy_dtype
from rewrite_engine.loops.expr import Expr
from rewrite_engine.loops.operators.common import (
    Attributes,
    Operands,
    OperatorCompute,
    host_integer,
    integer,
    optional,
    replaced,
    required,
)


def _fourier_table(b: Builder, size: int, bins: int, parts: int, inverse: bool, dtype: str) -> Tensor:
    """[part in, sample, bin, part out], parts being real and imaginary."""
    angle = 2 * np.pi * np.outer(np.arange(size), np.arange(bins)) / size * (1 if inverse else -1)
    real = np.stack([np.cos(angle), np.sin(angle)], -1)
    imaginary = np.stack([-np.sin(angle), np.cos(angle)], -1)
    table = np.stack([real, imaginary])[:parts] * (1 / size if inverse else 1)
    return b.constant(table.astype(numpy_dtype(dtype)))


def _dft(b: Builder, inputs: Operands, attributes: Attributes) -> list[Tensor]:
    x, length, axis_operand = required(inputs, 0), optional(inputs, 1), optional(inputs, 2)
    axis = (-2 if axis_operand is None else host_integer(b, axis_operand)) % x.rank
    inverse, one_sided = bool(integer(attributes, "inverse")), bool(integer(attributes, "onesided"))
    if inverse and one_sided:
        natural = 2 * (x.shape[axis] - 1)
        return [_real_signal(b, x, axis, natural if length is None else host_integer(b, length))]
    size = x.shape[axis] if length is None else host_integer(b, length)
    bins, parts = size // 2 + 1 if one_sided else size, x.shape[-1]
    table = _fourier_table(b, size, bins, parts, inverse, x.dtype)

    def product(*i: Expr) -> Expr:
        *outer, sample, part = i
        source = (*replaced(outer, axis, sample)[:-1], part)
        return b.load_padded(x, source, 0) * table.lift([part, sample, outer[axis], outer[-1]])

    shape = [*x.shape[:axis], bins, *x.shape[axis + 1 : -1], 2]
    return [b.compute(shape, product, [size, parts], "sum", x.dtype)]


def _real_signal(b: Builder, x: Tensor, axis: int, size: int) -> Tensor:
    """The real signal of `size` samples whose spectrum begins with the bins of x, most of them twin."""
    bins = size // 2 + 1
    twins = np.where((np.arange(bins) == 0) | (2 * np.arange(bins) == size), 1, 2)[:, None] / size
    angle = 2 * np.pi * np.outer(np.arange(bins), np.arange(size)) / size
    table = np.stack([np.cos(angle) * twins, -np.sin(angle) * twins])  # [part, bin, sample]
    factors = b.constant(table.astype(numpy_dtype(x.dtype)))

    def product(*i: Expr) -> Expr:
        *outer, k, part = i
        source = (*replaced(outer, axis, k)[:-1], part)
        return b.load_padded(x, source, 0) * factors.lift([part, k, outer[axis]])

    return b.compute([*x.shape[:axis], size, *x.shape[axis + 1 : -1], 1], product, [bins, 2], "sum", x.dtype)


def _stft(b: Builder, inputs: Operands, attributes: Attributes) -> list[Tensor]:
    """[batch, frame, bin, part]: the Fourier transform of each windowed frame of the signal."""
    signal, step = required(inputs, 0), host_integer(b, required(inputs, 1))
    window, length = optional(inputs, 2), optional(inputs, 3)
    if window is not None:
        size = window.shape[0]
    elif length is not None:
        size = host_integer(b, length)
    else:
        raise Unsupported("STFT without a window and a frame length")
    frames = (signal.shape[1] - size) // step + 1
    bins = size // 2 + 1 if integer(attributes, "onesided") else size
    parts = signal.shape[2] if signal.rank == 3 else 1
    table = _fourier_table(b, size, bins, parts, False, signal.dtype)

    def product(n: Expr, frame: Expr, k: Expr, out: Expr, sample: Expr, part: Expr) -> Expr:
        place = [n, frame * step + sample]
        value = signal.lift([*place, part] if signal.rank == 3 else place)
        if window is not None:
            value = value * window.lift([sample])
        return value * table.lift([part, sample, k, out])

    return [b.compute([signal.shape[0], frames, bins, 2], product, [size, parts], "sum", signal.dtype)]


SPECTRAL: Mapping[str, OperatorCompute] = {"DFT": _dft, "STFT": _stft}
"""Operator -> compute."""
