"""Building scans: a function of one step becomes the statements that run step after step."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rewrite_engine.loops.build import Builder, Tensor, Unsupported
from rewrite_engine.loops.compute import Carry, Scan, Slice, needed

Step = Callable[[list[Tensor], list[Tensor]], tuple[list[Tensor], list[Tensor]]]
"""Elements and carried values -> the carried values that follow, and elements of results."""


def scan(
    b: Builder,
    count: int,
    step: Step,
    initial: Sequence[Tensor],
    sliced: Sequence[Tensor] = (),
    backwards: Sequence[bool] = (),
    backwards_out: Sequence[bool] = (),
    conditional: bool = False,
) -> tuple[list[Tensor], list[Tensor]]:
    """`step`, `count` times: the carried values after the last one, and what steps made of results, stacked.

    `step` takes the elements of `sliced` along their first axis, which has `count` of them, and the carried values, at
    first `initial`; the carried values that follow are of the same types. Elements of `sliced` (of results) count from
    the last where `backwards` (`backwards_out`) says so for them. Where it is `conditional`, the first carried value (a
    bool) says before each step whether there is one; `count` is only the most then, and nothing can be stacked.
    """
    parts = [b.declare(x.shape[1:], x.dtype) for x in sliced]
    now = [b.declare(x.shape, x.dtype) for x in initial]
    with b.inside() as statements:
        following, elements = step(parts, now)
        for row in (following, elements):  # each is computed by the step, and by itself
            made: set[str] = set()
            for place, tensor in enumerate(row):
                written = {name for statement in statements for name in statement.outputs}
                if tensor.name not in written or tensor.name in made:
                    row[place] = b.move(tensor, tensor.shape, lambda *i: i)
                made.add(row[place].name)
    for before, after in zip(now, following, strict=True):
        if (before.shape, before.dtype) != (after.shape, after.dtype):
            found = f"{after.dtype}{list(after.shape)}"
            raise Unsupported(f"a carried value is {before.dtype}{list(before.shape)}, a step makes {found} of it")
    if conditional and (elements or not now or now[0].dtype != "bool" or now[0].shape):
        raise ValueError("a condition is the first carried value, a bool, and nothing is stacked beside it")
    finals = [b.declare(x.shape, x.dtype) for x in initial]
    wholes = [b.declare((count, *x.shape), x.dtype) for x in elements]
    reverse = [*backwards, *[False] * (len(sliced) - len(backwards))]
    reverse_out = [*backwards_out, *[False] * (len(wholes) - len(backwards_out))]
    carried = zip(now, initial, following, finals, strict=True)
    wanted = [tensor.name for tensor in (*following, *elements)]
    b.statements.append(
        Scan(
            step=b.iterator(count, "scan"),
            sliced=tuple(Slice(part.name, x.name, r) for part, x, r in zip(parts, sliced, reverse, strict=True)),
            carried=tuple(Carry(n.name, i.name, f.name, end.name) for n, i, f, end in carried),
            statements=tuple(needed(statements, [*wanted, *b.checked])),
            stacked=tuple(Slice(e.name, w.name, r) for e, w, r in zip(elements, wholes, reverse_out, strict=True)),
            conditional=conditional,
        )
    )
    return finals, wholes
