"""A program as C: a function per nest, temporaries placed in the workspace, one exported function that runs them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from rewrite_engine.diagnostics import RewriteError
from rewrite_engine.loops.compute import Buffer, Compute, Host, Program
from rewrite_engine.loops.dtypes import numpy_dtype
from rewrite_engine.loops.emit_c.formats import TABLED
from rewrite_engine.loops.emit_c.function import NestFunction
from rewrite_engine.loops.emit_c.nests import compute_functions
from rewrite_engine.loops.emit_c.scatter import scatter_functions
from rewrite_engine.loops.emit_c.types import literal, stored
from rewrite_engine.loops.execute import last_uses

ALIGNMENT = 64


class NotEmitted(RewriteError):
    """A program that is not C: it has host operators. The message names them; run it in NumPy instead."""


@dataclass(frozen=True, slots=True)
class CSource:
    """The C of one kernel.

    `functions` are static functions and tables by name, shared by the kernels of a library (equal text, equal name);
    `entry` defines the exported function. `inputs` and `outputs` are the arrays it takes, in order; `workspace` its
    scratch memory in bytes (aligned to 64); `formats` the element types that need conversion tables.
    """

    symbol: str
    functions: tuple[tuple[str, str], ...]
    entry: str
    inputs: tuple[Buffer, ...]
    outputs: tuple[Buffer, ...]
    workspace: int
    formats: frozenset[str]


def host_operators(program: Program) -> tuple[str, ...]:
    """Names of the operators that are not loop nests, in order of first use."""
    return tuple(dict.fromkeys(s.name for s in program.statements if isinstance(s, Host)))


def emit(program: Program, symbol: str) -> CSource:
    """The C of a program, exported as `symbol`. Raises NotEmitted when it has host operators."""
    if hosts := host_operators(program):
        raise NotEmitted(f"kernel {symbol}: host operators ({', '.join(hosts)}) are not C; it runs in NumPy")
    offsets, workspace = _workspace(program)
    functions: dict[str, str] = {}
    calls: list[str] = []
    places = {name: f"inputs[{position}]" for position, name in enumerate(program.inputs)}
    places |= {name: f"outputs[{position}]" for position, name in enumerate(program.outputs)}
    places |= {name: f"(char *)workspace + {offset}" for name, offset in offsets.items()}
    for name, array in program.constants.items():
        table, code = _constant(array, program.tensors[name].dtype)
        functions[table] = code
        places[name] = f"(char *){table}"
    for statement in program.statements:
        assert isinstance(statement, Compute)
        write = scatter_functions if statement.is_scatter else compute_functions
        for nest in write(statement, program.tensors):
            functions[nest.name] = nest.code
            calls.append(_call(nest, places))
    entry = "\n".join(
        [
            f'__attribute__((visibility("default"))) int {symbol}(void **inputs, void **outputs, void *workspace) {{',
            "  (void)inputs, (void)outputs, (void)workspace;",
            *(f"  {call}" for call in calls),
            "  return 0;",
            "}",
        ]
    )
    return CSource(
        symbol=symbol,
        functions=tuple(functions.items()),
        entry=entry + "\n",
        inputs=tuple(program.tensors[name] for name in program.inputs),
        outputs=tuple(program.tensors[name] for name in program.outputs),
        workspace=workspace,
        formats=frozenset(_formats(program)),
    )


def _call(nest: NestFunction, places: Mapping[str, str]) -> str:
    pointers = ", ".join(f"(char *){places[name]}" for name in nest.buffers)
    run = f"{nest.name}(B, 0, {nest.tasks}, 0)"
    if nest.chunk < nest.tasks:
        run = f"re_parallel({nest.name}, B, {nest.tasks}, {nest.chunk}, RE_MOST_THREADS)"
    return f"{{ char *const B[] = {{{pointers}}}; {run}; }}"


def _constant(array: np.ndarray, dtype: str) -> tuple[str, str]:
    """A constant as a static table, named by its content."""
    import hashlib

    values = ", ".join(literal(_plain(value), dtype) for value in array.reshape(-1)) or "0"
    text = f"[{max(array.size, 1)}] __attribute__((aligned({ALIGNMENT}))) = {{{values}}};\n"
    name = f"re_table_{hashlib.sha256((dtype + text).encode()).hexdigest()[:16]}"
    return name, f"static const {stored(dtype)} {name}{text}"


def _plain(value: np.generic) -> bool | int | float:
    kind = value.dtype.name
    return bool(value) if kind == "bool" else int(value) if kind.startswith(("int", "uint")) else float(value)


def _formats(program: Program) -> set[str]:
    from rewrite_engine.loops.expr import postorder

    roots = [root for s in program.statements if isinstance(s, Compute) for root in s.roots]
    used = {node.dtype for node in postorder(*roots)} | {buffer.dtype for buffer in program.tensors.values()}
    return used & TABLED


def _workspace(program: Program) -> tuple[dict[str, int], int]:
    """Offsets of the temporaries, those that live at once apart; first fit in order of birth."""
    offsets: dict[str, int] = {}
    live: dict[str, tuple[int, int]] = {}
    total = 0
    for statement, dead in zip(program.statements, last_uses(program), strict=True):
        for name in statement.outputs:
            if name in program.outputs:
                continue
            buffer = program.tensors[name]
            size = _rounded(max(buffer.size, 1) * numpy_dtype(buffer.dtype).itemsize)
            offsets[name] = _first_gap(sorted(live.values()), size)
            live[name] = (offsets[name], offsets[name] + size)
            total = max(total, offsets[name] + size)
        for name in dead:
            live.pop(name, None)
    return offsets, total


def _first_gap(taken: Sequence[tuple[int, int]], size: int) -> int:
    start = 0
    for first, last in taken:
        if first - start >= size:
            return start
        start = max(start, last)
    return start


def _rounded(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT
