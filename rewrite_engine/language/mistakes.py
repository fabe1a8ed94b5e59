"""Hints for what people write out of another habit, taught by example: what stands before, what was found, the mend.

In: the text around a token that does not fit, or a name that is not known. Out: a hint, or None. The tables only help
where reading has failed already; they never make a text right or wrong.
"""

from __future__ import annotations

import re
from collections.abc import Set

from rewrite_engine import operators

_CONDITIONAL = "write `if CONDITION then A else B`"
_CAPTURE = "a capture is a plain name, such as `x`"
_ANY_NAME = r"\b(?:let|pattern|rule|device|target|option|composite)\s*"
_SEPARATED = "`where` stands once, and `;` separates what it names"
_HABITS = (
    # (terminal that would have fitted or "", what stands before, what was found, the mend)
    ("SEMICOLON", r"\bwhere\b.*", r",|where\b", _SEPARATED),
    ("BAR", r"", r"or\b", "write `|` between alternatives"),
    ("", r"\|", r"\|", "one `|` separates alternatives"),
    ("BAR", r"", r"and\b", "several results stand in parentheses: `(P, Q)`; a condition follows `if`"),
    ("BAR", r"\)", r"\.\d", "an output of an operator is chosen by `[0]`"),
    ("BAR", r"\d", r"\.", "a digit follows the point: `5.0`"),
    ("BAR", r"\w", r"\.", "ONNX's own operators have no domain; others are written `com.x::Op(…)`"),
    ("BAR", r"", r"[-+*/]", "a pattern names its operators: `Add(x, y)`"),
    ("ELLIPSIS", r"", r"[?*-]|None\b", "`_` stands for any size, `...` for any number of dimensions"),
    ("", r"", r"\.\.\.", "a list is written out; iota(n) is [0, 1, …, n - 1]"),
    ("COMMA", r"\[\d+", r"x\d", "sizes are separated by `,`"),
    ("", r"", r"\.\d", "a number begins with a digit: `0.5`"),
    ("COMMA", r"\b0", r"x[0-9a-fA-F]+\b", "numbers are decimal"),
    ("COMMA", r"\d", r"_\d", "digits are written without `_`"),
    ("PERCENT", r"", r"mod\b", "write `%`"),
    ("PERCENT", r"", r"div\b", "write `//`"),
    ("", r"\bsupports\s*\{[^{}()]*", r"\}", "list them: `supports Relu, Abs`"),
    ("", r"\b(?:memory|supports|requires|cost|energy|launch|flops|bandwidth)\s*", r":", "leave out the `:`"),
    ("NAME", r"\bcomposite\s*", r"[A-Z]", "a composite has a name and parameters: `composite c(x) = …`"),
    ("LPAR", r"\b(?:composite|pattern)\s+\w+\s*", r"=", "parameters stand in parentheses: `pattern p(x) = …`"),
    ("NAME", _ANY_NAME, r"[A-Z]", "names begin with a small letter"),
    ("NAME", r"\b(?:pattern|composite)\s+\w+\s*\([^()=]*", r"[A-Z]", "captures begin with a small letter"),
    ("NAME", _ANY_NAME, r"\d", "a name begins with a letter"),
    ("NAME", _ANY_NAME, r"\"", "a name is a plain word, without quotes"),
    ("", _ANY_NAME + r"\w+", r"-", "names have letters, digits and `_`"),
    ("STRING", r"\btest\s*", r"\w", 'the title stands in `"`'),
    ("RBRACE", r"", r"(?:rule|pattern|let|device|link|include|test|operator|target)\b",
     "it stands outside of targets: is a `}` missing before it?"),
    ("", r"\btarget\s+\w+\s*", r":", "write `target t on DEVICE {`"),
    ("LBRACE", r"", r":", "leave out the `:`"),
    ("LBRACE", r"\bdevice\s+\w+\s*", r"", "write `device d { memory 64MiB }`"),
    ("MEMORY", r"", r"\d", "write `memory` before it"),
    ("ARROW", r"", r"to\b|-|=>|,", "write `->`, or `<->` for both ways"),
    ("LABEL", r"", r"exact\b", "leave it out: a rule is exact unless it says otherwise"),
    ("LABEL", r"", r"(?:approx\w*|unsafe|lossy|fast|inexact)\b", "write `approximates`"),
    ("LABEL", r"", r"(?:reassoc\w*|reorders?)\b", "write `reassociates`"),
    ("IS", r"", r"(?:matches|isa)\b", "write `is`"),
    ("IS", r"", r"(?:not\s+is|isnt|doesnt)\b", "write `is not`"),
    ("REWRITES", r"\bplace\b.*", r"on\b", "say what the optimum computes: `place G => G on TARGET`"),
    ("RULE", r"", r"(?:rewrite|simplify|replace|fuse)\b", "write `rule`"),
    ("RULE", r"", r"(?:op|custom_op)\b", "write `operator`"),
    ("", r"\breturn\s+", r"\w", "leave out the `return`"),
    ("WITH", r"\bif\b.*", r",", "conditions are joined by `and`"),
    ("AND", r"\blet\b.*", r"->", "a function is written `let f(a) = …`"),
    ("BOTH_WAYS", r"", r"<->|<=(?!>)|<==>|<~>", "write `<=>` for a rule that holds both ways"),
    ("REWRITES", r"", r">=|-{2,}>|~>|:=|:", "write `=>`"),
    ("REWRITES", r"\)\s*", r"\{", "attributes stand among the inputs: `Softmax(x, axis=1)`"),
    ("OR", r"", r"\|", "write `or`"),
    ("", r"<", r">", "write `!=`"),
    ("", r"==", r"=", "write `==`"),
    ("IF", r"", r"(?:when|unless|given|provided)\b", "a condition follows `if`"),
    ("", r"\bwhere\s+\w+", r"\.", "`where` names inner nodes; a condition follows `if`"),
    ("COMPARE", r"", r"is\b", "write `==` to compare; `present(x)` asks whether an input is there"),
    ("", r"\*", r"\*", "there is no power operator: multiply, or write `sqrt(x)`"),
    ("", r"[(,]\s*", r"[?%$@]\w", _CAPTURE),
    ("", r"", r"if\b(?=.*\belse\b)", _CONDITIONAL),
    ("", r"\bif\b.*", r"\?(?=.*:)", _CONDITIONAL),
    ("THEN", r"", r":", _CONDITIONAL),
    ("", r"\bif\b.*", r"else\b", _CONDITIONAL),
    ("OPTIONAL", r"[(,]\s*None\s*", r"[,)]", "write `none`"),
    ("OPTIONAL", r"\b[A-Z]\w*\s*", r"[,)]", "a word with a capital is an operator: captures begin with a small letter"),
    ("RBRACE", r"\{[^{}]*", r";(?=[^{}]*\})", "items of a set are separated by `,`; those of a target need nothing"),
    ("", r"", r";", "newlines and `;` carry no meaning between declarations: leave it out"),
    ("", r",\s*", r"[)}\]]", "leave out the last `,`"),
    ("", r"\d\s+", r"(?:[munp]?s|[KMGT]i?B|bytes|[GMT]?FLOPS|[GMT]?MACS|[GMT]?Hz)\b", "a quantity is one word: `3us`"),
    ("EQUAL", r"", r"->|:=|:|==", "write `=`"),
    ("", r"=", r">", "`=>` is for rules: write `=`"),
    ("COLON", r"\brule\s+\w+\s*", r"\(", "a rule has no parameters: write `:` after its name"),
    ("COLON", r"", r"[=A-Z\d]", "write a `:` before it"),
    ("NAME", r"\b(?:rule|pattern|composite|let|target|device)\s*", r":", "a declaration has a name: `rule fuse: …`"),
    ("", r"\w\s*:\s*", r"[\d\"]", "an attribute is written with `=`: `axis=1`"),
    ("STRING", r"\binclude\s+", r".", 'the path stands in `"`'),
    ("", r"\b(?:memory|launch|flops|bandwidth|cost|energy)\s*", r"=", "leave out the `=`"),
    ("LSQB", r":\s*\w+\s*", r".", "a type has brackets: `float32[...]` of any shape, `float32[]` for a scalar"),
    ("", r"", r"/[/*]", "a comment begins with `#`"),
    ("", r"", r"(?:import|from|use|using|require)\b", "write `include`"),
    ("", r"", r"(?:def|fn|func|function|const|var|define|macro)\b", "write `let` for values, `pattern` for patterns"),
    ("", r"", r"cost\b|energy\b", "it follows a capability of a `target`"),
)  # fmt: skip
_DTYPES = {
    "half": "float16", "f16": "float16", "fp16": "float16", "f32": "float32", "fp32": "float32", "float": "float32",
    "single": "float32", "double": "float64", "f64": "float64", "fp64": "float64", "bf16": "bfloat16", "int": "int32",
    "long": "int64", "byte": "uint8", "char": "int8", "boolean": "bool", "str": "string", "i8": "int8", "i16": "int16",
    "i32": "int32", "i64": "int64", "s8": "int8", "u8": "uint8", "u16": "uint16", "u32": "uint32", "u64": "uint64",
}  # fmt: skip
_OPERATORS = {
    "batchnorm": "BatchNormalization", "layernorm": "LayerNormalization", "groupnorm": "GroupNormalization",
    "instancenorm": "InstanceNormalization", "rmsnorm": "RMSNormalization", "linear": "Gemm", "dense": "Gemm",
    "fullyconnected": "Gemm", "addmm": "Gemm", "bmm": "MatMul", "dot": "MatMul", "permute": "Transpose",
    "view": "Reshape", "cat": "Concat", "concatenate": "Concat", "stack": "Concat", "embedding": "Gather",
    "scaleddotproductattention": "Attention", "sdpa": "Attention", "multiply": "Mul", "subtract": "Sub",
    "minus": "Sub", "plus": "Add", "divide": "Div", "power": "Pow", "clamp": "Clip", "relu6": "Clip", "select": "Where",
    "interpolate": "Resize", "deconv": "ConvTranspose", "conv2dtranspose": "ConvTranspose", "negative": "Neg",
    "convtranspose2d": "ConvTranspose", "depthwiseconv2d": "Conv", "quantize": "QuantizeLinear", "rsqrt": "Reciprocal",
    "dequantize": "DequantizeLinear", "mean": "ReduceMean", "sigmoidlinearunit": "Sigmoid", "silu": "Sigmoid",
}  # fmt: skip
"""Operators as other frameworks call them, and the one that it is, or is made of."""
_MEMBERS = {
    "ndim": "x.rank", "dim": "x.rank", "dims": "x.shape", "size": "x.numel", "type": "x.dtype", "elements": "x.numel",
    "is_const": "is_const(x)", "is_constant": "is_const(x)", "constant": "is_const(x)", "is_static": "is_static(x)",
    "value": "item(x)", "item": "item(x)", "readers": "readers(x)", "users": "readers(x)", "nbytes": "x.bytes",
    "len": "len(x.shape)", "op_type": "x.dtype", "elem_type": "x.dtype", "T": "transpose(x)",
}  # fmt: skip
"""What values are asked for elsewhere, and how it is asked here."""
_FUNCTIONS = {
    "range": "iota(n)", "arange": "iota(n)", "constant": "is_const(x)", "isconst": "is_const(x)", "product": "prod(x)",
    "length": "len(x)", "maximum": "max(a, b)", "minimum": "min(a, b)", "array": "full(shape, value, dtype)",
    "zeros": "full(shape, 0, dtype)", "ones": "full(shape, 1, dtype)", "permute": "transpose(x)", "int": "floor(x)",
    "float": "cast(x, float32)", "allclose": "close(a, b)", "isclose": "close(a, b)", "isinstance": "x.dtype",
    "astype": "cast(x, dtype)", "exists": "present(x)", "defined": "present(x)", "broadcast_to": "expand(x, shape)",
}  # fmt: skip
_PROPERTIES = frozenset({"shape", "rank", "dtype", "numel", "bytes", "size", "ndim"})
_RENAMED = {"size": "numel", "ndim": "rank"}
OF_LISTS = frozenset({"size", "ndim", "len", "length"})
WHOLE_X = r"\bx\b"
_NUMBERED = re.compile(r"#\s*\d+\b")


