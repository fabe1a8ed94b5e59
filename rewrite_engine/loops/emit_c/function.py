"""C functions of one nest: pointers from a table, a range of tasks, and canonical names: equal nests are one text."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from rewrite_engine.loops.compute import Buffer
from rewrite_engine.loops.emit_c.types import stored

LEAST_PARALLEL = 1 << 15
"""Points of a nest (elements times reduction) from which on it is worth waking other threads."""

LEAST_CHUNK = 1 << 13
"""Points of a chunk that a thread draws."""


@dataclass(frozen=True, slots=True)
class NestFunction:
    """`void name(B, first, last, worker)`; `buffers` are the tensors whose pointers it takes, in order.

    `tasks` iterations may run in any order on any thread, `chunk` of them drawn at a time.
    """

    name: str
    code: str
    buffers: tuple[str, ...]
    tasks: int
    chunk: int


def nest_function(
    lines: Iterable[str],
    buffers: Mapping[str, str],
    written: frozenset[str],
    tensors: Mapping[str, Buffer],
    tasks: int,
    points: int,
    note: str = "",
) -> NestFunction:
    """The function around the lines of a body that runs tasks `first` to `last`; named by its content."""
    pointers = []
    for position, (tensor, name) in enumerate(buffers.items()):
        kind = stored(tensors[tensor].dtype)
        const = "" if tensor in written else "const "
        pointers.append(f"{const}{kind} *{name} = ({const}{kind} *)B[{position}];")
    body = "\n".join(indented([*pointers, "(void)first, (void)last, (void)worker;", *lines], 1))
    name = f"re_nest_{hashlib.sha256(body.encode()).hexdigest()[:16]}"
    comment = f"/* {note} */\n" if note else ""
    head = (
        f"static __attribute__((noinline)) void {name}(char *const *B, int64_t first, int64_t last, int64_t worker) {{"
    )
    return NestFunction(name, f"{comment}{head}\n{body}\n}}\n", tuple(buffers), tasks, _chunk(tasks, points))


def _chunk(tasks: int, points: int) -> int:
    if points < LEAST_PARALLEL or tasks < 2:
        return max(tasks, 1)
    return max(1, min(tasks // 8, tasks * LEAST_CHUNK // points))


def indented(lines: Iterable[str], depth: int) -> list[str]:
    """The lines, indented by their braces."""
    result = []
    for line in lines:
        closing = line.startswith("}")
        result.append("  " * (depth - closing) + line)
        depth += line.count("{") - line.count("}")
    return result


def task_loop(names: Sequence[str], extents: Sequence[int], body: Sequence[str]) -> list[str]:
    """Lines that run the body for each task, which is a row-major position in the iterators `names` (0 for none)."""
    head = ["for (int64_t task = first; task < last; task++) {"]
    step = 1
    decoded = []
    for position, (name, extent) in enumerate(reversed(list(zip(names, extents, strict=True)))):
        outermost = position == len(names) - 1
        quotient = f"task / {step}" if step > 1 else "task"
        decoded.append(f"const int64_t {name} = {quotient if outermost else f'{quotient} % {extent}'};")
        step *= extent
    return [*head, *reversed(decoded), *body, "}"]
