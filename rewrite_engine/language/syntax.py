"""The syntax tree of a rule file: what the parser returns and the checker reads. Every node knows its span."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from rewrite_engine.diagnostics import Span


@dataclass(frozen=True, slots=True)
class Node:
    span: Span


# ---------------------------------------------------------------- expressions: guards, values, costs, templates


@dataclass(frozen=True, slots=True)
class Name(Node):
    """A capture, a `let`, a function, a dtype, a loop variable; an operator (capitalised, or `a.b::C`)."""

    name: str


@dataclass(frozen=True, slots=True)
class Number(Node):
    value: int | float | Fraction  # exact where the text was decimal


@dataclass(frozen=True, slots=True)
class Quantity(Node):
    """A number with a unit, one token: `8GBps`. The unit is checked later."""

    number: Fraction
    unit: str


@dataclass(frozen=True, slots=True)
class Text(Node):
    value: str


@dataclass(frozen=True, slots=True)
class ListExpr(Node):
    items: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class SetExpr(Node):
    items: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class TupleExpr(Node):
    items: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Comprehension(Node):
    """`body for names in iterable`, in a list or as the only argument of a call."""

    body: Expr
    names: tuple[str, ...]
    iterable: Expr


@dataclass(frozen=True, slots=True)
class Member(Node):
    """`base.name`: a property of a value, an attribute of a node, or `n.attr` followed by a name."""

    base: Expr
    name: str


@dataclass(frozen=True, slots=True)
class Index(Node):
    base: Expr
    index: Expr


@dataclass(frozen=True, slots=True)
class Slice(Node):
    base: Expr
    start: Expr | None
    stop: Expr | None


@dataclass(frozen=True, slots=True)
class Call(Node):
    """A function or, when `function` is a capitalised name, an operator to build (in templates and tests)."""

    function: Expr
    args: tuple[Expr, ...]  # may hold Rest, NoneExpr, Comprehension
    keywords: tuple[tuple[str, Expr], ...]
    like: tuple[Like, ...]


@dataclass(frozen=True, slots=True)
class Like(Node):
    name: str


@dataclass(frozen=True, slots=True)
class Rest(Node):
    """`*xs` among the arguments of a template call or of a pattern."""

    name: str


@dataclass(frozen=True, slots=True)
class NoneExpr(Node):
    pass


@dataclass(frozen=True, slots=True)
class Unary(Node):
    op: str  # "-" | "not"
    operand: Expr


@dataclass(frozen=True, slots=True)
class Binary(Node):
    op: str  # "+" "-" "*" "/" "//" "%" "and" "or"
    left: Expr
    right: Expr


@dataclass(frozen=True, slots=True)
class Compare(Node):
    """A chain: `first op1 e1 op2 e2 …`; operators are == != <= >= < > "in" "not in"."""

    first: Expr
    rest: tuple[tuple[str, Expr], ...]


@dataclass(frozen=True, slots=True)
class Conditional(Node):
    test: Expr
    then: Expr
    otherwise: Expr


Expr = (
    Name | Number | Quantity | Text | ListExpr | SetExpr | TupleExpr | Comprehension | Member | Index | Slice | Call
    | Like | Rest | NoneExpr | Unary | Binary | Compare | Conditional
)  # fmt: skip


# ---------------------------------------------------------------- patterns


@dataclass(frozen=True, slots=True)
class TypePattern(Node):
    """`float32[N, 64]`: a dtype, a set or a variable, then dimensions (int, name, None for `_`, "..." for any number).

    `dims` is None where no brackets' content limits the rank (never written without brackets).
    """

    dtype: str | None
    dims: tuple[int | str | None, ...]


@dataclass(frozen=True, slots=True)
class ValuePattern(Node):
    """A capture `x`, `const w`, `b?`, `x: T[...]`, and in tests `const w: int8[64] = 0`."""

    name: str
    constant: bool = False
    optional: bool = False
    type: TypePattern | None = None
    sample: Expr | None = None


@dataclass(frozen=True, slots=True)
class AnyPattern(Node):
    """`_`: anything, present or absent; `constant` for `const _`."""

    constant: bool = False


@dataclass(frozen=True, slots=True)
class NonePattern(Node):
    """`none`: an input that must be absent."""


@dataclass(frozen=True, slots=True)
class LiteralPattern(Node):
    value: Expr  # a number, a list of numbers, sqrt(2), inf


@dataclass(frozen=True, slots=True)
class KeywordPattern(Node):
    """`axis=1`, `pads=p`, `axis=a?`."""

    name: str
    value: Expr
    optional: bool


@dataclass(frozen=True, slots=True)
class CallPattern(Node):
    """`Conv(x, w)`, `dq(b, s, z)?`, `Op?(e)`, `{Add, Mul}(a, b)`, `chain(…)`.

    `names` has one operator or pattern name, or several for a set of operators.
    """

    names: tuple[str, ...]
    args: tuple[Pattern | Rest | SetExpr, ...]
    keywords: tuple[KeywordPattern, ...]
    optional_call: bool = False  # `Op?(e)`: the operator, or just its first argument
    optional_value: bool = False  # `f(e)?`: the input may be absent


@dataclass(frozen=True, slots=True)
class CapturePattern(Node):
    """`P as y` (with an optional type)."""

    pattern: Pattern
    name: str
    type: TypePattern | None = None


@dataclass(frozen=True, slots=True)
class OutputPattern(Node):
    """`Split(s)[1]`."""

    pattern: Pattern
    index: int


@dataclass(frozen=True, slots=True)
class Alternatives(Node):
    items: tuple[Pattern, ...]


@dataclass(frozen=True, slots=True)
class TuplePattern(Node):
    """`(P, Q)`: several results."""

    items: tuple[Pattern, ...]


@dataclass(frozen=True, slots=True)
class GuardedPattern(Node):
    """`(P if c with k = E)`: an alternative with a tail of its own."""

    pattern: Pattern
    tail: Tail


Pattern = (
    ValuePattern | AnyPattern | NonePattern | LiteralPattern | CallPattern | CapturePattern | OutputPattern
    | Alternatives | TuplePattern | GuardedPattern
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Binding(Node):
    """`where a, b = Split(s)`: one name per output; "_" for one that is not named."""

    names: tuple[str, ...]
    pattern: Pattern


@dataclass(frozen=True, slots=True)
class Give(Node):
    """`with name = value`."""

    name: str
    value: Expr


@dataclass(frozen=True, slots=True)
class Tail:
    where: tuple[Binding, ...] = ()
    guard: Expr | None = None
    give: tuple[Give, ...] = ()


# ---------------------------------------------------------------- declarations


@dataclass(frozen=True, slots=True)
class Parameter(Node):
    name: str
    optional: bool = False
    rest: bool = False
    type: TypePattern | None = None


@dataclass(frozen=True, slots=True)
class Each(Node):
    """`for OP in {A, B}`."""

    name: str
    operators: SetExpr


@dataclass(frozen=True, slots=True)
class Include(Node):
    path: str


@dataclass(frozen=True, slots=True)
class Let(Node):
    name: str
    parameters: tuple[str, ...] | None  # None: a value, not a function
    value: Expr


@dataclass(frozen=True, slots=True)
class DeviceDecl(Node):
    name: str
    fields: tuple[tuple[str, Expr], ...]  # ("memory", E)


@dataclass(frozen=True, slots=True)
class LinkDecl(Node):
    source: str
    destination: str
    both: bool
    cost: Expr
    energy: Expr | None


@dataclass(frozen=True, slots=True)
class OperatorDecl(Node):
    """`attributes` say what those that the pattern does not hand on may be: `axis=1`, `mode=m`, `layout=0?`."""

    name: str
    parameters: tuple[Parameter, ...]
    pattern: Pattern
    tail: Tail
    attributes: tuple[KeywordPattern, ...] = ()


@dataclass(frozen=True, slots=True)
class Limit(Node):
    kind: str  # "launch" | "flops" | "bandwidth"
    value: Expr


@dataclass(frozen=True, slots=True)
class OptionDecl(Node):
    name: str
    value: Expr


@dataclass(frozen=True, slots=True)
class Without(Node):
    name: str


@dataclass(frozen=True, slots=True)
class Requires(Node):
    guard: Expr


@dataclass(frozen=True, slots=True)
class Supports(Node):
    """`supports FORM, FORM… [where] [if] [cost] [energy]`; a form is an operator name or a pattern of one operator."""

    forms: tuple[Name | Pattern, ...]
    tail: Tail
    cost: Expr | None
    energy: Expr | None
    doc: str = ""


@dataclass(frozen=True, slots=True)
class Composite(Node):
    name: str
    each: tuple[Each, ...]
    parameters: tuple[Parameter, ...]
    pattern: Pattern
    tail: Tail
    cost: Expr | None
    energy: Expr | None
    doc: str = ""


@dataclass(frozen=True, slots=True)
class TargetDecl(Node):
    name: str
    device: str | None
    extends: str | None
    items: tuple[Limit | OptionDecl | Without | Requires | Supports | Composite, ...]


@dataclass(frozen=True, slots=True)
class PatternDecl(Node):
    name: str
    parameters: tuple[Parameter, ...]
    pattern: Pattern
    tail: Tail
    doc: str = ""


@dataclass(frozen=True, slots=True)
class RuleDecl(Node):
    name: str
    label: str  # "exact" | "reassociates" | "approximates"
    each: tuple[Each, ...]
    left: Pattern
    both: bool  # `<=>`
    right: Expr
    tail: Tail
    doc: str = ""


@dataclass(frozen=True, slots=True)
class TestDecl(Node):
    """`verdict` is "becomes", "is", "is not", "runs", "rejects" or "place".

    `subject` is the graph, `name` the pattern, composite or target named, `result` the right-hand side of `=>`,
    `target` the target of `runs`, `rejects` and `place`. In `G is PATTERN` the pattern stands in `pattern`.
    """

    title: str
    verdict: str
    subject: Pattern
    name: str | None = None
    pattern: Pattern | None = None
    result: Expr | None = None
    target: str | None = None
    where: tuple[Binding, ...] = ()


Declaration = (
    Include | Let | DeviceDecl | LinkDecl | OperatorDecl | TargetDecl | PatternDecl | RuleDecl | TestDecl
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class RuleFile:
    """A parsed file; `source` is its text, for messages.

    `broken` are the names of declarations that did not parse: reading one of them is not a further problem. "*" among
    them stands for a broken include, which may have declared any name.
    """

    path: str
    source: str
    items: tuple[Declaration, ...]
    broken: frozenset[str] = frozenset()
