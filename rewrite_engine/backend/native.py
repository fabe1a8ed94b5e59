"""Kernels in C: emitted for every function of a bundle, built into one library, loaded where the library fits.

In: functions and their programs. Out: `CKernels` (the text, and what its functions need), a `StoredLibrary` (the file
with the facts of its making), and at run time a `Native` that binds calls to arrays. A kernel that does not run in C
has its reason: with a compiler at hand, nothing falls back to NumPy silently.
"""

from __future__ import annotations

import hashlib
import json
import platform
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np

from rewrite_engine.backend.abi import ABIS, wrappers
from rewrite_engine.backend.functions import Function
from rewrite_engine.backend.graph_reader import ReadGraph
from rewrite_engine.diagnostics import RewriteError
from rewrite_engine.loops import build_c
from rewrite_engine.loops.compiler import Compiler, NoCompiler, build_text, choose, features_here, this_processor
from rewrite_engine.loops.compute import Buffer, Program
from rewrite_engine.loops.emit_c import CSource, NotEmitted, emit, host_operators

ENGINES = ("auto", "c", "numpy")
"""How kernels without a code generator run: in C where there is a compiler, in C or not at all, in NumPy."""

FOLDER = "lib/"
KERNELS_C = "kernels/kernels.c"
LIBRARY = f"{FOLDER}kernels.so"
LIBRARY_JSON = f"{FOLDER}library.json"
LIBRARY_SCHEMA = "rewrite_engine/library/1"
_EXPORTS = "\n/* ---- what other programs call ---- */\n"
LANES = 16
"""Vector width that kernels are tuned for where no compiler says one."""


@dataclass(frozen=True, slots=True)
class CKernel:
    """A function in C: `c_symbol` exports it, `constants` are the positions of operands that are packed once.

    `workspace` is the scratch memory of a call in bytes, `packed` that of its packed operands.
    """

    c_symbol: str
    constants: tuple[int, ...]
    workspace: int
    packed: int

    def to_json(self) -> dict[str, object]:
        """The kernel as it stands in metadata.json."""
        return {**asdict(self), "constants": list(self.constants)}


@dataclass(frozen=True, slots=True, eq=False)
class CKernels:
    """The C of a bundle: one text, its functions by symbol, and the `reasons` of those that are not in it.

    The text depends on the kernels, on the `abi` of the exported wrappers (see `abi`), and on `lanes`, the vector width
    that it is tuned for; it runs on any processor.
    """

    text: str
    lanes: int
    kernels: Mapping[str, CKernel]
    reasons: Mapping[str, str]
    abi: str = "ffi"

    @property
    def sha256(self) -> str:
        """The digest of the text, in hexadecimal."""
        return hashlib.sha256(self.text.encode()).hexdigest()

    def function_json(self, symbol: str) -> dict[str, object]:
        """What metadata.json says of a function: its C, or why there is none."""
        if symbol in self.kernels:
            return self.kernels[symbol].to_json()
        return {"reason": self.reasons.get(symbol, "made by a code generator")}


@dataclass(frozen=True, slots=True)
class StoredLibrary:
    """A library file. `processor` is the digest of what it was tuned for ("native" alone), `features` what else the
    processor must have, `source` the digest of its C."""

    path: Path
    compiler: str
    version: str
    flags: tuple[str, ...]
    triple: str
    cpu: str
    processor: str
    features: tuple[str, ...]
    source: str
    content: bytes = field(repr=False)

    def to_json(self) -> dict[str, object]:
        """The content of library.json."""
        facts = {name: getattr(self, name) for name in _FACTS}
        facts.update(flags=list(self.flags), features=list(self.features))
        return {"schema": LIBRARY_SCHEMA, "sha256": hashlib.sha256(self.content).hexdigest(), **facts}

    @property
    def unfit(self) -> str:
        """Why this machine cannot run it; "" where it can."""
        machine = self.triple.split("-")[0]
        if machine != platform.machine():
            return f"the library is for {self.triple}, this machine is {platform.machine()}"
        if self.cpu == "native" and self.processor != _digest(this_processor()):
            return "the library was made for another processor"
        missing = sorted(set(self.features) - features_here()) if self.cpu != "native" else []
        return f"the library needs a processor with {', '.join(missing)}" if missing else ""


_FACTS = ("compiler", "version", "flags", "triple", "cpu", "processor", "features", "source")


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


