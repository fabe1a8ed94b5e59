"""Effective attributes: a node's attributes with defaults, absence, `auto_pad` and negative axes resolved.

Comes in: an operator, the attributes as written, the input types and constants. Goes out: a plain dict, sorted by name.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rewrite_engine.operators.dtypes import DTYPE_CODES
from rewrite_engine.operators.facts import Operator, find
from rewrite_engine.operators.types import Dimension, TensorType

Array = np.ndarray[Any, Any]
MOST_AXES = 64
"""The largest rank of a tensor, as in NumPy."""


@dataclass(frozen=True, slots=True)
class _Inputs:
    types: Sequence[TensorType | None]
    constants: Sequence[Array | None]

    def shape(self, position: int) -> tuple[Dimension, ...] | None:
        type_ = self.types[position] if position < len(self.types) else None
        return type_.shape if type_ is not None else None

    def rank(self, position: int) -> int | None:
        shape = self.shape(position)
        return None if shape is None else len(shape)

    def constant(self, position: int) -> Array | None:
        return self.constants[position] if position < len(self.constants) else None


def effective_attributes(
    op: str,
    attributes: Mapping[str, object],
    inputs: Sequence[TensorType | None],
    constants: Sequence[Array | None] = (),
) -> dict[str, object]:
    """The attributes of an application of `op`, made explicit; applying it twice changes nothing.

    Schema defaults are filled in, and so is the meaning of absence: `strides` and `dilations` of ones, `pads` of zeros,
    `perm` reversed, `kernel_shape` of the weight, `pads` for the shape at hand where `auto_pad` asks for them
    (`auto_pad` is NOTSET then). Negative axes are counted from the front where the rank is known.
    Ints, floats (rounded to float32, as ONNX stores them) and strings are plain; lists are tuples; anything else is
    handed through. What depends on an unknown shape stays as written, and so do attributes where one is not of its
    schema's kind. Attributes of operators that the table does not
    have are only made plain. An absent attribute without default or meaning stays absent.

    >>> effective_attributes("Transpose", {}, [TensorType("float32", (2, 3, 4))])
    {'perm': (2, 1, 0)}
    """
    found = {name: _plain(value) for name, value in attributes.items() if value is not None}
    operator = find(op)
    if operator is not None and all(a.fits(found[name]) for name, a in operator.attributes.items() if name in found):
        for name, attribute in operator.attributes.items():
            if name not in found and attribute.default is not None:
                found[name] = _plain(attribute.default)
        known = _Inputs(inputs, constants)
        _count_axes_from_the_front(operator, found, known)
        if op in _MEANINGS:
            _MEANINGS[op](found, known)
    return dict(sorted(found.items()))


def _plain(value: object) -> object:
    if isinstance(value, (str, bytes)):
        return value.decode() if isinstance(value, bytes) else str(value)
    if isinstance(value, (bool, int, np.integer, np.bool_)):
        return int(value)
    if isinstance(value, (float, np.floating)):
        return _single(float(value))
    if isinstance(value, (list, tuple)):
        return tuple(_plain(item) for item in value)
    return value


def _single(value: float) -> float:
    with np.errstate(over="ignore"):
        return float(np.float32(value))


def _count_axes_from_the_front(operator: Operator, found: dict[str, object], inputs: _Inputs) -> None:
    rank = inputs.rank(0)
    for name, extra in operator.axis_attributes.items():
        value = found.get(name)
        if rank is None or value is None:
            continue
        if isinstance(value, tuple):
            found[name] = tuple(a + rank + extra if a < 0 else a for a in value)
        elif isinstance(value, int) and value < 0:
            found[name] = value + rank + extra


# ---- windows: Conv and its kin, pools -------------------------------------------------------------------------------


def _window(weight: int | None) -> Callable[[dict[str, object], _Inputs], None]:
    """The meaning of window attributes over input 0; `weight` is the operand whose spatial shape is the kernel's."""

    def fill(found: dict[str, object], inputs: _Inputs) -> None:
        kernel = _fill_window(found, inputs, weight)
        auto = found.get("auto_pad", "NOTSET")
        if kernel is None:
            return
        zeros = (0,) * (2 * len(kernel))
        if auto == "VALID":
            found["pads"] = zeros
        elif auto in ("SAME_UPPER", "SAME_LOWER"):
            pads = _same_pads(found, inputs.shape(0), kernel, upper=auto == "SAME_UPPER")
            if pads is None:
                return
            found["pads"] = pads
        else:
            found.setdefault("pads", zeros)
        if "auto_pad" in found:
            found["auto_pad"] = "NOTSET"

    return fill


