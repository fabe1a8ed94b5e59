"""Printed nests back as trees: `show(parse(text)) == text` for what `nest.render` printed.

In: the text of a kernel. Out: its buffers by role, and the tree of each nest. Expressions stay text; see
`nest_interpreter` for what they mean.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rewrite_engine.diagnostics import RewriteError
from rewrite_engine.loops.compute import Buffer, Iter
from rewrite_engine.loops.nest import Guard, Line, Loop, Node, lines_of

ROLES = ("input", "constant", "output", "temporary")
_BUFFER = re.compile(r"  (input|constant|output|temporary) (\w+): (\w+)\[((?:\d+(?:, \d+)*)?)\]")
_LOOP = re.compile(r"(parallel|reduction|serial) (\w+) in 0\.\.(\d+):")
_GUARD = re.compile(r"if (.+):")


@dataclass(frozen=True, slots=True)
class PrintedKernel:
    """A kernel as it is printed: its buffers, role and name in order, and the nodes of each statement."""

    roles: Mapping[str, str]
    buffers: Mapping[str, Buffer]
    nests: tuple[tuple[Node, ...], ...]

    def of_role(self, role: str) -> tuple[str, ...]:
        """The names of the buffers of a role, in order."""
        return tuple(name for name, own in self.roles.items() if own == role)


def parse(text: str) -> PrintedKernel:
    """The kernel that a text prints. Raises RewriteError with the line that is not one of a kernel."""
    lines = text.splitlines()
    if not lines or lines[0] != "kernel":
        raise RewriteError(f"line 1: expected `kernel`, found `{lines[0] if lines else ''}`")
    roles: dict[str, str] = {}
    buffers: dict[str, Buffer] = {}
    number = 1
    while number < len(lines) and lines[number]:
        found = _BUFFER.fullmatch(lines[number])
        if found is None or found[2] in roles:
            raise _wrong(number, lines[number], "a buffer such as `input x0: float32[2, 3]`, each name once")
        roles[found[2]] = found[1]
        buffers[found[2]] = Buffer(tuple(int(n) for n in found[4].split(", ") if n), found[3])
        number += 1
    nests: list[tuple[Node, ...]] = []
    while number < len(lines):
        if lines[number]:
            raise _wrong(number, lines[number], "an empty line before a nest")
        start = number = number + 1
        while number < len(lines) and lines[number]:
            number += 1
        nests.append(_tree(lines[start:number], start))
    return PrintedKernel(roles, buffers, tuple(nests))


def show(kernel: PrintedKernel) -> str:
    """The text of a kernel."""
    lines = ["kernel"]
    for name, role in kernel.roles.items():
        shape, dtype = kernel.buffers[name]
        lines.append(f"  {role} {name}: {dtype}[{', '.join(map(str, shape))}]")
    for nest in kernel.nests:
        lines += ["", *(f"  {line}" for line in lines_of(nest))]
    return "\n".join(lines) + "\n"


def _tree(lines: Sequence[str], first: int) -> tuple[Node, ...]:
    """The nodes of a nest by indentation: two spaces a level, one for the nest itself."""
    if not lines:
        raise RewriteError(f"line {first + 1}: expected a nest, found nothing")
    bodies: list[list[Node]] = [[]]
    heads: list[Loop | Guard] = []

    def close(depth: int) -> None:
        while len(heads) > depth:
            head, body = heads.pop(), tuple(bodies.pop())
            closed = Loop(head.iterator, head.kind, body) if isinstance(head, Loop) else Guard(head.condition, body)
            bodies[-1].append(closed)

    for offset, line in enumerate(lines):
        content = line.lstrip(" ")
        indent = len(line) - len(content)
        depth = indent // 2 - 1
        opened = bool(offset) and _opens(lines[offset - 1])
        if indent % 2 or depth < 0 or depth > len(heads) or (opened and depth != len(heads)):
            raise _wrong(first + offset, line, "an indentation of two spaces a level")
        close(depth)
        loop, guard = _LOOP.fullmatch(content), _GUARD.fullmatch(content)
        if loop is None and guard is None:
            bodies[-1].append(Line(content))
            continue
        kind = "reduction" if loop is not None and loop[1] == "reduction" else "parallel"
        heads.append(Loop(Iter(loop[2], int(loop[3]), kind), loop[1], ()) if loop is not None else _guard(guard))
        bodies.append([])
    if _opens(lines[-1]):
        raise _wrong(first + len(lines) - 1, lines[-1], "statements inside it")
    close(0)
    return tuple(bodies[0])


def _guard(found: re.Match[str] | None) -> Guard:
    assert found is not None
    return Guard(found[1], ())


def _opens(line: str) -> bool:
    content = line.lstrip(" ")
    return bool(_LOOP.fullmatch(content) or _GUARD.fullmatch(content))


def _wrong(position: int, line: str, expected: str) -> RewriteError:
    return RewriteError(f"line {position + 1}: expected {expected}, found `{line.strip()}`")
