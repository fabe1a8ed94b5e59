"""docs/operators.md from the operator table and the computes: what becomes of each operator, and where it is special.

python -m rewrite_engine.loops.document   writes the page; a test holds it current.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from importlib.resources import files
from pathlib import Path

from rewrite_engine.loops.control import CONTROL
from rewrite_engine.loops.operators import OPERATORS
from rewrite_engine.loops.operators.selection import SELECTION
from rewrite_engine.operators.facts import Operator, find

PAGE = Path(__file__).parent.parent.parent / "docs" / "operators.md"

EXCEPTIONS: Mapping[str, str] = {
    "BitCast": "of opset 26; between dtypes of the same width in memory, none of them packed",
    "Cast": "not to or from strings, complex numbers and float8_e8m0fnu",
    "Compress": "the condition must be known at compile time: it decides the shape",
    "Constant": "not of strings and sparse tensors (import makes constants of these)",
    "Det": "matrices of more than 3 rows run on the host, in NumPy",
    "Dropout": "in training mode it is refused: it draws random numbers",
    "If": "replaced at import by the branch where a constant decides (or an input that `--value` settles); else a "
    "branch at run time, where the sizes of its results are known and all inside is lowered, or through ONNX Runtime",
    "GridSample": "cubic interpolation of pictures only",
    "Loop": "unrolled at import where constants decide that it has few steps; else a loop at run time, where all sizes "
    "are known (results of each step: where their number is) and all inside is lowered, or through ONNX Runtime",
    "NonMaxSuppression": "boxes and scores must be known at compile time: they decide the shape",
    "NonZero": "the operand must be known at compile time: it decides the shape",
    "QLinearMatMul": "float8 is refused: what sums of eight-bit floats are, ONNX does not say",
    "Range": "start, limit and delta must be known at compile time: they decide the shape",
    "RoiAlign": "`sampling_ratio` must be given",
    "Scan": "unrolled at import where it has few steps; else a loop, where all inside is lowered, or through ONNX "
    "Runtime",
    "STFT": "frame step, and frame length or window, must be known at compile time",
    "TopK": "runs on the host, in NumPy: a sort",
    "Unique": "the operand must be known at compile time: it decides the shape",
}
"""Operator -> the forms of it that are special."""

DIFFERENCES: Mapping[str, str] = {
    "AffineGrid": "the reference evaluator always gives float32",
    "Attention": "blocked scores are -inf here, the lowest float in ONNX Runtime; narrow floats: the reference "
    "evaluator rounds every step",
    "BatchNormalization": "in training mode the reference evaluator gives the statistics the dtype of x, not their own",
    "Cast": "floats beyond int4, uint4, int2 or uint2 keep the low bits of the whole part; ONNX Runtime rounds first, "
    "and the reference evaluator gives these bits or 0, by the version of ml_dtypes",
    "CastLike": "as Cast",
    "DFT": "ONNX Runtime's float32 is off by up to 3e-5 where the exact result is 0",
    "DequantizeLinear": "zero points of float dtypes: the reference evaluator subtracts the rounded one",
    "Det": "the reference evaluator gives float64 for bfloat16",
    "Gemm": "integers with fractional `alpha` or `beta`: here scaled in float64, then truncated",
    "Gelu": "narrow floats: the reference evaluator rounds every step",
    "GlobalAveragePool": "narrow floats: the reference evaluator rounds every partial sum",
    "GridSample": "unsigned integers: the reference evaluator wraps positions below 0",
    "LayerNormalization": "the reference evaluator gives mean and deviation the dtype of x, not that of `stash_type`",
    "LogSoftmax": "narrow floats: the reference evaluator takes the logarithm of rounded shares, which may be 0",
    "LpNormalization": "p = 1: the reference evaluator forgets the absolute values",
    "LpPool": "narrow floats: powers overflow in the reference evaluator, not in the float32 used here",
    "MatMulInteger": "uint8 by int8: ONNX Runtime's sums of two products saturate in 16 bits on x86 processors without "
    "VNNI (255 * 127 * 64 becomes 1,048,544, not 2,072,640); ConvInteger, QLinearConv and QLinearMatMul too",
    "MaxPool": "bfloat16: the reference evaluator compares with a padding that is not the lowest value",
    "MaxUnpool": "with `output_shape`: ONNX Runtime lays the elements out as for the default shape",
    "NegativeLogLikelihoodLoss": "narrow floats: the reference evaluator rounds every partial sum",
    "Pow": "integers: 0 to a negative power is 0 here, the lowest integer in ONNX Runtime; so are overflows there",
    "QuantizeLinear": "zero points of float dtypes must be 0; the reference evaluator adds others",
    "ReduceLogSum": "narrow floats: the reference evaluator rounds the sum",
    "ReduceLogSumExp": "integers: the result is truncated, and a logarithm next to an integer may fall on either side",
    "ReduceMax": "NaN goes through here; ONNX Runtime drops it in some orders (ReduceMin, ArgMax and MaxPool too)",
    "ReduceSumSquare": "integers: the reference evaluator gives int64 or uint64",
    "Resize": "interpolated integers are truncated, as in ONNX Runtime (rounded with `antialias`); the reference "
    "evaluator rounds them, and sums next to an integer may fall on either side; float16 is computed in float32 here",
    "SoftmaxCrossEntropyLoss": "narrow floats: the reference evaluator rounds every partial sum",
}
"""Operator -> where results differ from ONNX Runtime or from ONNX's reference evaluator, and why."""

