"""The right-hand side of a rule: operators to build, references to the match, constants and attributes to compute."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from rewrite_engine.language import syntax
from rewrite_engine.language.bindings import input_called
from rewrite_engine.language.compile import Absent, Asked, Compiler, Env, ReadsAbsent, Slots, Sources
from rewrite_engine.language.core import Template, TemplateNode
from rewrite_engine.language.declared import Inner
from rewrite_engine.language.names import LoweringError
from rewrite_engine.language.program import AttributeSource, ConstantSource, TemplateProgram
from rewrite_engine.language.results import counts_differ
from rewrite_engine.language.walk import unplaced

Reference = tuple[str | int, ...]
ABSENT: Reference = ("absent",)


class TemplateBuilder:
    """Builds one template; `makers` gives the pattern node that made a slot, for `like`, `given` what `with` reads."""

    def __init__(
        self,
        compiler: Compiler,
        env: Env,
        makers: Mapping[int, int],
        given: Mapping[int, Asked],
        inner: Mapping[str, Inner] | None = None,
    ) -> None:
        self.compiler, self.env, self.makers, self.given = compiler, env, makers, given
        self.nodes: list[TemplateNode] = []
        self.attributes: list[tuple[AttributeSource, ...]] = []
        self.constants: list[ConstantSource] = []
        self.spans: list[Any] = []
        self.inner = inner or {}
        self.built: dict[str, Reference] = {}
        self.calls: dict[object, int] = {}  # what is written twice is built once

    def build(self, expr: syntax.Expr, results: int) -> tuple[Template, TemplateProgram]:
        """The template of a whole right-hand side that stands for so many results of the left one."""
        parts = expr.items if isinstance(expr, syntax.TupleExpr) else (expr,)
        roots: tuple[Reference, ...]
        if results > 1 and isinstance(expr, syntax.Call) and is_operator(expr):  # one operator for all of them
            node = self._node(expr, results)
            parts, roots = parts * results, tuple(("node", node, output) for output in range(results))
        else:
            roots = tuple(self._reference(part) for part in parts)
        if len(roots) != results:
            raise LoweringError(expr.span, counts_differ(results, len(roots)))
        for part, root in zip(parts, roots, strict=True):
            if root == ABSENT:
                raise LoweringError(part.span, "the result of a rule cannot be absent")
        program = TemplateProgram(
            tuple(self.attributes), tuple(self.constants), tuple(self.spans), self.compiler.scope.meanings
        )
        return Template(tuple(self.nodes), len(self.constants), roots), program

    def _reference(self, expr: syntax.Expr) -> Reference:
        match expr:
            case syntax.NoneExpr():
                return ABSENT
            case syntax.Rest():
                raise LoweringError(expr.span, "a list can only be among the inputs of an operator")
            case syntax.Name() if expr.name in self.inner:
                return self._inner(expr.name)
            case syntax.Name():
                found = self.compiler.meaning(expr.name, self.env)
                if isinstance(found, Absent):
                    return ABSENT
                return ("slot", found.slot) if isinstance(found, Slots) else self._constant(expr)
            case syntax.Call() if is_operator(expr):
                return ("node", self._node(expr, 1), 0)
            case syntax.Index(base=syntax.Call() as call) if is_operator(call):
                if not isinstance(expr.index, syntax.Number) or not isinstance(expr.index.value, int):
                    raise LoweringError(expr.span, "an output of an operator is chosen by a number")
                return ("node", self._node(call, expr.index.value + 1), expr.index.value)
            case syntax.Call(function=syntax.Name(name="default")) if len(expr.args) == 2:
                first = self._reference(expr.args[0])
                return self._reference(expr.args[1]) if first == ABSENT else first
            case _:
                return self._constant(expr)

    def _inner(self, name: str) -> Reference:
        """A value that the body of a declared operator names: built once, whatever reads it."""
        if name not in self.built:
            inner = self.inner[name]
            reference = self._results(inner.expr, inner.count)
            for other, another in self.inner.items():
                if another.expr is inner.expr:
                    self.built[other] = (*reference[:2], another.index) if inner.count > 1 else reference
        return self.built[name]

    def _results(self, expr: syntax.Expr, count: int) -> Reference:
        if count == 1:
            return self._reference(expr)
        if not isinstance(expr, syntax.Call) or not is_operator(expr):
            raise LoweringError(expr.span, f"expected an operator with {count} results")
        return ("node", self._node(expr, count), 0)

    def _references(self, expr: syntax.Expr) -> list[Reference]:
        """The inputs that an argument gives: one, or those of a list capture."""
        if not isinstance(expr, syntax.Rest):
            return [self._reference(expr)]
        found = self.compiler.meaning(expr.name, self.env)
        if not isinstance(found, Sources):
            raise LoweringError(expr.span, f"`{expr.name}` is not a list of inputs")
        return [("rest", str(key)) for key in found.slots]

    def _constant(self, expr: syntax.Expr) -> Reference:
        outer, self.compiler.asked = self.compiler.asked, Asked()
        try:
            code = self.compiler.compile(expr, self.env)
        except ReadsAbsent as absent:
            message = f"`{absent}` may be absent here"
            raise LoweringError(expr.span, message, f"write default({absent}, …)") from None
        finally:
            own, self.compiler.asked = self.compiler.asked, outer
        outer.include(own)
        for index in sorted(own.given):
            own.include(self.given.get(index, Asked()))
        reads = tuple(sorted(slot for slot in own.values if isinstance(slot, int)))
        self.constants.append(ConstantSource(expr.span, code.run, reads, code.typed))
        return ("constant", len(self.constants) - 1)

    def _node(self, call: syntax.Call, outputs: int) -> int:
        assert isinstance(call.function, syntax.Name)
        key = unplaced(call)
        known = self.calls.get(key)
        if known is not None:
            node = self.nodes[known]
            self.nodes[known] = dataclasses.replace(node, outputs=max(node.outputs, outputs))
            return known
        op = call.function.name
        operator = self.compiler.scope.operator(op)
        inputs = [reference for argument in call.args for reference in self._references(argument)]
        sources: list[AttributeSource] = []
        written: list[tuple[Any, str, Any]] = [(like.span, "", like) for like in call.like]
        written += [(value.span, name, value) for name, value in call.keywords]
        for span, name, value in sorted(written, key=lambda entry: entry[0]):
            position = input_called(operator, name)
            if position is not None:
                inputs += [ABSENT] * (position + 1 - len(inputs))
                inputs[position] = self._reference(value)
            elif isinstance(value, syntax.Like):
                sources += self._like(value)
            else:
                if operator is not None and name not in operator.attributes:
                    raise LoweringError(span, f"{op} has no attribute `{name}`")
                try:
                    code = self.compiler.compile(value, self.env)
                except ReadsAbsent:
                    continue  # an attribute that the pattern may miss is not carried over
                sources.append(AttributeSource(span, name=name, run=code.run))
        while inputs and inputs[-1] == ABSENT:
            inputs.pop()
        for position in operator.host_inputs if operator is not None else ():
            if position < len(inputs) and inputs[position][0] == "slot":  # the type of the result depends on its value
                self.compiler.asked.values.add(int(inputs[position][1]))
        self.nodes.append(TemplateNode(op, tuple(inputs), outputs))
        self.attributes.append(tuple(sources))
        self.spans.append(call.span)
        self.calls[key] = len(self.nodes) - 1
        return self.calls[key]

    def _like(self, like: syntax.Like) -> list[AttributeSource]:
        found = self.compiler.meaning(like.name, self.env)
        if isinstance(found, Absent):
            return []
        if not isinstance(found, Slots) or found.slot not in self.makers:
            raise LoweringError(like.span, f"`{like.name}` is not the result of an operator of the pattern")
        return [AttributeSource(like.span, like=self.makers[found.slot])]


def is_operator(call: syntax.Call) -> bool:
    """Whether a call builds an operator: its name is capitalised, or has a domain."""
    name = call.function.name if isinstance(call.function, syntax.Name) else ""
    return name[:1].isupper() or "::" in name
