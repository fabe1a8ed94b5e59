"""The graphs that in-file tests write as typed patterns, as terms.

In: a pattern without freedom (`Relu(x: float32[1, 8])`), with named patterns as macros: an argument stands for a
parameter, the first of several alternatives is built, and optional parts are built where they are written. Out:
`Terms`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from rewrite_engine import operators
from rewrite_engine.diagnostics import PatError, Problem
from rewrite_engine.graph.terms import ABSENT, Term, Terms, Value
from rewrite_engine.language import syntax
from rewrite_engine.language.compile import Compiler, Env
from rewrite_engine.language.functions import numpy_dtype
from rewrite_engine.language.meaning import infer
from rewrite_engine.language.names import LoweringError
from rewrite_engine.language.scope import Scope
from rewrite_engine.language.values import EvaluationError, plain
from rewrite_engine.language.walk import walk
from rewrite_engine.operators.types import TensorType

SEED = 2026


@dataclass(slots=True, eq=False)
class _Names:
    """What names mean at one place: values built, arguments, and `where` bindings that are built when first read."""

    values: dict[str, int] = field(default_factory=dict)
    bindings: dict[str, syntax.Binding] = field(default_factory=dict)


class GraphBuilder:
    """Builds values and nodes from patterns; raises PatError at the place that a graph cannot be built from."""

    def __init__(self, scope: Scope, sources: Mapping[str, str]) -> None:
        self.scope, self.sources = scope, sources
        self.values: list[Value] = []
        self.nodes: list[Term] = []
        self.inputs: list[int] = []
        self.top = _Names()
        self.typed: dict[str, syntax.ValuePattern] = {}  # inputs, where they are written with their type

    def graph(self, pattern: syntax.Pattern, where: Sequence[syntax.Binding] = ()) -> tuple[int, ...]:
        """Builds the pattern's operators; the values of its results. An input has its type wherever it is written."""
        for node in walk([pattern, *where]):
            if isinstance(node, syntax.ValuePattern) and node.type is not None:
                self.typed.setdefault(node.name, node)
        for binding in where:
            self.top.bindings.update(dict.fromkeys(binding.names, binding))
        return self._results(pattern, self.top)

    def result(self, expr: syntax.Expr) -> tuple[int, ...]:
        """Builds what the right side of a verdict says, on the inputs that `graph` has made."""
        return self._results(self._pattern(expr), self.top)

    def terms(self, outputs: Sequence[int]) -> Terms:
        """Everything built so far, as a graph with these outputs."""
        return Terms(tuple(self.values), tuple(self.nodes), tuple(self.inputs), tuple(outputs))

    # ------------------------------------------------------------ patterns

    def _pattern(self, expr: syntax.Expr) -> syntax.Pattern:
        """A right side as a pattern: operators and the names of inputs; all else is a constant that is computed."""
        match expr:
            case syntax.Name() if expr.name in self.top.values or expr.name in self.top.bindings:
                return syntax.ValuePattern(expr.span, expr.name)
            case syntax.NoneExpr():
                return syntax.NonePattern(expr.span)
            case syntax.TupleExpr():
                return syntax.TuplePattern(expr.span, tuple(map(self._pattern, expr.items)))
            case syntax.Index(base=syntax.Call() as call, index=syntax.Number(value=int() as index)) if _builds(call):
                return syntax.OutputPattern(expr.span, self._pattern(call), index)
            case syntax.Call(function=syntax.Name() as function) if _builds(expr):
                args = tuple(arg if isinstance(arg, syntax.Rest) else self._pattern(arg) for arg in expr.args)
                keywords = tuple(syntax.KeywordPattern(v.span, name, v, optional=False) for name, v in expr.keywords)
                return syntax.CallPattern(expr.span, (function.name,), args, keywords)
            case _:
                return syntax.LiteralPattern(expr.span, expr)

    def _results(self, pattern: syntax.Pattern, names: _Names) -> tuple[int, ...]:
        if isinstance(pattern, syntax.TuplePattern) and len(pattern.items) > 1:
            return tuple(self._value(item, names) for item in pattern.items)
        if isinstance(pattern, syntax.GuardedPattern):
            return self._results(pattern.pattern, self._tail(pattern.tail, names))
        if isinstance(pattern, syntax.Alternatives):
            return self._results(pattern.items[0], names)
        if isinstance(pattern, syntax.CallPattern) and not _is_operator(pattern.names[0]):
            return self._macro(pattern, names)
        return (self._value(pattern, names),)

    def _value(self, pattern: syntax.Pattern, names: _Names) -> int:
        match pattern:
            case syntax.ValuePattern():
                return self._input(pattern, names)
            case syntax.CapturePattern():
                found = self._value(pattern.pattern, names)
                names.values[pattern.name] = found
                return found
            case syntax.CallPattern() if _is_operator(pattern.names[0]):
                return self._call(pattern, names, 1)[0]
            case syntax.OutputPattern(pattern=syntax.CallPattern() as call):
                return self._call(call, names, max(self._outputs(call), pattern.index + 1))[pattern.index]
            case syntax.NonePattern():
                return ABSENT
            case syntax.LiteralPattern():
                return self._literal(pattern, None)
            case syntax.CallPattern() | syntax.TuplePattern() | syntax.Alternatives() | syntax.GuardedPattern():
                results = self._results(pattern, names)
                if len(results) == 1:
                    return results[0]
                raise self._error(pattern, f"expected one value, found {len(results)} results")
            case _:
                raise self._error(pattern, "a test graph has no wildcards: name an input and give its type")

    def _input(self, pattern: syntax.ValuePattern, names: _Names) -> int:
        if pattern.name in names.values:
            return names.values[pattern.name]
        if pattern.name in names.bindings:
            self._bind(names.bindings[pattern.name], names)
            return names.values[pattern.name]
        if names is self.top and pattern.type is None:
            pattern = self.typed.get(pattern.name, pattern)
        kind = self._type(pattern)
        constant = self._sample(pattern, kind) if pattern.constant else None
        index = self._add(pattern.name, kind, constant)
        if constant is None:
            self.inputs.append(index)
        names.values[pattern.name] = index
        return index

    def _bind(self, binding: syntax.Binding, names: _Names) -> None:
        pattern = binding.pattern
        results: Sequence[int]
        if len(binding.names) > 1 and isinstance(pattern, syntax.CallPattern) and _is_operator(pattern.names[0]):
            results = self._call(pattern, names, len(binding.names))
        else:
            results = self._results(pattern, names)
        names.values.update(zip(binding.names, results, strict=True))

    def _tail(self, tail: syntax.Tail, names: _Names) -> _Names:
        for binding in tail.where:
            names.bindings.update(dict.fromkeys(binding.names, binding))
        return names

    def _macro(self, call: syntax.CallPattern, names: _Names) -> tuple[int, ...]:
        declaration = self.scope.patterns_in(call.span.file).get(call.names[0])
        if declaration is None:
            raise self._error(call, f"unknown pattern `{call.names[0]}`")
        inner = _Names()
        for parameter, argument in zip(declaration.parameters, call.args, strict=False):
            if isinstance(argument, syntax.Rest | syntax.SetExpr):
                raise self._error(call, "a test graph has no lists of inputs: write each")
            inner.values[parameter.name] = self._value(argument, names)
        for parameter in declaration.parameters[len(call.args) :]:
            inner.values[parameter.name] = ABSENT
        return self._results(declaration.pattern, self._tail(declaration.tail, inner))

    # ------------------------------------------------------------ operators

    def _outputs(self, call: syntax.CallPattern) -> int:
        facts = self.scope.operator(call.names[0])
        if facts is None:
            raise self._error(call, f"unknown operator `{call.names[0]}`")
        return len(facts.outputs)

    def _call(self, call: syntax.CallPattern, names: _Names, outputs: int) -> list[int]:
        op = call.names[0]
        facts = self.scope.operator(op)
        operands: list[int | syntax.LiteralPattern] = []
        for argument in call.args:
            if isinstance(argument, syntax.LiteralPattern):
                operands.append(argument)
            elif isinstance(argument, syntax.Rest | syntax.SetExpr):
                raise self._error(call, "a test graph has no lists of inputs: write each")
            else:
                operands.append(self._value(argument, names))
        formals = {f.name: k for k, f in enumerate(facts.inputs)} if facts is not None else {}
        attributes: dict[str, object] = {}
        for keyword in call.keywords:
            if keyword.name in formals:  # an input by name, such as keepdims' sibling axes
                operands += [ABSENT] * (formals[keyword.name] + 1 - len(operands))
                operands[formals[keyword.name]] = syntax.LiteralPattern(keyword.span, keyword.value)
            else:
                known = facts.attributes.get(keyword.name) if facts is not None else None
                value = self._constant(keyword.value)
                attributes[keyword.name] = (
                    _as_stored(value) if known is not None and known.type[:5] == "float" else value
                )
        host = facts.host_inputs if facts is not None else frozenset()
        like = next((self.values[i].type.dtype for i in operands if isinstance(i, int) and i != ABSENT), None)
        inputs = [
            i if isinstance(i, int) else self._literal(i, "int64" if k in host else like)
            for k, i in enumerate(operands)
        ]
        while inputs and inputs[-1] == ABSENT:
            inputs.pop()
        types = [None if i == ABSENT else self.values[i].type for i in inputs]
        constants = [None if i == ABSENT else self.values[i].constant for i in inputs]
        effective = operators.effective_attributes(op, attributes, types, constants)
        if op in self.scope.meanings:
            kinds = infer(self.scope.meanings[op], effective, types, constants, outputs)
        else:
            kinds = operators.infer_types(op, effective, types, constants, outputs)
        results = [self._add(f"{op.rsplit('::', 1)[-1].lower()}.{len(self.nodes)}", kind, None) for kind in kinds]
        self.nodes.append(Term(op, effective, tuple(inputs), tuple(results)))
        return results

    # ------------------------------------------------------------ constants

    def _constant(self, expr: syntax.Expr) -> object:
        try:
            code = Compiler(self.scope, None, {}).compile(expr, Env(None, expr.span.file))
        except (EvaluationError, LoweringError) as error:
            raise self._error(expr, str(error)) from error
        if not code.constant:
            raise self._error(expr, "expected a value that is known without the graph")
        return _attribute(plain(code.value))

    def _literal(self, pattern: syntax.LiteralPattern, dtype: str | None) -> int:
        value = self._constant(pattern.value)
        array = np.asarray(value)
        found = array.astype(numpy_dtype(dtype) if dtype else ("int64" if array.dtype.kind == "i" else "float32"))
        return self._add("constant", TensorType(str(found.dtype), found.shape), found)

    def _type(self, pattern: syntax.ValuePattern) -> TensorType:
        kind = pattern.type
        if kind is None:
            raise self._error(
                pattern, f"the input `{pattern.name}` of a test graph needs a type, such as float32[1, 8]"
            )
        dtype = kind.dtype
        shape = []
        for dimension in kind.dims:
            if dimension is None or dimension == "...":
                raise self._error(pattern, f"the input `{pattern.name}` of a test graph needs every dimension")
            shape.append(dimension)
        if dtype is None:
            raise self._error(pattern, f"the input `{pattern.name}` of a test graph needs a dtype")
        return TensorType(dtype, tuple(shape))

    def _sample(self, pattern: syntax.ValuePattern, kind: TensorType) -> np.ndarray:
        if kind.numel is None or kind.shape is None:
            raise self._error(pattern, f"the constant `{pattern.name}` needs sizes, not symbols")
        shape = tuple(d for d in kind.shape if isinstance(d, int))
        if pattern.sample is None:
            values = np.random.default_rng([SEED, len(self.values)]).standard_normal(shape)
            return np.asarray(values).astype(numpy_dtype(kind.dtype))
        value = np.asarray(self._constant(pattern.sample))
        if value.ndim and value.shape != shape:
            raise self._error(pattern, f"`{pattern.name}` has shape {list(shape)}, its value {list(value.shape)}")
        return np.broadcast_to(value, shape).astype(numpy_dtype(kind.dtype))

    def _add(self, name: str, kind: TensorType, constant: np.ndarray | None) -> int:
        taken = {value.name for value in self.values}
        unique = name if name not in taken else f"{name}.{len(self.values)}"
        self.values.append(Value(unique, kind, constant))
        return len(self.values) - 1

    def _error(self, node: syntax.Node, message: str) -> PatError:
        return PatError([Problem(node.span, message)], self.sources)


def _is_operator(name: str) -> bool:
    return name[:1].isupper() or "::" in name


def _builds(call: syntax.Call) -> bool:
    return isinstance(call.function, syntax.Name) and _is_operator(call.function.name)


def _as_stored(value: object) -> object:
    """A number, or a list of numbers, where the schema asks for floats."""
    if isinstance(value, tuple):
        return tuple(map(_as_stored, value))
    return float(value) if isinstance(value, int) else value


def _attribute(value: object) -> object:
    """A constant as an attribute holds it: ints, floats, strings and tuples of these."""
    if isinstance(value, list | tuple):
        return tuple(map(_attribute, value))
    if isinstance(value, np.ndarray):
        return _attribute(value.tolist())
    if isinstance(value, bool | np.generic):
        return _attribute(value.item()) if isinstance(value, np.generic) else int(value)
    if isinstance(value, int | float | str):
        return value
    return float(value)  # type: ignore[arg-type]  # an exact fraction