def _fill_window(found: dict[str, object], inputs: _Inputs, weight: int | None) -> tuple[Dimension, ...] | None:
    """Sets kernel_shape, strides and dilations; the kernel's sizes, or None when not even their number is known."""
    kernel: Any = found.get("kernel_shape")
    if kernel is None and weight is not None:
        shape = inputs.shape(weight)
        kernel = None if shape is None else shape[2:]
        if kernel is not None and all(isinstance(k, int) for k in kernel):
            found["kernel_shape"] = kernel
    if kernel is None:
        rank = inputs.rank(0)
        kernel = None if rank is None else (None,) * max(rank - 2, 0)
    if kernel is None:
        return None
    found.setdefault("strides", (1,) * len(kernel))
    found.setdefault("dilations", (1,) * len(kernel))
    return tuple(kernel)


def _same_pads(
    found: Mapping[str, Any], shape: tuple[Dimension, ...] | None, kernel: tuple[Dimension, ...], upper: bool
) -> tuple[int, ...] | None:
    """Pads so that the output has ceil(size / stride) elements; the odd one at the end (upper) or at the beginning."""
    before, after = [], []
    sizes = shape[2:] if shape is not None else (None,) * len(kernel)
    for size, k, stride, dilation in zip(sizes, kernel, found["strides"], found["dilations"], strict=False):
        if not isinstance(k, int) or stride < 1:
            return None
        reach = (k - 1) * dilation + 1
        if isinstance(size, int):
            total = max((-(-size // stride) - 1) * stride + reach - size, 0)
        elif stride == 1:  # the same for every size
            total = reach - 1
        else:
            return None
        small, large = total // 2, total - total // 2
        before.append(small if upper else large)
        after.append(large if upper else small)
    return (*before, *after) if len(before) == len(kernel) else None


def _conv_transpose(found: dict[str, Any], inputs: _Inputs) -> None:
    """ConvTranspose: `pads` follow from `output_shape` too (then dropped), or from SAME_*: at most size * stride.

    Where `output_shape` is beyond the natural size, the rest is `output_padding`.
    """
    kernel = _fill_window(found, inputs, 1)
    if kernel is None:
        return
    spatial = len(kernel)
    found.setdefault("output_padding", (0,) * spatial)
    auto, wanted = found["auto_pad"], found.get("output_shape")
    if auto in ("SAME_UPPER", "SAME_LOWER") or wanted is not None:
        shape = inputs.shape(0)
        sizes = [d for d in shape[2:] if isinstance(d, int)] if shape is not None else []
        windows = [k for k in kernel if isinstance(k, int)]
        lists = [sizes, windows, found["strides"], found["dilations"], found["output_padding"]]
        if wanted is not None:
            lists.append(wanted[-spatial:])
        if any(len(each) != spatial for each in lists):
            return
        before, after, beyond = [], [], []
        for i, (size, k) in enumerate(zip(sizes, windows, strict=True)):
            stride, extra = found["strides"][i], found["output_padding"][i]
            target = wanted[-spatial:][i] if wanted is not None else size * stride
            total = stride * (size - 1) + extra + (k - 1) * found["dilations"][i] + 1 - target
            small, large = max(total, 0) // 2, (max(total, 0) + 1) // 2
            before.append(small if auto == "SAME_UPPER" else large)
            after.append(large if auto == "SAME_UPPER" else small)
            beyond.append(extra + max(-total, 0) if wanted is not None else extra)
        found["pads"], found["output_padding"] = (*before, *after), tuple(beyond)
        found.pop("output_shape", None)
    elif auto == "VALID":
        found["pads"] = (0,) * (2 * spatial)
    else:
        found.setdefault("pads", (0,) * (2 * spatial))
    found["auto_pad"] = "NOTSET"


def _max_unpool(found: dict[str, object], inputs: _Inputs) -> None:
    kernel: Any = found.get("kernel_shape", ())
    found.setdefault("strides", (1,) * len(kernel))
    found.setdefault("pads", (0,) * (2 * len(kernel)))


def _deform_conv(found: dict[str, object], inputs: _Inputs) -> None:
    kernel = _fill_window(found, inputs, 1)
    if kernel is not None:
        found.setdefault("pads", (0,) * (2 * len(kernel)))


def _col2im(found: dict[str, object], inputs: _Inputs) -> None:
    shape = inputs.shape(1)
    if shape is not None and len(shape) == 1 and isinstance(shape[0], int) and shape[0] <= MOST_AXES:
        found.setdefault("strides", (1,) * shape[0])
        found.setdefault("dilations", (1,) * shape[0])
        found.setdefault("pads", (0,) * (2 * shape[0]))


# ---- the others -----------------------------------------------------------------------------------------------------


def _transpose(found: dict[str, object], inputs: _Inputs) -> None:
    rank = inputs.rank(0)
    if rank is not None:
        found.setdefault("perm", tuple(reversed(range(rank))))


def _all_axes(found: dict[str, object], inputs: _Inputs) -> None:
    rank = inputs.rank(0)
    if rank is not None:
        found.setdefault("axes", tuple(range(rank)))


def _shape(found: dict[str, Any], inputs: _Inputs) -> None:
    rank = inputs.rank(0)
    if rank is not None:
        for name, absent in (("start", 0), ("end", rank)):
            place = found.get(name, absent)
            found[name] = min(max(place + rank if place < 0 else place, 0), rank)


def _dtype_of_input(found: dict[str, object], inputs: _Inputs) -> None:
    first = inputs.types[0] if inputs.types else None
    if first is not None and first.dtype in DTYPE_CODES:
        found.setdefault("dtype", DTYPE_CODES[first.dtype])


def _constant_of_shape(found: dict[str, object], inputs: _Inputs) -> None:
    found.setdefault("value", np.zeros(1, np.float32))


def _recurrent(*activations: str) -> Callable[[dict[str, object], _Inputs], None]:
    def fill(found: dict[str, object], inputs: _Inputs) -> None:
        directions = 2 if found.get("direction") == "bidirectional" else 1
        found.setdefault("activations", activations * directions)
        state = inputs.shape(2)
        if state is not None and len(state) == 3 and isinstance(state[2], int):
            found.setdefault("hidden_size", state[2])

    return fill


def _attention(found: dict[str, Any], inputs: _Inputs) -> None:
    query, key = inputs.shape(0), inputs.shape(1)
    if not query:
        return
    if len(query) == 4:
        for name, shape in (("q_num_heads", query), ("kv_num_heads", key)):
            if shape is not None and len(shape) == 4 and isinstance(shape[1], int):
                found.setdefault(name, shape[1])
    width, heads = query[-1], 1 if len(query) == 4 else found.get("q_num_heads")
    if isinstance(width, int) and heads and 0 < heads <= width:
        found.setdefault("scale", _single(1 / math.sqrt(width // heads)))


_MEANINGS: Mapping[str, Callable[[dict[str, Any], _Inputs], None]] = {
    "Attention": _attention,
    "AveragePool": _window(None),
    "CenterCropPad": _all_axes,
    "Col2Im": _col2im,
    "ConstantOfShape": _constant_of_shape,
    "Conv": _window(1),
    "ConvInteger": _window(1),
    "ConvTranspose": _conv_transpose,
    "DeformConv": _deform_conv,
    "Bernoulli": _dtype_of_input,
    "EyeLike": _dtype_of_input,
    "GRU": _recurrent("Sigmoid", "Tanh"),
    "LSTM": _recurrent("Sigmoid", "Tanh", "Tanh"),
    "LpPool": _window(None),
    "MaxPool": _window(None),
    "MaxUnpool": _max_unpool,
    "QLinearConv": _window(3),
    "RNN": _recurrent("Tanh"),
    "RandomNormalLike": _dtype_of_input,
    "RandomUniformLike": _dtype_of_input,
    "Resize": _all_axes,
    "Shape": _shape,
    "Transpose": _transpose,
}
