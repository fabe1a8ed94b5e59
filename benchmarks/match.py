"""How long it takes to find 200 patterns in bert12, beside onnxscript's rewriter, and what compiling costs.

    python benchmarks/match.py [MODEL] [--repeat N]

The patterns are those that both tools can say: linear layers and what follows them, products and sums of each other,
views, GELU, softmax attention, layer normalisation, residual sums. Both are given the same text, the same model and
nothing to rewrite; both must find the same roots. Operands in either order are ours for nothing and `commute=True` for
onnxscript. Skips the comparison where onnxscript is not installed.
"""

from __future__ import annotations

import argparse
import gc
import importlib.util
import itertools
import re
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from models import locate_model

from rewrite_engine.egraph.compile import Compiler, facts
from rewrite_engine.egraph.encode import load as encode
from rewrite_engine.egraph.explore import explore
from rewrite_engine.egraph.session import Session
from rewrite_engine.graph import Module, to_terms
from rewrite_engine.graph import load as load_model
from rewrite_engine.language import load_text
from rewrite_engine.language.core import Answer
from rewrite_engine.language.evaluate import answer
from rewrite_engine.machine import build

COUNT = 200
UNARY = ("Relu", "Erf", "Tanh", "Sigmoid", "Sqrt", "Exp", "Softmax", "IsNaN", "Neg", "Abs", "Reciprocal", "Gelu")
BINARY = ("Add", "Mul", "Sub", "Div")
OPERATOR = re.compile(r"(?=[A-Z][A-Za-z]*[(])(?<![A-Za-z])")


@dataclass(frozen=True, slots=True)
class Shape:
    """A pattern: `result` over inner nodes `where`, which are written in the order that Python needs."""

    result: str
    where: tuple[tuple[str, str], ...] = ()

    @property
    def inputs(self) -> tuple[str, ...]:
        """The captures, in order of first use."""
        words = re.findall(r"(?<![\w.])([a-z]\w*)\b(?!\()", " ".join([*(p for _, p in self.where), self.result]))
        inner = {name for name, _ in self.where}
        return tuple(word for word in dict.fromkeys(words) if word not in inner and word not in ("perm", "axis"))

    def as_rule_file(self, name: str) -> str:
        """The declaration of a pattern."""
        tail = "; ".join(f"{inner} = {pattern}" for inner, pattern in self.where)
        return f"pattern {name}({', '.join(self.inputs)}) = {self.result}" + (f" where {tail}" if tail else "")

    def as_python(self, name: str) -> str:
        """The function that builds onnxscript's pattern."""
        lines = [f"{inner} = {pattern}" for inner, pattern in self.where] + [f"return {self.result}"]
        body = "".join(f"    {OPERATOR.sub('op.', line)}\n" for line in lines)
        return f"def {name}(op, {', '.join(self.inputs)}):\n{body}"


def shapes() -> list[Shape]:
    """200 patterns in a fixed order: every family first with what bert12 has, then with what it might have had."""
    made: list[Shape] = []
    linear = "Add(MatMul(x, w), b)"
    for half, inner in itertools.product(range(3), ("Div(x, 1.4142135)", "Mul(x, 0.70710678)")):
        erf = f"Add(Erf({inner}), 1.0)"
        made.append(Shape((f"Mul(Mul(x, {erf}), 0.5)", f"Mul(x, Mul({erf}, 0.5))", f"Mul(Mul(x, 0.5), {erf})")[half]))
    scores = ("Mul(MatMul(q, k), c)", "Div(MatMul(q, k), c)", "MatMul(Mul(q, c), k)", "MatMul(Mul(q, c), Mul(k, d))",
              "MatMul(q, k)")  # fmt: skip
    for score, mask, guard in itertools.product(scores, (False, True), (False, True)):
        p = f"Softmax(Add({score}, m), axis=-1)" if mask else f"Softmax({score}, axis=-1)"
        made.append(Shape("MatMul(Where(IsNaN(p), z, p), v)" if guard else "MatMul(p, v)", (("p", p),)))
    for square, out in itertools.product(("Mul(d, d)", "Pow(d, 2.0)"), ("Div(d, s)", "Mul(d, Reciprocal(s))")):
        where = (("d", "Sub(x, ReduceMean(x, a))"), ("s", f"Sqrt(Add(ReduceMean({square}, a), e))"))
        made += [Shape(out, where), Shape(f"Mul({out}, g)", where), Shape(f"Add(Mul({out}, g), b)", where)]
    made += [Shape("LayerNormalization(Add(x, y), g, b)"), Shape("LayerNormalization(Add(Add(x, o), y), g, b)"),
             Shape(f"LayerNormalization(Add({linear}, y), g, h)"), Shape("Mul(x, Sigmoid(x))"),
             Shape("Mul(x, Tanh(Log(Add(Exp(x), 1.0))))"), Shape("Mul(x, Sigmoid(Mul(x, 1.702)))")]  # fmt: skip
    for perm in ([0, 2, 1, 3], [0, 2, 3, 1], [0, 1, 3, 2], [0, 3, 1, 2]):
        turned = f"Transpose(x, perm={perm})"
        made += [Shape(f"Transpose(Reshape({linear}, t), perm={perm})"), Shape(f"Reshape({turned}, t)"),
                 Shape(f"MatMul(Reshape({turned}, t), w)"), Shape(f"Mul({turned}, c)"),
                 Shape(f"Add(MatMul(Reshape(Transpose(MatMul(x, y), perm={perm}), t), w), b)")]  # fmt: skip
    made += [Shape(f"{op}({linear})") for op in UNARY] + [Shape(f"{op}(MatMul(x, y))") for op in UNARY]
    for one, other in itertools.product(BINARY, BINARY):
        made += [Shape(f"{one}({other}(x, y), z)"), Shape(f"{one}(MatMul(x, y), {other}(z, u))")]
    made += [Shape(f"{one}({other}(x, y))") for one in UNARY for other in BINARY]
    made += [Shape(f"{one}({other}(x))") for one in UNARY for other in UNARY if one != other]
    assert len({shape.result + str(shape.where) for shape in made}) == len(made) >= COUNT
    return made[:COUNT]


