"""A counterexample as text: a test block for the rule file, and Python that computes both sides.

In: a failure. Out: a `Counterexample`. The test block holds once the rule is mended; the Python runs as it stands.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from rewrite_engine import operators
from rewrite_engine.graph.placed import BodyNode
from rewrite_engine.language.core import CoreRule, RuleSet
from rewrite_engine.operators.types import Dimension, TensorType
from rewrite_engine.testing.verify.declared import spans
from rewrite_engine.testing.verify.report import Counterexample
from rewrite_engine.testing.verify.shrink import Failure
from rewrite_engine.testing.verify.sides import Graph

Array = np.ndarray[Any, Any]
WIDTH = 112


def counterexample(rules: RuleSet, rule: CoreRule, failure: Failure, seed: int) -> Counterexample:
    """The text of a failure."""
    difference, found = failure.difference, failure.found
    if failure.invalid is not None:
        left = failure.invalid.left
        subject, where = graph_text(left, failure.invalid.symbols, failure.invalid.hidden)
        plain, _ = graph_text(left, {}, frozenset(), typed=False)
        verdict = f"place {subject} => {plain} on host{where}"
        if failure.invalid.symbols:  # no cost can be told: the rule must not match at all
            verdict = f"{subject} is not {rule.name.removesuffix('<=')}{where}"
        lines = [f'test "counterexample: {rule.name}":', *_indented(verdict)]
        unranked = " and ".join(failure.invalid.unranked)
        blind = f", where the rank of {unranked} is not known" if unranked else ""
        reason = f"{difference.message}{_sizes(left, failure.invalid.hidden)}{blind}"
        return Counterexample(reason, "\n".join(lines), "", "", "")
    assert found is not None
    both = found.sides
    slots = dict(zip(both.left.inputs, found.plan.free, strict=False))
    symbols = {name: found.symbols[slot] for name, slot in slots.items() if slot in found.symbols}
    hidden = frozenset(name for name, slot in slots.items() if slot in found.hidden)
    subject, where = graph_text(both.left, symbols, hidden)
    concrete, concrete_where = graph_text(both.left, {}, frozenset())
    lines = [f'test "counterexample: {rule.name}":']
    if rule.kind == "composite":
        lines += _indented(f"{rule.target} runs {subject} in {rule.name.removeprefix(f'{rule.target}.')}{where}")
    else:
        plain, _ = graph_text(both.left, {}, frozenset(), typed=False)
        if symbols:
            lines += _indented(f"{subject} is not {rule.name.removesuffix('<=')}{where}")
        else:
            lines += _indented(f"place {subject} => {plain} on host{where}")
    right = ""
    if not both.composed:
        text, right_where = graph_text(both.right, {}, frozenset(), typed=False, known=both.left)
        joined = right_where.replace("where ", "; ", 1) if concrete_where and right_where else right_where
        right = f" => {text}"
        concrete_where += joined
    values = ", ".join(f"{name}={_array(array)}" for name, array in sorted(difference.drawn.items()))
    declared = "".join(f"{text}\n" for text in _declarations(rules, (*both.left.nodes, *both.right.nodes)))
    python = [
        f"# {rule.name}, seed {seed}: {difference.message}",
        "import numpy as np",
        "from rewrite_engine.testing.verify import both_sides",
        "",
        "left, right = both_sides(",
        f"    '''{declared}test \"{rule.name}\": {concrete}{right or ' => ' + _roots(both.left)}{concrete_where}''',",
        f"    {values}" + ("," if values else ""),
        ")",
        "print(left, right)",
    ]
    if both.composed:
        python[5] = f"    '''{declared}test \"{rule.name}\": {concrete} is _{concrete_where}''',"
    shown = [_short(side) for side in (difference.left, difference.right)]
    return Counterexample(difference.message, "\n".join(lines), "\n".join(python), shown[0], shown[1])


def _declarations(rules: RuleSet, nodes: Sequence[BodyNode]) -> list[str]:
    """The text of what declares the operators of a graph."""
    found = []
    for span in spans(rules.meanings, [node.op for node in nodes]):
        lines = rules.sources[span.file][0].split("\n")[span.line - 1 : span.end_line]
        lines[-1] = lines[-1][: span.end_column - 1]
        lines[0] = lines[0][span.column - 1 :]
        found.append("\n".join(lines))
    return found


def _sizes(graph: Graph, hidden: frozenset[str]) -> str:
    """What the unknown numbers may turn out to be."""
    parts = [f"{name} = {_short(graph.constants[name])}" for name in sorted(hidden)]
    return f", with {' and '.join(parts)}" if parts else ""


def _roots(graph: Graph) -> str:
    return ", ".join(graph.outputs)


def _indented(text: str) -> list[str]:
    """Lines of at most `WIDTH` characters, broken after commas and semicolons outside of brackets' starts."""
    lines, line = [], "  "
    for word in text.split(" "):
        if len(line) + len(word) > WIDTH and line.strip():
            lines.append(line.rstrip())
            line = "    "
        line += word + " "
    return [*lines, line.rstrip()]


def _short(array: Array | None) -> str:
    if array is None:
        return ""
    return np.array2string(np.asarray(array), separator=", ", threshold=12, max_line_width=100000).replace("\n", "")


