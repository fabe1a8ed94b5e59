"""How kernels run on this machine: in C from the bundle's library, or from one built now, else in NumPy.

In: functions, programs, their C and library. Out: a `Native` that binds calls to arrays. A kernel that does not run in
C has its reason: with a compiler at hand, nothing falls back to NumPy silently.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from rewrite_engine.backend.c_kernels import CKernel, CKernels
from rewrite_engine.backend.functions import Function
from rewrite_engine.backend.library import StoredLibrary, check_engine
from rewrite_engine.diagnostics import RewriteError
from rewrite_engine.loops import build_c
from rewrite_engine.loops.compiler import CompilerFailed, NoCompiler, build_text, choose
from rewrite_engine.loops.compute import Buffer, Program
from rewrite_engine.loops.emit_c import CSource, host_operators


@dataclass(frozen=True, slots=True)
class How:
    """What runs a function: "c", "target", "host" (a host operator, in NumPy) or "numpy"; the reason where not C."""

    ran: str
    reason: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Native:
    """How every function runs, and the library of those that run in C (None: none does). `origin` says what it is."""

    how: Mapping[str, How]
    kernels: Mapping[str, CKernel]
    library: build_c.Library | None
    origin: str

    def bind(self, calls: Sequence[tuple[str, Sequence[np.ndarray], Sequence[np.ndarray]]]) -> list[Callable[[], None]]:
        """A callable per call (symbol, inputs, outputs) on these very arrays; constant operands are read now."""
        if self.library is None or not calls:
            return []
        rows = [(self.kernels[symbol].c_symbol, inputs, outputs) for symbol, inputs, outputs in calls]
        sequence = self.library.sequence(rows)
        return [sequence.call(position) for position in range(len(rows))]


def load(
    functions: Mapping[str, Function],
    programs: Mapping[str, Program],
    kernels: CKernels | None,
    stored: StoredLibrary | None,
    engine: str,
) -> Native:
    """How every function runs on this machine: the stored library where it fits, else one built from the C.

    Raises NoCompiler for engine "c" where it needs one, CompilerFailed where it fails, and RewriteError for a function
    that is not in C without a reason.
    """
    check_engine(engine)
    why, library, origin = "", None, "NumPy"
    if engine == "numpy":
        why = "the NumPy engine was asked for"
    elif kernels is None:
        why = "the bundle was compiled without C"
        if engine == "c":
            raise RewriteError(f"{why}; compile it again with engine auto or c")
    else:
        found, unfit = _stored(stored)
        try:
            handle, origin = (found, "the bundle's library") if found is not None else _built(kernels, unfit)
            library = build_c.Library(Path(handle._name), "", True, _sources(functions, kernels), handle)
        except NoCompiler as error:
            if engine == "c":
                raise
            why = f"{unfit}; {error}" if unfit else str(error)
    how = {symbol: _how(function, programs, kernels, why) for symbol, function in functions.items()}
    return Native(how, kernels.kernels if kernels else {}, library, origin)


def _stored(stored: StoredLibrary | None) -> tuple[ctypes.CDLL | None, str]:
    """The stored library, loaded; or why this machine cannot use it ("" where there is none)."""
    if stored is None or stored.unfit:
        return None, stored.unfit if stored is not None else ""
    try:
        return build_c.load(stored.path), ""
    except CompilerFailed as error:
        return None, str(error)


def _built(kernels: CKernels, unfit: str) -> tuple[ctypes.CDLL, str]:
    """A library made of the C now, or found in the cache. Raises NoCompiler."""
    built = build_text(kernels.text, choose())
    because = f" ({unfit})" if unfit else ""
    origin = f"a library {'found in the cache' if built.cached else 'built now'}{because}"
    return build_c.load(built.path), origin


def _sources(functions: Mapping[str, Function], kernels: CKernels) -> dict[str, CSource]:
    """What the library's functions take, by C symbol."""
    sources = {}
    for symbol, kernel in kernels.kernels.items():
        inputs, outputs = (
            tuple(Buffer(tuple(int(str(size)) for size in t.shape or ()), t.dtype) for t in side)
            for side in (functions[symbol].inputs, functions[symbol].outputs)
        )
        sources[kernel.c_symbol] = CSource(
            kernel.c_symbol, (), "", inputs, outputs, kernel.workspace, kernel.packed, frozenset()
        )
    return sources


def _how(function: Function, programs: Mapping[str, Program], kernels: CKernels | None, why: str) -> How:
    if function.generator is not None:
        return How("target", f"made by the code generator `{function.generator}`")
    hosts = host_operators(programs[function.symbol])
    if hosts:
        return How("host", f"host operators ({', '.join(hosts)}) are not C")
    if why:
        return How("numpy", why)
    if kernels is None or function.symbol not in kernels.kernels:
        raise RewriteError(f"kernel `{function.symbol}` has no C, and no reason for it; compile the model again")
    return How("c")
