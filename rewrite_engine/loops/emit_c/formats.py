"""C for floats of 8 and 4 bits: a table of values to decode, the sorted values to encode, from the types themselves."""

from __future__ import annotations

import functools
import math

import numpy as np

from rewrite_engine.loops.arithmetic import convert
from rewrite_engine.loops.dtypes import LOW_PRECISION, numpy_dtype

TABLED = LOW_PRECISION - {"float16", "bfloat16"}


@functools.cache
def format_code(dtype: str) -> str:
    """`re_from_<dtype>` and `re_to_<dtype>` with their tables."""
    count = 16 if dtype.startswith("float4") else 256
    decoded = np.arange(count, dtype=np.uint8).view(numpy_dtype(dtype)).astype(np.float32)
    unsigned = dtype == "float8_e8m0fnu"
    half = count if unsigned else count // 2
    positive = sorted((float(decoded[code]), code) for code in range(half) if np.isfinite(decoded[code]))

    def code_of(value: float, saturate: bool) -> int:
        return int(convert(np.asarray([value], np.float32), dtype, saturate).view(np.uint8)[0])

    beyond = 3.4e38 if unsigned else 3e38
    special = [
        *(code_of(value, True) for value in (math.nan, -math.nan, math.inf, -math.inf)),
        *(code_of(value, False) for value in (math.inf, -math.inf, beyond, -beyond)),
        code_of(-0.0, True),
        0 if unsigned else count // 2,
    ]
    values = ", ".join(_literal(value) for value, _ in positive)
    codes = ", ".join(str(code) for _, code in positive)
    table = ", ".join(_literal(float(value)) for value in decoded)
    return f"""\
static const float re_table_{dtype}[{count}] = {{{table}}};
static const float re_values_{dtype}[] = {{{values}}};
static const uint8_t re_codes_{dtype}[] = {{{codes}}}, re_special_{dtype}[] = {{{", ".join(map(str, special))}}};
RE_INLINE float re_from_{dtype}(uint8_t code) {{ return re_table_{dtype}[code & {count - 1}]; }}
RE_INLINE uint8_t re_to_{dtype}(float x, int saturate) {{
  return re_encode(x, saturate, re_values_{dtype}, re_codes_{dtype}, {len(positive)}, re_special_{dtype});
}}
"""


def _literal(value: float) -> str:
    if math.isnan(value):
        return "NAN"
    return ("-" if value < 0 else "") + "INFINITY" if math.isinf(value) else value.hex() + "f"
