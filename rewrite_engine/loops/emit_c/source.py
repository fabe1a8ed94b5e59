"""A program as C: a function per nest, temporaries placed in the workspace, exported functions that run them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from rewrite_engine.diagnostics import RewriteError
from rewrite_engine.loops.checks import Check
from rewrite_engine.loops.compute import Buffer, Compute, Host, Program, Scan, Statement, walk
from rewrite_engine.loops.emit_c.formats import TABLED
from rewrite_engine.loops.emit_c.function import NestFunction, indented
from rewrite_engine.loops.emit_c.groups import group_code
from rewrite_engine.loops.emit_c.matrix import product
from rewrite_engine.loops.emit_c.nests import compute_functions
from rewrite_engine.loops.emit_c.product import product_code
from rewrite_engine.loops.emit_c.scan import begin_lines, end_lines, places_within
from rewrite_engine.loops.emit_c.scatter import scatter_functions
from rewrite_engine.loops.emit_c.staging import Staged, staged, staging_function
from rewrite_engine.loops.emit_c.steps import ALIGNMENT, Begin, Step, Steps, elsewhere, size_of, workspace
from rewrite_engine.loops.emit_c.types import literal, stored
from rewrite_engine.loops.expr import postorder
from rewrite_engine.loops.group import Group, flattened, grouped


class NotEmitted(RewriteError):
    """A program that is not C: it has host operators. The message names them; run it in NumPy instead."""


@dataclass(frozen=True, slots=True)
class CSource:
    """The C of one kernel.

    `functions` are static functions and tables by name, shared by the kernels of a library (equal text, equal name);
    `entry` defines the exported functions. `inputs` and `outputs` are the arrays it takes, in order. `workspace` is the
    scratch memory of `symbol` in bytes; where `packed` is not 0, `symbol_pack` fills that many bytes from the constant
    inputs once, and `symbol_packed` then needs only `workspace - packed`. `formats` are the element types that need
    conversion tables.
    """

    symbol: str
    functions: tuple[tuple[str, str], ...]
    entry: str
    inputs: tuple[Buffer, ...]
    outputs: tuple[Buffer, ...]
    workspace: int
    packed: int
    formats: frozenset[str]


def host_operators(program: Program) -> tuple[str, ...]:
    """Names of the operators that are not loop nests, in order of first use."""
    return tuple(dict.fromkeys(s.name for s in walk(program.statements) if isinstance(s, Host)))


def emit(program: Program, symbol: str, *, constants: Collection[int] = (), lanes: int = 16) -> CSource:
    """The C of a program, exported as `symbol`.

    `constants` are the positions of inputs that are the same in every run (parameters): they are packed once, where
    that helps. `lanes` is the number of float32 in a vector register of the processor it is tuned for; the code runs
    on any. Raises NotEmitted when the program has host operators.
    """
    if hosts := host_operators(program):
        raise NotEmitted(f"kernel {symbol}: host operators ({', '.join(hosts)}) are not C; it runs in NumPy")
    statements, tensors = staged(program)
    fixed = {program.inputs[position] for position in constants} | program.constants.keys()
    steps = Steps()
    _statements(steps, statements, _Context(tensors, fixed, program.checked, program.wanted, lanes))
    places = {name: f"inputs[{position}]" for position, name in enumerate(program.inputs)}
    places |= {name: f"outputs[{position}]" for position, name in enumerate(program.outputs)}
    for name, array in program.constants.items():
        table, code = _constant(array, program.tensors[name].dtype)
        steps.functions[table] = code
        places[name] = f"(char *){table}"
    packed = 0
    for name in steps.prepared:
        places[name] = f"(char *)packed + {packed}"
        packed += size_of(tensors[name])
    scans = [step.scan for step in steps.run if isinstance(step, Begin)]
    for scan in scans:
        places |= dict.fromkeys(elsewhere(scan), "")
    offsets, room = workspace(steps.run, places, tensors)
    places |= {name: f"(char *)workspace + {offset}" for name, offset in offsets.items()}
    for scan in scans:
        places |= places_within(scan, places, tensors)
    return CSource(
        symbol=symbol,
        functions=tuple(steps.functions.items()),
        entry=_entry(symbol, steps, places, tensors, room, packed),
        inputs=tuple(program.tensors[name] for name in program.inputs),
        outputs=tuple(program.tensors[name] for name in program.outputs),
        workspace=room + packed,
        packed=packed,
        formats=frozenset(_formats(program)),
    )


@dataclass(frozen=True, slots=True)
class _Context:
    """`fixed` are the tensors that are the same in every run, `wanted` those that are read after the statements."""

    tensors: dict[str, Buffer]
    fixed: set[str]
    checked: Mapping[str, Check]
    wanted: tuple[str, ...]
    lanes: int


def _statements(steps: Steps, statements: Sequence[Statement | Staged], context: _Context) -> None:
    """Adds the calls of statements in order."""
    tensors, fixed, checked = context.tensors, context.fixed, context.checked
    for statement in grouped(statements, tensors, context.wanted):
        if isinstance(statement, Staged):
            function = staging_function(statement, tensors)
            steps.call_once(function, statement.source, statement.target, fixed)
            if statement.source in fixed:
                fixed.add(statement.target)
        elif isinstance(statement, Scan):
            steps.begin(statement)
            inner = replace(context, wanted=(*context.wanted, *statement.wanted))
            _statements(steps, statement.statements, inner)
            steps.end(statement)
        elif isinstance(statement, Group):
            _group(steps, statement, context)
        elif isinstance(statement, Compute):
            _compute(steps, statement, tensors, fixed, context.lanes)
            if statement.out in checked:
                steps.run.append(checked[statement.out])


def _group(steps: Steps, group: Group, context: _Context) -> None:
    code = group_code(group, context.tensors, context.lanes, context.fixed)
    if code is None:
        for compute in flattened(group):
            _compute(steps, compute, context.tensors, context.fixed, context.lanes)
        return
    steps.functions.update(code.shared)
    for part in code.packed:
        steps.call_once(part.function, part.source, part.target, context.fixed)
    steps.call(code.run)


def _compute(steps: Steps, compute: Compute, tensors: dict[str, Buffer], fixed: Collection[str], lanes: int) -> None:
    if compute.is_scatter:
        for nest in scatter_functions(compute, tensors):
            steps.call(nest)
        return
    plan = product(compute, tensors, lanes, fixed)
    if plan is None:
        for nest in compute_functions(compute, tensors):
            steps.call(nest)
        return
    code = product_code(plan, tensors)
    steps.functions.update(code.shared)
    for part in code.packed:
        steps.call_once(part.function, part.source, part.target, fixed)
    steps.call(code.multiply)


def _entry(
    symbol: str, steps: Steps, places: Mapping[str, str], tensors: Mapping[str, Buffer], workspace: int, packed: int
) -> str:
    """The exported functions; one is enough where nothing is packed once."""
    run = [line for step in steps.run for line in _lines(step, places, tensors)]
    unused = "(void)inputs, (void)outputs, (void)workspace;"
    if not packed:
        return _exported(symbol, "void **inputs, void **outputs, void *workspace", [unused, *run])
    prepare = [_call(nest, places) for nest in steps.prepare]
    both = [
        f"void *packed = (char *)workspace + {workspace};",
        f"{symbol}_pack(inputs, packed);",
        f"return {symbol}_packed(inputs, outputs, workspace, packed);",
    ]
    return (
        _exported(f"{symbol}_pack", "void **inputs, void *packed", ["(void)inputs, (void)packed;", *prepare])
        + _exported(
            f"{symbol}_packed",
            "void **inputs, void **outputs, void *workspace, void *packed",
            [unused, "(void)packed;", *run],
        )
        + _exported(symbol, "void **inputs, void **outputs, void *workspace", both)
    )


def _exported(symbol: str, parameters: str, lines: Sequence[str]) -> str:
    body = "\n".join(indented(lines, 1))
    return f'__attribute__((visibility("default"))) int {symbol}({parameters}) {{\n{body}\n  return 0;\n}}\n'


def _lines(step: Step, places: Mapping[str, str], tensors: Mapping[str, Buffer]) -> list[str]:
    if isinstance(step, NestFunction):
        return [_call(step, places)]
    if isinstance(step, Check):
        return [_checked(step, places)]
    return begin_lines(step.scan, places) if isinstance(step, Begin) else end_lines(step.scan, places, tensors)


def _call(nest: NestFunction, places: Mapping[str, str]) -> str:
    pointers = ", ".join(f"(char *){places[name]}" for name in nest.buffers)
    run = f"{nest.name}(B, 0, {nest.tasks}, 0)"
    if nest.chunk < nest.tasks:
        run = f"re_parallel({nest.name}, B, {nest.tasks}, {nest.chunk})"
    return f"{{ char *const B[] = {{{pointers}}}; {run}; }}"


def _checked(check: Check, places: Mapping[str, str]) -> str:
    place = f"(const int64_t *)(void *)({places[check.tensor]})"
    return f"if (*{place} != INT64_MIN) return re_refused({json.dumps(str(check))}, *{place});"


def _constant(array: np.ndarray, dtype: str) -> tuple[str, str]:
    """A constant as a static table, named by its content."""
    values = ", ".join(literal(_plain(value), dtype) for value in array.reshape(-1)) or "0"
    text = f"[{max(array.size, 1)}] __attribute__((aligned({ALIGNMENT}))) = {{{values}}};\n"
    name = f"re_constant_{hashlib.sha256((dtype + text).encode()).hexdigest()[:16]}"
    return name, f"static const {stored(dtype)} {name}{text}"


def _plain(value: np.generic) -> bool | int | float:
    kind = value.dtype.name
    return bool(value) if kind == "bool" else int(value) if kind.startswith(("int", "uint")) else float(value)


def _formats(program: Program) -> set[str]:
    roots = [root for s in walk(program.statements) if isinstance(s, Compute) for root in s.roots]
    used = {node.dtype for node in postorder(*roots)} | {buffer.dtype for buffer in program.tensors.values()}
    return used & TABLED
