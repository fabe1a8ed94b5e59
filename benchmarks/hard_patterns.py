"""The hardest public patterns as rule files say them: lines of each, and its tests that fire and that must not.

    python benchmarks/hard_patterns.py

Lines are those of the declarations and the patterns of the same file that they use, without comments. Tests are those
that name one of the declarations, or build what a rule of them builds; each is run.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass

from rewrite_engine.language import load, syntax
from rewrite_engine.language.core import RuleSet
from rewrite_engine.language.walk import walk
from rewrite_engine.resources import patterns_root
from rewrite_engine.testing.in_file import run_file

HARD: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("attention, scale in three places, mask, NaN guard", "sdpa", ("sdpa", "fuse_sdpa", "fuse_sdpa_guarded")),
    ("grouped-query attention, with a past or not", "grouped_query", ("gqa", "gqa_past", "fuse_gqa")),
    ("skip layer norm, the sum as a second output", "skip_norm", ("skip_norm",)),
    ("rotary embedding, one cache for both", "rotary", ("rotary_shared", "fuse_rotary", "fuse_rotary_cache")),
    ("partial rotary embedding", "rotary", ("rotary_partial", "fuse_rotary_partial")),
    ("batch norm into Conv", "batch_norm", ("bn_into_conv",)),
    ("batch norm into ConvTranspose", "batch_norm", ("bn_into_conv_transpose",)),
    ("batch norm into Gemm", "batch_norm", ("bn_into_gemm",)),
    ("pad into Conv", "conv", ("pad_into_conv", "pad_axes_into_conv")),
    ("two Slices into a Split", "split", ("in_two", "slices_into_split")),
    ("QDQ Conv", "qdq_conv", ("qdq_conv",)),
    ("QDQ weight-only MatMul by block", "qdq_weights", ("block_matmul",)),
    ("softmax for two quantisations", "qdq_softmax", ("qdq_softmax",)),
    ("residual that does not depend on the conv", "conv_tail", ("conv_residual",)),
    ("conv chain with four optional steps", "conv_tail", ("conv_steps", "conv_stages")),
    ("layer norm in seven spellings", "layer_norm", ("layer_normalised", "fuse_layer_norm", "fuse_standardised")),
    ("GELU in five spellings", "gelu", ("gelu", "fuse_gelu_erf", "fuse_gelu_tanh", "gelu_for_sigmoid")),
)
"""What is asked for, the file that says it and the declarations that answer it."""


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table; `ways` counts the alternatives that the declarations stand for."""

    title: str
    file: str
    lines: int
    ways: int
    fire: int
    refuse: int


def row(title: str, file: str, names: tuple[str, ...]) -> Row:
    """Counts one pattern's lines, alternatives and tests. Raises KeyError for a declaration that is not there."""
    rules = load([patterns_root() / f"std/{file}.pat"])
    own = {d.name: d for d in _declarations(rules, file)}
    used = _used(own, names)
    text, _ = rules.sources[own[names[0]].span.file]
    source = text.splitlines()
    lines = {
        number
        for name in used
        for number in range(own[name].span.line, own[name].span.end_line + 1)
        if source[number - 1].split("#")[0].strip()
    }
    rewrites = [d for name in sorted(used) if isinstance(d := own[name], syntax.RuleDecl)]
    fire = refuse = 0
    for case in rules.tests:
        test = case.declaration
        assert isinstance(test, syntax.TestDecl)
        if case.file != own[names[0]].span.file:
            continue
        if test.verdict == "is" and test.pattern is not None:
            fire += bool(_called(test.pattern) & used)
        elif test.verdict == "is not":
            refuse += test.name in used
        elif test.verdict == "becomes":
            built = [rule for rule in rewrites if _root(rule.right) == _root(test.result, test.where)]
            fire += any(_operators(rule.left, rule.tail) <= _operators(test.subject, test.where) for rule in built)
        elif test.verdict == "place":
            wanted = [operators for rule in rewrites if (operators := _operators(rule.left, rule.tail))]
            refuse += any(operators <= _operators(test.subject, test.where) for operators in wanted)
    ways = sum(len(rule.variants) for rule in rules.rules if rule.name in names)
    return Row(title, file, len(lines), ways, fire, refuse)


def _declarations(rules: RuleSet, file: str) -> list[syntax.PatternDecl | syntax.RuleDecl]:
    items = next(f for f in rules.scope.files if f.path.endswith(f"std/{file}.pat")).items  # type: ignore[attr-defined]
    return [item for item in items if isinstance(item, syntax.PatternDecl | syntax.RuleDecl)]


def _used(own: dict[str, syntax.PatternDecl | syntax.RuleDecl], names: tuple[str, ...]) -> set[str]:
    """The declarations, and the patterns of the same file that they call."""
    found, pending = set(), list(names)
    while pending:
        name = pending.pop()
        if name not in found:
            found.add(name)
            pending += sorted(_called(own[name]) & set(own))
    return found


def _called(*roots: object) -> set[str]:
    """The operators and patterns that are called, or that stand by their name alone after `is`."""
    calls = (node.names for node in walk(roots) if isinstance(node, syntax.CallPattern))
    bare = {root.name for root in roots if isinstance(root, syntax.ValuePattern)}
    return {name for names in calls for name in names} | bare


def _operators(*roots: object) -> set[str]:
    return {name for name in _called(*roots) if name[0].isupper()}


def _root(expr: syntax.Expr | None, where: tuple[syntax.Binding, ...] = ()) -> str | None:
    """The operator that is built last, of several results for the first one; names stand for what `where` binds."""
    match expr:
        case syntax.TupleExpr():
            return _root(expr.items[0], where)
        case syntax.Index():
            return _root(expr.base, where)
        case syntax.Name():
            bound = [binding.pattern for binding in where if expr.name in binding.names]
            return bound[0].names[0] if bound and isinstance(bound[0], syntax.CallPattern) else None
        case syntax.Call(function=syntax.Name() as function):
            return function.name
        case _:
            return None


def main() -> int:
    """Prints the table; 1 where a test of one of the files fails."""
    print(f"{'pattern':<52} {'file':<14} {'lines':>5} {'ways':>5} {'fire':>5} {'must not':>8}")
    for found in (row(*entry) for entry in HARD):
        print(f"{found.title:<52} {found.file:<14} {found.lines:>5} {found.ways:>5} {found.fire:>5} {found.refuse:>8}")
    files = sorted({file for _, file, _ in HARD})
    results = [result for file in files for result in run_file(patterns_root() / f"std/{file}.pat")]
    failed = [result for result in results if not result.passed]
    print(f"{len(results)} tests in {len(files)} files, {len(failed)} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
