"""Capabilities in Python: a function of the matched operator says whether a target runs it, and at what cost.

In: functions marked with `supports`, and a rule set. Out: the rule set with a core rule of kind "supports" for each,
which is asked as those of rule files are.
"""

from __future__ import annotations

import dataclasses
import hashlib
import inspect
import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import cast

import numpy as np

from rewrite_engine import operators
from rewrite_engine.diagnostics import RewriteError, Span, did_you_mean
from rewrite_engine.language import lower, units
from rewrite_engine.language.core import CoreRule, PatternNode, RuleSet, Slot, Variant
from rewrite_engine.language.program import Check, Match, Program, RestFlags
from rewrite_engine.language.scope import Scope
from rewrite_engine.language.units import Quantity
from rewrite_engine.language.values import EvaluationError, View
from rewrite_engine.operators.types import TensorType


@dataclass(frozen=True, slots=True, eq=False)
class Operand:
    """An input of a matched operator: its type, whether it is a constant, and then its elements."""

    type: TensorType
    is_constant: bool
    constant: np.ndarray | None

    @property
    def dtype(self) -> str:
        """The name of the element type ("float32"), "?" where it is not known."""
        return self.type.dtype

    @property
    def shape(self) -> tuple[int | str | None, ...] | None:
        """The sizes: a name for one that is not bound, None for one that depends on the data; None without a rank."""
        return self.type.shape


@dataclass(frozen=True, slots=True, eq=False)
class MatchedNode:
    """An operator of the model: effective attributes by name, inputs in order, result types; None: not there."""

    op: str
    attributes: Mapping[str, object]
    inputs: tuple[Operand | None, ...]
    outputs: tuple[TensorType | None, ...]


Verdict = bool | int | float | Fraction | str
"""True: it runs, at the cost of the target's roofline. False: it does not. A number: it runs and takes so many seconds.
A text is a time with its unit ("12.5us")."""


@dataclass(frozen=True, slots=True, eq=False)
class Capability:
    """What `supports` makes of a function; calling it calls the function."""

    operators: tuple[str, ...]
    target: str
    name: str
    function: Callable[[MatchedNode], Verdict]

    def __call__(self, node: MatchedNode) -> Verdict:
        return self.function(node)

    @property
    def rule(self) -> str:
        """The name in placements and explanations: "tern.python.conv"."""
        return f"{self.target}.python.{self.name}"


def supports(
    *operators: str, target: str, name: str | None = None
) -> Callable[[Callable[[MatchedNode], Verdict]], Capability]:
    """Marks a function of a `MatchedNode` as a capability of `target` for the named operators.

    The function returns a `Verdict` that depends on the node alone. `name` is the function's own unless it is given.

    >>> @supports("Conv", target="tern")
    ... def conv(node):
    ...     return node.attributes["group"] == 1
    >>> conv.rule
    'tern.python.conv'
    """
    if not operators or not all(isinstance(op, str) for op in operators):
        raise RewriteError('supports: expected the names of operators, as in @supports("Conv", target="tern")')

    def mark(function: Callable[[MatchedNode], Verdict]) -> Capability:
        known = name or str(getattr(function, "__name__", ""))
        if not callable(function) or not known.isidentifier():
            raise RewriteError(f'supports: `{known}` does not name a capability; write supports(…, name="conv")')
        return Capability(operators, target, known, function)

    return mark


def with_capabilities(rules: RuleSet, capabilities: Sequence[Capability]) -> RuleSet:
    """The rule set with more capabilities; `supported(…)` and `.cost` in composites see them too.

    Raises RewriteError for what is not marked with `supports`, a target or an operator that is not there, and a name
    that the target has twice.
    """
    scope = cast(Scope, rules.scope)
    known = {rule.name for rule in scope.capabilities}
    added = []
    for capability in capabilities:
        rule = _core_rule(capability, rules)
        if rule.name in known:
            raise RewriteError(f"there are two capabilities `{rule.name}`; give one of them another `name`")
        known.add(rule.name)
        added.append(rule)
    scope = dataclasses.replace(scope, capabilities=(*scope.capabilities, *added))
    lowered, problems = lower.core_rules(scope)
    assert all(problem.severity != "error" for problem in problems), "these rules were lowered before"
    sources = {**rules.sources, **{capability.rule: _source(capability) for capability in capabilities}}
    return dataclasses.replace(rules, rules=tuple(lowered), sources=sources, scope=scope)


