"""Kernels as C text: one function per kernel of a bundle, with the wrappers through which other programs call them.

In: functions and their programs. Out: `CKernels`: the text, what each function needs, and why some are not in it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from rewrite_engine.backend.abi import ABIS, wrappers
from rewrite_engine.backend.functions import Function
from rewrite_engine.backend.graph_reader import ReadGraph
from rewrite_engine.diagnostics import RewriteError
from rewrite_engine.loops.build_c import library_text
from rewrite_engine.loops.compute import Program
from rewrite_engine.loops.emit_c import CSource, NotEmitted, emit

KERNELS_C = "kernels/kernels.c"
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
    text = library_text(list(sources.values())) + _EXPORTS + wrappers(abi, functions, c, graph.devices)
    return CKernels(text, lanes, kernels, reasons, abi)


def constant_positions(graph: ReadGraph) -> dict[str, tuple[int, ...]]:
    """Per function, the operands that are parameters in each of its calls."""
    parameters = set(graph.parameters)
    found: dict[str, set[int]] = {}
    for node in graph.nodes:
        if node.kind == "kernel":
            here = {at for at, entry in enumerate(node.inputs) if graph.entries[entry].name in parameters}
            found[node.function] = found.get(node.function, here) & here
    return {symbol: tuple(sorted(positions)) for symbol, positions in found.items()}


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
