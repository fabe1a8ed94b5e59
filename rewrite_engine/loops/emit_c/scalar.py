"""One node of an expression as a C expression, given those of its operands: exact, element by element."""

from __future__ import annotations

from collections.abc import Sequence

from rewrite_engine.loops.dtypes import INDEX, SMALL_INTEGERS, is_float, numpy_dtype
from rewrite_engine.loops.emit_c.types import (
    convert,
    is_low,
    is_unsigned,
    is_wide_float,
    lift,
    literal,
    lower,
    stored,
)
from rewrite_engine.loops.expr import Expr
from rewrite_engine.loops.index import bounds

ELEMENT = "element"
"""A load at a row-major address: (address,), value is the name of the buffer."""

_INFIX = {"add": "+", "sub": "-", "mul": "*", "imul": "*", "bit_and": "&", "bit_or": "|", "bit_xor": "^"}
_BOOL_INFIX = {"add": "|", "mul": "&", "sub": "^", "max": "|", "min": "&"}
_COMPARE = {"lt": "<", "le": "<=", "eq": "=="}
_C_NAMES = {"round": "rint", "abs": "fabs", "max": "re_max", "min": "re_min", "sign": "re_sign", "mod": "re_mod"}
_ROUNDING = ("floor", "ceil", "round", "trunc")


def node_text(node: Expr, args: Sequence[str], buffers: dict[str, str]) -> str:
    """The node in C. `buffers` names the pointers of the tensors that are read."""
    op, dtype = node.op, node.dtype
    if op == "const":
        return literal(node.value, dtype)
    if op == ELEMENT:
        text = f"{buffers[str(node.value)]}[{args[0]}]"
        return f"re_wrap_{dtype}({text})" if dtype in SMALL_INTEGERS else text
    if op == "select":
        return f"({args[0]} ? {args[1]} : {args[2]})"
    if op == "cast":
        return convert(args[0], node.args[0].dtype, dtype, bool(node.value))
    if op == "bitcast":
        source = node.args[0].dtype
        return f"((union {{ {stored(source)} from; {stored(dtype)} to; }}){{ .from = {args[0]} }}.to)"
    if op in _COMPARE:
        source = node.args[0].dtype
        return f"({lift(args[0], source)} {_COMPARE[op]} {lift(args[1], source)})"
    if op in ("and", "or"):
        return (
            f"({(' && ' if op == 'and' else ' || ').join(_truth(a, n) for a, n in zip(args, node.args, strict=True))})"
        )
    if op == "not":
        return f"(!{_truth(args[0], node.args[0])})"
    if op == "xor":
        return f"(!{_truth(args[0], node.args[0])} != !{_truth(args[1], node.args[1])})"
    if op in ("isnan", "isinf"):
        source = node.args[0].dtype
        return f"({op}({lift(args[0], source)}) != 0)" if is_float(source) else "0"
    if dtype == INDEX:
        return _index_text(node, args)
    computed = [lift(arg, operand.dtype) for arg, operand in zip(args, node.args, strict=True)]
    return lower(_value_text(op, dtype, computed), dtype)


def combined(combine: str, left: str, right: str, dtype: str) -> str:
    """How a reduction or a scatter joins two stored elements."""
    if combine == "set":
        return right
    if combine in ("and", "or"):
        return f"(({lift(left, dtype)} != 0) {'&&' if combine == 'and' else '||'} ({lift(right, dtype)} != 0))"
    op = {"sum": "add", "prod": "mul"}.get(combine, combine)
    return lower(_value_text(op, dtype, [lift(left, dtype), lift(right, dtype)]), dtype)


def _truth(text: str, node: Expr) -> str:
    return text if node.dtype == "bool" else f"({lift(text, node.dtype)} != 0)"


def _index_text(node: Expr, args: Sequence[str]) -> str:
    if node.op == "lin":
        assert isinstance(node.value, tuple)
        constant, coefficients = node.value
        parts = [
            arg if k == 1 else f"{arg} * {k}" if k > 0 else f"{arg} * ({k})"
            for arg, k in zip(args, coefficients, strict=True)
        ]
        return f"({' + '.join([*parts, *([str(constant) if constant > 0 else f'({constant})'] if constant else [])])})"
    if node.op == "fdiv":
        return (
            f"({args[0]} / {node.value})" if bounds(node.args[0])[0] >= 0 else f"re_floor_div({args[0]}, {node.value})"
        )
    if node.op == "imul":
        return f"({args[0]} * {args[1]})"
    return f"re_{node.op}_s({args[0]}, {args[1]})"


def _value_text(op: str, dtype: str, args: Sequence[str]) -> str:
    """The operation on computed operands; low-precision floats are float32 by now."""
    if is_wide_float(dtype) or is_low(dtype):
        return _float_text(op, "" if dtype == "float64" else "f", args)
    if dtype == "bool":
        if op in ("neg", "abs", "sign", *_ROUNDING):
            return args[0]
        if op == "bit_not":
            return f"(!{args[0]})"
        return f"({args[0]} {(_BOOL_INFIX | _INFIX)[op] if op not in _BOOL_INFIX else _BOOL_INFIX[op]} {args[1]})"
    kind = "u" if is_unsigned(dtype) else "s"
    if op in _INFIX:
        return f"({args[0]} {_INFIX[op]} {args[1]})"
    if op in ("neg", "bit_not"):
        return f"({'-' if op == 'neg' else '~'}{args[0]})"
    if op in ("min", "max", "div", "mod", "fmod", "pow"):
        return f"re_{op}_{kind}({args[0]}, {args[1]})"
    if op in ("shift_left", "shift_right"):
        return f"re_{op}_{kind}({args[0]}, {args[1]}, {numpy_dtype(dtype).itemsize * 8})"
    if op == "abs":
        return args[0] if kind == "u" else f"({args[0]} < 0 ? -{args[0]} : {args[0]})"
    if op == "sign":
        return f"({args[0]} > 0)" if kind == "u" else f"(({args[0]} > 0) - ({args[0]} < 0))"
    if op in _ROUNDING:
        return args[0]
    return convert(_float_text(op, "", [f"(double){arg}" for arg in args]), "float64", dtype, True)


def _float_text(op: str, suffix: str, args: Sequence[str]) -> str:
    if op in _INFIX:
        return f"({args[0]} {_INFIX[op]} {args[1]})"
    if op == "div":
        return f"({args[0]} / {args[1]})"
    if op == "neg":
        return f"(-{args[0]})"
    if op == "erf" and suffix:
        return f"re_erff({args[0]})"
    return f"{_C_NAMES.get(op, op)}{suffix}({', '.join(args)})"


def declaration(name: str, node: Expr, text: str) -> str:
    """A C statement that binds a node to a name."""
    return f"const {stored(node.dtype)} {name} = {text};"
