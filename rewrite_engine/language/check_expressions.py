"""Guards, values, costs and templates: names, functions, members, units, and captures that may be absent.

In: an expression and the names in reach. Out: problems; the names that were read are noted in the `Reader`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from rewrite_engine.diagnostics import Problem, Span, did_you_mean
from rewrite_engine.language import bindings, functions, mistakes, predicates, syntax, units
from rewrite_engine.language.bindings import Bindings, Bound
from rewrite_engine.language.dimensions import COST_NAMES, MismatchAt, dimension_of, size_for_rate
from rewrite_engine.language.resync import EVERYTHING
from rewrite_engine.language.scope import Scope
from rewrite_engine.language.units import Dimension
from rewrite_engine.language.values import PROPERTIES
from rewrite_engine.operators.types import ITEM_BITS

CONSTANTS = frozenset({"true", "false", "inf"})
_SPECIAL_MEMBERS = frozenset({"attr", "cost", "steps"})
_ABOUT_ABSENCE = frozenset({"present", "default"})


@dataclass(slots=True)
class Reader:
    """What the expressions of one declaration may read, and what they did read.

    `extra` are names with a meaning of their own there (`inputs`, `bytes` in a cost), `options` those of the target.
    `used` notes captures, `lets` and patterns that are read, for the whole file set: (file of declaration, name).
    """

    scope: Scope
    file: str
    problems: list[Problem]
    used: set[tuple[str, str]]
    bindings: Bindings = field(default_factory=Bindings)
    extra: frozenset[str] = frozenset()
    options: frozenset[str] = frozenset()
    own_capabilities: bool = False  # `supported(…)` and `.cost` have a meaning
    builds: str = ""  # what a capitalised call makes here: "" (nothing), "rule", "test"
    in_cost: bool = False
    amount: bool = False  # a number of a machine is read
    within: frozenset[str] = frozenset()  # names of the alternative whose own tail is read
    read: set[str] = field(default_factory=set)

    def problem(self, span: Span, message: str, hint: str | None = None, *notes: tuple[Span, str]) -> None:
        """Note a problem."""
        self.problems.append(Problem(span, message, hint, notes=notes))

    def forgiven(self, name: str) -> bool:
        """Whether an unknown name may come from what could not be read."""
        broken = self.scope.broken.get(self.file, frozenset())
        return name in broken or EVERYTHING in broken or self.file in self.scope.incomplete

    def clash(self, name: str, span: Span) -> None:
        """A name that means several things in this file is an error where it is read."""
        places = self.scope.clashes.get(self.file, {}).get(name)
        if places:
            notes = tuple((place, f"one `{name}`") for place in places)
            self.problem(span, f"`{name}` is declared in several files that are included here", None, *notes)

    def let(self, name: str, span: Span) -> syntax.Let | None:
        """The `let` of that name, noted as used."""
        found = self.scope.lets_in(self.file).get(name)
        if found is not None:
            self.used.add((found.span.file, name))
            self.clash(name, span)
        return found

    def pattern(self, name: str, span: Span) -> syntax.PatternDecl | None:
        """The named pattern of that name, noted as used."""
        found = self.scope.patterns_in(self.file).get(name)
        if found is not None:
            self.used.add((found.span.file, name))
            self.clash(name, span)
        return found

    def known(self) -> set[str]:
        """Every name that could be read here, for suggestions."""
        return {
            *self.bindings.names,
            *self.extra,
            *self.options,
            *self.scope.lets_in(self.file),
            *CONSTANTS,
            *ITEM_BITS,
        }


@dataclass(frozen=True, slots=True)
class _Place:
    """Where an expression stands: loop variables around it, and whether `or`/`not` makes absent captures an error."""

    local: frozenset[str] = frozenset()
    hidden: bool = False
    asked: bool = False  # the argument of `present`, `default`
    element: bool = False  # an item of a set, where an operator may be named


def read(expr: syntax.Expr, reader: Reader, wanted: Dimension | None = None) -> None:
    """Check an expression; `wanted` is what it must measure, where it must measure something."""
    before = len(reader.problems)
    _read(expr, reader, _Place())
    if len(reader.problems) == before:
        _measure(expr, reader, wanted)


def guard(expr: syntax.Expr, reader: Reader) -> None:
    """Check a condition: as `read`, and optional captures are only spoken of where their absence is settled."""
    read(expr, reader)


def _measure(expr: syntax.Expr, reader: Reader, wanted: Dimension | None) -> None:
    names: dict[str, Dimension | None] = dict.fromkeys(reader.bindings.names)
    names.update(dict.fromkeys(reader.options))
    if reader.in_cost:
        names.update({name: dimension for name, dimension in COST_NAMES.items() if name in reader.extra})
    try:
        found = dimension_of(expr, names, reader.scope.lets_in(reader.file))
        if wanted is not None and found is not None:
            units.expect(wanted, found)
    except MismatchAt as mismatch:
        hint = "divide by a rate: bytes / 8GBps" if " times a rate " in str(mismatch) else None
        reader.problem(mismatch.span, str(mismatch), hint)
    except units.UnitMismatch as mismatch:
        reader.problem(expr.span, str(mismatch), size_for_rate(expr))


def _read(expr: syntax.Expr, reader: Reader, place: _Place) -> None:
    match expr:
        case syntax.Name():
            _name(expr, reader, place)
        case syntax.Quantity():
            if units.lookup(expr.unit) is None:
                reader.problem(expr.span, f"unknown unit `{expr.unit}`", _unit_hint(expr.unit))
        case syntax.Member():
            _member(expr, reader, place)
        case syntax.Call():
            _call(expr, reader, place)
        case syntax.Comprehension():
            _read(expr.iterable, reader, place)
            _read(expr.body, reader, replace(place, local=place.local | frozenset(expr.names)))
        case syntax.Binary():
            inner = replace(place, hidden=True) if expr.op == "or" else place
            if expr.op in ("and", "or"):
                _conditions(expr, reader)
            _read(expr.left, reader, inner)
            _read(expr.right, reader, inner)
        case syntax.Unary():
            _read(expr.operand, reader, replace(place, hidden=True) if expr.op == "not" else place)
        case syntax.Compare():  # `OP == Conv`: the operator of a declaration `for OP in …`
            for operand in (expr.first, *(operand for _, operand in expr.rest)):
                _read(operand, reader, replace(place, element=place.element or isinstance(operand, syntax.Name)))
        case syntax.Conditional():
            for part in (expr.test, expr.then, expr.otherwise):
                _read(part, reader, place)
        case syntax.Index():
            _read(expr.base, reader, place)
            _read(expr.index, reader, place)
        case syntax.Slice():
            for end in (expr.base, expr.start, expr.stop):
                if end is not None:
                    _read(end, reader, place)
        case syntax.ListExpr() | syntax.TupleExpr():
            for item in expr.items:
                _read(item, reader, place)
        case syntax.SetExpr():
            for item in expr.items:
                _read(item, reader, replace(place, element=True))
        case syntax.Rest() | syntax.Like():
            _name(syntax.Name(expr.span, expr.name), reader, place)
        case _:
            pass


def _conditions(expr: syntax.Binary, reader: Reader) -> None:
    """What `and` and `or` join is true or false."""
    for side in (expr.left, expr.right):
        if isinstance(side, syntax.ListExpr | syntax.SetExpr | syntax.TupleExpr | syntax.Number | syntax.Text):
            message = f"expected a condition beside `{expr.op}`"
            reader.problem(side.span, message, "compare again: `x == 1 or x == 2`, or write `x in {1, 2}`")


def _unit_hint(unit: str) -> str:
    return did_you_mean(unit, units.names()) or "units: s ms us ns, B KiB MiB GBps, TFLOPS TMACS TOPS GHz, J mJ uJ pJ"


def _seconds(name: str, reader: Reader) -> bool:
    """Whether a name is the end of a rate that was written in two words: `8GB/s`."""
    return (reader.in_cost or reader.amount) and name in ("s", "ms", "us", "sec")


def _name(expr: syntax.Name, reader: Reader, place: _Place) -> None:
    name = expr.name
    if name in place.local:
        return
    bound = reader.bindings.names.get(name)
    if bound is not None:
        reader.read.add(name)
        if name in reader.bindings.reported:
            return
        if name in reader.bindings.partial and name not in reader.within:
            note = (bound.span, "bound here")
            reader.problem(
                expr.span, f"`{name}` is bound by some alternatives only", "bind it in each, or by `with`", note
            )
        elif bound.optional and place.hidden and not place.asked:
            message = f"`{name}` may be absent: inside `or` and `not` only `present({name})` may speak of it"
            reader.problem(
                expr.span, message, f"move it to a condition of its own, joined by `and`, or test `present({name})`"
            )
        return
    if name in reader.extra or name in reader.options or name in CONSTANTS or name in ITEM_BITS:
        return
    let = reader.let(name, expr.span)
    if let is not None:
        if let.parameters is not None:
            reader.problem(expr.span, f"`{name}` is a function", f"call it: {name}({', '.join(let.parameters)})")
        return
    if name[0].isupper() or "::" in name:
        if place.element and reader.scope.operator(name):
            return
        if reader.scope.operator(name):
            reader.problem(expr.span, f"`{name}` is an operator, not a value", "name its result with `as` or `where`")
            return
    if reader.forgiven(name):
        return
    if name in COST_NAMES:
        reader.problem(expr.span, f"`{name}` can be read in a cost only", f"write `x.{name}` for a value `x`")
    elif (function := functions.find(name) or predicates.find(name, reader.scope.predicates)) is not None:
        reader.problem(expr.span, f"`{name}` is a function", function.doc)
    else:
        rate = "a rate is one word: `8GBps`" if _seconds(name, reader) else None
        likely = rate or mistakes.dtype(name) or did_you_mean(name, reader.known())
        reader.problem(expr.span, f"unknown name `{name}`", likely)


def _member(expr: syntax.Member, reader: Reader, place: _Place) -> None:
    _read(expr.base, reader, place)
    name = expr.name
    if name == "cost" and not reader.own_capabilities:
        reader.problem(expr.span, "`.cost` can be read in composites only", "it asks this target's `supports`")
        return
    owner = expr.base
    if isinstance(owner, syntax.Member) and owner.name == "attr":
        owner, special = owner.base, True
    else:
        special = False
    listed = isinstance(owner, syntax.Member) and owner.name == "shape"
    if listed and (name in PROPERTIES or name in mistakes.OF_LISTS):
        reader.problem(expr.span, f"a shape is a list: it has no `{name}`", "write `len(x.shape)`, or `x.rank`")
    if not isinstance(owner, syntax.Name) or owner.name in place.local:
        return
    bound = reader.bindings.names.get(owner.name)
    if bound is None or bound.kind in (bindings.ATTRIBUTE, bindings.GIVEN, bindings.LIST):
        return
    if not special and (name in PROPERTIES or name in _SPECIAL_MEMBERS):
        return
    _attribute_of(expr, name, bound, reader)


def _attribute_of(expr: syntax.Member, name: str, bound: Bound, reader: Reader) -> None:
    if bound.operators is None:
        return
    if bound.kind == bindings.DIMENSION or not bound.operators:
        what = "a dimension or dtype" if bound.kind == bindings.DIMENSION else "not the result of an operator here"
        every = f"a value has {', '.join(sorted(PROPERTIES))}"
        hint = mistakes.member(name, bound.name) or did_you_mean(name, PROPERTIES) or every
        reader.problem(expr.span, f"`{bound.name}` is {what}: it has no attribute `{name}`", hint)
        return
    found = [reader.scope.operator(op) for op in sorted(bound.operators)]
    known = {attribute for op in found if op for attribute in op.attributes}
    if name not in known:
        shown = " or ".join(sorted(bound.operators))
        likely = did_you_mean(name, {*known, *PROPERTIES}) or mistakes.member(name, bound.name)
        reader.problem(expr.span, f"`{bound.name}` ({shown}) has no attribute `{name}`", likely)


def _call(expr: syntax.Call, reader: Reader, place: _Place) -> None:
    if not isinstance(expr.function, syntax.Name):
        _read(expr.function, reader, place)
        reader.problem(expr.function.span, "only the name of a function can be called")
        return
    name = expr.function.name
    inner = replace(place, element=False)
    if name[0].isupper() or "::" in name:
        from rewrite_engine.language.check_templates import operator_call

        operator_call(expr, name, reader)
        for argument in (*expr.args, *(value for _, value in expr.keywords), *expr.like):
            _read(argument, reader, inner)
        return
    if name in _ABOUT_ABSENCE and expr.args:
        _read(expr.args[0], reader, replace(inner, asked=True))
        for argument in expr.args[1:]:
            _read(argument, reader, inner)
        if name == "present" and not _is_capture(expr.args[0], reader):
            reader.problem(expr.args[0].span, "present() asks about a capture", "write `present(b)` for a capture `b?`")
    else:
        let = reader.scope.lets_in(reader.file).get(name)
        asking = _parameters_asked(let, reader.scope) if let else frozenset()
        for position, argument in enumerate(expr.args):
            settled = let is not None and let.parameters is not None and position < len(let.parameters)
            asked = settled and let is not None and (let.parameters or ())[position] in asking
            _read(argument, reader, replace(inner, asked=inner.asked or asked))
    for part in (*(value for _, value in expr.keywords), *expr.like):
        _read(part, reader, inner)
    _arity(expr, name, reader)


def _is_capture(expr: syntax.Expr, reader: Reader) -> bool:
    if isinstance(expr, syntax.Name):
        return expr.name in reader.bindings.names or reader.forgiven(expr.name)
    return False


def _parameters_asked(let: syntax.Let, scope: Scope, depth: int = 0) -> frozenset[str]:
    """Parameters of a `let` function that its body only reads inside `present(…)` or `default(…)`."""
    parameters = frozenset(let.parameters or ())
    plain: set[str] = set()
    pending: list[object] = [let.value]
    while pending:
        node = pending.pop()
        if isinstance(node, syntax.Name):
            plain.add(node.name)
        elif isinstance(node, syntax.Call) and isinstance(node.function, syntax.Name):
            inner = scope.lets_in(let.span.file).get(node.function.name)
            if node.function.name in _ABOUT_ABSENCE:
                pending.extend(node.args[1:])
            elif inner is not None and inner.parameters and depth < 20:
                asked = _parameters_asked(inner, scope, depth + 1)
                pending.extend(a for p, a in zip(inner.parameters, node.args, strict=False) if p not in asked)
            else:
                pending.extend(node.args)
        elif isinstance(node, syntax.Node):
            from rewrite_engine.language.walk import parts_of

            pending.extend(parts_of(node))
        elif isinstance(node, tuple):
            pending.extend(node)
    return parameters - plain


def _arity(expr: syntax.Call, name: str, reader: Reader) -> None:
    assert isinstance(expr.function, syntax.Name)
    span = expr.function.span
    given = len(expr.args)
    if expr.keywords or expr.like:
        reader.problem(span, f"{name}() takes no attributes", "attributes belong to operators, which are capitalised")
        return
    let = reader.let(name, span)
    if let is not None:
        if let.parameters is None:
            reader.problem(span, f"`{name}` is a value, not a function")
        elif len(let.parameters) != given and not any(isinstance(argument, syntax.Rest) for argument in expr.args):
            wanted = _counted(len(let.parameters), len(let.parameters))
            reader.problem(expr.span, f"{name}() takes {wanted}, found {given}", None, (let.span, "declared here"))
        return
    function = functions.find(name) or _predicate(name, reader)
    if function is None:
        _unknown_function(expr, name, reader)
        return
    least, most = function.arity
    if not least <= given <= most:
        reader.problem(expr.span, f"{name}() takes {_counted(least, most)}, found {given}", function.doc)
    elif name == "profile" and not reader.in_cost:
        reader.problem(expr.span, "profile() can only be a cost")
    elif name == "supported" and not reader.own_capabilities:
        reader.problem(expr.span, "supported() can be asked in composites only", "it asks this target's `supports`")


def _predicate(name: str, reader: Reader) -> functions.Function | None:
    """The predicate of that name, unless a pattern of the file has it."""
    if name in reader.scope.patterns_in(reader.file):
        return None
    return predicates.find(name, reader.scope.predicates)


def _unknown_function(expr: syntax.Call, name: str, reader: Reader) -> None:
    pattern = reader.pattern(name, expr.span)
    if pattern is not None:
        if reader.builds != "test":
            message = f"`{name}` is a pattern: it matches, and has no value"
            reader.problem(expr.span, message, "build operators here", (pattern.span, "declared here"))
        return
    if not reader.forgiven(name):
        lets = {let.name for let in reader.scope.lets_in(reader.file).values() if let.parameters is not None}
        known = {*functions.names(), *predicates.names(reader.scope.predicates), *lets}
        reader.problem(
            expr.function.span, f"unknown function `{name}`", mistakes.function(name) or did_you_mean(name, known)
        )


def _counted(least: int, most: int) -> str:
    if least == most:
        return f"{least} argument{'s' if least != 1 else ''}"
    return f"{least} or {most} arguments" if most == least + 1 else f"at least {least} arguments"