Roots = dict[str, set[str]]


def ours(patterns: Sequence[Shape], module: Module) -> tuple[Roots, dict[str, float]]:
    """The first results of the roots that each pattern matches, and the seconds of the stages."""
    seconds: dict[str, float] = {}
    started = time.perf_counter()
    text = "\n".join(shape.as_rule_file(f"p{i}") for i, shape in enumerate(patterns))
    rules = load_text(text)
    seconds["load"] = time.perf_counter() - started
    started = time.perf_counter()
    terms = to_terms(module)
    seconds["terms"] = time.perf_counter() - started
    explored = explore(terms, rules.rules, build(rules), clock=seconds.__setitem__)
    found: Roots = {f"p{i}": set() for i in range(len(patterns))}
    names: dict[int, list[str]] = {}
    for index, number in enumerate(explored.class_of):
        names.setdefault(number, []).append(terms.values[index].name)
    for match in explored.matches:
        found[match.rule.name].add(min(names[match.roots[0]]))
    return found, seconds


def matching(patterns: Sequence[Shape], module: Module) -> tuple[Roots, dict[str, float]]:
    """The patterns that match somewhere: what `ours` does, but without the placement problem."""
    seconds: dict[str, float] = {}
    found: Roots = {}
    started = time.perf_counter()
    rules = load_text("\n".join(shape.as_rule_file(f"p{i}") for i, shape in enumerate(patterns)))
    seconds["load"], started = time.perf_counter() - started, time.perf_counter()
    with Session() as session:
        encoding = encode(session, to_terms(module))
        session.saturate("view")
        seconds["encode"], started = time.perf_counter() - started, time.perf_counter()
        compiler = Compiler(encoding, "fuse")
        compiler.add(rules.rules)
        session.run_once("fuse")
        seconds["find"], started = time.perf_counter() - started, time.perf_counter()
        for shape in compiler.shapes.values():
            for question, consumer in itertools.product(session.rows(shape.ask), shape.consumers):
                known = facts(encoding, consumer, question)
                if known is not None and isinstance(answer(consumer.rule, consumer.variant, known), Answer):
                    found.setdefault(consumer.rule.name, set())
        seconds["answer"] = time.perf_counter() - started
    return found, seconds


def theirs(patterns: Sequence[Shape], module: Module) -> tuple[Roots, dict[str, float]]:
    """The same by onnxscript's rewriter: the condition notes each match and refuses it, so that nothing changes."""
    from onnxscript.rewriter import pattern as rewriter

    seconds: dict[str, float] = {}
    found: Roots = {f"p{i}": set() for i in range(len(patterns))}
    started = time.perf_counter()
    space: dict[str, Any] = {}
    rules = []
    for name, shape in ((f"p{i}", shape) for i, shape in enumerate(patterns)):
        exec(shape.as_python(name), space)
        rules.append(
            rewriter.RewriteRule(
                space[name], lambda op, **_: op.Identity(), _noting(found[name]), remove_nodes=False, name=name
            )
        )
    rule_set = rewriter.RewriteRuleSet(rules, commute=True)
    seconds["load"] = time.perf_counter() - started
    started = time.perf_counter()
    assert rule_set.apply_to_model(module.model) == 0
    seconds["match"] = time.perf_counter() - started
    return found, seconds


