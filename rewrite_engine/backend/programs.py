"""Programs as kernels: how the backend runs, prints, stores and recognises what the loops room lowered.

The one module of the backend that knows `loops`. In: a program. Out: a callable, its JSON, its text, its content hash.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence

import numpy as np

from rewrite_engine.backend.functions import Function
from rewrite_engine.backend.runtime import Kernel
from rewrite_engine.loops.compute import Program
from rewrite_engine.operators.types import TensorType


def kernel_of(program: Program) -> Kernel:
    """The program as a callable on arrays."""
    from rewrite_engine.loops import execute

    def kernel(inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray]) -> None:
        execute.run(program, inputs, outputs)

    return kernel


def program_text(program: Program) -> str:
    """Canonical JSON of the program; `read_program` reads it back."""
    from rewrite_engine.loops import serialize

    return json.dumps(serialize.to_json(program), sort_keys=True, separators=(",", ":")) + "\n"


def read_program(text: str) -> Program:
    """The program that `program_text` wrote. Raises ValueError for what is not JSON, RewriteError for anything else."""
    from rewrite_engine.loops import serialize

    return serialize.from_json(json.loads(text))


def program_nest(program: Program) -> str:
    """The program as a printed loop nest."""
    from rewrite_engine.loops import nest

    return nest.render(program)


def workspace_of(program: Program) -> int:
    """Bytes the program needs beside its operands."""
    from rewrite_engine.loops import execute

    return execute.workspace_bytes(program)


def content_hash(text: str) -> str:
    """The sha256 of a program's text, in hexadecimal."""
    return hashlib.sha256(text.encode()).hexdigest()


def check_operands(functions: Mapping[str, Function], programs: Mapping[str, Program]) -> list[str]:
    """Problems where a function's operand types are not those of its program, or its program is not there.

    Functions that a code generator made have no program.
    """
    problems = []
    for symbol, function in functions.items():
        if function.generator is not None:
            continue
        program = programs.get(symbol)
        if program is None:
            problems.append(f"kernel `{symbol}`: expected a program of that symbol, found none")
            continue
        for side, types, names in (
            ("operands", function.inputs, program.inputs),
            ("results", function.outputs, program.outputs),
        ):
            found = tuple(TensorType(program.tensors[name].dtype, tuple(program.tensors[name].shape)) for name in names)
            if found != types:
                expected = ", ".join(map(str, types))
                message = f"expected {side} {expected}, found a program on {', '.join(map(str, found))}"
                problems.append(f"kernel `{symbol}`: {message}")
    return problems
