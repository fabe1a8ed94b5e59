"""One dynamic model at several sizes: every combination placed and compiled, as one `Bindings`.

In: a model, rules, sizes by dimension. Out: a bundle per combination, in order: the last dimension changes fastest.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from rewrite_engine.backend.bindings import Bindings
from rewrite_engine.backend.bindings_json import dims_text
from rewrite_engine.diagnostics import PatError, RewriteError

if TYPE_CHECKING:
    from rewrite_engine.api import Bundle, Module, Placement, RuleSet
    from rewrite_engine.graph.onnx_file import Source

MOST = 64
"""Combinations in one bundle."""

Sizes = Mapping[str, int | Sequence[int]]
"""One size of a dimension, or several."""


def combinations(sizes: Sizes) -> list[dict[str, int]]:
    """Every choice of a size for each dimension.

    Raises RewriteError where there are more than MOST, a dimension has no size, or one twice.
    """
    several = {name: (given,) if isinstance(given, int) else tuple(given) for name, given in sizes.items()}
    count = 1
    for name, choices in several.items():
        if not choices:
            raise RewriteError(f"dimension `{name}`: expected at least one size, found none")
        twice = next((size for size in choices if choices.count(size) > 1), None)
        if twice is not None:
            raise RewriteError(f"dimension `{name}`: the size {twice} is given twice; leave one out")
        count *= len(choices)
    if count > MOST:
        counts = " times ".join(f"{len(choices)} of `{name}`" for name, choices in several.items() if len(choices) > 1)
        raise RewriteError(f"{count} bindings ({counts}): a bundle holds at most {MOST}; give fewer sizes")
    return [dict(zip(several, chosen, strict=True)) for chosen in itertools.product(*several.values())]


def each_binding(
    source: Source,
    rules: RuleSet,
    sizes: Sizes,
    placing: Mapping[str, Any],
    compiling: Mapping[str, Any],
    values: Mapping[str, object] | None = None,
) -> Iterator[tuple[dict[str, int], Module, Placement, Bundle]]:
    """Each combination, compiled when its turn comes: sizes, module, placement, bundle.

    `placing` and `compiling` are the options of `api.place` and `api.compile`, `values` those of `api.load`.
    Raises RewriteError as these do, with the binding that it happened in.
    """
    from rewrite_engine import api

    first: Module | None = None
    for dims in combinations(sizes):
        try:
            module = api.load(source, dims=dims, values=values)
            if first is not None and module.source.sha256 != first.source.sha256:
                raise RewriteError(f"{module.source.name} has changed since the first binding was compiled")
            first = first or module
            module = replace(module, source=first.source)  # the bytes of the model are held once
            placement = api.place(module, rules, **placing)
            bundle = api.compile(module, rules, placement=placement, **compiling)
        except PatError:
            raise  # its positions say where
        except RewriteError as error:
            error.args = (f"binding {dims_text(dims)}: {error}",)
            raise
        yield dims, module, placement, bundle


def compile_bindings(
    source: Source, rules: RuleSet, dims: Sizes, *, values: Mapping[str, object] | None = None, **options: Any
) -> Bindings:
    """The bundles of a model at several sizes: `dims={"batch": (1, 4, 16), "seq": (16, 128)}` are six of them.

    `source` is what `load` takes, and so is `values`. `options` are those of `compile`, but for `placement`. `run`
    picks the binding whose input shapes are those given; `save` writes one folder, which `Bundle.open` opens. Raises
    RewriteError as `load` and `compile` do, and for more than 64 combinations.
    """
    if not dims:
        raise RewriteError("dims: expected at least one dimension with its sizes, found none; `compile` takes a model")
    if "placement" in options:
        raise RewriteError("a placement is that of one binding: leave it out, or compile that binding alone")
    shared = {"targets": options.pop("targets", ())}
    names = ("planner", "engine", "abi", "standalone", "pinned")
    compiling = {**shared, **{name: options.pop(name) for name in names if name in options}}
    placing = {**options, **({} if isinstance(shared["targets"], Mapping) else shared)}
    found = each_binding(source, rules, dims, placing, compiling, values)
    return Bindings.of((sizes, bundle) for sizes, _, _, bundle in found)
