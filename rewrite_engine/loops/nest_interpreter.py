"""Runs printed nests, statement by statement and element by element: what the text says is what is computed.

In: a parsed kernel and its arrays. Out: its outputs. Numbers in the text take the dtype of what they meet; reads and
scattered writes are clipped to their tensors, as everywhere.
"""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from rewrite_engine.diagnostics import RewriteError
from rewrite_engine.loops.arithmetic import COMBINE_UFUNCS, Array, apply, convert, element
from rewrite_engine.loops.checks import Check
from rewrite_engine.loops.dtypes import INDEX, numpy_dtype
from rewrite_engine.loops.host import HOST_OPERATORS
from rewrite_engine.loops.nest import Guard, Line, Loop, Node
from rewrite_engine.loops.nest_parser import PrintedKernel

_BIND = re.compile(r"(?:let )?(\w+): (\w+) = (.+)")
_CHECK = re.compile(r"check (\w+): (.+), operand (\d+), (-?\d+) to (-?\d+)")
_COPY = re.compile(r"(\w+) = copy of (\w+)")
_STOP = re.compile(r"stop unless (\w+)")
_TAKEN = re.compile(r"(\w+) = element (.+) of (\w+)")
_HANDED = re.compile(r"element (.+) of (\w+) = (\w+)")
_HOST = re.compile(r"(\w+(?:, \w+)*) = host (\w+)\(((?:\w+(?:, \w+)*)?); (.*)\)")
_UPDATE = re.compile(r"(\w+)(\[.*?\])? (=|\+=|\*=|&=|\|=) (.+)")
_JOIN = {"+=": "sum", "*=": "prod", "&=": "and", "|=": "or"}
_BINARY = {ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "div"}
_COMPARE = {ast.Lt: "lt", ast.LtE: "le", ast.Eq: "eq"}
_PREDICATES = frozenset({"isnan", "isinf", "not", "xor"})
_WORDS = {"true": True, "false": False, "inf": np.inf, "nan": np.nan}

Value = tuple[Array, str]
"""An element and its dtype; "" for a number of the text, which takes any."""


@dataclass(slots=True)
class _State:
    kernel: PrintedKernel
    arrays: dict[str, Array]
    names: dict[str, Value]


def run(kernel: PrintedKernel, inputs: Sequence[Array], constants: Mapping[str, Array]) -> list[Array]:
    """The outputs, in order, of the kernel on `inputs`; `constants` are the elements of its constants.

    Raises RewriteError for a line that means nothing, `OutOfRange` for data that a check refuses.
    """
    arrays = {**dict(zip(kernel.of_role("input"), inputs, strict=True)), **constants}
    for name in (*kernel.of_role("output"), *kernel.of_role("temporary")):
        shape, dtype = kernel.buffers[name]
        arrays[name] = np.zeros(shape, numpy_dtype(dtype))
    state = _State(kernel, arrays, {})
    for nest in kernel.nests:
        state.names.clear()
        _body(state, nest)
    return [arrays[name] for name in kernel.of_role("output")]


def _body(state: _State, nodes: Sequence[Node]) -> None:
    """Nests are as deep as they have loops and guards."""
    for node in nodes:
        if isinstance(node, Line):
            _statement(state, node.text)
        elif isinstance(node, Guard):
            if bool(_typed(_value(state, node.condition), "bool")):
                _body(state, node.body)
        else:
            for at in range(node.iterator.extent):
                state.names[node.iterator.name] = (element(at, INDEX), INDEX)
                if _stops(state, node):
                    break
                _body(state, node.body)


def _stops(state: _State, loop: Loop) -> bool:
    """Whether a loop begins with what ends it, and that says so."""
    first = loop.body[0] if loop.body else None
    found = _STOP.fullmatch(first.text) if isinstance(first, Line) else None
    return found is not None and not bool(state.arrays[found[1]])


def _statement(state: _State, text: str) -> None:
    if found := _BIND.fullmatch(text):
        state.names[found[1]] = (_typed(_value(state, found[3]), found[2]), found[2])
    elif found := _CHECK.fullmatch(text):
        check = Check(found[1], found[2], int(found[3]), int(found[4]), int(found[5]))
        check.verify(int(state.arrays[found[1]]))
    elif found := _COPY.fullmatch(text):
        state.arrays[found[1]][...] = state.arrays[found[2]]
    elif found := _TAKEN.fullmatch(text):
        state.arrays[found[1]][...] = state.arrays[found[3]][int(_value(state, found[2])[0]), ...]
    elif found := _HANDED.fullmatch(text):
        state.arrays[found[2]][int(_value(state, found[1])[0]), ...] = state.arrays[found[3]]
    elif _STOP.fullmatch(text):
        pass  # asked where the loop begins
    elif found := _HOST.fullmatch(text):
        attributes = dict(_attribute(part) for part in found[4].split(", ") if part)
        operands = [state.arrays[name] for name in found[3].split(", ") if name]
        for name, array in zip(found[1].split(", "), HOST_OPERATORS[found[2]](operands, attributes), strict=True):
            state.arrays[name][...] = array
    elif found := _UPDATE.fullmatch(text):
        _update(state, found[1], _indices(found[2]), found[3], found[4])
    else:
        raise RewriteError(f"expected a statement of a nest, found `{text}`")