def _array(array: Array) -> str:
    dtype = array.dtype.name
    wide = array.astype(np.float64) if dtype == "bfloat16" or dtype.startswith("float") else array
    items = repr(wide.tolist()).replace("nan", "np.nan").replace("inf", "np.inf")
    if array.size == 0:
        return f"np.zeros({array.shape}, {_dtype(dtype)})"
    return f"np.array({items}, {_dtype(dtype)})"


def _dtype(name: str) -> str:
    return f'"{name}"'


# ---------------------------------------------------------------- graphs


def graph_text(
    graph: Graph,
    symbols: Mapping[str, tuple[Dimension, ...]],
    hidden: frozenset[str],
    typed: bool = True,
    known: Graph | None = None,
) -> tuple[str, str]:
    """A graph as a pattern, and its `where`; an input has its type where it is met first, if `typed`.

    `known` is the left side, whose values are named already.
    """
    readers: dict[str, int] = {}
    for node in graph.nodes:
        for name in node.inputs:
            readers[name] = readers.get(name, 0) + 1
    for name in graph.outputs:
        readers[name] = readers.get(name, 0) + 1
    writer = _Writer(graph, symbols, hidden, typed, known, readers)
    roots = [writer.value(name) for name in graph.outputs]
    subject = roots[0] if len(roots) == 1 else f"({', '.join(roots)})"
    return subject, " where " + "; ".join(writer.where) if writer.where else ""


class _Writer:
    """Writes values operators first; what several read, or an operator with several results, gets a name."""

    def __init__(
        self,
        graph: Graph,
        symbols: Mapping[str, tuple[Dimension, ...]],
        hidden: frozenset[str],
        typed: bool,
        known: Graph | None,
        readers: Mapping[str, int],
    ) -> None:
        self.graph, self.symbols, self.hidden, self.typed, self.known = graph, symbols, hidden, typed, known
        self.readers = readers
        self.makers = {out: node for node in graph.nodes for out in node.outputs if out}
        self.written: set[str] = set()
        self.where: list[str] = []
        self.types: dict[str, TensorType] = dict(graph.inputs)

    def value(self, name: str) -> str:
        """How a value is written where it is read."""
        if not name:
            return "none"
        node = self.makers.get(name)
        if node is None:
            return self._input(name)
        several = sum(1 for out in node.outputs if out) > 1
        if self.readers.get(name, 0) > 1 or several:
            self._bind(node)
            return name
        return self._call(node)

    def _bind(self, node: BodyNode) -> None:
        key = next(out for out in node.outputs if out)
        if key in self.written:
            return
        self.written.add(key)
        names = ", ".join(out or "_" for out in node.outputs)
        self.where.append(f"{names} = {self._call(node)}")

    def _call(self, node: BodyNode) -> str:
        parts = [self.value(name) for name in node.inputs]
        parts += [f"{name}={_literal(value)}" for name, value in self._attributes(node)]
        return f"{node.op}({', '.join(parts)})"

    def _attributes(self, node: BodyNode) -> list[tuple[str, object]]:
        """Those that differ from what absence means."""
        types = [self._type(name) for name in node.inputs]
        known = [self.graph.constants.get(name) for name in node.inputs]
        try:
            usual = operators.effective_attributes(node.op, {}, types, known)
        except Exception:  # an attribute that is required: all are written
            usual = {}
        skipped = {"auto_pad", "kernel_shape"} if node.op.startswith("Conv") else {"auto_pad"}
        return [
            (name, value)
            for name, value in node.attributes.items()
            if usual.get(name) != value and name not in skipped and isinstance(value, int | float | str | tuple)
        ]

    def _type(self, name: str) -> TensorType | None:
        return self.types.get(name)

    def _input(self, name: str) -> str:
        kind = self.graph.inputs.get(name)
        array = self.graph.constants.get(name)
        if kind is None:  # a constant that the rule computes
            return _literal(array.tolist() if array is not None else 0)
        if name in self.written or not self.typed or (self.known is not None and name in self.known.inputs):
            return name
        self.written.add(name)
        shape = self.symbols.get(name, kind.shape or ())
        dims = ", ".join(str(n) for n in shape)
        if array is None or name in self.hidden:
            return f"{name}: {kind.dtype}[{dims}]"
        return f"const {name}: {kind.dtype}[{dims}] = {_literal(_uniform(array))}"


def _uniform(array: Array) -> object:
    """One number where all elements are it."""
    wide = array.astype(np.float64) if array.dtype.name == "bfloat16" else array
    flat = wide.reshape(-1).tolist()
    if flat and all(v == flat[0] for v in flat):
        return flat[0]
    return wide.tolist() if flat else 0


def _literal(value: object) -> str:
    match value:
        case bool():
            return str(int(value))
        case float() if math.isnan(value):
            return "inf - inf"
        case float() if math.isinf(value):
            return "inf" if value > 0 else "-inf"
        case float():
            return repr(int(value)) if value == int(value) and abs(value) < 1e15 else _decimal(value)
        case str():
            return f'"{value}"'
        case list() | tuple():
            return f"[{', '.join(map(_literal, value))}]"
        case _:
            return str(value)


def _decimal(value: float) -> str:
    short = np.format_float_positional(np.float32(value), trim="-")
    return short if np.float32(float(short)) == np.float32(value) and float(np.float32(value)) == value else repr(value)


__all__: Sequence[str] = ["counterexample", "graph_text"]
