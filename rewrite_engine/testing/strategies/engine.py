"""Strategies of what the engine works with: patterns, rules, targets, machines, placements, and graphs that match."""

from __future__ import annotations

import re
from collections.abc import Sequence

from hypothesis import reject
from hypothesis import strategies as st

from rewrite_engine.diagnostics import PatError, RewriteError
from rewrite_engine.graph.terms import Term, Terms, Value
from rewrite_engine.language import RuleSet, load_text
from rewrite_engine.language.core import ABSENT, CoreRule
from rewrite_engine.language.lower import expand_rest
from rewrite_engine.operators.types import TensorType
from rewrite_engine.placement.place import Placement, place
from rewrite_engine.testing.strategies.arrays import NUMBERS
from rewrite_engine.testing.strategies.cutting import cut
from rewrite_engine.testing.strategies.graphs import graphs
from rewrite_engine.testing.strategies.growing import Choices
from rewrite_engine.testing.verify.draws import Drawn
from rewrite_engine.testing.verify.plan import plan
from rewrite_engine.testing.verify.repair import find_match

SOUND = (
    "rule relu_twice: Relu(Relu(x)) => Relu(x)",
    "rule neg_twice: Neg(Neg(x)) => x",
    "rule abs_twice: Abs(Abs(x)) => Abs(x)",
    "rule identity: Identity(x) => x",
    "rule minus: Sub(x, y) => Add(x, Neg(y))",
    "rule not_twice: Not(Not(x)) => x",
    "rule abs_neg: Abs(Neg(x)) => Abs(x)",
    "rule transposes: Transpose(Transpose(x, perm=p), perm=r) => Transpose(x, perm=[p[i] for i in r])",
    "rule no_transpose: Transpose(x, perm=p) => x if p == iota(x.rank)",
    "rule flat: Reshape(Reshape(x, _), const s) => Reshape(x, s) if all(s != 0)",
)
"""Rewrites that hold for every dtype that their operators take."""
UNARY = ("Relu", "Neg", "Abs", "Sigmoid", "Tanh", "Exp", "Sqrt", "Softmax")
BINARY = ("Add", "Mul", "Sub", "Div", "MatMul", "Max")
SUPPORTED = (*UNARY, *BINARY, "Transpose", "Reshape", "Concat", "Split", "Conv", "Gemm", "ReduceMean", "Cast")
GUARDS = ("x.dtype == float32", "x.rank <= 2", "is_static(x)", "x.rank == 2 and x.dtype == float32")


@st.composite
def _pattern(draw: st.DrawFn, operators: int) -> tuple[str, tuple[str, ...]]:
    """A pattern and the names of what it reads."""
    names = ["x"]
    text = "x"
    for _ in range(operators):
        op = draw(st.sampled_from((*UNARY[:4], *BINARY[:4])))
        if op in UNARY:
            text = f"{op}({text})"
        else:
            other = draw(st.sampled_from([*names, "new"]))
            if other == "new":
                other = "yzuvw"[len(names) - 1] if len(names) < 6 else "x"
                names += [other] if other not in names else []
            text = f"{op}({text}, {other})"
    return text, tuple(names)


def _cut(draw: st.DrawFn, graph: Terms, name: str, kind: str) -> str:
    """A declaration that is one; "" where none is drawn (what is cut may say two things of one name)."""
    text = cut(graph, Choices(draw(NUMBERS) << 160 | draw(NUMBERS)), name, kind)
    body = "target t on host {\n" + text + "\n}" if kind == "composite" else text
    try:
        load_text(body, "<cut>")
    except PatError:
        return ""
    return text


@st.composite
def patterns(draw: st.DrawFn, *, name: str = "drawn", max_operators: int = 4, graph: Terms | None = None) -> str:
    """Declarations `pattern drawn(x, …) = …`, as text; those cut out of a `graph` fit it, or almost."""
    if graph is not None:
        text = _cut(draw, graph, name, "pattern")
        return text if text else reject()
    text, names = draw(_pattern(draw(st.integers(1, max_operators))))
    guard = f" if {draw(st.sampled_from(GUARDS))}" if draw(st.booleans()) else ""
    return f"pattern {name}({', '.join(names)}) = {text}{guard}"


def rules(*, max_rules: int = 6, graph: Terms | None = None) -> st.SearchStrategy[str]:
    """Rewrites that are sound, as text: none to `max_rules` of them, of operators of a `graph` where one is given."""
    used = None if graph is None else {node.op for node in graph.nodes}
    fitting = [rule for rule in SOUND if used is None or set(re.findall(r"[A-Z]\w+", rule.partition("=>")[0])) <= used]
    return st.lists(st.sampled_from(fitting or SOUND), max_size=max_rules, unique=True).map("\n".join)