def emit_kernels(
    graph: ReadGraph, functions: Mapping[str, Function], programs: Mapping[str, Program], lanes: int, abi: str = "ffi"
) -> CKernels:
    """The C of every function that has a program. `graph` says which operands are parameters in every call.

    Raises RewriteError where the ABI "packed" cannot export every function of the graph.
    """
    fixed = constant_positions(graph)
    sources: dict[str, CSource] = {}
    reasons: dict[str, str] = {}
    for symbol in sorted(programs):
        try:
            sources[symbol] = emit(programs[symbol], f"{symbol}_c", constants=fixed.get(symbol, ()), lanes=lanes)
        except NotEmitted as error:
            reasons[symbol] = str(error)
    kernels = {
        symbol: CKernel(source.symbol, fixed.get(symbol, ()), source.workspace, source.packed)
        for symbol, source in sources.items()
    }
    if abi == "packed":
        require_all(functions, kernels, reasons, "the packed ABI")
    c = {symbol: (kernel.c_symbol, kernel.workspace) for symbol, kernel in kernels.items()}
    text = build_c.library_text(list(sources.values())) + _EXPORTS + wrappers(abi, functions, c, graph.devices)
    return CKernels(text, lanes, kernels, reasons, abi)


def kernel_text(kernels: CKernels) -> str:
    """The C of the kernels alone, without the wrappers of the ABI."""
    return kernels.text.partition(_EXPORTS)[0]


def require_all(
    functions: Mapping[str, Function], kernels: Mapping[str, CKernel], reasons: Mapping[str, str], what: str
) -> None:
    """Raises RewriteError where a function is not in C."""
    for symbol, function in functions.items():
        if symbol not in kernels:
            reason = reasons.get(symbol, f"made by the code generator `{function.generator}`")
            raise RewriteError(f"{what} needs every kernel in C; `{symbol}` is not: {reason}")


def constant_positions(graph: ReadGraph) -> dict[str, tuple[int, ...]]:
    """Per function, the operands that are parameters in each of its calls."""
    parameters = set(graph.parameters)
    found: dict[str, set[int]] = {}
    for node in graph.nodes:
        if node.kind == "kernel":
            here = {at for at, entry in enumerate(node.inputs) if graph.entries[entry].name in parameters}
            found[node.function] = found.get(node.function, here) & here
    return {symbol: tuple(sorted(positions)) for symbol, positions in found.items()}


def host_compiler(options: Mapping[str, str], engine: str) -> Compiler | None:
    """The compiler that the host's options ask for; None where there is none and none was asked for.

    Raises RewriteError for an unknown engine, NoCompiler where one is needed.
    """
    if engine not in ENGINES:
        raise RewriteError(f"engine: expected one of {', '.join(ENGINES)}, found `{engine}`")
    if engine == "numpy":
        return None
    try:
        return choose(options.get("cc"), options.get("cpu"), options.get("triple"))
    except NoCompiler:
        if engine == "c" or options:
            raise
        return None


def build_library(kernels: CKernels, compiler: Compiler) -> StoredLibrary:
    """The library of a bundle's C, from the cache where it is there. Raises CompilerFailed."""
    built = build_text(kernels.text, compiler)
    return StoredLibrary(
        path=built.path,
        compiler=shlex.join(compiler.command),
        version=compiler.version,
        flags=compiler.all_flags("library"),
        triple=compiler.triple,
        cpu=compiler.cpu,
        processor=_digest(compiler.processor),
        features=compiler.features,
        source=kernels.sha256,
        content=built.path.read_bytes(),
    )


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
    if engine not in ENGINES:
        raise RewriteError(f"engine: expected one of {', '.join(ENGINES)}, found `{engine}`")
    why, library, origin = "", None, "NumPy"
    if engine == "numpy":
        why = "the NumPy engine was asked for"
    elif kernels is None:
        why = "the bundle was compiled without C"
        if engine == "c":
            raise RewriteError(f"{why}; compile it again with engine auto or c")
    else:
        handle_path, origin, why = _library_file(kernels, stored, engine)
        library = None if handle_path is None else _opened(handle_path, functions, kernels)
    how = {}
    for symbol, function in functions.items():
        how[symbol] = _how(symbol, function, programs, kernels, why if library is None else "")
    return Native(how, kernels.kernels if kernels else {}, library, origin)


def _library_file(kernels: CKernels, stored: StoredLibrary | None, engine: str) -> tuple[Path | None, str, str]:
    """The library to load with its origin, or why there is none."""
    if stored is not None and not stored.unfit and stored.path.is_file():
        return stored.path, "the bundle's library", ""
    try:
        compiler = choose()
    except NoCompiler as error:
        if engine == "c":
            raise
        return None, "NumPy", "; ".join([*([stored.unfit] if stored and stored.unfit else []), str(error)])
    built = build_text(kernels.text, compiler)
    because = f" ({stored.unfit})" if stored is not None and stored.unfit else ""
    return built.path, f"a library {'found in the cache' if built.cached else 'built now'}{because}", ""


