"""Expressions to functions of a match: each is compiled once per variant, with the names resolved for that variant.

What is known already folds (`present(b)` is decided per variant), so that a branch or a conjunct about an absent
capture never runs. Compiling also notes which slots' elements, constness and readers the expressions ask for.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np

from rewrite_engine.language import arithmetic, functions, names, syntax, units, values
from rewrite_engine.language.core import CoreRule, Variant
from rewrite_engine.language.names import Cell, Frame, LoweringError
from rewrite_engine.language.program import Match, Run
from rewrite_engine.language.scope import Scope, TargetScope
from rewrite_engine.language.units import Quantity
from rewrite_engine.language.values import EvaluationError, NodeView, Unknown, ValueSet, View
from rewrite_engine.operators.types import ITEM_BITS

DEEPEST = 150
CONSTANTS: Mapping[str, object] = {"inf": math.inf, "true": True, "false": False}
_COUNTED = frozenset({"macs", "flops", "ops"})
_SIZES = frozenset({"bytes", "input_bytes", "const_bytes", "output_bytes"})


class ReadsAbsent(Exception):
    """The expression reads a capture that is absent in this variant; its name is the argument."""


@dataclass(frozen=True, slots=True)
class Code:
    """A compiled expression; `constant` where its value is known already. `varies`: it reads a loop variable."""

    run: Run
    constant: bool = False
    value: object = None
    varies: bool = False


@dataclass(frozen=True, slots=True)
class Slots:
    """A name that stands for the value in a slot."""

    slot: int


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable of a comprehension, and the slots from which its values come."""

    index: int
    sources: tuple[int | str, ...]


@dataclass(frozen=True, slots=True)
class Sources:
    """`inputs`, `outputs` or a list capture: slots, and names of lists."""

    run: Run
    slots: tuple[int | str, ...]


class Absent:
    """A name that is absent in this variant."""


Meaning = Code | Slots | Variable | Sources | Absent


@dataclass(slots=True)
class Env:
    """Where an expression stands: the frame of its captures (None in a `let`), local names, the file of its `let`s."""

    frame: Frame | None
    file: str
    local: dict[str, Meaning] = field(default_factory=dict)
    costs: bool = False
    lets: int = 0


@dataclass(slots=True, eq=False)
class Asked:
    """What expressions ask of slots (by number) and of list captures (by name)."""

    values: set[int | str] = field(default_factory=set)
    constant: set[int | str] = field(default_factory=set)
    readers: set[int | str] = field(default_factory=set)
    given: set[int] = field(default_factory=set)
    supports: bool = False

    def include(self, other: Asked) -> None:
        """Ask for all that `other` asks for."""
        self.values |= other.values
        self.constant |= other.constant
        self.readers |= other.readers
        self.given |= other.given
        self.supports |= other.supports


