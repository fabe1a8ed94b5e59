"""Expressions to functions of a match: each is compiled once per variant, with the names resolved for that variant.

What is known already folds (`present(b)` is decided per variant), so that a branch or a conjunct about an absent
capture never runs. Compiling also notes which slots' elements, constness and readers the expressions ask for.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction

from rewrite_engine.language import arithmetic, names, syntax, units, values
from rewrite_engine.language.calls import ask_supports, compile_call, compile_comprehension, supported
from rewrite_engine.language.code import (
    Absent,
    Asked,
    Code,
    Env,
    Meaning,
    ReadsAbsent,
    Slots,
    Sources,
    Variable,
    as_view,
    conjuncts,
    constant,
    join,
    operands,
)
from rewrite_engine.language.core import CoreRule, Variant
from rewrite_engine.language.names import Cell, LoweringError
from rewrite_engine.language.program import Match
from rewrite_engine.language.scope import Scope, TargetScope
from rewrite_engine.language.units import Quantity
from rewrite_engine.language.values import Unknown, ValueSet
from rewrite_engine.operators.types import ITEM_BITS

DEEPEST = 150
CONSTANTS: Mapping[str, object] = {"inf": math.inf, "true": True, "false": False}
_COUNTED = frozenset({"macs", "flops", "ops"})
_SIZES = frozenset({"bytes", "input_bytes", "const_bytes", "output_bytes"})


class Compiler:
    """Compiles the expressions of one variant. `numbers` gives the final slot of a cell's slot."""

    def __init__(
        self,
        scope: Scope,
        target: TargetScope | None,
        numbers: Mapping[int, int],
        node_numbers: Mapping[int, int] | None = None,
        inputs: tuple[int | str, ...] = (),
        outputs: tuple[int, ...] = (),
        supports: Mapping[str, tuple[tuple[CoreRule, Variant], ...]] | None = None,
        chains: Mapping[int, tuple[int, ...]] | None = None,
    ) -> None:
        self.scope, self.target, self.numbers, self.node_numbers = scope, target, numbers, node_numbers or {}
        self.inputs, self.outputs, self.supports, self.chains = inputs, outputs, supports, chains or {}
        self.asked = Asked()
        self.typed: set[int] = set()  # the `with` values whose dtype the file says
        self.variables = 0
        self.memos = 0
        self.depth = 0

    # ---- names

    def meaning(self, name: str, env: Env) -> Meaning | None:
        """What a name stands for; None when nothing declares it."""
        if name in env.local:
            return env.local[name]
        if env.frame is not None:
            cell = env.frame.cells.get(name)
            if cell is not None:
                return self._cell(cell)
            if name in env.frame.names.captured:
                return Absent()
            if name in ("inputs", "outputs") and (self.inputs or self.outputs):
                return self._ends(name)
            if env.costs and name in _COUNTED:
                return Code(lambda match: match.counted(name))
            if env.costs and name in _SIZES:
                if name in ("input_bytes", "const_bytes"):
                    self.asked.constant.update(self.inputs)
                return Code(lambda match: match.size(name))
            if self.target is not None and name in self.target.options:
                return self.compile(self.target.options[name], Env(None, env.file, lets=env.lets + 1))
        let = self.scope.lets_in(env.file).get(name)
        if let is not None:
            if let.parameters is not None:
                raise LoweringError(let.span, f"`{name}` is a function; call it: {name}(…)")
            return self.let(let, {}, env)
        if name in ITEM_BITS:
            return constant(name)
        if name in CONSTANTS:
            return constant(CONSTANTS[name])
        return constant(name) if self.scope.operator(name) else None

    def _cell(self, cell: Cell) -> Meaning:
        number = cell.number
        match cell.state:
            case names.SLOT:
                return Slots(self.numbers[cell.slot])
            case names.ATTRIBUTE:
                node, attribute = self.node_numbers[cell.node], cell.attribute
                return Code(lambda match: match.facts.attributes[node][attribute])
            case names.GIVEN:
                index = cell.given
                self.asked.given.add(index)
                return Code(lambda match: match.given_value(index), typed=index in self.typed)
            case names.LIST:
                keys = cell.lists
                return Sources(lambda match: tuple(view for key in keys for view in match.list_of(key)), keys)
            case names.CONSTANT:
                assert cell.value is not None and cell.thunk is not None
                return self.compile(cell.value, Env(cell.thunk[1], cell.value.span.file))
            case names.DIMENSION:
                missing = Unknown(f"`{cell.name}` is not known")
                return Code(lambda match: match.bound.get(number, missing))
            case _:
                return Absent()

    def _ends(self, name: str) -> Sources:
        slots: tuple[int | str, ...] = self.inputs if name == "inputs" else self.outputs

        def run(match: Match) -> object:
            variant = match.variant
            return tuple(match.view(slot) for slot in (variant.inputs if name == "inputs" else variant.roots))

        return Sources(run, slots)

    def let(self, let: syntax.Let, local: dict[str, Meaning], env: Env) -> Code:
        """The value of a `let`, with its parameters bound."""
        if env.lets > 50:
            raise LoweringError(let.span, f"`{let.name}` is computed from itself")
        return self.compile(let.value, Env(None, let.span.file, local, env.costs, env.lets + 1))

    # ---- expressions

    def compile(self, expr: syntax.Expr, env: Env, elements: bool = True) -> Code:
        """The expression as code. `elements`: a capture standing here is read as a constant, not only looked at."""
        self.depth += 1
        if self.depth > DEEPEST:
            raise LoweringError(expr.span, f"the expression nests deeper than {DEEPEST} levels")
        try:
            return self._compile(expr, env, elements)
        finally:
            self.depth -= 1

    def _compile(self, expr: syntax.Expr, env: Env, elements: bool) -> Code:
        match expr:
            case syntax.Name():
                return self._name(expr, env, elements)
            case syntax.Number():
                return constant(_number(expr.value))
            case syntax.Quantity():
                unit = units.lookup(expr.unit)
                if unit is None:
                    raise LoweringError(expr.span, f"unknown unit `{expr.unit}`")
                return constant(Quantity(expr.number * unit.factor, unit.dimension))
            case syntax.Text():
                return constant(expr.value)
            case syntax.ListExpr() | syntax.TupleExpr() | syntax.SetExpr():
                return self._list(expr, env, elements)
            case syntax.Member():
                return self._member(expr, env)
            case syntax.Index():
                base, position = self.compile(expr.base, env), self.compile(expr.index, env)
                return join((base, position), lambda found: values.index(*found))
            case syntax.Slice():
                bounds = [constant(None) if b is None else self.compile(b, env) for b in (expr.start, expr.stop)]
                base = self.compile(expr.base, env)
                return replace(join((base, *bounds), lambda found: values.part(*found)), typed=base.typed)
            case syntax.Unary():
                apply = values.negation if expr.op == "not" else arithmetic.negative
                return join((self.compile(expr.operand, env),), lambda found: apply(found[0]))
            case syntax.Binary(op="and" | "or"):
                return self._logic(expr, env)
            case syntax.Binary():
                symbol = expr.op
                joins = symbol == "+" and self._joins(expr, env)
                parts = (self.compile(expr.left, env, not joins), self.compile(expr.right, env, not joins))
                return join(parts, lambda found: arithmetic.binary(symbol, *found))
            case syntax.Compare():
                return self._compare(expr, env)
            case syntax.Conditional():
                return self._conditional(expr, env)
            case syntax.Call():
                return compile_call(self, expr, env)
            case syntax.Comprehension():
                return compile_comprehension(self, expr, env)
            case _:
                raise LoweringError(expr.span, "this has no value")

    def _joins(self, expr: syntax.Expr, env: Env) -> bool:
        """Whether a sum is of lists of values, such as `inputs + outputs`, which are joined."""
        leaves = (leaf for leaf in operands(expr, "+") if isinstance(leaf, syntax.Name))
        return any(isinstance(self.meaning(leaf.name, env), Sources) for leaf in leaves)

    def _name(self, expr: syntax.Name, env: Env, elements: bool) -> Code:
        found = self.meaning(expr.name, env)
        match found:
            case None:
                raise LoweringError(expr.span, f"unknown name `{expr.name}`")
            case Absent():
                raise ReadsAbsent(expr.name)
            case Slots(slot):
                if elements:
                    self.asked.values.add(slot)
                return Code(lambda match: match.view(slot))
            case Variable(index, sources):
                if elements:
                    self.asked.values.update(sources)
                return Code(lambda match: match.variables[index], varies=True)
            case Sources(run):
                return Code(run)
            case _:
                return found

    def _list(self, expr: syntax.ListExpr | syntax.TupleExpr | syntax.SetExpr, env: Env, elements: bool) -> Code:
        if len(expr.items) == 1 and isinstance(expr.items[0], syntax.Comprehension):
            return self.compile(expr.items[0], env)
        parts = tuple(self.compile(item, env, elements) for item in expr.items)
        if isinstance(expr, syntax.SetExpr):
            return join(parts, lambda found: ValueSet(tuple(found)))
        return join(parts, lambda found: tuple(values.plain(v) if elements else v for v in found))

    def _member(self, expr: syntax.Member, env: Env) -> Code:
        name = expr.name
        if isinstance(expr.base, syntax.Member) and expr.base.name == "attr":
            base = self.compile(expr.base.base, env, elements=False)
            return join((base,), lambda found: values.attribute(as_view(found[0]), name))
        if name == "steps" and (steps := self.steps(expr.base, env)) is not None:
            return Code(lambda match: tuple(match.view(slot) for slot in steps))
        base = self.compile(expr.base, env, elements=False)
        if name == "steps":
            hint = "write `chain(…) as post` and read `post.steps`"
            raise LoweringError(expr.span, "only a chain has steps", hint)
        if name == "cost":
            ask_supports(self, expr.base)
            return join((base,), lambda found: found[0], lambda match, found: supported(match, found)[1])
        return join((base,), lambda found: values.member(found[0], name))

    def steps(self, expr: syntax.Expr, env: Env) -> tuple[int, ...] | None:
        """The slots of the steps of a chain that a name stands for."""
        found = self.meaning(expr.name, env) if isinstance(expr, syntax.Name) else None
        return self.chains.get(found.slot) if isinstance(found, Slots) else None

    def _logic(self, expr: syntax.Binary, env: Env) -> Code:
        parts: list[Code] = []
        decisive = expr.op == "or"
        for operand in operands(expr, expr.op):
            part = self.compile(operand, env)
            if part.constant and part.value is decisive:
                return constant(decisive) if not parts else self._both(expr.op, [*parts, part])
            if part.constant and part.value is (not decisive):
                continue
            parts.append(part)
        return self._both(expr.op, parts) if parts else constant(not decisive)

    def _both(self, op: str, parts: list[Code]) -> Code:
        decisive = op == "or"
        runs = [part.run for part in parts]

        def run(match: Match) -> object:
            unknown: Unknown | None = None
            for part in runs:
                known = values.truth(part(match))
                if known is decisive:
                    return decisive
                if isinstance(known, Unknown) and unknown is None:
                    unknown = known
            return (not decisive) if unknown is None else unknown

        return Code(run, varies=any(part.varies for part in parts))

    def _compare(self, expr: syntax.Compare, env: Env) -> Code:
        return self.comparison(expr, env)[0]

    def comparison(self, expr: syntax.Compare, env: Env) -> tuple[Code, tuple[Code, ...]]:
        """A chain of comparisons, and its operands, which an explanation shows."""
        parts = tuple(self.compile(part, env) for part in (expr.first, *(operand for _, operand in expr.rest)))
        return self._chain(parts, tuple(symbol for symbol, _ in expr.rest)), parts

    def _chain(self, parts: tuple[Code, ...], symbols: tuple[str, ...]) -> Code:
        if len(symbols) == 1:
            symbol = symbols[0]
            return join(parts, lambda found: arithmetic.compare(symbol, *found))

        def chain(found: list[object]) -> object:
            pairs = zip(symbols, found, found[1:], strict=False)
            return values.conjunction(tuple(arithmetic.compare(*pair) for pair in pairs))

        return join(parts, chain)

    def _conditional(self, expr: syntax.Conditional, env: Env) -> Code:
        test = self.compile(expr.test, env)
        if test.constant and isinstance(test.value, bool):
            return self.compile(expr.then if test.value else expr.otherwise, env)
        then, otherwise = self.compile(expr.then, env), self.compile(expr.otherwise, env)

        def run(match: Match) -> object:
            known = values.truth(test.run(match))
            if isinstance(known, Unknown):
                return known
            return then.run(match) if known else otherwise.run(match)

        varies = test.varies or then.varies or otherwise.varies
        return Code(run, varies=varies, typed=then.typed and otherwise.typed)


def _number(value: int | float | Fraction) -> int | float | Fraction:
    return int(value) if isinstance(value, Fraction) and value.denominator == 1 else value


__all__ = [
    "Absent", "Asked", "Code", "Compiler", "Env", "Meaning", "ReadsAbsent", "Slots", "Sources", "Variable", "conjuncts",
    "constant",
]  # fmt: skip