def _opened(path: Path, functions: Mapping[str, Function], kernels: CKernels) -> build_c.Library:
    sources = {}
    for symbol, kernel in kernels.kernels.items():
        function = functions[symbol]
        inputs, outputs = (
            tuple(Buffer(tuple(int(str(size)) for size in t.shape or ()), t.dtype) for t in side)
            for side in (function.inputs, function.outputs)
        )
        sources[kernel.c_symbol] = CSource(
            kernel.c_symbol, (), "", inputs, outputs, kernel.workspace, kernel.packed, frozenset()
        )
    return build_c.Library(path, "", True, sources, build_c.load(path))


def _how(symbol: str, function: Function, programs: Mapping[str, Program], kernels: CKernels | None, why: str) -> How:
    if function.generator is not None:
        return How("target", f"made by the code generator `{function.generator}`")
    hosts = host_operators(programs[symbol])
    if hosts:
        return How("host", f"host operators ({', '.join(hosts)}) are not C")
    if why:
        return How("numpy", why)
    if kernels is None or symbol not in kernels.kernels:
        raise RewriteError(f"kernel `{symbol}` has no C, and no reason for it; compile the model again")
    return How("c")


def read_c_kernels(
    path: Path, metadata: Mapping[str, object], text: bytes | None, functions: Mapping[str, Function]
) -> CKernels | None:
    """The C of a stored bundle; None where it was compiled without. `path` is that of metadata.json.

    Raises RewriteError where the facts of a function are missing or not what they should be.
    """
    facts, rows = metadata.get("c"), metadata.get("functions")
    if facts is None:
        return None
    if text is None or not isinstance(facts, dict) or not isinstance(facts.get("lanes"), int):
        raise RewriteError(f"{path}: expected `c` with `lanes`, and the file {KERNELS_C}")
    if facts.get("abi") not in ABIS:
        raise RewriteError(f"{path}: `c`: expected `abi` to be one of {', '.join(ABIS)}, found {facts.get('abi')!r}")
    kernels: dict[str, CKernel] = {}
    reasons: dict[str, str] = {}
    for symbol, function in functions.items():
        row = rows[symbol].get("c") if isinstance(rows, dict) else None
        if function.generator is not None:
            continue
        try:
            if "reason" in row:  # type: ignore[operator]
                reasons[symbol] = str(row["reason"])  # type: ignore[index]
                continue
            kernel = CKernel(**{**row, "constants": tuple(row["constants"])})  # type: ignore[dict-item, index]
            numbers = (*kernel.constants, kernel.workspace, kernel.packed)
            if not isinstance(kernel.c_symbol, str) or not all(isinstance(n, int) and n >= 0 for n in numbers):
                raise TypeError(f"found {row}")
        except (KeyError, TypeError) as error:
            raise RewriteError(f"{path}: function `{symbol}`: expected the facts of its C: {error}") from error
        kernels[symbol] = kernel
    return CKernels(text.decode(), facts["lanes"], kernels, reasons, facts["abi"])


def read_library(root: Path, contents: Mapping[str, bytes], kernels: CKernels | None) -> StoredLibrary | None:
    """The library of a stored bundle, if it has one. Raises RewriteError where it is not that of the bundle's C."""
    if LIBRARY not in contents or kernels is None:
        return None
    path, content = root / LIBRARY_JSON, contents[LIBRARY]
    try:
        facts = json.loads(contents[LIBRARY_JSON])
        if facts["schema"] != LIBRARY_SCHEMA:
            raise ValueError(f"found schema {facts['schema']}")
        lists = {name: tuple(map(str, facts[name])) for name in ("flags", "features")}
        texts = {name: str(facts[name]) for name in _FACTS if name not in lists}
        digest = facts["sha256"]
    except (KeyError, TypeError, ValueError) as error:
        raise RewriteError(f"{path}: expected the facts of {LIBRARY}, schema `{LIBRARY_SCHEMA}`: {error!r}") from error
    if digest != hashlib.sha256(content).hexdigest() or texts["source"] != kernels.sha256:
        raise RewriteError(f"{path}: expected the library of {KERNELS_C}, found that of other kernels")
    return StoredLibrary(path=root / LIBRARY, content=content, **lists, **texts)  # type: ignore[arg-type]


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