def _core_rule(capability: object, rules: RuleSet) -> CoreRule:
    if not isinstance(capability, Capability):
        raise RewriteError(f"expected a function marked with `supports`, found {capability!r}")
    where = f"capability `{capability.rule}`"
    targets = [target.name for target in rules.targets]
    if capability.target not in targets:
        hint = did_you_mean(capability.target, targets)
        message = f"{where}: no target is called `{capability.target}`; there are {', '.join(targets)}"
        raise RewriteError(message + (f"; {hint}" if hint else ""))
    for op in capability.operators:
        if "::" not in op and operators.find(op) is None:
            hint = did_you_mean(op, operators.names())
            raise RewriteError(f"{where}: unknown operator `{op}`" + (f"; {hint}" if hint else ""))
    span = _span(capability)
    asked = _Asked(capability, span)
    program = Program(
        span, (Check(span, asked.refusal),), (), (), None, asked.cost, span, None, None, None, ("*",),
        {"*": RestFlags(reads_value=True, asks_constant=True)},
    )  # fmt: skip
    variants = tuple(
        Variant(k, (Slot(f"${op}"),), (PatternNode(op, (), (0,), "*"),), (0,), (), None, program)
        for k, op in enumerate(dict.fromkeys(capability.operators))
    )
    doc = inspect.getdoc(capability.function) or ""
    return CoreRule(capability.rule, "supports", capability.target, "exact", span, variants, doc)


@dataclass(frozen=True, slots=True, eq=False)
class _Asked:
    """The function as the check and the cost of a match; it is called once for both."""

    capability: Capability
    span: Span

    def refusal(self, match: Match) -> str | None:
        verdict = self._verdict(match)
        return f"`{self.capability.rule}` returned False" if verdict is False else None

    def cost(self, match: Match) -> object:
        verdict = self._verdict(match)
        return None if verdict is True else verdict

    def _verdict(self, match: Match) -> object:
        key = ("python", self.capability.rule)
        if key not in match.memo:
            match.memo[key] = self._call(match)
        return match.memo[key]

    def _call(self, match: Match) -> bool | Quantity:
        rule = self.capability.rule
        try:
            verdict = self.capability.function(matched_node(match))
        except Exception as error:
            message = f"capability `{rule}` failed: {type(error).__name__}: {error}"
            warnings.warn(f"{message}; what it was asked about does not run there", RuntimeWarning, stacklevel=2)
            raise EvaluationError(message) from error
        return _checked(verdict, rule)


def matched_node(match: Match) -> MatchedNode:
    """The one operator of a match, as capabilities see it."""
    node = match.node(0)

    def operand(view: View | None) -> Operand | None:
        return None if view is None else Operand(view.type, view.is_constant, view.constant)

    outputs = tuple(None if view is None else view.type for view in node.outputs)
    return MatchedNode(node.op, node.attributes, tuple(map(operand, node.inputs)), outputs)


def _checked(verdict: object, rule: str) -> bool | Quantity:
    """A verdict as truth or a time; `EvaluationError` for anything else."""
    if isinstance(verdict, bool | np.bool_):
        return bool(verdict)
    seconds = _seconds(verdict)
    if seconds is None or seconds < 0:
        expected = 'True, False or a time: a number of seconds or a text such as "5us"'
        message = f"capability `{rule}` returned {verdict!r}; expected {expected}"
        warnings.warn(message, RuntimeWarning, stacklevel=2)
        raise EvaluationError(message)
    return Quantity(seconds, units.TIME)


def _seconds(verdict: object) -> Fraction | None:
    """The time as it is written: 5e-6 is five microseconds, not the binary number next to it."""
    if isinstance(verdict, str):
        number = verdict.rstrip("abcdefghijklmnopqrstuvwxyz")
        unit = units.lookup(verdict[len(number) :])
        try:
            return None if unit is None or unit.dimension != units.TIME else Fraction(number) * unit.factor
        except (ValueError, ZeroDivisionError):
            return None
    if isinstance(verdict, int | Fraction | np.integer):
        return Fraction(int(verdict)) if isinstance(verdict, np.integer) else Fraction(verdict)
    if isinstance(verdict, float | np.floating) and math.isfinite(verdict):
        return Fraction(repr(float(verdict)))
    return None


def _span(capability: Capability) -> Span:
    """Where the function stands."""
    code = getattr(inspect.unwrap(capability.function), "__code__", None)
    if code is None:
        return Span(f"<{capability.rule}>", 1, 1, 1, 1)
    return Span(code.co_filename, code.co_firstlineno, 1, code.co_firstlineno, 1)


def _source(capability: Capability) -> tuple[str, str]:
    """The function's text, where Python has it, and a digest."""
    try:
        text = inspect.getsource(capability.function)
    except (OSError, TypeError):
        text = repr(getattr(getattr(capability.function, "__code__", None), "co_code", capability.name))
    return text, hashlib.sha256(text.encode()).hexdigest()
