"""Programs as kernels: how the backend runs, prints, stores and recognises what the loops room lowered.

In: a program. Out: a callable, its JSON, its text, its content hash, what it may share.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence

import numpy as np

from rewrite_engine.backend.functions import Function
from rewrite_engine.backend.runtime import Kernel
from rewrite_engine.backend.sharing import NOTHING, Sharing, sharing_of
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


def sharing_by_call(programs: Mapping[str, Program], hashes: Mapping[str, str]) -> dict[str, Sharing]:
    """What each program allows, by the names of `programs`; `hashes` tell which are alike."""
    known: dict[str, Sharing] = {}
    for name, program in programs.items():
        if hashes[name] not in known:
            known[hashes[name]] = sharing_of(program)
    return {name: known[hashes[name]] for name in programs}


def content_hash(text: str) -> str:
    """The sha256 of a program's text, in hexadecimal."""
    return hashlib.sha256(text.encode()).hexdigest()


def check_operands(functions: Mapping[str, Function], programs: Mapping[str, Program]) -> list[str]:
    """Problems where a function's operand types are not those of its program, its program is not there or does not
    allow the sharing that the function claims.

    Functions that a code generator made have no program, and share nothing.
    """
    problems = []
    for symbol, function in functions.items():
        claimed = Sharing(function.view, function.in_place)
        if function.generator is not None:
            if claimed != NOTHING:
                problems.append(f"kernel `{symbol}`: expected no sharing of one made by a code generator")
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
        proven = sharing_of(program)
        if claimed.view not in (None, proven.view) or not set(claimed.in_place) <= set(proven.in_place):
            message = f"expected view {proven.view} and in_place {list(proven.in_place)} as its program allows"
            problems.append(f"kernel `{symbol}`: {message}, found {claimed.view} and {list(claimed.in_place)}")
    return problems