def habit(text: str, at: int, begin: int, accepted: Set[str]) -> str | None:
    """The hint for what stands at offset `at` of a declaration that begins at `begin`; `accepted` terminals would fit.

    >>> text = "rule r: Relu(Relu(x)) => Relu(x) if x.rank == 1 || x.rank == 2"
    >>> habit(text, text.index("||"), 0, {"OR"})
    'write `or`'
    """
    before, after = text[begin:at], text[at:].split("\n", 1)[0]
    if "RPAR" in accepted and _NUMBERED.search(before):
        return f"`#` begins a comment: {_CAPTURE}"
    for terminal, left, found, hint in _HABITS:
        fits = (not terminal or terminal in accepted) and re.match(found, after)
        if fits and (not left or re.search(f"(?:{left})$", before, re.DOTALL)):
            return hint
    return None


def dtype(name: str) -> str | None:
    """The hint for a dtype by the name that another framework gives it.

    >>> dtype("f32"), dtype("Float32")
    ('did you mean `float32`?', 'did you mean `float32`?')
    """
    plain = name.lower()
    known = _DTYPES.get(plain) or (plain if plain in {*_DTYPES.values()} and plain != name else None)
    return f"did you mean `{known}`?" if known else None


def function(name: str) -> str | None:
    """The hint for a function that is a property, or an operator without its capital.

    >>> function("shape"), function("relu")
    ('write `x.shape` for a value `x`', 'operators are capitalised: `Relu`')
    """
    if name in _FUNCTIONS:
        return f"write `{_FUNCTIONS[name]}`"
    if name in _PROPERTIES:
        return f"write `x.{_RENAMED.get(name, name)}` for a value `x`"
    plain = name.replace("_", "").lower()
    operator = next((known for known in sorted(operators.names()) if known.lower() == plain), None)
    return f"operators are capitalised: `{operator}`" if operator else None


def operator(name: str) -> str | None:
    """The hint for an operator by the name that another framework gives it.

    >>> operator("BatchNorm2d"), operator("Relu")
    ('did you mean `BatchNormalization`?', None)
    """
    plain = re.sub(r"([1-3]d)?$", "", name.replace("_", "").lower())
    known = _OPERATORS.get(name.replace("_", "").lower()) or _OPERATORS.get(plain)
    return f"did you mean `{known}`?" if known else None


def member(name: str, owner: str) -> str | None:
    """The hint for what another framework calls a property of a value.

    >>> member("ndim", "x"), member("is_const", "w")
    ('write `x.rank`', 'write `is_const(w)`')
    """
    return f"write `{re.sub(WHOLE_X, owner, _MEMBERS[name])}`" if name in _MEMBERS else None
