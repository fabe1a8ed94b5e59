"""What a variant carries for `evaluate`: compiled checks, values and costs, and the state of one match that they read.

Lowering compiles every expression of a variant once, to a function from `Match` to a value; nothing walks a syntax tree
when a match is answered.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING

from rewrite_engine import operators
from rewrite_engine.diagnostics import Span
from rewrite_engine.language import units
from rewrite_engine.language.core import ABSENT, CoreRule, Facts, Variant
from rewrite_engine.language.meaning import Meaning
from rewrite_engine.language.units import Quantity
from rewrite_engine.language.values import NodeView, Unknown, View, dimension
from rewrite_engine.operators.types import TensorType

if TYPE_CHECKING:
    from rewrite_engine.language.subjects import Subject

Run = Callable[["Match"], object]


@dataclass(frozen=True, slots=True)
class Check:
    """One clause. `run` gives the reason why it does not hold, or None when it does; `about` says what it reads, see
    `language.subjects`."""

    span: Span
    run: Callable[[Match], str | None]
    about: Callable[[], Subject] | None = None


@dataclass(frozen=True, slots=True)
class Given:
    """A name bound by `with`; computed when first read. `file` and `span` say where."""

    name: str
    span: Span
    run: Run


@dataclass(frozen=True, slots=True)
class AttributeSource:
    """Attributes of a template node, in the order written: all of pattern node `like`, or `name` computed by `run`."""

    span: Span
    like: int | None = None
    name: str = ""
    run: Run | None = None


@dataclass(frozen=True, slots=True)
class ConstantSource:
    """A constant of a template, with the slots whose elements it reads: they suggest its dtype if it is not `typed`."""

    span: Span
    run: Run
    reads: tuple[int, ...]
    typed: bool = False


@dataclass(frozen=True, slots=True)
class TemplateProgram:
    attributes: tuple[tuple[AttributeSource, ...], ...]
    constants: tuple[ConstantSource, ...]
    spans: tuple[Span, ...]
    declared: Mapping[str, Meaning] = field(default_factory=dict)  # operators that rule files declare

    def operator(self, op: str) -> operators.Operator | None:
        """The facts of an operator, of the table or declared."""
        return operators.find(op) or (self.declared[op].operator if op in self.declared else None)


@dataclass(frozen=True, slots=True)
class RestFlags:
    """What is asked of the members of a list capture."""

    constant: bool = False
    reads_value: bool = False
    asks_constant: bool = False
    asks_readers: bool = False


@dataclass(frozen=True, slots=True)
class Program:
    """Everything that answers a match. `order` gives kernel inputs: slots, and list captures by name in their place.

    `settled` are the clauses of guards that hold for every match of the variant, such as `present(b)` where it has b.
    """

    span: Span
    checks: tuple[Check, ...]
    given: tuple[Given, ...]
    attributes: tuple[int, ...]  # of `given`: the code generator's attributes
    template: TemplateProgram | None
    cost: Run | None
    cost_span: Span | None
    energy: Run | None
    energy_span: Span | None
    profile: str | None
    order: tuple[int | str, ...]
    rest: Mapping[str, RestFlags] = field(default_factory=dict)
    variables: int = 0
    settled: tuple[Span, ...] = ()
    capabilities: Mapping[str, tuple[tuple[CoreRule, Variant], ...]] = field(default_factory=dict)
    roofline: tuple[Fraction | None, Fraction | None] = (None, None)  # flops, bandwidth of the target
    captures: tuple[tuple[str, int, str], ...] = ()  # names of attributes: (name, pattern node, attribute)


class Match:
    """One match of a variant: views of its values, and the values bound on the way (dimensions, `with`, variables)."""

    __slots__ = ("bound", "facts", "given", "makers", "memo", "nodes", "program", "variables", "variant", "views")

    def __init__(self, variant: Variant, facts: Facts) -> None:
        assert isinstance(variant.program, Program)
        self.variant, self.facts, self.program = variant, facts, variant.program
        self.views: list[View | None] = [None] * len(variant.slots)
        self.nodes: list[NodeView | None] = [None] * len(variant.nodes)
        self.makers: dict[int, int] | None = None
        self.bound: dict[int, object] = {}
        self.given: dict[int, object] = {}
        self.memo: dict[object, object] = {}
        self.variables: list[object] = [None] * variant.program.variables

    def view(self, slot: int) -> View:
        """The value in a slot."""
        found = self.views[slot]
        if found is None:
            facts = self.facts
            name = self.variant.slots[slot].name.lstrip("$")
            found = View(name, facts.types[slot], facts.constants[slot], facts.is_constant[slot], self, slot)
            self.views[slot] = found
        return found

    def list_of(self, name: str) -> tuple[View, ...]:
        """The values of a list capture."""
        return tuple(self.view(slot) for slot in self.variant.lists.get(name, ()))

    def node(self, index: int) -> NodeView:
        """An operator of the match."""
        found = self.nodes[index]
        if found is None:
            node = self.variant.nodes[index]
            found = NodeView(
                node.op,
                self.facts.attributes[index],
                tuple(None if slot == ABSENT else self.view(slot) for slot in node.inputs),
                tuple(None if slot == ABSENT else self.view(slot) for slot in node.outputs),
                index,
            )
            self.nodes[index] = found
        return found

    def node_of(self, slot: int) -> NodeView | None:
        """The operator that made the value in a slot, when it is part of the pattern."""
        if self.makers is None:
            self.makers = {out: i for i, node in enumerate(self.variant.nodes) for out in node.outputs if out != ABSENT}
        index = self.makers.get(slot)
        return None if index is None else self.node(index)

    def given_value(self, index: int) -> object:
        """The value of a `with` name."""
        if index not in self.given:
            self.given[index] = self.program.given[index].run(self)
        return self.given[index]

    # ---- costs

    def counted(self, which: str) -> object:
        """`macs`, `flops` or `ops` of all operators of the match; each MAC is two ops."""
        total = 0
        for index in range(len(self.variant.nodes)):
            node = self.node(index)
            sized: list[list[TensorType | None]] = []
            for views in (node.inputs, node.outputs):
                sized.append([])
                for view in views:
                    kind = None if view is None else known_size(view)
                    if isinstance(kind, Unknown):
                        return kind
                    sized[-1].append(kind)
            work = operators.work(node.op, node.attributes, *sized)
            total += (work.macs if which == "macs" else work.flops) or 0
        return Quantity(Fraction(total), units.count(which))

    def size(self, which: str) -> object:
        """`bytes`, `input_bytes`, `const_bytes` or `output_bytes`: each external value once."""
        total = 0
        inputs, outputs = self.variant.inputs, self.variant.roots
        wanted: list[int] = []
        if which != "output_bytes":
            for slot in dict.fromkeys(inputs):
                constant = self.facts.is_constant[slot] if which != "bytes" else False
                if which == "bytes" or constant == (which == "const_bytes"):
                    wanted.append(slot)
        if which in ("bytes", "output_bytes"):
            wanted += [slot for slot in dict.fromkeys(outputs) if slot not in wanted]
        for slot in wanted:
            kind = known_size(self.view(slot))
            if isinstance(kind, Unknown):
                return kind
            total += kind.bytes or 0
        return Quantity(Fraction(total), units.BYTES)


def known_size(view: View) -> TensorType | Unknown:
    """The type as costs count it: a dimension that depends on the data is one element, a symbol makes it unknown."""
    shape = view.type.shape or ()
    for axis, size in enumerate(shape):
        if isinstance(size, str):
            found = dimension(view, axis)
            assert isinstance(found, Unknown)
            return found
    return TensorType(view.type.dtype, tuple(1 if size is None else size for size in shape))