def _noting(found: set[str]) -> Callable[..., bool]:
    def condition(context: Any, **_: Any) -> bool:
        found.add(context.root.outputs[0].name)
        return False

    return condition


def nested(depth: int) -> str:
    """A pattern of so many additions, one in the other, with a constant at each."""
    text = "x"
    for number in range(depth):
        text = f"Add({text}, c{number})" if number % 2 else f"Mul(c{number}, {text})"
    return f"pattern nested({', '.join(['x', *(f'c{n}' for n in range(depth))])}) = {text}"


def wide(nodes: int) -> str:
    """A pattern of so many operators, each of which reads one or two before it."""
    lines = ["n0 = Erf(x)"]
    for number in range(1, nodes - 1):
        op = ("Add", "Mul", "Div", "Softmax", "MatMul")[number % 5]
        operands = f"n{number - 1}" if op == "Softmax" else f"n{number - 1}, n{max(0, number - 3)}"
        lines.append(f"n{number} = {op}({operands})")
    return f"pattern wide(x) = Erf(n{nodes - 2}) where {'; '.join(lines)}"


def compiled(text: str, module: Module) -> float:
    """Seconds from the text of a pattern to its rules in egglog."""
    terms = to_terms(module)
    with Session() as session:
        encoding = encode(session, terms)
        gc.collect()
        started = time.perf_counter()
        compiler = Compiler(encoding, "fuse")
        compiler.add(load_text(text).rules)
        seconds = time.perf_counter() - started
        assert compiler.consumers, "its operators are not in the model"
        return seconds


Run = Callable[[Sequence[Shape], Module], tuple[Roots, dict[str, float]]]


def best(
    runs: Sequence[Run], patterns: Sequence[Shape], module: Module, repeat: int
) -> list[tuple[Roots, dict[str, float]]]:
    """The quickest of some runs of each, in turns: whatever else the machine does then meets them alike."""
    results: list[list[tuple[Roots, dict[str, float]]]] = [[] for _ in runs]
    for _, (run, found) in itertools.product(range(repeat), zip(runs, results, strict=True)):
        gc.collect()
        found.append(run(patterns, module))
    return [min(found, key=lambda result: sum(result[1].values())) for found in results]


def report(title: str, seconds: dict[str, float]) -> float:
    """Prints a line; the sum."""
    total = sum(seconds.values())
    print(f"  {title:<26} {total:7.3f} s   " + ", ".join(f"{stage} {s:.3f}" for stage, s in seconds.items()))
    return total


def main() -> int:
    """Prints the figures; 1 where the tools find different roots, 2 where the model is not there."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", nargs="?", default="bert12.legacy")
    parser.add_argument("--repeat", type=int, default=5)
    options = parser.parse_args()
    path, missing = locate_model(options.model)
    if not path.exists():
        print(missing, file=sys.stderr)
        return 2
    module, patterns = load_model(path), shapes()
    compared = importlib.util.find_spec("onnxscript") is not None
    runs = [ours, matching, theirs] if compared else [ours, matching]
    (found, whole), (names, seconds), *others = best(runs, patterns, module, options.repeat)
    assert set(names) == {name for name, roots in found.items() if roots}
    hits, some = sum(map(len, found.values())), sum(map(bool, found.values()))
    print(f"{len(patterns)} patterns, {some} of them somewhere in {options.model}, at {hits} roots; "
          f"best of {options.repeat}")  # fmt: skip
    total = report("rewrite_engine", seconds)
    report("and its placement problem", whole)
    status = 0
    if not compared:
        print("  onnxscript is not installed: no comparison (pip install onnxscript)")
    for other, times in others:
        other_total = report("onnxscript", times)
        of_whole = other_total / sum(whole.values())
        print(f"  {'ratio':<26} {other_total / total:7.1f} x   ({of_whole:.1f} x of the second)")
        for name in sorted(found):
            if found[name] != other[name]:
                status = 1
                print(f"  {name}: {len(found[name])} roots here, {len(other[name])} there; "
                      f"{sorted(found[name] ^ other[name])[:3]}")  # fmt: skip
    for title, text in (("12 nested commutative operators", nested(12)), ("a pattern of 40 nodes", wide(40))):
        print(f"  {title:<32} compile in {min(compiled(text, module) for _ in range(options.repeat)):.3f} s")
    return status


if __name__ == "__main__":
    sys.exit(main())
