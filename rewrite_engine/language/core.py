"""The one form that every rule, composite, capability and named pattern becomes: what the e-graph compiles.

In: checked declarations. Out: `CoreRule`s. A core rule has one or more variants; a variant is a conjunctive pattern (a
DAG of operator applications over slots, with alternatives, optional parts and named patterns expanded; commutativity is
not expanded) with what must hold and what is built. `language.evaluate` answers questions about a match of a variant.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, overload

import numpy as np

from rewrite_engine.diagnostics import Span
from rewrite_engine.language.syntax import Expr, TypePattern
from rewrite_engine.operators.types import TensorType

if TYPE_CHECKING:
    from rewrite_engine.language.meaning import Meaning

ABSENT = -1


@dataclass(frozen=True, slots=True, eq=False)
class Slot:
    """A value of the pattern: an input, or the result of a pattern node.

    `constant`: matches only a compile-time constant. `reads_value`: the elements are asked for (when it is constant),
    so that its identity is part of the question; otherwise only its type, and whether it is constant where
    `asks_constant`.
    `asks_readers`: the number of readers in the original graph, and whether it is a graph output, are asked for.
    """

    name: str  # the user's name, or a made-up one that starts with "$"
    constant: bool = False
    reads_value: bool = False
    asks_constant: bool = False
    asks_readers: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class PatternNode:
    """One operator application. Inputs and outputs are slot numbers or ABSENT.

    An ABSENT input must be absent; an ABSENT output is not looked at. `rest` names the list of remaining inputs: then
    any number of further inputs matches; a bare `supports Relu` has the rest "*". Otherwise
    the node has exactly the inputs written (trailing ABSENT ones trimmed). Where there are `choices`, any of these
    operators matches, and `op` only shows them; `language.lower.choose` settles which.
    """

    op: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    rest: str | None = None
    choices: tuple[str, ...] = ()
    span: Span | None = None  # where it is written


@dataclass(frozen=True, slots=True, eq=False)
class TemplateNode:
    """An operator that a rule builds; inputs: `("slot", i)`, `("node", j, output)`, `("constant", k)`, `("absent",)`.

    `("rest", name)` stands for the inputs of a list capture; `expand_rest` replaces it.
    """

    op: str
    inputs: tuple[tuple[str | int, ...], ...]
    outputs: int


@dataclass(frozen=True, slots=True, eq=False)
class Template:
    """What a rule builds: nodes in topological order, `constants` computed per match, and a reference per root.

    A reference is `("slot", i)`, `("node", j, output)` or `("constant", k)`.
    """

    nodes: tuple[TemplateNode, ...]
    constants: int
    roots: tuple[tuple[str | int, ...], ...]


@dataclass(frozen=True, slots=True)
class Way:
    """The way that a variant takes at a place which leaves a choice.

    `kind` is "alternative" (`A | B`: `index` counts them), "operator" (of a set: `index` counts them), "value" (`b?`,
    `f(e)?`, `axis=a?`: 0 present, 1 absent) or "call" (`Op?(e)`: 0 with the operator, 1 without).
    """

    span: Span
    kind: str
    index: int


@dataclass(frozen=True, slots=True, eq=False)
class Variant:
    """One way in which a rule matches. `program` is what `language.evaluate` needs and nobody else reads.

    `inputs` are the slots that a composite's kernel takes, in order (parameters, then embedded constants), each once;
    `roots` the slots of its results. `lists` gives the slots of each list capture once `expand_rest` has run. `ways`
    are the alternatives and optional parts of the declaration that it takes.
    """

    index: int
    slots: tuple[Slot, ...]
    nodes: tuple[PatternNode, ...]
    roots: tuple[int, ...]
    inputs: tuple[int, ...]
    template: Template | None
    program: object
    lists: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    ways: tuple[Way, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class CoreRule:
    """`kind` is "rule", "composite", "supports" or "pattern". `name` is unique: "fuse_norm", "tern.qconv",
    "tern.supports.3" (numbered within its target, in order), "layer_norm". A `<=>` rule is two core rules, "r" and
    "r<=". For `supports`, each form is one variant of one node."""

    name: str
    kind: str
    target: str | None
    label: str
    span: Span
    variants: tuple[Variant, ...]
    doc: str = ""
    defines: str = ""  # the declared operator whose meaning this rule is; its name is "operator:com.x::Op"


def answers_to(rule: CoreRule, name: str) -> bool:
    """Whether a test's or a command's `name` means this rule: with or without its target, `c` for every `c[…]`.

    >>> rule = CoreRule("tern.act[Relu]", "composite", "tern", "exact", Span("", 1, 1, 1, 1), ())
    >>> [answers_to(rule, name) for name in ("tern.act[Relu]", "act[Relu]", "act", "tern.act", "act[Elu]", "tern")]
    [True, True, True, True, False, False]
    """
    own = rule.name if rule.target is None else rule.name.removeprefix(f"{rule.target}.")
    return name in (rule.name, own, rule.name.partition("[")[0], own.partition("[")[0])


@dataclass(frozen=True, slots=True, eq=False)
class Facts:
    """What is known of one match: one entry per slot or node of the variant (after `expand_rest`).

    `constants[i]` is given where the slot `reads_value` and is constant, else None; `is_constant[i]` wherever asked.
    `readers` and `is_output` are given where a slot `asks_readers`; empty when nobody asks.
    """

    types: tuple[TensorType, ...]
    constants: tuple[np.ndarray | None, ...]
    is_constant: tuple[bool, ...]
    attributes: tuple[Mapping[str, object], ...]
    readers: tuple[int, ...] = ()
    is_output: tuple[bool, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Answer:
    """The match holds. `cost` is in seconds (None: no formula, so the machine's roofline), `energy` in joules.

    For a rule: effective attributes and output types per template node, and the template's constants.
    For a composite: `attributes[0]` are those for the code generator. `given` are the values of `with` names.
    """

    attributes: tuple[Mapping[str, object], ...] = ()
    types: tuple[tuple[TensorType, ...], ...] = ()
    constants: tuple[np.ndarray, ...] = ()
    cost: Fraction | None = None
    energy: Fraction | None = None
    profile: str | None = None  # the key of a measured cost, where the formula is `profile("…")`
    given: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Refusal:
    """The match does not hold: the first clause that failed, where it stands, and the values it saw."""

    reason: str
    span: Span


@dataclass(frozen=True, slots=True, eq=False)
class DeviceSpec:
    """`memory` in bytes, or None without a limit."""

    name: str
    memory: int | None
    span: Span


@dataclass(frozen=True, slots=True, eq=False)
class LinkSpec:
    """What one tensor costs: `cost` (a time) and `energy` are expressions over `bytes`."""

    source: str
    destination: str
    cost: Expr
    energy: Expr | None
    span: Span


@dataclass(frozen=True, slots=True, eq=False)
class TargetSpec:
    """`launch` in seconds; `flops` per second; `bandwidth` in bytes per second; None where not given."""

    name: str
    device: str
    launch: Fraction
    flops: Fraction | None
    bandwidth: Fraction | None
    span: Span | None


@dataclass(frozen=True, slots=True, eq=False)
class TestCase:
    """An in-file test. `graph` is the typed concrete pattern; see `language.syntax.TestDecl` for the verdicts."""

    title: str
    span: Span
    declaration: object  # language.syntax.TestDecl
    file: str


class Rules(Sequence[CoreRule]):
    """Core rules in order. Named patterns, which placing asks nothing of, come last, when they are first read."""

    __slots__ = ("_all", "_later", "used")

    def __init__(self, used: Sequence[CoreRule], later: Callable[[], Sequence[CoreRule]]) -> None:
        self.used, self._later = tuple(used), later
        self._all: tuple[CoreRule, ...] | None = None

    def _rules(self) -> tuple[CoreRule, ...]:
        if self._all is None:
            self._all = (*self.used, *self._later())
        return self._all

    def __len__(self) -> int:
        return len(self._rules())

    @overload
    def __getitem__(self, index: int) -> CoreRule: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[CoreRule, ...]: ...
    def __getitem__(self, index: int | slice) -> CoreRule | tuple[CoreRule, ...]:
        return self._rules()[index]

    def __iter__(self) -> Iterator[CoreRule]:
        return iter(self._rules())


@dataclass(frozen=True, slots=True, eq=False)
class RuleSet:
    """Everything that a set of rule files says, checked. Order: as files were named, includes first; each file once.

    `sources` maps each path to (text, sha256). `host` always is the first device and the first target. `tests` are
    those of the files that were named.
    """

    devices: tuple[DeviceSpec, ...]
    links: tuple[LinkSpec, ...]
    targets: tuple[TargetSpec, ...]
    rules: Sequence[CoreRule]
    tests: tuple[TestCase, ...]
    sources: Mapping[str, tuple[str, str]]
    warnings: tuple[str, ...] = ()
    meanings: Mapping[str, Meaning] = field(default_factory=dict)  # what the operators that the files declare compute
    scope: object = None  # language.check's: lets, named patterns and options, for evaluating link costs and tests

    def without_patterns(self) -> tuple[CoreRule, ...]:
        """What a placement rests on: rules and capabilities."""
        if isinstance(self.rules, Rules):
            return self.rules.used
        return tuple(rule for rule in self.rules if rule.kind != "pattern")


__all__ = [
    "ABSENT", "Answer", "CoreRule", "DeviceSpec", "Facts", "LinkSpec", "PatternNode", "Refusal", "RuleSet", "Slot",
    "TargetSpec", "Template", "TemplateNode", "TestCase", "TypePattern", "Variant", "Way", "answers_to",
]  # fmt: skip
