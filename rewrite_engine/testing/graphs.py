"""The graphs that in-file tests write as typed patterns, as terms.

In: a pattern without freedom (`Relu(x: float32[1, 8])`), with named patterns as macros: an argument stands for a
parameter, the first of several alternatives is built, and optional parts are built where they are written. The same
operator on the same values is one node, however often it is written. Out: `Terms`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from rewrite_engine import operators
from rewrite_engine.diagnostics import PatError, Problem, RewriteError
from rewrite_engine.egraph.encode import attribute_key, constant_key
from rewrite_engine.graph.terms import ABSENT, Term, Terms, Value
from rewrite_engine.language import syntax
from rewrite_engine.language.build import attribute_value
from rewrite_engine.language.code import Code
from rewrite_engine.language.compile import Compiler, Env
from rewrite_engine.language.functions import numpy_dtype
from rewrite_engine.language.handed import filled, handed_out
from rewrite_engine.language.literals import convert, likely_dtype, schema_dtypes, stated_dtype
from rewrite_engine.language.meaning import infer
from rewrite_engine.language.names import LoweringError
from rewrite_engine.language.scope import Scope
from rewrite_engine.language.values import EvaluationError, numpy_value, plain
from rewrite_engine.language.walk import walk
from rewrite_engine.operators.dtypes import array_dtype
from rewrite_engine.operators.types import TensorType

SEED = 2026
LARGEST = 1 << 26
"""The most elements of a constant."""
MOST_OUTPUTS = 1024


@dataclass(slots=True, eq=False)
class _Names:
    """What names mean at one place: values built, arguments, and `where` bindings that are built when first read."""

    values: dict[str, int] = field(default_factory=dict)
    bindings: dict[str, syntax.Binding] = field(default_factory=dict)
    literals: dict[str, syntax.LiteralPattern] = field(default_factory=dict)


class GraphBuilder:
    """Builds values and nodes from patterns; raises PatError at the place that a graph cannot be built from."""

    def __init__(self, scope: Scope, sources: Mapping[str, str]) -> None:
        self.scope, self.sources = scope, sources
        self.values: list[Value] = []
        self.nodes: list[Term] = []
        self.inputs: list[int] = []
        self.made: dict[object, int] = {}  # what a node computes -> its number
        self.kept = 0  # nodes before this number stay as they are
        self.top = _Names()
        self.typed: dict[str, syntax.ValuePattern] = {}  # inputs, where they are written with their type

    def graph(self, pattern: syntax.Pattern, where: Sequence[syntax.Binding] = ()) -> tuple[int, ...]:
        """Builds the pattern's operators; the values of its results. An input has its type wherever it is written."""
        pattern, where = filled(self.scope, pattern), [filled(self.scope, binding) for binding in where]
        for node in walk([pattern, *where]):
            if isinstance(node, syntax.ValuePattern) and node.type is not None:
                self.typed.setdefault(node.name, node)
        for binding in where:
            self.top.bindings.update(dict.fromkeys(binding.names, binding))
        return self._results(pattern, self.top)

    def result(self, expr: syntax.Expr) -> tuple[int, ...]:
        """Builds what the right side of a verdict says, on the inputs that `graph` has made."""
        self.kept = len(self.nodes)
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
            case syntax.OutputPattern(pattern=syntax.CallPattern() as call) if _is_operator(call.names[0]):
                return self._call(call, names, pattern.index + 1)[pattern.index]
            case syntax.OutputPattern(pattern=inner):
                results = self._results(inner, names)
                if pattern.index < len(results):
                    return results[pattern.index]
                raise self._error(pattern, f"there is no result {pattern.index}: there are {len(results)}")
            case syntax.NonePattern():
                return ABSENT
            case syntax.LiteralPattern():
                return self._literal(pattern, ())
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
        if pattern.name in names.literals:
            return self._literal(names.literals[pattern.name], ())
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
        if len(results) != len(binding.names):
            raise self._error(binding, f"expected {len(binding.names)} results, found {len(results)}")
        names.values.update(zip(binding.names, results, strict=True))

    def _tail(self, tail: syntax.Tail, names: _Names) -> _Names:
        for binding in tail.where:
            names.bindings.update(dict.fromkeys(binding.names, binding))
        return names

    def _macro(self, call: syntax.CallPattern, names: _Names) -> tuple[int, ...]:
        declaration = self.scope.patterns_in(call.span.file).get(call.names[0])
        if declaration is None:
            raise self._error(call, f"unknown pattern `{call.names[0]}`")
        inner, computed = _Names(), handed_out(self.scope, declaration)
        for parameter, argument in zip(declaration.parameters, call.args, strict=False):
            if parameter.name in computed:
                continue
            if isinstance(argument, syntax.Rest | syntax.SetExpr):
                raise self._error(call, "a test graph has no lists of inputs: write each")
            if isinstance(argument, syntax.LiteralPattern):
                inner.literals[parameter.name] = argument
            elif isinstance(argument, syntax.ValuePattern) and argument.name in names.literals:
                inner.literals[parameter.name] = names.literals[argument.name]
            else:
                inner.values[parameter.name] = self._value(argument, names)
        for parameter in declaration.parameters[len(call.args) :]:
            inner.values[parameter.name] = ABSENT
        return self._results(declaration.pattern, self._tail(declaration.tail, inner))

    # ------------------------------------------------------------ operators

    def _call(self, call: syntax.CallPattern, names: _Names, wanted: int) -> Sequence[int]:
        """The results of an operator, at least `wanted` of them."""
        op = call.names[0]
        facts = self.scope.operator(op)
        if facts is None:
            raise self._error(call, f"unknown operator `{op}`")
        operands, attributes = self._operands(call, facts, names)
        inputs = [operand if isinstance(operand, int) else ABSENT for operand in operands]
        types = [None if i == ABSENT else self.values[i].type for i in inputs]
        for position, operand in enumerate(operands):
            if not isinstance(operand, int):
                inputs[position] = self._literal(operand, schema_dtypes(facts, position, types))
                types[position] = self.values[inputs[position]].type
        while inputs and inputs[-1] == ABSENT:
            inputs.pop()
        types = types[: len(inputs)]
        constants = [None if i == ABSENT else self.values[i].constant for i in inputs]
        try:
            effective = operators.effective_attributes(op, attributes, types, constants)
            count = max(wanted, _least_outputs(facts, effective, constants))
            if op in self.scope.meanings:
                kinds = infer(self.scope.meanings[op], effective, types, constants, count)
            else:
                kinds = operators.infer_types(op, effective, types, constants, count)
        except RewriteError as error:
            raise self._error(call, str(error)) from None
        return self._node(Term(op, effective, tuple(inputs), ()), kinds, shared=not facts.random)

    def _node(self, term: Term, kinds: Sequence[TensorType], shared: bool) -> Sequence[int]:
        """The outputs of a node that computes this; one that is there is given more outputs where it has less."""
        operands = tuple(self._key(i) for i in term.inputs)
        key = (term.op, attribute_key(term.attributes), operands)
        number = self.made.get(key) if shared else None
        outputs = self.nodes[number].outputs if number is not None else ()
        if number is not None and number < self.kept and len(outputs) < len(kinds):
            number, outputs = None, ()
        label = f"{term.op.rsplit('::', 1)[-1].lower()}.{len(self.nodes) if number is None else number}"
        more = tuple(self._add(label, kind, None) for kind in kinds[len(outputs) :])
        if number is None:
            self.made[key] = number = len(self.nodes)
            self.nodes.append(term)
        self.nodes[number] = replace(term, outputs=outputs + more)
        return self.nodes[number].outputs

    def _key(self, value: int) -> object:
        """Equal constants are one value."""
        constant = None if value == ABSENT else self.values[value].constant
        return value if constant is None else constant_key(constant)

    def _operands(
        self, call: syntax.CallPattern, facts: operators.Operator, names: _Names
    ) -> tuple[list[int | syntax.LiteralPattern], dict[str, object]]:
        """The operands, literals as they are written, and the attributes; an input may be written by its name."""
        operands: list[int | syntax.LiteralPattern] = []
        for argument in call.args:
            if isinstance(argument, syntax.LiteralPattern):
                operands.append(argument)
            elif isinstance(argument, syntax.ValuePattern) and argument.name in names.literals:
                operands.append(names.literals[argument.name])
            elif isinstance(argument, syntax.Rest | syntax.SetExpr):
                raise self._error(call, "a test graph has no lists of inputs: write each")
            else:
                operands.append(self._value(argument, names))
        formals = {formal.name: position for position, formal in enumerate(facts.inputs)}
        attributes: dict[str, object] = {}
        for keyword in call.keywords:
            value = keyword.value
            if isinstance(value, syntax.Name) and value.name in names.literals:
                value = names.literals[value.name].value
            if keyword.name in formals:
                operands += [ABSENT] * (formals[keyword.name] + 1 - len(operands))
                operands[formals[keyword.name]] = syntax.LiteralPattern(keyword.span, value)
                continue
            kind = facts.attributes[keyword.name].type if keyword.name in facts.attributes else "any"
            try:
                attributes[keyword.name] = attribute_value(plain(self._constant(value).value), kind)
            except (EvaluationError, ValueError, TypeError, OverflowError) as error:
                raise self._error(keyword, f"`{keyword.name}` of {call.names[0]}: {error}") from None
        return operands, attributes

    # ------------------------------------------------------------ constants

    def _constant(self, expr: syntax.Expr) -> Code:
        try:
            code = Compiler(self.scope, None, {}).compile(expr, Env(None, expr.span.file))
        except (EvaluationError, LoweringError) as error:
            raise self._error(expr, str(error)) from error
        if not code.constant:
            raise self._error(expr, "expected a value that is known without the graph")
        return code

    def _array(self, expr: syntax.Expr, allowed: Sequence[str]) -> np.ndarray:
        """A value in the dtype that stands where it is written."""
        code = self._constant(expr)
        try:
            array = np.asarray(numpy_value(code.value))
            return convert(array, stated_dtype(array, allowed) if code.typed else likely_dtype(array, allowed))
        except (EvaluationError, ValueError, TypeError, OverflowError) as error:
            raise self._error(expr, str(error)) from None

    def _literal(self, pattern: syntax.LiteralPattern, allowed: Sequence[str]) -> int:
        array = self._array(pattern.value, allowed)
        return self._add("constant", TensorType(array_dtype(array), array.shape), array)

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
        if kind.numel > LARGEST:
            raise self._error(pattern, f"the constant `{pattern.name}` has {kind.numel} elements, {LARGEST} at most")
        shape = tuple(d for d in kind.shape if isinstance(d, int))
        if pattern.sample is None:
            values = np.random.default_rng([SEED, len(self.values)]).standard_normal(shape)
            return np.asarray(values).astype(numpy_dtype(kind.dtype))
        array = self._array(pattern.sample, (kind.dtype,))
        if array.ndim and array.shape != shape:
            raise self._error(pattern, f"`{pattern.name}` has shape {list(shape)}, its value {list(array.shape)}")
        return np.broadcast_to(array, shape)

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


def _least_outputs(
    facts: operators.Operator, attributes: Mapping[str, object], constants: Sequence[np.ndarray | None]
) -> int:
    """How many outputs a node has, whichever are read: those that always are there, the pieces of a Split."""
    if facts.name == "Split":
        sizes = constants[1] if len(constants) > 1 else None
        pieces = attributes.get("num_outputs") if sizes is None else sizes.size
        return pieces if isinstance(pieces, int) and 0 < pieces <= MOST_OUTPUTS else 1
    return sum(formal.kind == "single" for formal in facts.outputs)
