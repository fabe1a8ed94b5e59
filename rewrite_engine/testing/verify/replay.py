"""Both sides of a counterexample again, from its text: what the snippets that are printed call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from rewrite_engine.diagnostics import RewriteError
from rewrite_engine.graph.placed import BodyNode
from rewrite_engine.graph.terms import ABSENT, Terms
from rewrite_engine.language import load_text, syntax
from rewrite_engine.language.meaning import Meaning
from rewrite_engine.testing.graphs import GraphBuilder
from rewrite_engine.testing.verify.sides import Graph, execute, program_of

Array = np.ndarray[Any, Any]


def both_sides(text: str, **inputs: Array) -> tuple[list[Array], list[Array]]:
    """The results of both sides of a test `G => G`, by the loop nests, on inputs by name.

    For a test `G is PATTERN` the right side is the fused kernel of G. Raises RewriteError for a text that holds no such
    test, and for inputs that do not fit it.

    >>> both_sides('test "no": Neg(x: float32[2]) => x', x=np.array([1, 2], "float32"))
    ([array([-1., -2.], dtype=float32)], [array([1., 2.], dtype=float32)])
    """
    rules = load_text(text)
    tests = [case.declaration for case in rules.tests if isinstance(case.declaration, syntax.TestDecl)]
    if len(tests) != 1 or tests[0].verdict not in ("becomes", "is"):
        raise RewriteError("expected one test `G => G`, or `G is PATTERN`")
    test = tests[0]
    builder = GraphBuilder(rules.scope, {path: source for path, (source, _) in rules.sources.items()})  # type: ignore[arg-type]
    before = builder.graph(test.subject, test.where)
    left = _graph(builder.terms(before), rules.meanings)
    fused = test.result is None
    right = left if test.result is None else _graph(builder.terms(builder.result(test.result)), rules.meanings)
    missing = sorted(name for name in left.inputs if name not in left.constants and name not in inputs)
    if missing:
        raise RewriteError(f"no values for {', '.join(missing)}")
    return _run(left, inputs, False), _run(right, inputs, fused)


def _graph(terms: Terms, meanings: Mapping[str, Meaning]) -> Graph:
    names = {index: value.name for index, value in enumerate(terms.values)} | {ABSENT: ""}
    made = {index for node in terms.nodes for index in node.outputs}
    free = [index for index in range(len(terms.values)) if index not in made]
    nodes = tuple(
        BodyNode(n.op, n.attributes, tuple(names[i] for i in n.inputs), tuple(names[i] for i in n.outputs))
        for n in terms.nodes
    )
    inputs = {names[i]: terms.values[i].type for i in free}
    constants = {names[i]: array for i in free if (array := terms.values[i].constant) is not None}
    return Graph(inputs, constants, nodes, tuple(names[i] for i in terms.outputs), meanings)


def _run(graph: Graph, inputs: dict[str, Array], composed: bool) -> list[Array]:
    held: dict[str, Array] = {**graph.constants}
    for name, array in inputs.items():
        kind = graph.inputs.get(name)
        if kind is not None:
            held[name] = np.asarray(array).astype(_numpy(kind.dtype))
    return execute(graph, program_of(graph, composed), held)


def _numpy(dtype: str) -> Any:
    from rewrite_engine.loops.dtypes import numpy_dtype

    return numpy_dtype(dtype)


__all__: Sequence[str] = ["both_sides"]
