"""Compiling and loading emitted C: one shared library of many kernels, cached by content.

In: the sources of kernels. Out: a `Library` whose kernels are called on NumPy arrays; see `compiler` for the cache.
"""

from __future__ import annotations

import ctypes
import functools
import importlib.resources
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from rewrite_engine.diagnostics import RewriteError
from rewrite_engine.loops.checks import OutOfRange
from rewrite_engine.loops.compiler import (
    FLAGS,
    SANITIZERS,
    CompilerFailed,
    NoCompiler,
    build_text,
    cache_folder,
    choose,
    find_compiler,
    machine_lanes,
)
from rewrite_engine.loops.compute import Buffer
from rewrite_engine.loops.dtypes import numpy_dtype
from rewrite_engine.loops.emit_c.formats import format_code
from rewrite_engine.loops.emit_c.source import CSource
from rewrite_engine.loops.emit_c.steps import ALIGNMENT

__all__ = [
    "FLAGS", "SANITIZERS", "CallSequence", "CompiledKernel", "CompilerFailed", "Library", "NoCompiler", "aligned",
    "build", "cache_folder", "find_compiler", "header", "library_text", "load", "machine_lanes",
]  # fmt: skip
HEADERS = ("scalar.h", "vector.h", "pool.h", "calls.h", "failure.h")


class _CallRecord(ctypes.Structure):
    """`struct re_call` of calls.h."""

    _fields_ = (
        ("run", ctypes.c_void_p),
        ("run_packed", ctypes.c_void_p),
        ("inputs", ctypes.c_void_p),
        ("outputs", ctypes.c_void_p),
        ("workspace", ctypes.c_void_p),
        ("packed", ctypes.c_void_p),
    )


@dataclass(frozen=True, slots=True, eq=False)
class CompiledKernel:
    """A kernel on NumPy arrays, which must be contiguous and of the stated shapes and types. One call at a time."""

    source: CSource
    function: Callable[..., int]
    scratch: np.ndarray
    reason: Callable[[], str]

    def __call__(self, inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray]) -> None:
        """Fills the output arrays. Raises RewriteError for another shape or type, OutOfRange for data it refuses."""
        kept: list[np.ndarray] = []
        given = _pointers(self.source, "input", self.source.inputs, inputs, kept)
        results = _pointers(self.source, "output", self.source.outputs, outputs, kept)
        status = self.function(given, results, self.scratch.ctypes.data)
        if status:
            raise failure(f"kernel {self.source.symbol}: ", status, self.reason)


@dataclass(frozen=True, slots=True, eq=False)
class CallSequence:
    """Calls on fixed arrays, run in order by one call into C; their constant inputs are packed already."""

    run: Callable[..., int]
    records: ctypes.Array[_CallRecord]
    kept: tuple[object, ...]
    reason: Callable[[], str]

    def __call__(self) -> None:
        """Runs them all on what the arrays hold now. Raises RewriteError when a kernel fails."""
        self._check(self.run(self.records, len(self.records)))

    def call(self, position: int) -> Callable[[], None]:
        """The call at `position` alone, as a callable that raises as above."""
        record = ctypes.byref(self.records, position * ctypes.sizeof(_CallRecord))
        return lambda: self._check(self.run(record, 1))

    def _check(self, status: int) -> None:
        if status:
            raise failure("", status, self.reason)


@dataclass(frozen=True, slots=True, eq=False)
class Library:
    """A loaded library; `path` is its file, `compiler` what made it, `cached` whether it was there already."""

    path: Path
    compiler: str
    cached: bool
    sources: Mapping[str, CSource]
    handle: ctypes.CDLL = field(repr=False)

    def kernel(self, symbol: str) -> CompiledKernel:
        """The kernel exported as `symbol`, with a workspace of its own. Raises KeyError for an unknown one."""
        source = self.sources[symbol]
        function = getattr(self.handle, symbol)
        function.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p]
        function.restype = ctypes.c_int
        return CompiledKernel(source, function, aligned(source.workspace), self.reason)

    def sequence(self, calls: Sequence[tuple[str, Sequence[np.ndarray], Sequence[np.ndarray]]]) -> CallSequence:
        """Calls as (symbol, inputs, outputs) on these very arrays, to run in order again and again.

        Constant inputs are read now, for packing. Raises RewriteError for arrays of another shape or type.
        """
        scratch = aligned(max((self.sources[symbol].workspace for symbol, _, _ in calls), default=0))
        records = (_CallRecord * len(calls))()
        kept: list[object] = [scratch]
        for record, (symbol, inputs, outputs) in zip(records, calls, strict=True):
            source, arrays = self.sources[symbol], list[np.ndarray]()
            given = _pointers(source, "input", source.inputs, inputs, arrays)
            results = _pointers(source, "output", source.outputs, outputs, arrays)
            record.inputs, record.outputs = ctypes.addressof(given), ctypes.addressof(results)
            record.workspace = scratch.ctypes.data
            record.run = ctypes.cast(getattr(self.handle, symbol), ctypes.c_void_p).value
            kept += [given, results, arrays]
            if source.packed:
                packed = aligned(source.packed)
                pack = getattr(self.handle, f"{symbol}_pack")
                pack.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
                pack(ctypes.addressof(given), packed.ctypes.data)
                record.packed = packed.ctypes.data
                record.run_packed = ctypes.cast(getattr(self.handle, f"{symbol}_packed"), ctypes.c_void_p).value
                kept.append(packed)
        run = self.handle.re_run
        run.argtypes = [ctypes.c_void_p, ctypes.c_int64]
        run.restype = ctypes.c_int
        return CallSequence(run, records, tuple(kept), self.reason)

    def reason(self) -> str:
        """Why the last kernel of this thread that failed did so."""
        read = self.handle.re_failure
        read.restype = ctypes.c_char_p
        return bytes(read() or b"").decode()

    def set_threads(self, count: int) -> int:
        """Threads that parallel loops may use (by default REWRITE_ENGINE_THREADS, or 1); returns how many there are."""
        return int(self.handle.re_set_threads(ctypes.c_int(count)))