HOST = frozenset({"TopK"})
"""Operators whose compute is a host operator in every form."""

RANDOM = "it draws random numbers"
REFUSED: Mapping[str, str] = {
    "ImageDecoder": "decoding pictures is a library's work, and its result has no known size",
    **dict.fromkeys(("Optional", "OptionalGetElement", "OptionalHasElement"), "an optional is no tensor"),
}
"""Operators without a compute -> more about them."""

_PREAMBLE = """# Operators

What becomes of each operator of ONNX at opset {opset}, the opset that import brings every model to. This page is
generated: `python -m rewrite_engine.loops.document`.

- **lowered**: a declarative compute, which composes with others, runs in NumPy and is emitted as C.
- **host**: an operator on whole tensors that is no loop nest. It runs in NumPy where the engine has it, else through
  ONNX Runtime where that is installed (`pip install rewrite-engine[check]`) and the dtypes and shapes of the results
  are known; otherwise `compile` refuses it by name. So do operators of other domains (`com.microsoft`, `ai.onnx.ml`)
  without a declared meaning.
- **refused**: no part of a compiled model, by reason. Import still folds what is constant.

Operators of later opsets become the functions that ONNX defines them with (Swish, SwiGLU, LinearAttention,
CausalConvWithState, FlexAttention, the later forms of Attention) or others (CumProd, TensorScatter); BitCast, and
dtypes that only a later opset allows, stay as they are. Low-precision floats are computed in float32 and rounded at
every operator boundary.

"""


def page() -> str:
    """The page, ending in a newline."""
    table = json.loads((files("rewrite_engine.operators") / "facts.json").read_text(encoding="utf-8"))
    names = sorted({*table["operators"], *OPERATORS}, key=lambda name: ("::" in name, name))
    rows = [_row(name) for name in names]
    lowered = sum(row[1].startswith("lowered") for row in rows)
    lines = [f"{len(rows)} operators: {lowered} lowered, {sum(row[1] == 'host' for row in rows)} host, "
             f"{sum(row[1] == 'refused' for row in rows)} refused.", ""]  # fmt: skip
    lines += ["| operator | | dtypes of the first operand | exceptions |", "| --- | --- | --- | --- |"]
    lines += ["| " + " | ".join(row) + " |" for row in rows]
    lines += ["", "## Where results differ from other implementations", ""]
    lines += [
        "Random models of one operator (`python benchmarks/random_operators.py`) are compared with ONNX Runtime,",
        "without optimisation, and with ONNX's reference evaluator. What is known to differ beyond rounding:",
        "",
        "| operator | difference |",
        "| --- | --- |",
    ]
    lines += [f"| {name} | {reason} |" for name, reason in DIFFERENCES.items()]
    return _PREAMBLE.format(opset=table["opset"]) + "\n".join(lines) + "\n"


def _row(name: str) -> tuple[str, str, str, str]:
    operator = find(name)
    if name in OPERATORS or name in CONTROL:
        status = "host" if name in HOST else "lowered, read at compile time" if name in SELECTION else "lowered"
        return name, status, ", ".join(_dtypes(operator)), EXCEPTIONS.get(name, "")
    kinds = [] if operator is None else [*operator.inputs, *operator.outputs]
    strange = {t for f in kinds for t in f.dtypes if t.startswith(("seq(", "optional(", "map("))}
    texts = operator is not None and any(set(f.dtypes) <= {"string"} for f in kinds)
    reason = REFUSED.get(name, "")
    if operator is not None and operator.random:
        return name, "refused", "", RANDOM
    if not reason and strange:
        reason = "a sequence is no tensor"
    if not reason and texts:
        reason = "a string has no arithmetic"
    status = "refused" if reason and "through ONNX Runtime" not in reason else "host"
    return name, status, "", reason or "through ONNX Runtime"


def _dtypes(operator: Operator | None) -> Iterator[str]:
    """The dtypes of the first operand that are lowered, those of a family together."""
    first = operator.input(0) if operator is not None else None
    known = [] if first is None else [d for d in first.dtypes if d not in ("string", "complex64", "complex128")]
    for prefix in ("float8", "uint", "int"):
        family = [d for d in known if d.startswith(prefix)]
        if len(family) > 3:
            known = [f"{prefix}…" if d == family[0] else d for d in known if d == family[0] or d not in family]
    yield from known


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    print(f"{PAGE}: {PAGE.stat().st_size} bytes")
