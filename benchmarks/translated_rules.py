"""The graph substitutions of TASO and TENSAT, translated from their text and verified.

    python benchmarks/translated_rules.py [--data ../shared/data] [--examples 24] [--every N] [--list]

Equations `lhs==rhs` become rules, one for each direction that a rule can have, labelled `reassociates`. Inputs 1 to 6
are matrices, 7 to 19 tensors of four axes, 20 is one number. Prints how many equations were translated (and why others
were not), verified, refuted, and not shape-valid: nothing was found that satisfies the pattern and of which the other
side can be built. What takes more than 10 s is named. The data is not part of the project.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from rewrite_engine.diagnostics import RewriteError
from rewrite_engine.language import load_text
from rewrite_engine.testing.verify import Options, verify

TOKEN = re.compile(r"==|[A-Za-z_]\w*|\d+|[(),]")
Tree = str | int | tuple[str, tuple["Tree", ...]]  # type: ignore[misc]


class NotTranslated(Exception):
    """Why an equation has no counterpart."""


def equations(text: str) -> list[tuple[Tree, Tree]]:
    """The equations of a file, written one after another without anything between them."""
    tokens = TOKEN.findall(text)
    found, at = [], 0
    while at < len(tokens):
        left, at = _tree(tokens, at)
        assert tokens[at] == "==", tokens[at]
        right, at = _tree(tokens, at + 1)
        found.append((left, right))
    return found


def _tree(tokens: list[str], at: int) -> tuple[Tree, int]:
    name = tokens[at]
    at += 1
    if name.isdigit():
        return int(name), at
    if at >= len(tokens) or tokens[at] != "(":
        return name, at
    args: list[Tree] = []
    while tokens[at] != ")":
        arg, at = _tree(tokens, at + 1)
        args.append(arg)
    return (name, tuple(args)), at + 1


@dataclass(slots=True)
class Side:
    """One side being written: `typed` names have their type already, `guards` are about captures of this side."""

    pattern: bool
    typed: set[str] = field(default_factory=set)
    guards: list[str] = field(default_factory=list)
    count: int = 0

    def write(self, tree: Tree) -> str:
        """The side as a pattern or as a template."""
        if isinstance(tree, str):
            return self._input(tree)
        if isinstance(tree, int):
            raise NotTranslated("a number where a tensor is expected")
        name, args = tree
        writer = getattr(self, f"_{name.lower()}", None)
        if writer is None:
            raise NotTranslated(name)
        return str(writer(*args))

    def _input(self, name: str) -> str:
        if not self.pattern or name in self.typed:
            return name
        self.typed.add(name)
        if not name.startswith("input_"):
            raise NotTranslated(name)
        number = int(name.removeprefix("input_"))
        return f"{name}: [{', '.join('_' * (2 if number <= 6 else 4 if number <= 19 else 0))}]"

    def _capture(self, call: str, guard: str) -> str:
        """In a pattern: the operator with a name of its own, and what its attributes must be."""
        self.count += 1
        self.guards.append(guard.replace("@", f"c{self.count}"))
        return f"({call} as c{self.count})"

    def _binary(self, op: str, a: Tree, b: Tree) -> str:
        return f"{op}({self.write(a)}, {self.write(b)})"

    def _of_one_shape(self, op: str, a: Tree, b: Tree) -> str:
        """Element by element, of operands of one shape: there is no broadcasting."""
        if not self.pattern:
            self._like(a, b)
            return self._binary(op, a, b)
        operands, names = [], []
        for tree in (a, b):
            text = self.write(tree)
            if not isinstance(tree, str):
                self.count += 1
                text = f"({text} as v{self.count})"
            operands.append(text)
            names.append(tree if isinstance(tree, str) else f"v{self.count}")
        self.guards.append(f"{names[0]}.shape == {names[1]}.shape")
        return f"{op}({operands[0]}, {operands[1]})"

    def _like(self, a: Tree, b: Tree) -> None:
        """On the right, what is said of inputs for their sum to be one of operands of one shape."""
        for one, other in ((a, b), (b, a)):
            if isinstance(one, str) and isinstance(other, tuple) and other[0] == "enlarge":
                self.guards.append(f"{one}.shape[2] == {other[1][0]} and {one}.shape[3] == {other[1][1]}")
        if isinstance(a, str) and isinstance(b, str) and a != b:
            self.guards.append(f"{a}.shape == {b}.shape")

    def _ewadd(self, a: Tree, b: Tree) -> str:
        return self._of_one_shape("Add", a, b)

    def _ewmul(self, a: Tree, b: Tree) -> str:
        return self._of_one_shape("Mul", a, b)

    def _smul(self, a: Tree, b: Tree) -> str:
        return self._binary("Mul", a, b)

    def _relu(self, a: Tree) -> str:
        return f"Relu({self.write(a)})"

    def _transpose(self, a: Tree, *rest: Tree) -> str:
        if rest:
            raise NotTranslated("transpose with a permutation")
        return f"Transpose({self.write(a)}, perm=[1, 0])"

    def _matmul(self, *args: Tree) -> str:
        if len(args) == 3 and args[0] != 0:
            raise NotTranslated("matmul with an activation")
        return self._binary("MatMul", *args[-2:])

    def _concat(self, axis: Tree, *args: Tree) -> str:
        tensors = [arg for arg in args if not isinstance(arg, int)]
        return f"Concat({', '.join(map(self.write, tensors))}, axis={axis})"

    def _conv2d(self, *args: Tree) -> str:
        height, width, pad, activation, x, w = args
        if pad != 0:
            raise NotTranslated("conv2d without padding")
        operands = f"{self.write(x)}, {self.write(w)}"
        if self.pattern:
            same = ("@.pads == [(@.kernel_shape[0] - 1) // 2, (@.kernel_shape[1] - 1) // 2, @.kernel_shape[0] // 2, "
                    "@.kernel_shape[1] // 2]")  # fmt: skip
            call = self._capture(f"Conv({operands}, strides=[{height}, {width}], dilations=[1, 1], group=1)", same)
        else:
            call = f'Conv({operands}, strides=[{height}, {width}], auto_pad="SAME_UPPER")'
        return f"Relu({call})" if activation == 2 else call

    def _pool(self, op: str, args: tuple[Tree, ...], more: str) -> str:
        kernel_h, kernel_w, stride_h, stride_w, pad, x = args
        if pad != 0 or (kernel_h, kernel_w) != (3, 3):
            raise NotTranslated("a pool that is not 3x3 and padded")
        attributes = f"kernel_shape=[3, 3], strides=[{stride_h}, {stride_w}], pads=[1, 1, 1, 1]{more}"
        return f"{op}({self.write(x)}, {attributes})"

    def _poolavg(self, *args: Tree) -> str:
        return self._pool("AveragePool", args, ", count_include_pad=1")

    def _poolmax(self, *args: Tree) -> str:
        return self._pool("MaxPool", args, "")

    def _enlarge(self, height: Tree, width: Tree, w: Tree) -> str:
        if not isinstance(w, str):
            raise NotTranslated("enlarge of something computed")
        sizes = [f"({k} - {w}.shape[{axis}])" for k, axis in ((height, 2), (width, 3))]
        self.guards.append(f"{w}.shape[2] % 2 == 1 and {w}.shape[3] % 2 == 1")
        self.guards.append(f"{w}.shape[2] <= {height} and {w}.shape[3] <= {width}")
        pads = f"[0, 0, {sizes[0]} // 2, {sizes[1]} // 2, 0, 0, ({sizes[0]} + 1) // 2, ({sizes[1]} + 1) // 2]"
        if self.pattern:
            self.count += 1
            self.guards.append(f"p{self.count} == {pads}")
            return f'Pad({self.write(w)}, const p{self.count}, mode="constant")'
        return f"Pad({w}, {pads})"

    def _split_0(self, *args: Tree) -> str:
        return self._split(0, args)

    def _split_1(self, *args: Tree) -> str:
        return self._split(1, args)

    def _split(self, output: int, args: tuple[Tree, ...]) -> str:
        """Where it was joined: the operands of the concatenation below, along the same axis, decide the sizes."""
        inner = args[-1]
        if isinstance(inner, tuple) and inner[0] == "split":
            args = inner[1]
        axis, tensor = args
        if self.pattern:
            raise NotTranslated("split in a pattern")
        first = _joined(tensor, axis)
        whole = self.write(tensor)
        if first is None:
            raise NotTranslated("split of what was not joined there")
        names, where = first
        sizes = ", ".join(f"{name}.shape[{where}]" for name in names)
        return f"Split({whole}, [{sizes}], axis={axis})[{output}]"


def _joined(tree: Tree, axis: Tree) -> tuple[list[str], int] | None:
    """The inputs that were concatenated and the axis of them that became `axis`, through what keeps it."""
    while isinstance(tree, tuple):
        name, args = tree
        if name == "concat":
            tensors = [arg for arg in args[1:] if not isinstance(arg, int)]
            if all(isinstance(t, str) for t in tensors):
                return [str(t) for t in tensors], int(args[0])  # type: ignore[call-overload]
            return None
        if name == "relu":
            tree = args[0]
        elif name in ("matmul", "conv2d"):
            left, right = args[-2:]
            tree = right if axis == 1 else left
        else:
            return None
    return None


def inputs_of(tree: Tree) -> set[str]:
    """The inputs that a side reads."""
    if isinstance(tree, str):
        return {tree} if tree.startswith("input_") else set()
    return set().union(*map(inputs_of, tree[1])) if isinstance(tree, tuple) else set()


def rule(left: Tree, right: Tree) -> str:
    """The rule from one side to the other. Raises `NotTranslated`."""
    if isinstance(left, str):
        raise NotTranslated("a bare input on the left")
    if not inputs_of(right) <= inputs_of(left):
        raise NotTranslated("inputs that the left side does not have")
    pattern, template = Side(True), Side(False)
    text = f"rule r reassociates: {pattern.write(left)} => {template.write(right)}"
    guards = [*pattern.guards, *template.guards]
    return f"{text}\n  if {' and '.join(guards)}" if guards else text


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default=os.environ.get("REWRITE_ENGINE_DATA", "../shared/data"))
    parser.add_argument("--examples", type=int, default=24)
    parser.add_argument("--every", type=int, default=1, help="only every Nth equation")
    parser.add_argument("--list", action="store_true", help="print each rule that is refuted")
    options = parser.parse_args()
    folder = Path(options.data) / "rules"
    if not folder.is_dir():
        print(f"no rules in {folder}: set REWRITE_ENGINE_DATA or --data")
        return 2
    for name in ("taso_rules", "single_rules", "multi_rules"):
        found = equations((folder / f"{name}.txt").read_text())[:: options.every]
        _measure(name, found, options.examples, options.list)
    return 0


def _measure(name: str, found: list[tuple[Tree, Tree]], examples: int, listed: bool) -> None:
    outcomes, tiers, reasons = Counter[str](), Counter[int](), Counter[str]()
    slow: list[str] = []
    begun = time.perf_counter()
    translated = 0
    for number, (left, right) in enumerate(found):
        statuses = []
        for a, b in ((left, right), (right, left)):
            try:
                text = rule(a, b)
                rules = load_text(text)
            except NotTranslated as reason:
                reasons[str(reason)] += 1
                continue
            except RewriteError as error:
                reasons[f"does not load: {str(error).splitlines()[0].partition('error: ')[2]}"] += 1
                continue
            (report,) = verify(rules, Options(examples=examples, shrink=listed)).rules
            statuses.append(report.status)
            tiers[report.tier] += report.status == "verified"
            if report.seconds > 10:
                slow.append(f"{name} {number}: {report.seconds:.0f} s")
            if report.status == "refuted" and report.counterexample and "no graph" in report.counterexample.reason:
                statuses[-1] = "no graph"
            if listed and report.status == "refuted":
                print(f"{text}\n  REFUTED: {report.counterexample.reason if report.counterexample else ''}", flush=True)
        if statuses:
            translated += 1
            worst = next(s for s in ("refuted", "no graph", "unmatched", "shapes", "verified") if s in statuses)
            if worst == "unmatched" and "verified" in statuses:
                worst = "verified"  # in the direction that can be built
            outcomes[worst] += 1
    print(f"{name}: {len(found)} equations, {translated} translated in at least one direction; "
          f"{outcomes['verified']} verified, {outcomes['refuted']} refuted, {outcomes['no graph']} no graph for some "
          f"sizes that are not known, {outcomes['unmatched']} not shape-valid, "
          f"{outcomes['shapes']} shapes only; {time.perf_counter() - begun:.0f} s")  # fmt: skip
    print(f"  directions verified by tier: {dict(sorted(tiers.items()))}")
    for reason, count in reasons.most_common(8):
        print(f"  {count} directions not translated: {reason}")
    print(f"  over 10 s: {', '.join(slow) or 'none'}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