def constant(value: object) -> Code:
    """Code for a value known already."""
    return Code(lambda match: value, True, value)


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
    ) -> None:
        self.scope, self.target, self.numbers, self.node_numbers = scope, target, numbers, node_numbers or {}
        self.inputs, self.outputs, self.supports = inputs, outputs, supports
        self.asked = Asked()
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
            return self._let(let, {}, env)
        if name in ITEM_BITS:
            return constant(name)
        return constant(CONSTANTS[name]) if name in CONSTANTS else None

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
                return Code(lambda match: match.given_value(index))
            case names.LIST:
                key = cell.list
                return Sources(lambda match: match.list_of(key), (key,))
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

    def _let(self, let: syntax.Let, local: dict[str, Meaning], env: Env) -> Code:
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
                return _join((base, position), lambda found: values.index(*found))
            case syntax.Slice():
                bounds = [constant(None) if b is None else self.compile(b, env) for b in (expr.start, expr.stop)]
                return _join((self.compile(expr.base, env), *bounds), lambda found: values.part(*found))
            case syntax.Unary():
                apply = values.negation if expr.op == "not" else arithmetic.negative
                return _join((self.compile(expr.operand, env),), lambda found: apply(found[0]))
            case syntax.Binary(op="and" | "or"):
                return self._logic(expr, env)
            case syntax.Binary():
                symbol = expr.op
                joins = symbol == "+" and self._joins(expr, env)
                parts = (self.compile(expr.left, env, not joins), self.compile(expr.right, env, not joins))
                return _join(parts, lambda found: arithmetic.binary(symbol, *found))
            case syntax.Compare():
                return self._compare(expr, env)
            case syntax.Conditional():
                return self._conditional(expr, env)
            case syntax.Call():
                return self._call(expr, env)
            case syntax.Comprehension():
                return self._comprehension(expr, env)
            case _:
                raise LoweringError(expr.span, "this has no value")

    def _joins(self, expr: syntax.Expr, env: Env) -> bool:
        """Whether a sum is of lists of values, such as `inputs + outputs`, which are joined."""
        leaves = (leaf for leaf in _operands(expr, "+") if isinstance(leaf, syntax.Name))
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
            return _join(parts, lambda found: ValueSet(tuple(found)))
        return _join(parts, lambda found: tuple(values.plain(v) if elements else v for v in found))

    def _member(self, expr: syntax.Member, env: Env) -> Code:
        name = expr.name
        if isinstance(expr.base, syntax.Member) and expr.base.name == "attr":
            base = self.compile(expr.base.base, env, elements=False)
            return _join((base,), lambda found: values.attribute(_view(found[0]), name))
        base = self.compile(expr.base, env, elements=False)
        if name == "cost":
            self._ask_supports(expr.base)
            return _join((base,), lambda found: found[0], lambda match, found: _supported(match, found)[1])
        return _join((base,), lambda found: values.member(found[0], name))

    def _logic(self, expr: syntax.Binary, env: Env) -> Code:
        parts: list[Code] = []
        decisive = expr.op == "or"
        for operand in _operands(expr, expr.op):
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
            return _join(parts, lambda found: arithmetic.compare(symbol, *found))

        def chain(found: list[object]) -> object:
            pairs = zip(symbols, found, found[1:], strict=False)
            return values.conjunction(tuple(arithmetic.compare(*pair) for pair in pairs))

        return _join(parts, chain)

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

        return Code(run, varies=test.varies or then.varies or otherwise.varies)

    # ---- calls

    def _call(self, expr: syntax.Call, env: Env) -> Code:
        if not isinstance(expr.function, syntax.Name):
            raise LoweringError(expr.span, "only a name can be called")
        name = expr.function.name
        let = self.scope.lets_in(env.file).get(name)
        if let is not None and let.parameters is not None:
            if len(let.parameters) != len(expr.args):
                raise LoweringError(expr.span, f"{name}() takes {len(let.parameters)} arguments")
            local = {p: self._argument(a, env) for p, a in zip(let.parameters, expr.args, strict=True)}
            return self._let(let, local, env)
        function = functions.find(name)
        if function is None:
            raise LoweringError(expr.span, f"unknown function `{name}`")
        if not function.arity[0] <= len(expr.args) <= function.arity[1]:
            raise LoweringError(expr.span, f"{name}() does not take {len(expr.args)} arguments; {function.doc}")
        if function.function is None:
            return self._special(name, expr, env)
        if name == "is_const":
            self._ask(expr.args[0], env, self.asked.constant)
        parts = tuple(self.compile(argument, env, function.elements) for argument in expr.args)
        call = function.function
        return _join(parts, lambda found: call(*found))

    def _argument(self, argument: syntax.Expr, env: Env) -> Meaning:
        """An argument of a `let`: a name is passed as what it stands for, anything else is computed once."""
        if isinstance(argument, syntax.Name):
            found = self.meaning(argument.name, env)
            if found is None:
                raise LoweringError(argument.span, f"unknown name `{argument.name}`")
            return found
        code = self.compile(argument, env, elements=False)
        if code.constant or code.varies:
            return code
        self.memos += 1
        key, inner = self.memos, code.run

        def run(match: Match) -> object:
            if key not in match.memo:
                match.memo[key] = inner(match)
            return match.memo[key]

        return Code(run)

    def _special(self, name: str, expr: syntax.Call, env: Env) -> Code:
        first = expr.args[0]
        match name:
            case "present":
                return constant(not self._is_absent(first, env))
            case "default":
                return self.compile(expr.args[1] if self._is_absent(first, env) else first, env)
            case "readers" | "is_graph_output":
                self._ask(first, env, self.asked.readers)
                parts = (self.compile(first, env, elements=False),)
                wants = name == "readers"
                return _join(parts, lambda found: found[0], lambda match, found: _use(match, found, wants))
            case "supported":
                self._ask_supports(first)
                parts = (self.compile(first, env, elements=False),)
                return _join(parts, lambda found: found[0], lambda match, found: _supported(match, found)[0])
            case _:
                raise LoweringError(expr.span, f"{name}(…) can only stand alone, as a cost")

    def _is_absent(self, expr: syntax.Expr, env: Env) -> bool:
        return isinstance(expr, syntax.Name) and isinstance(self.meaning(expr.name, env), Absent)

    def _ask(self, expr: syntax.Expr, env: Env, asked: set[int | str]) -> None:
        found = self.meaning(expr.name, env) if isinstance(expr, syntax.Name) else None
        if isinstance(found, Slots):
            asked.add(found.slot)
        elif isinstance(found, Variable):
            asked.update(found.sources)

    def _ask_supports(self, expr: syntax.Expr) -> None:
        """The facts that this target's `supports` may ask about the operands of the operator."""
        if self.supports is None:
            raise LoweringError(expr.span, "`supported` and `.cost` read this target's `supports`, in composites only")
        self.asked.supports = True

    def _comprehension(self, expr: syntax.Comprehension, env: Env) -> Code:
        named = self.meaning(expr.iterable.name, env) if isinstance(expr.iterable, syntax.Name) else None
        iterable = self.compile(expr.iterable, env, elements=isinstance(named, Slots))
        sources = self._sources(expr.iterable, env)
        indices = tuple(range(self.variables, self.variables + len(expr.names)))
        self.variables += len(indices)
        local = {**env.local, **{n: Variable(i, sources) for n, i in zip(expr.names, indices, strict=True)}}
        body = self.compile(expr.body, Env(env.frame, env.file, local, env.costs, env.lets), elements=False)

        def run(match: Match) -> object:
            items = iterable.run(match)
            if isinstance(items, Unknown):
                return items
            return tuple(step(match, item) for item in _items(items))

        def step(match: Match, item: object) -> object:
            bound = (item,) if len(indices) == 1 else item
            if not isinstance(bound, tuple) or len(bound) != len(indices):
                raise EvaluationError(f"expected {len(indices)} values for each element, found {values.show(item)}")
            for index, value in zip(indices, bound, strict=True):
                match.variables[index] = value
            return body.run(match)

        return Code(run, varies=True)

    def _sources(self, expr: syntax.Expr, env: Env) -> tuple[int | str, ...]:
        """The slots that an iterable may give."""
        found: list[int | str] = []
        pending: list[Any] = [expr]
        while pending:
            part = pending.pop()
            match part:
                case syntax.Name():
                    meaning = self.meaning(part.name, env)
                    if isinstance(meaning, Slots):
                        found.append(meaning.slot)
                    elif isinstance(meaning, Sources):
                        found += meaning.slots
                case syntax.Binary():
                    pending += [part.left, part.right]
                case syntax.ListExpr() | syntax.SetExpr() | syntax.TupleExpr():
                    pending += part.items
        return tuple(dict.fromkeys(found))