def _update(state: _State, name: str, indices: str | None, sign: str, expression: str) -> None:
    if indices is None:
        old, dtype = state.names[name]
        new = _typed(_value(state, expression), dtype)
        joined = new if sign == "=" else np.asarray(COMBINE_UFUNCS[_JOIN[sign]](old, new))
        state.names[name] = (convert(joined, dtype), dtype)
        return
    array, dtype = state.arrays[name], state.kernel.buffers[name].dtype
    place = _place(array, [_value(state, index) for index in _split(indices)])
    new = _typed(_value(state, expression), dtype)
    with np.errstate(all="ignore"):
        array[place] = (
            new if sign == "=" else convert(np.asarray(COMBINE_UFUNCS[_JOIN[sign]](array[place], new)), dtype)
        )


def _indices(text: str | None) -> str | None:
    return None if text is None else text[1:-1]


@functools.lru_cache(maxsize=4096)
def _split(text: str) -> tuple[str, ...]:
    """Expressions between commas, those inside parentheses and brackets left whole."""
    if not text:
        return ()
    tree = _expression(f"({text},)")
    assert isinstance(tree, ast.Tuple)
    return tuple(ast.unparse(item) for item in tree.elts)


def _attribute(part: str) -> tuple[str, bool | int | float | str]:
    name, _, value = part.partition("=")
    try:
        found = ast.literal_eval(value)
    except (ValueError, SyntaxError):
        return name, value
    return name, found if isinstance(found, (bool, int, float)) else value


@functools.lru_cache(maxsize=4096)
def _expression(text: str) -> ast.expr:
    try:
        return ast.parse(text.replace("[]", "[()]"), mode="eval").body  # the element of a scalar
    except SyntaxError:
        raise RewriteError(f"expected an expression, found `{text}`") from None


def _value(state: _State, text: str) -> Value:
    return _evaluate(state, _expression(text))


def _evaluate(state: _State, node: ast.expr) -> Value:
    """Expressions are printed with what they share bound to names, so that they are not deep."""
    if isinstance(node, ast.Constant):
        return np.asarray(node.value), ""
    if isinstance(node, ast.Name):
        if node.id in _WORDS:
            return np.asarray(_WORDS[node.id]), "bool" if isinstance(_WORDS[node.id], bool) else ""
        return state.names[node.id]
    if isinstance(node, ast.UnaryOp):
        return _unary(state, node)
    if isinstance(node, ast.BinOp):
        left, right = _evaluate(state, node.left), _evaluate(state, node.right)
        if isinstance(node.op, ast.FloorDiv):
            return np.asarray(left[0] // right[0]), INDEX
        return _apply(_BINARY[type(node.op)], [left, right])
    if isinstance(node, ast.BoolOp):
        parts = [bool(_typed(_evaluate(state, value), "bool")) for value in node.values]
        return np.asarray(all(parts) if isinstance(node.op, ast.And) else any(parts)), "bool"
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        pair = [_evaluate(state, node.left), _evaluate(state, node.comparators[0])]
        return _apply(_COMPARE[type(node.ops[0])], pair)[0], "bool"
    if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name):
        items = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        array = state.arrays[node.value.id]
        dtype = state.kernel.buffers[node.value.id].dtype
        if not array.size:
            return np.zeros((), array.dtype), dtype
        return np.asarray(array[_place(array, [_evaluate(state, item) for item in items])]), dtype
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        return _call(state, node.func.id, node)
    raise RewriteError(f"expected an expression of a nest, found `{ast.unparse(node)}`")


def _unary(state: _State, node: ast.UnaryOp) -> Value:
    value, dtype = _evaluate(state, node.operand)
    if isinstance(node.op, ast.Not):
        return np.asarray(not bool(value)), "bool"
    return (np.asarray(-value), dtype) if dtype in ("", INDEX) else _apply("neg", [(value, dtype)])


def _call(state: _State, name: str, node: ast.Call) -> Value:
    if name == "bitcast":
        value, _ = _evaluate(state, node.args[0])
        assert isinstance(node.args[1], ast.Name)
        return apply(name, [value], node.args[1].id), node.args[1].id
    args = [_evaluate(state, arg) for arg in node.args]
    if name == "select":
        then, otherwise = _alike(args[1:])
        return then if bool(args[0][0]) else otherwise
    try:
        numpy_dtype(name)
    except (TypeError, AttributeError):
        value, dtype = _apply(name, args)
        return value, "bool" if name in _PREDICATES else dtype
    return convert(args[0][0], name, not node.keywords), name


def _alike(values: Sequence[Value]) -> list[Value]:
    dtype = next((dtype for _, dtype in values if dtype), "")
    return [(_typed(value, dtype), dtype) if dtype else value for value in values]


def _typed(value: Value, dtype: str) -> Array:
    return value[0] if value[1] == dtype else convert(value[0], dtype)


def _apply(op: str, values: Sequence[Value]) -> Value:
    alike = _alike(values)
    dtype = alike[0][1] or ("float64" if any(v.dtype.kind == "f" for v, _ in alike) else "int64")
    result = "bool" if op in ("lt", "le", "eq") else dtype
    return apply(op, [_typed(value, dtype) for value in alike], result), alike[0][1]


def _place(array: Array, indices: Sequence[Value]) -> tuple[int, ...]:
    return tuple(min(max(int(v), 0), n - 1) for (v, _), n in zip(indices, array.shape, strict=True))
