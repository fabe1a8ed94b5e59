"""How other programs call the kernels of a library: exported wrappers that check their tensors.

In: functions with their C. Out: C text behind the kernels. `ffi` exports `__tvm_ffi_SYMBOL`, which apache-tvm-ffi calls
with arrays of NumPy, PyTorch or JAX; `packed` exports `SYMBOL`, which the TVM 0.19 graph executor calls. Both take the
inputs, then the outputs, which the kernel fills. Neither needs a header or a library of theirs.
"""

from __future__ import annotations

import importlib.resources
import json
from collections.abc import Mapping

from rewrite_engine.backend.functions import Function
from rewrite_engine.diagnostics import RewriteError
from rewrite_engine.operators.types import TensorType

ABIS = ("ffi", "packed")

ELEMENTS: Mapping[str, tuple[int, int]] = {
    **{f"int{bits}": (0, bits) for bits in (8, 16, 32, 64)},
    **{f"uint{bits}": (1, bits) for bits in (8, 16, 32, 64)},
    **{f"float{bits}": (2, bits) for bits in (16, 32, 64)},
    "bfloat16": (4, 16),
    "bool": (1, 1),
}
"""DLPack's code and bits of an element type; for bool, those that TVM uses (DLPack's own are accepted too)."""


def wrappers(
    abi: str, functions: Mapping[str, Function], c: Mapping[str, tuple[str, int]], device_types: Mapping[str, int]
) -> str:
    """The C of the wrappers. `c` gives a function's C symbol and its workspace, `device_types` DLPack's type by device.

    A function with an element type that the ABI has no word for is left out of `ffi`; for `packed`, which runs whole
    graphs, that is a RewriteError.
    """
    check_abi(abi)
    unknown = {symbol: sorted({t.dtype for t in _operands(functions[symbol])} - ELEMENTS.keys()) for symbol in c}
    if abi == "packed":
        for symbol, dtypes in unknown.items():
            if dtypes:
                raise RewriteError(f"kernel `{symbol}`: the packed ABI has no element type {dtypes[0]}; use --abi ffi")
    wrapped = [symbol for symbol in sorted(c) if not unknown[symbol]]
    most = max((len(t.shape or ()) for symbol in wrapped for t in _operands(functions[symbol])), default=0)
    parts = [f"#define RE_MOST_DIMENSIONS {max(most, 1)}", _text("tensors.h"), _text(f"{abi}.h")]
    parts += [
        _signature(functions[symbol], *c[symbol], device_types) + _EXPORTS[abi].format(symbol) for symbol in wrapped
    ]
    return "\n".join(parts)


def check_abi(abi: str) -> None:
    """Raises RewriteError for an unknown ABI."""
    if abi not in ABIS:
        raise RewriteError(f"abi: expected one of {', '.join(ABIS)}, found `{abi}`")


_VISIBLE = '__attribute__((visibility("default"))) '
_EXPORTS = {
    "ffi": _VISIBLE + "int __tvm_ffi_{0}(void *self, const re_any *args, int32_t count, re_any *result) {{\n"
    "  (void)self, (void)result;\n  return re_ffi_call(&{0}_signature, args, count);\n}}\n",
    "packed": _VISIBLE
    + "int {0}(void *args, int32_t *codes, int32_t count, void *result, int32_t *result_code, void *resource) {{\n"
    "  (void)result, (void)result_code, (void)resource;\n"
    "  return re_packed_call(&{0}_signature, args, codes, count);\n}}\n",
}


def _operands(function: Function) -> tuple[TensorType, ...]:
    return (*function.inputs, *function.outputs)


def _signature(function: Function, c_symbol: str, workspace: int, device_types: Mapping[str, int]) -> str:
    symbol, rows = function.symbol, []
    for position, tensor in enumerate(_operands(function)):
        inside = position < len(function.inputs)
        device = device_types[function.input_device(position) if inside else function.device]
        code, bits = ELEMENTS[tensor.dtype]
        shape = ", ".join(map(str, tensor.shape or (0,)))
        rows.append(f"  {{{{{code}, {bits}, 1}}, {device}, {len(tensor.shape or ())}, {{{shape}}}}},")
    counts = f"{len(function.inputs)}, {len(function.outputs)}"
    return (
        f"static const re_operand {symbol}_operands[] = {{\n" + "\n".join(rows) + "\n};\n"
        f"static const re_signature {symbol}_signature = "
        f"{{{json.dumps(symbol)}, {counts}, {symbol}_operands, {workspace}, {c_symbol}}};\n"
    )


def _text(name: str) -> str:
    return (importlib.resources.files("rewrite_engine.backend") / "c" / name).read_text()
