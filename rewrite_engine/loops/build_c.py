"""Compiling and loading emitted C: one shared library of many kernels, cached by content.

In: the sources of kernels. Out: a `Library` whose kernels are called on NumPy arrays. A library is found again by the
hash of its text, the compiler's version, the flags and the processor. It ends with the hash of its own bytes and is
installed by an atomic rename.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import importlib.resources
import os
import platform
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from rewrite_engine.diagnostics import RewriteError
from rewrite_engine.loops.compute import Buffer
from rewrite_engine.loops.dtypes import numpy_dtype
from rewrite_engine.loops.emit_c.formats import format_code
from rewrite_engine.loops.emit_c.source import ALIGNMENT, CSource

FLAGS = (
    "-std=gnu11", "-O2", "-ffp-contract=fast", "-fno-math-errno", "-fno-trapping-math", "-fwrapv",
    "-fno-strict-aliasing", "-fvisibility=hidden", "-fPIC", "-shared", "-pthread", "-w",
    "-Werror=implicit-function-declaration",
)  # fmt: skip
SANITIZERS = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-fno-omit-frame-pointer", "-g")
"""Flags of a library that stops at the first wrong access or undefined operation (load it with libasan first)."""
HEADERS = ("scalar.h", "vector.h", "pool.h", "calls.h")


class NoCompiler(RewriteError):
    """There is no C compiler. The message says what was looked for; kernels run in NumPy instead."""


class CompilerFailed(RewriteError):
    """The C compiler did not make a library. The message holds what it said; kernels run in NumPy instead."""


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

    def __call__(self, inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray]) -> None:
        """Fills the output arrays. Raises RewriteError for arrays of another shape or type."""
        kept: list[np.ndarray] = []
        given = _pointers(self.source, "input", self.source.inputs, inputs, kept)
        results = _pointers(self.source, "output", self.source.outputs, outputs, kept)
        status = self.function(given, results, self.scratch.ctypes.data)
        if status:
            raise RewriteError(f"kernel {self.source.symbol}: returned {status}")


@dataclass(frozen=True, slots=True, eq=False)
class CallSequence:
    """Calls on fixed arrays, run in order by one call into C; their constant inputs are packed already."""

    run: Callable[..., int]
    records: ctypes.Array[_CallRecord]
    kept: tuple[object, ...]

    def __call__(self) -> None:
        """Runs them all on what the arrays hold now. Raises RewriteError when a kernel fails."""
        status = self.run(self.records, len(self.records))
        if status:
            raise RewriteError(f"a kernel returned {status}")


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
        return CompiledKernel(source, function, aligned(source.workspace))

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
        return CallSequence(run, records, tuple(kept))

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
    command = find_compiler(cc)
    text = library_text(sources)
    options = (*FLAGS, *_machine_flags(cpu), *flags)
    folder = Path(cache) if cache is not None else cache_folder()
    key = "\0".join((text, _version(command), *options, cpu or _processor()))
    path = folder / f"{hashlib.sha256(key.encode()).hexdigest()[:32]}.so"
    by_symbol = {source.symbol: source for source in sources}
    if _is_whole(path):  # one that is cut short would crash the process that loads it
        try:
            return Library(path, shlex.join(command), True, by_symbol, ctypes.CDLL(str(path)))
        except OSError:  # of another machine: made again
            pass
    _compile(command, options, text, path)
    try:
        handle = ctypes.CDLL(str(path))
    except OSError as error:
        raise CompilerFailed(f"{shlex.join(command)}: the library it made does not load: {error}") from error
    return Library(path, shlex.join(command), False, by_symbol, handle)


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


def find_compiler(cc: str | None = None) -> tuple[str, ...]:
    """The command of the C compiler: `cc`, else $CC, gcc or clang. Raises NoCompiler."""
    wanted = [cc] if cc else [os.environ["CC"]] if os.environ.get("CC") else ["gcc", "clang"]
    for candidate in wanted:
        command = shlex.split(candidate)
        if command and shutil.which(command[0]):
            return tuple(command)
    raise NoCompiler(f"no C compiler: looked for {', '.join(wanted)}; install gcc or clang, or set CC")


def machine_lanes(cc: str | None = None, cpu: str | None = None) -> int:
    """float32 in a vector register of the processor, for `emit`: what the compiler says of it. Raises NoCompiler."""
    command = [*find_compiler(cc), *_machine_flags(cpu), "-dM", "-E", "-x", "c", os.devnull]
    said = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    return 16 if "__AVX512F__" in said else 8 if "__AVX__" in said else 4


def cache_folder() -> Path:
    """Where libraries are kept: REWRITE_ENGINE_CACHE, else the user's cache folder."""
    given = os.environ.get("REWRITE_ENGINE_CACHE")
    if given:
        return Path(given)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "rewrite_engine" / "kernels"


def aligned(size: int) -> np.ndarray:
    """`size` bytes whose address is a multiple of 64."""
    room = np.empty(size + ALIGNMENT, np.uint8)
    start = -room.ctypes.data % ALIGNMENT
    return room[start : start + size]


def _compile(command: Sequence[str], options: Sequence[str], text: str, path: Path) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".build-", dir=path.parent) as folder:
            source, made = Path(folder) / "kernels.c", Path(folder) / "kernels.so"
            source.write_text(text)
            result = subprocess.run(
                [*command, *options, str(source), "-o", str(made), "-lm"], capture_output=True, text=True, check=False
            )
            if result.returncode or not made.exists():
                said = "\n".join(result.stderr.strip().splitlines()[:20]) or f"exit status {result.returncode}"
                raise CompilerFailed(f"{shlex.join(command)} failed on the kernels:\n{said}")
            with made.open("ab") as file:  # loaders do not look behind the library
                file.write(hashlib.sha256(made.read_bytes()).digest())
            os.replace(made, path)
    except OSError as error:
        raise RewriteError(f"cannot build kernels in {path.parent}: {error.strerror or error}") from error


def _is_whole(path: Path) -> bool:
    """Whether a cached library is there and ends with the hash of what is before."""
    try:
        content = path.read_bytes()
    except OSError:
        return False
    return hashlib.sha256(content[:-32]).digest() == content[-32:]


def _machine_flags(cpu: str | None) -> tuple[str, ...]:
    return (f"-march={cpu or 'native'}",)


@functools.cache
def _version(command: tuple[str, ...]) -> str:
    try:
        result = subprocess.run([*command, "--version"], capture_output=True, text=True, check=False)
    except OSError as error:
        raise CompilerFailed(f"{shlex.join(command)} does not run: {error.strerror or error}") from error
    return result.stdout.splitlines()[0] if result.stdout else shlex.join(command)


@functools.cache
def _processor() -> str:
    """What -march=native depends on: the machine and its processor's model and features."""
    try:
        lines = Path("/proc/cpuinfo").read_text().split("\n\n")[0].splitlines()
    except OSError:
        return f"{platform.machine()} {platform.processor()}"
    wanted = ("model name", "flags", "Features", "CPU part", "CPU implementer")
    return "\n".join([platform.machine(), *(line for line in lines if line.startswith(wanted))])


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
