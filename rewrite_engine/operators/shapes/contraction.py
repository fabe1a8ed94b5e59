"""Result shapes of contractions and windows: matrix products, attention, convolutions, pools, sampling."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from rewrite_engine.operators.calls import Call, Shape, Shapes, product, total
from rewrite_engine.operators.types import Dimension


def _matmul(left: int, right: int) -> Callable[[Call], Shapes]:
    """numpy.matmul of two operands."""

    def shapes(call: Call) -> Shapes:
        a, b = call.shape(left), call.shape(right)
        for position, shape in ((left, a), (right, b)):
            if shape == ():
                raise call.fail(f"{call.label(position)} is a scalar")
        if a is None or b is None:
            return [None]
        call.same(a[-1], b[-2] if len(b) > 1 else b[0], "columns of the left and rows of the right operand")
        batch = call.broadcast([a[:-2], b[:-2]])
        rows, columns = a[-2:-1], b[-1:] if len(b) > 1 else ()
        return [None if batch is None else batch + rows + columns]

    return shapes


def _gemm(call: Call) -> Shapes:
    a, b = call.expect_rank(0, 2) or (None, None), call.expect_rank(1, 2) or (None, None)
    rows, inner = reversed(a) if call.attributes["transA"] else a
    inner_too, columns = reversed(b) if call.attributes["transB"] else b
    call.same(inner, inner_too, "the dimensions that are summed over")
    if call.shape(2) is not None:
        call.broadcast_to(2, (rows, columns))
    return [(rows, columns)]


def _einsum(call: Call) -> Shapes:
    equation = str(call.attributes["equation"]).replace(" ", "")
    left, arrow, right = equation.partition("->")
    terms = left.split(",")
    if len(terms) != len(call.inputs):
        raise call.fail(f"equation {equation} has {len(terms)} operands")
    if any(call.shape(i) is None for i in range(len(terms))):
        return [None]
    sizes: dict[str, Dimension] = {}
    batches: list[Shape | None] = []
    for i, term in enumerate(terms):
        shape, named = call.shape(i) or (), len(term.replace("...", ""))
        if len(shape) < named or ("..." not in term and len(shape) != named):
            raise call.fail(f"{call.label(i)} has rank {len(shape)}, the equation says {term}")
        before = term.partition("...")[0]
        hidden = len(shape) - named
        batches.append(shape[len(before) : len(before) + hidden])
        dims = shape[: len(before)] + shape[len(before) + hidden :]
        for letter, dim in zip(term.replace("...", ""), dims, strict=True):
            known = sizes.get(letter, 1)  # a size of 1 broadcasts
            sizes[letter] = dim if known == 1 else known if dim == 1 else call.same(known, dim, f"sizes of {letter}")
    if not arrow:
        letters = left.replace(",", "").replace("...", "")
        right = ("..." if "..." in left else "") + "".join(c for c in sorted(sizes) if letters.count(c) == 1)
    missing = [c for c in right.replace("...", "") if c not in sizes]
    if missing:
        raise call.fail(f"equation {equation} has `{missing[0]}` on the right only")
    batch = call.broadcast(batches) or ()
    before, _, after = right.partition("...")
    middle = batch if "..." in right else ()
    return [tuple(sizes[c] for c in before) + middle + tuple(sizes[c] for c in after)]


def _attention(call: Call) -> Shapes:
    query, key, value = call.expect_rank(0, 3, 4), call.expect_rank(1, 3, 4), call.expect_rank(2, 3, 4)
    past = call.expect_rank(4, 4)
    if query is None or key is None or value is None:
        return [None] * 4
    if not len(query) == len(key) == len(value):
        raise call.fail("Q, K and V differ in rank")
    if len(query) == 4:
        call.same(query[3], key[3], "head sizes of Q and K")
        heads, kv_heads, width, value_width = query[1], key[1], key[3], value[3]
        rows, columns = query[2], key[2]
        result: Shape = (query[0], heads, rows, value_width)
    else:
        heads, kv_heads = call.attributes.get("q_num_heads"), call.attributes.get("kv_num_heads")
        if heads is None or kv_heads is None:
            raise call.fail("Q of rank 3 needs the attributes q_num_heads and kv_num_heads")
        rows, columns = query[1], key[1]
        width, value_width = _over(key[2], kv_heads), _over(value[2], kv_heads)
        result = (query[0], rows, product((heads, value_width)))
    if past is not None:
        columns = total((past[2], columns))
    elif call.given(4):
        columns = None
    present = (query[0], kv_heads, columns)
    return [result, (*present, width), (*present, value_width), (query[0], heads, rows, columns)]


def _over(dim: Dimension, count: Dimension) -> Dimension:
    return dim // count if isinstance(dim, int) and isinstance(count, int) and count > 0 else None


def _window_sizes(call: Call, sizes: Shape, kernel: Shape) -> Shape:
    """Spatial sizes of the result of a sliding window, by the effective attributes."""
    count = len(sizes)
    pads, auto = call.attributes.get("pads"), call.attributes.get("auto_pad", "NOTSET")
    strides = call.attributes.get("strides", (1,) * count)
    dilations = call.attributes.get("dilations", (1,) * count)
    call.attributes_counted(("strides", "dilations", "pads"), count)
    if any(stride < 1 for stride in strides):
        raise call.fail(f"strides {list(strides)} are not all at least 1")
    if len(kernel) != count:
        raise call.fail(f"the kernel has {len(kernel)} spatial axes, the input {count}")
    up = bool(call.attributes.get("ceil_mode", 0))
    result: list[Dimension] = []
    for i, (size, k) in enumerate(zip(sizes, kernel, strict=True)):
        if not isinstance(k, int) or (auto == "NOTSET" and pads is None):
            result.append(None)
        elif auto == "NOTSET":
            reach = (k - 1) * dilations[i] + 1
            result.append(_steps(call, size, pads[i], pads[i + count], reach, strides[i], up))  # type: ignore[index]
        else:  # SAME of an unknown size
            result.append(size if strides[i] == 1 else None)
    return tuple(result)


def _steps(call: Call, size: Dimension, before: int, after: int, reach: int, stride: int, up: bool) -> Dimension:
    if not isinstance(size, int):
        return size if stride == 1 and before + after == reach - 1 else None
    span = size + before + after - reach
    steps = (-(-span // stride) if up else span // stride) + 1
    if steps < 1:  # with ceil_mode, the one window may reach beyond the end by less than a stride
        raise call.fail(f"a window of {reach} is larger than the padded size {size + before + after}")
    # The last window must start inside the input or the padding before it.
    return steps - 1 if up and (steps - 1) * stride >= size + before else steps


def _conv(data: int, weight: int, bias: int | None) -> Callable[[Call], Shapes]:
    def shapes(call: Call) -> Shapes:
        x, w = call.shape(data), call.shape(weight)
        for position, shape in ((data, x), (weight, w)):
            if shape is not None and len(shape) < 3:
                raise call.fail(f"{call.label(position)} has rank {len(shape)}, expected at least 3")
        if x is not None and w is not None and len(x) != len(w):
            raise call.fail(f"{call.label(weight)} has rank {len(w)}, expected {len(x)} as {call.label(data)}")
        group = call.attributes["group"]
        if group < 1:
            raise call.fail(f"group is {group}, expected at least 1")
        if w is not None:
            if isinstance(w[0], int) and w[0] % group:
                raise call.fail(f"{w[0]} output channels are not a multiple of group {group}")
            if x is not None and isinstance(w[1], int):
                call.same(x[1], w[1] * group, f"channels of the input and of the kernel, times group {group},")
            if bias is not None and call.shape(bias) is not None:
                call.same((call.expect_rank(bias, 1) or (None,))[0], w[0], "sizes of the bias and output channels")
        if x is None:
            return [None if w is None else (None, w[0], *(None for _ in w[2:]))]
        kernel = w[2:] if w is not None else call.attributes.get("kernel_shape", (None,) * (len(x) - 2))
        return [(x[0], w[0] if w is not None else None, *_window_sizes(call, x[2:], kernel))]

    return shapes


def _conv_transpose(call: Call) -> Shapes:
    x, w = call.shape(0), call.shape(1)
    if x is None or w is None:
        return [None]
    if len(x) < 3 or len(w) != len(x):
        raise call.fail(f"ranks {len(x)} and {len(w)}, expected equal ones of at least 3")
    call.same(x[1], w[0], "channels of the input and of the kernel")
    attributes, count = call.attributes, len(x) - 2
    channels = product((w[1], attributes["group"]))
    wanted = attributes.get("output_shape")
    call.attributes_counted(("strides", "dilations", "output_padding", "pads"), count)
    if wanted is not None:
        if len(wanted) < count:
            raise call.fail(f"attribute output_shape has {len(wanted)} elements, expected {count}")
        return [(x[0], channels, *wanted[-count:])]
    result: list[Dimension] = []
    for i, (size, k) in enumerate(zip(x[2:], w[2:], strict=True)):
        if isinstance(size, int) and isinstance(k, int) and "pads" in attributes:
            reach = (k - 1) * attributes["dilations"][i] + 1
            pads = attributes["pads"][i] + attributes["pads"][i + count]
            result.append(attributes["strides"][i] * (size - 1) + attributes["output_padding"][i] + reach - pads)
        else:
            result.append(None)
    return [(x[0], channels, *result)]


def _pool(call: Call) -> Shapes:
    x = call.shape(0)
    if x is None:
        return [None, None]
    if len(x) < 3:
        raise call.fail(f"{call.label(0)} has rank {len(x)}, expected at least 3")
    result = (*x[:2], *_window_sizes(call, x[2:], call.attributes["kernel_shape"]))
    return [result, result]


def _global_pool(call: Call) -> Shapes:
    x = call.shape(0)
    if x is not None and len(x) < 3:
        raise call.fail(f"{call.label(0)} has rank {len(x)}, expected at least 3")
    return [None if x is None else (*x[:2], *(1 for _ in x[2:]))]


def _max_unpool(call: Call) -> Shapes:
    x, wanted, attributes = call.shape(0), call.ints(2), call.attributes
    if x is None or wanted is not None or call.given(2):
        return [wanted if wanted is not None or x is None else (None,) * len(x)]
    sizes: list[Dimension] = []
    if len(x) < 3:
        raise call.fail(f"{call.label(0)} has rank {len(x)}, expected at least 3")
    call.attributes_counted(("kernel_shape", "strides", "pads"), len(x) - 2)
    for i, (size, k) in enumerate(zip(x[2:], attributes["kernel_shape"], strict=True)):
        pads = attributes["pads"][i] + attributes["pads"][i + len(x) - 2]
        sizes.append((size - 1) * attributes["strides"][i] - pads + k if isinstance(size, int) else None)
    return [(*x[:2], *sizes)]


def _roi_align(call: Call) -> Shapes:
    x, rois = call.expect_rank(0, 4) or (None,) * 4, call.expect_rank(1, 2) or (None,)
    return [(rois[0], x[1], call.attributes["output_height"], call.attributes["output_width"])]


def _max_roi_pool(call: Call) -> Shapes:
    x, rois = call.expect_rank(0, 4) or (None,) * 4, call.expect_rank(1, 2) or (None,)
    return [(rois[0], x[1], *call.attributes["pooled_shape"])]


def _grid_sample(call: Call) -> Shapes:
    x, grid = call.shape(0), call.shape(1)
    if x is None or grid is None:
        return [None]
    if len(x) != len(grid):
        raise call.fail(f"ranks of X and grid differ: {len(x)} and {len(grid)}")
    if len(x) < 3:
        raise call.fail(f"{call.label(0)} has rank {len(x)}, expected at least 3")
    return [(call.same(x[0], grid[0], "batch sizes"), x[1], *grid[1:-1])]


CONTRACTION: Mapping[str, Callable[[Call], Shapes]] = {
    "Attention": _attention,
    "AveragePool": _pool,
    "Conv": _conv(0, 1, 2),
    "ConvInteger": _conv(0, 1, None),
    "ConvTranspose": _conv_transpose,
    "DeformConv": _conv(0, 1, 3),
    "Einsum": _einsum,
    "Gemm": _gemm,
    "GlobalAveragePool": _global_pool,
    "GlobalLpPool": _global_pool,
    "GlobalMaxPool": _global_pool,
    "GridSample": _grid_sample,
    "LpPool": _pool,
    "MatMul": _matmul(0, 1),
    "MatMulInteger": _matmul(0, 1),
    "MaxPool": _pool,
    "MaxRoiPool": _max_roi_pool,
    "MaxUnpool": _max_unpool,
    "QLinearConv": _conv(0, 3, 8),
    "QLinearMatMul": _matmul(0, 3),
    "RoiAlign": _roi_align,
}
