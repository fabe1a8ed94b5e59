"""The search: steps that make a model smaller are kept as long as the command still fails.

In: a model and a check. Out: the smallest model found and the steps that lead there. First nodes and outputs, by delta
debugging (halves, then smaller parts, down to single ones), then sizes and constants, again until nothing more goes.
"""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rewrite_engine.diagnostics import RewriteError
from rewrite_engine.graph.cut import Step, apply, is_valid, key_of, named_sizes
from rewrite_engine.testing.reduce.check import Check, Outcome

if TYPE_CHECKING:
    import onnx

Say = Callable[[str], None]
Save = Callable[[bytes], None]


@dataclass(frozen=True, slots=True)
class Reduction:
    """The steps that were kept, the model they lead to, and how often the command ran."""

    steps: tuple[Step, ...]
    model: onnx.ModelProto
    runs: int


def reduce(model: onnx.ModelProto, check: Check, say: Say, save: Save) -> Reduction:
    """Makes the model smaller. `say` is told each step that is kept, `save` is given each kept model's bytes.

    Raises `RewriteError` where the command does not fail on the model itself, or not each time.
    """
    check.validate()
    with tempfile.TemporaryDirectory(prefix="rewrite-engine-reduce-") as folder:
        search = _Search(model, check, say, save, Path(folder) / "model.onnx")
        search.run()
        if search.steps and not check.fails(search.again(), search.first):
            say("warning: the command does not fail each time: run again on the smallest model, it does not fail")
        return Reduction(tuple(search.steps), search.best, search.runs)


def replay(model: onnx.ModelProto, steps: Sequence[Step]) -> onnx.ModelProto:
    """The model after these steps. Raises `RewriteError` where they are another model's."""
    for number, step in enumerate(steps, 1):
        found = apply(model, step)
        if found is None:
            raise RewriteError(
                f"step {number} ({step.kind}) does not fit this model; replay it on the one it was made of"
            )
        model = found
    return model


def weight(model: onnx.ModelProto) -> tuple[int, int, int]:
    """What is made smaller: nodes, then elements of inputs and constants, then bytes."""
    elements = 0
    for sizes in _shapes(model).values():
        count = 1
        for size in sizes:
            count *= max(size, 1)
        elements += count
    return len(model.graph.node), elements, model.ByteSize()


def _shapes(model: onnx.ModelProto) -> dict[str, list[int]]:
    shapes: dict[str, list[int]] = {}
    for name, _, size in named_sizes(model):
        shapes.setdefault(name, []).append(size)
    return shapes


class _Search:
    def __init__(self, model: onnx.ModelProto, check: Check, say: Say, save: Save, path: Path) -> None:
        self.best, self.check, self.say, self.save, self.path = model, check, say, save, path
        self.steps: list[Step] = []
        self.known: dict[bytes, bool] = {}
        self.runs = 0
        first = self._outcome(model.SerializeToString(deterministic=True))
        self.first: Outcome = first
        if not check.fails(first):
            late = f"runs for more than {check.timeout:g} s (--timeout)"
            ended = late if first.status is None else f"ends with status {first.status}"
            wanted = "a status other than 0" if check.pattern is None else f"output that matches {check.pattern}"
            raise RewriteError(f"the command does not fail on the model itself: it {ended}; expected {wanted}")
        if not check.fails(self._outcome(model.SerializeToString(deterministic=True)), first):
            raise RewriteError("the command fails on the model, but not each time: give one that always does")
        self.valid = is_valid(model)

    def again(self) -> Outcome:
        """The command once more, on the smallest model."""
        return self._outcome(self.best.SerializeToString(deterministic=True))

    def run(self) -> None:
        """Every pass, until a round keeps nothing."""
        before = -1
        while before != len(self.steps):
            before = len(self.steps)
            self._subsets("nodes", lambda: [key_of(node) for node in self.best.graph.node])
            self._subsets("outputs", lambda: [value.name for value in self.best.graph.output])
            for propose in (self._sizes, self._constants):
                self._each(propose)

    def _subsets(self, kind: str, names: Callable[[], list[str]]) -> None:
        """Delta debugging: a part alone, then all but a part, of ever smaller parts."""
        pieces = 2
        while len(known := names()) > 1:
            size = -(-len(known) // pieces)
            parts = [known[k : k + size] for k in range(0, len(known), size)]
            rests = [[name for name in known if name not in set(part)] for part in parts]
            kept = next(
                (s for s in [*(parts if pieces > 1 else []), *rests] if s and self._try(Step(kind, tuple(s)))), None
            )
            if kept is not None:
                pieces = 2 if len(kept) <= size else max(pieces - 1, 2)
            elif size == 1:
                return
            else:
                pieces = min(2 * pieces, len(known))

    def _each(self, propose: Callable[[], Iterator[Step]]) -> None:
        """Single steps, proposed anew after each that is kept."""
        tried: set[Step] = set()
        kept = True
        while kept:
            kept = False
            for step in propose():
                if step not in tried:
                    tried.add(step)
                    kept = self._try(step)
                    if kept:
                        break

    def _sizes(self) -> Iterator[Step]:
        """Sizes that stand at several axes together, largest first, then one axis at a time."""
        axes = named_sizes(self.best)
        for old in sorted({size for _, _, size in axes if size > 1}, reverse=True):
            for size in dict.fromkeys((1, 2, old // 2)):
                if size < old:
                    yield Step("resize", (), old, size)
        for name, axis, old in axes:
            for size in dict.fromkeys((1, 2, old // 2)):
                if 0 < size < old:
                    yield Step("resize", (name,), old, size, axis)

    def _constants(self) -> Iterator[Step]:
        """Constants become inputs; where they cannot, all zeros or all ones."""
        for tensor in self.best.graph.initializer:
            yield Step("input", (tensor.name,))
            yield Step("fill", (tensor.name,), size=0)
            if not any(s.kind == "fill" and s.names == (tensor.name,) for s in self.steps):
                yield Step("fill", (tensor.name,), size=1)

    def _try(self, step: Step) -> bool:
        """Keeps a step if the command still fails after it."""
        found = apply(self.best, step)
        if found is None or (self.valid and not is_valid(found)):
            return False
        content = found.SerializeToString(deterministic=True)
        digest = hashlib.sha256(content).digest()
        if digest not in self.known:
            self.known[digest] = self.check.fails(self._outcome(content), self.first)
        if not self.known[digest]:
            return False
        nodes, elements, _ = weight(found)
        self.steps.append(step)
        self.best = found
        self.save(content)
        self.say(f"{len(self.steps)}: {_told(step)}: {nodes} nodes, {elements} elements of inputs and constants")
        return True

    def _outcome(self, content: bytes) -> Outcome:
        self.path.write_bytes(content)
        self.runs += 1
        return self.check.run(self.path)


def _told(step: Step) -> str:
    shown = ", ".join(step.names[:3]) + (f" and {len(step.names) - 3} more" if len(step.names) > 3 else "")
    match step.kind:
        case "nodes" | "outputs":
            return f"only the {step.kind} {shown}"
        case "input":
            return f"constant {shown} as an input"
        case "fill":
            return f"constant {shown} filled with {step.size}"
        case _:
            where = f"axis {step.axis} of {shown}" if step.names else "every axis"
            return f"{where} of size {step.old} has size {step.size}"
