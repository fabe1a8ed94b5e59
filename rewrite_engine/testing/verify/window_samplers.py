"""How operands of windows, of attention and of quantisers are drawn: convolutions, pools, rotary embeddings, codes."""

from __future__ import annotations

from rewrite_engine.testing.verify.draws import chance, choice
from rewrite_engine.testing.verify.node_draft import NodeDraft, Shape


def _windows(d: NodeDraft, kernel: Shape, sizes: Shape) -> None:
    """Strides, dilations and pads of a window."""
    spatial, source = len(kernel), d.source
    d.attribute("strides", tuple(choice(source, (1, 1, 2)) for _ in kernel))
    d.attribute("dilations", tuple(choice(source, (1, 1, 1, 2)) for _ in kernel))
    if "pads" not in d.attributes and "auto_pad" not in d.attributes:
        if chance(source, 6):
            d.attributes["auto_pad"] = choice(source, ("SAME_UPPER", "SAME_LOWER", "VALID"))
        else:
            d.attributes["pads"] = tuple(choice(source, (0, 0, 1, 2)) for _ in range(2 * spatial))


def conv(d: NodeDraft, transposed: bool = False) -> None:
    source, known = d.source, d.shapes[1]
    rank = len(known) if known is not None else d.ranks[1] or d.ranks[0] or choice(source, (4, 3, 4, 5))
    x = d.shapes[0]
    if x is not None:
        rank = max(len(x), 3)
    groups = int(d.attribute("group", choice(source, (1, 1, 1, 2))))
    depth = d.size() or 1
    if x is None:
        channels = known[0] if known is not None and transposed else (known[1] if known is not None else depth) * (
            1 if known is not None and transposed else groups
        )  # fmt: skip
        spatial = tuple(choice(source, (3, 4, 5, 3)) for _ in range(rank - 2))
        d.settle(0, (choice(source, (1, 2)), channels, *spatial))
    x = d.shape(0)
    if d.open(1):
        kernel = tuple(choice(source, (1, 2, 3, 2)) for _ in range(rank - 2))
        own = d.size() or 1
        channels = x[1] if len(x) > 1 else 1
        if transposed:
            d.settle(1, (channels, own, *kernel))
        else:
            d.settle(1, (own * groups, max(channels // groups, 1), *kernel))
    w = d.shape(1)
    _windows(d, w[2:], x[2:])
    d.settle(2, (w[1] * groups if transposed and len(w) > 1 else w[0] if w else 1,))


def pool(d: NodeDraft) -> None:
    known = d.attributes.get("kernel_shape")
    rank = len(known) + 2 if isinstance(known, tuple) else d.ranks[0] or choice(d.source, (4, 3, 5))
    if d.open(0):
        spatial = tuple(choice(d.source, (3, 4, 5)) for _ in range(rank - 2))
        d.settle(0, (choice(d.source, (1, 2)), d.size(), *spatial))
    x = d.shape(0)
    kernel = d.attribute("kernel_shape", tuple(choice(d.source, (2, 3, 1)) for _ in x[2:]))
    d.attribute("strides", tuple(choice(d.source, (1, 2)) for _ in kernel))
    d.attribute("pads", tuple(choice(d.source, (0, 0, min(1, k - 1))) for k in (*kernel, *kernel)))


def attention(d: NodeDraft) -> None:
    q = d.shapes[0]
    if q is None:
        d.settle(0, tuple(max(d.size(), 1) for _ in range(4)))
        q = d.shape(0)
    if len(q) == 4:
        keys = max(d.size(), 1)
        d.settle(1, (q[0], q[1], keys, q[3]))
        k = d.shape(1)
        d.settle(2, (q[0], k[1], k[2], max(d.size(), 1)) if len(k) == 4 else k)
        d.settle(3, (q[2], k[2]) if len(k) == 4 else ())


def rotary(d: NodeDraft) -> None:
    x = d.shapes[0]
    if x is None:
        d.settle(0, (choice(d.source, (1, 2)), d.size(), d.size(), choice(d.source, (4, 2, 8))))
        x = d.shape(0)
    if len(x) == 4:
        half = x[3] // 2
        for position in (1, 2):
            d.settle(position, (5, half) if d.there(3) else (x[0], x[2], half))
        d.settle(3, (x[0], x[2]))


def qlinear_conv(d: NodeDraft) -> None:
    """Codes of images and weights; one scale and zero point for each, or one per output channel of the weights."""
    x = d.shape(0, least=4, most=4)
    if len(x) == 4 and d.open(3):
        d.settle(3, (max(d.size(), 1), x[1], choice(d.source, (1, 2)), choice(d.source, (1, 2))))
    d.attribute("group", 1)
    w = d.shape(3)
    _windows(d, w[2:], x[2:])
    d.settle(8, (w[0] if w else 1,))
    d.settle(4, choice(d.source, ((), (w[0] if w else 1,))))
    d.settle(5, d.shapes[4] or ())
    for position in (1, 2, 6, 7):
        d.settle(position, ())


def qlinear_matmul(d: NodeDraft) -> None:
    """Codes of two matrices; one scale and zero point for each, or one per row of the left, per column of the right."""
    x = d.shape(0, least=2, most=4)
    batch = choice(d.source, ((), (), x[:-2]))
    d.settle(3, (*batch, x[-1] if x else 1, max(d.size(), 1)))
    y = d.shape(3)
    for position, each in ((1, x[-2:-1] if len(x) == 2 else ()), (4, y[-1:] if len(y) > 1 else ())):
        d.settle(position, choice(d.source, ((), each)))
        d.settle(position + 1, d.shapes[position] or ())
    for position in (6, 7):
        d.settle(position, ())


def quantise(d: NodeDraft) -> None:
    """A scale and zero point for all, or one for each position of an axis; floats may be left to overflow."""
    x = d.shape(0)
    if d.op == "QuantizeLinear" and d.there(2) and d.dtypes[2].startswith("float8"):
        d.attribute("saturate", d.source.integer(0, 1))
    per_axis = bool(x) and chance(d.source, 2)
    if "axis" not in d.fixed and per_axis:
        d.axis(len(x))
    axis = int(d.attributes.get("axis", 1))
    scale = (x[axis],) if per_axis and -len(x) <= axis < len(x) else ()
    d.settle(1, scale)
    d.settle(2, d.shapes[1] or ())