@st.composite
def targets(
    draw: st.DrawFn,
    *,
    name: str = "npu",
    device: str = "npu0",
    max_composites: int = 3,
    graph: Terms | None = None,
) -> str:
    """A target of some operators and composites, with costs, as text; made for a `graph`, where one is given."""
    lines = [f"target {name} on {device} {{", f"  launch {draw(st.integers(0, 20))}us"]
    lines.append(f"  flops {draw(st.integers(1, 9))}TFLOPS   bandwidth {draw(st.integers(1, 99))}GBps")
    used = SUPPORTED if graph is None else sorted({n.op for n in graph.nodes} - {"If", "Loop", "Scan"}) or SUPPORTED
    some = draw(st.lists(st.sampled_from(used), min_size=1, max_size=8, unique=True))
    lines.append(f"  supports {', '.join(sorted(some))}")
    for number in range(draw(st.integers(0, max_composites))):
        if graph is not None:
            lines.append("  " + _cut(draw, graph, f"fused{number}", "composite").replace("\n", "\n  "))
            continue
        text, names = draw(_pattern(draw(st.integers(2, 3))))
        guard = f" if {draw(st.sampled_from(GUARDS))}" if draw(st.booleans()) else ""
        cost = f" cost {draw(st.integers(0, 9))}us" if draw(st.booleans()) else ""
        lines.append(f"  composite fused{number}({', '.join(names)}) = {text}{guard}{cost}")
    return "\n".join([*lines, "}"])


@st.composite
def machines(
    draw: st.DrawFn, *, max_targets: int = 2, max_rules: int = 4, max_patterns: int = 0, graph: Terms | None = None
) -> RuleSet:
    """Rule sets: devices, links, targets on them, sound rewrites, and named patterns, which nothing runs.

    Composites and patterns are cut out of a `graph`, where one is given.
    """
    lines = []
    for number in range(draw(st.integers(0, max_patterns))):
        lines.append(_cut(draw, graph, f"p{number}", "pattern") if graph else draw(patterns(name=f"p{number}")))
    for number in range(draw(st.integers(0, max_targets))):
        device = "host" if draw(st.integers(0, 3)) == 3 else f"npu{number}"
        if device != "host":
            lines.append(f"device {device} {{ memory {draw(st.sampled_from((64, 1, 1024)))}MiB }}")
            rate = f"{draw(st.integers(0, 9))}us + bytes / {draw(st.integers(1, 64))}GBps"
            lines.append(f"link host <-> {device}: {rate}")
        lines.append(draw(targets(name=f"t{number}", device=device, graph=graph)))
    return load_text("\n".join([*lines, draw(rules(max_rules=max_rules, graph=graph))]) + "\n", "<drawn>")


@st.composite
def placements(draw: st.DrawFn, *, max_nodes: int = 8, strategy: str = "optimal") -> Placement:
    """Placements of drawn graphs on drawn machines."""
    graph = draw(graphs(max_nodes=max_nodes, min_nodes=1, dynamic=False))  # a cost that reads a size needs it
    return place(graph, draw(machines()), strategy=strategy)


@st.composite
def matches(draw: st.DrawFn, pattern: CoreRule | str, *, name: str | None = None) -> Terms:
    """Graphs that a pattern matches: exactly its operators, on inputs that satisfy its guard.

    `pattern` is a rule of a rule set, or text in which one is declared; `name` says which where there are several.
    """
    rule = _rule(pattern, name)
    source = Drawn(draw)
    variant = rule.variants[source.integer(0, len(rule.variants) - 1)]
    rests = {k: source.integer(0, 2) for k, node in enumerate(variant.nodes) if node.rest is not None}
    found = find_match(plan(expand_rest(variant, rests)), source, rule)
    if found is None:
        reject()
    variant = found.plan.variant
    made = {slot for node in variant.nodes for slot in node.outputs}
    used = sorted({s for node in variant.nodes for s in (*node.inputs, *node.outputs) if s != ABSENT})
    values = [Value(f"v{slot}", found.types[slot], found.values.get(slot)) for slot in used]
    place_of = {slot: number for number, slot in enumerate(used)} | {ABSENT: ABSENT}
    nodes = []
    for index, node in enumerate(variant.nodes):
        outputs = []
        for slot in node.outputs:
            if slot == ABSENT:
                values.append(Value(f"u{len(values)}", TensorType("?", None)))
                outputs.append(len(values) - 1)
            else:
                outputs.append(place_of[slot])
        nodes.append(Term(node.op, found.effective[index], tuple(place_of[s] for s in node.inputs), tuple(outputs)))
    inputs = tuple(place_of[s] for s in used if s not in made and s not in found.values)
    return Terms(tuple(values), tuple(nodes), inputs, tuple(place_of[s] for s in variant.roots))


def _rule(pattern: CoreRule | str, name: str | None) -> CoreRule:
    if isinstance(pattern, CoreRule):
        return pattern
    found = [rule for rule in load_text(pattern, "<pattern>").rules if name in (None, rule.name)]
    if len(found) != 1:
        known: Sequence[str] = [rule.name for rule in found]
        raise RewriteError(f"expected one pattern or rule, found {', '.join(known) or 'none'}; give its name")
    return found[0]