def conjuncts(expr: syntax.Expr) -> list[syntax.Expr]:
    """The clauses of a guard: the operands of its outermost `and`s, in order."""
    return _operands(expr, "and")


def _operands(expr: syntax.Expr, op: str) -> list[syntax.Expr]:
    found: list[syntax.Expr] = []
    pending = [expr]
    while pending:
        part = pending.pop()
        if isinstance(part, syntax.Binary) and part.op == op:
            pending += [part.right, part.left]
        else:
            found.append(part)
    return found


def _number(value: int | float | Fraction) -> int | float | Fraction:
    return int(value) if isinstance(value, Fraction) and value.denominator == 1 else value


def _items(value: object) -> tuple[object, ...]:
    """What a comprehension goes over: a list, a set, or the rows of a constant."""
    value = values.plain(value)
    if isinstance(value, ValueSet):
        return value.items
    if isinstance(value, np.ndarray) and value.ndim:
        return tuple(value)
    if not isinstance(value, tuple):
        raise EvaluationError(f"expected a list after `in`, found {values.show(value)}")
    return value


def _view(value: object) -> View:
    if not isinstance(value, View):
        raise EvaluationError(f"expected a captured value, found {values.show(value)}")
    return value


def _join(
    parts: tuple[Code, ...],
    apply: Callable[[list[object]], object],
    with_match: Callable[[Match, object], object] | None = None,
) -> Code:
    """Code that computes its parts and applies a function; computed now where all parts are constant."""
    varies = any(part.varies for part in parts)
    if with_match is not None:
        last = with_match
        return Code(lambda match: last(match, apply([part.run(match) for part in parts])), varies=varies)
    if parts and all(part.constant for part in parts):
        try:
            return constant(apply([part.value for part in parts]))
        except EvaluationError:
            pass  # it has no value: said when a match is answered
    runs = [part.run for part in parts]
    if len(runs) == 1:
        only = runs[0]
        return Code(lambda match: apply([only(match)]), varies=varies)
    return Code(lambda match: apply([run(match) for run in runs]), varies=varies)


def _use(match: Match, value: object, readers: bool) -> object:
    slot = _view(value).slot
    known: tuple[Any, ...] = match.facts.readers if readers else match.facts.is_output
    return known[slot] if slot < len(known) else Unknown(f"the readers of `{_view(value).name}` are not known")


def _supported(match: Match, value: object) -> tuple[object, object]:
    """Whether this target runs the operator by itself, and its least cost."""
    from rewrite_engine.language.evaluate import cheapest

    node = _view(value).node
    if not isinstance(node, NodeView):
        raise EvaluationError(f"`{_view(value).name}` is not the result of an operator in this match")
    return cheapest(match, node)