def build(
    sources: Sequence[CSource],
    *,
    cc: str | None = None,
    cpu: str | None = None,
    cache: str | Path | None = None,
    flags: Sequence[str] = (),
) -> Library:
    """The library of the sources' kernels, compiled unless the cache has it.

    `cc` is a compiler command (default: $CC, gcc, clang), `cpu` a processor for -march (default: this one), `cache` a
    folder (default: the user's). Raises NoCompiler, CompilerFailed, and RewriteError where the cache cannot be written.
    """
    compiler = choose(cc, cpu)
    by_symbol = {source.symbol: source for source in sources}
    command = shlex.join(compiler.command)
    text = library_text(sources)
    built = build_text(text, compiler, cache=cache, flags=flags)
    return Library(built.path, command, built.cached, by_symbol, load(built.path))


def failure(where: str, status: int, reason: Callable[[], str]) -> RewriteError:
    """The error of a kernel that returned `status`: -1 says that its data is refused."""
    return OutOfRange(f"{where}{reason()}") if status == -1 else RewriteError(f"{where}a kernel returned {status}")


def load(path: Path) -> ctypes.CDLL:
    """A library in this process. Raises CompilerFailed where it does not load."""
    try:
        return ctypes.CDLL(str(path))
    except OSError as error:
        raise CompilerFailed(f"{path}: the library does not load: {error}; remove it, and it is made again") from error


def library_text(sources: Sequence[CSource]) -> str:
    """The C of a whole library: the run-time header, each shared function once, the exported functions."""
    symbols = [source.symbol for source in sources]
    if len(set(symbols)) != len(symbols):
        raise RewriteError(
            f"a library exports each symbol once, found {sorted(s for s in symbols if symbols.count(s) > 1)[0]} twice"
        )
    functions: dict[str, str] = {}
    for source in sources:
        functions.update(source.functions)
    formats = sorted(frozenset[str]().union(*(source.formats for source in sources)))
    return "\n".join([header(), *map(format_code, formats), *functions.values(), *(source.entry for source in sources)])


@functools.cache
def header() -> str:
    """The run-time header that every library begins with."""
    folder = importlib.resources.files("rewrite_engine.loops.emit_c") / "runtime"
    parts = [(folder / name).read_text() for name in HEADERS]
    return "\n".join(line for part in parts for line in part.splitlines() if not line.startswith('#include "')) + "\n"


def aligned(size: int) -> np.ndarray:
    """`size` bytes whose address is a multiple of 64."""
    room = np.empty(size + ALIGNMENT, np.uint8)
    start = -room.ctypes.data % ALIGNMENT
    return room[start : start + size]


def _pointers(
    source: CSource, role: str, buffers: Sequence[Buffer], arrays: Sequence[np.ndarray], kept: list[np.ndarray]
) -> ctypes.Array[ctypes.c_void_p]:
    if len(arrays) != len(buffers):
        raise RewriteError(f"kernel {source.symbol}: expected {len(buffers)} {role}s, found {len(arrays)}")
    table = (ctypes.c_void_p * max(len(arrays), 1))()
    for position, (array, (shape, dtype)) in enumerate(zip(arrays, buffers, strict=True)):
        if array.shape != shape or array.dtype != numpy_dtype(dtype):
            found = f"{array.dtype.name}{list(array.shape)}"
            raise RewriteError(
                f"kernel {source.symbol}: {role} {position}: expected {dtype}{list(shape)}, found {found}"
            )
        if not array.flags.c_contiguous:
            if role == "output":
                raise RewriteError(f"kernel {source.symbol}: output {position}: expected a contiguous array")
            array = np.ascontiguousarray(array)
        kept.append(array)
        table[position] = array.ctypes.data
    return table
