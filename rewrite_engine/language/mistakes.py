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
_HABITS = (
    # (terminal that would have fitted or "", what stands before, what was found, the mend)
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
_PROPERTIES = frozenset({"shape", "rank", "dtype", "numel", "bytes", "size", "ndim"})
_RENAMED = {"size": "numel", "ndim": "rank"}
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
    if name in _PROPERTIES:
        return f"write `x.{_RENAMED.get(name, name)}` for a value `x`"
    plain = name.replace("_", "").lower()
    operator = next((known for known in sorted(operators.names()) if known.lower() == plain), None)
    return f"operators are capitalised: `{operator}`" if operator else None
