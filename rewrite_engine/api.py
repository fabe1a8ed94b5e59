"""What Python users call: load rules and a model, place, explain, compile. Options of commands are keywords.

What only some of the functions need is imported by them: it takes a third of the time in which a model is placed.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rewrite_engine.backend.packing import Planner, pack
from rewrite_engine.diagnostics import RewriteError
from rewrite_engine.files import SOURCE
from rewrite_engine.graph import Module, load, to_terms
from rewrite_engine.graph.onnx_io import model_bytes
from rewrite_engine.graph.placed_io import write_placed
from rewrite_engine.language import RuleSet
from rewrite_engine.language import load as _load_rules
from rewrite_engine.language.capabilities import Capability, MatchedNode, supports, with_capabilities
from rewrite_engine.language.predicates import Predicate
from rewrite_engine.placement.place import Placement, open_sizes, without_rank
from rewrite_engine.placement.place import place as _place
from rewrite_engine.placement.report import MemoryUse, dump, placement_json, search_json
from rewrite_engine.placement.reuse import read_placement

if TYPE_CHECKING:
    from rewrite_engine.backend.bundle import Bundle
    from rewrite_engine.backend.codegen import CodeGenerator
    from rewrite_engine.backend.sharing import Sharing
    from rewrite_engine.placement.explain_story import Explanation
    from rewrite_engine.placement.match import Matches
    from rewrite_engine.placement.what_if import WhatIf

__all__ = ["Bundle", "CodeGenerator", "Explanation", "MatchedNode", "Matches", "Module", "Placement", "RuleSet",
           "compile", "explain", "load", "load_rules", "match", "place", "report", "reuse", "supports",
           "with_capabilities"]  # fmt: skip

_HOMES = {
    "Bundle": "rewrite_engine.backend.bundle",
    "CodeGenerator": "rewrite_engine.backend.codegen",
    "Explanation": "rewrite_engine.placement.explain_story",
    "Matches": "rewrite_engine.placement.match",
}


def __getattr__(name: str) -> object:
    """Types of results are imported on first use."""
    if name not in _HOMES:
        raise AttributeError(f"module `rewrite_engine.api` has no attribute `{name}`")
    return getattr(import_module(_HOMES[name]), name)


def load_rules(
    *paths: str | Path,
    settings: Mapping[str, str] | None = None,
    predicates: Mapping[str, Predicate] | None = None,
    capabilities: Sequence[Capability] = (),
) -> RuleSet:
    """The rules of one or more `.pat` files; a bare name is looked up in the bundled patterns.

    `settings` are those of `--set`. `predicates` are Python functions that guards may call by name, `capabilities` are
    functions marked with `supports`. Raises PatError with every problem of all files.
    """
    rules = _load_rules(paths, settings=settings or {}, predicates=predicates or {})
    return with_capabilities(rules, capabilities) if capabilities else rules


def place(module: Module, rules: RuleSet, **options: Any) -> Placement:
    """Places a module; options as in `rewrite_engine.placement.place.place`."""
    started = time.perf_counter()
    terms = to_terms(module)
    seconds = time.perf_counter() - started
    placement = _place(terms, rules, name=module.source.name, **options)
    return replace(placement, seconds={**placement.seconds, "encode": placement.seconds["encode"] + seconds})


def match(module: Module, rules: RuleSet, **options: Any) -> Matches:
    """Every match of every rule, pattern, composite and `supports` in a module, with operators and captures.

    Of the options of `place`, `targets` and `allow` make a difference; nothing is placed. `str()` of the result is what
    the command prints. Raises RewriteError for an unknown target or kind of rewrite.
    """
    from rewrite_engine.placement.match import match

    return match(to_terms(module), rules, **options)


def explain(module: Module, rules: RuleSet, *, node: str | None = None, **options: Any) -> Explanation:
    """Why each operator of a module runs where it does, and what keeps it off other targets.

    `node` is the name of an operator's result: that operator is explained in depth. Other options are those of `place`.
    `str()` of the result is what the command prints. Raises RewriteError as `place` does, and for an unknown name.
    """
    from rewrite_engine.placement.explain import explain

    return explain(to_terms(module), rules, node=node, name=module.source.name, **options)


def what_if(module: Module, rules: RuleSet, **options: Any) -> WhatIf:
    """What faster links, smaller launches or more memory would save of the cost of a module's best placement.

    Options are those of `place`; `str()` of the result is the table that `place --what-if` prints. Raises RewriteError
    as `place` does, and for a strategy other than `optimal`.
    """
    from rewrite_engine.placement.what_if import what_if

    return what_if(to_terms(module), rules, **options)[1]


def reuse(module: Module, rules: RuleSet, path: str | Path, **options: Any) -> Placement:
    """The placement that a placement.json says, edited or not: its kernels and regions, at the costs of today.

    `options` are those of `place`, but for `strategy`. Raises RewriteError for a file that is none, one of another
    model, and for what the rules do not allow; a rule file that has changed since is a warning.
    """
    file = read_placement(path)
    file.check_model(module.source.name, module.source.sha256)
    placement = place(module, rules, strategy=file, **options)
    changed = file.changed_rules(placement.rules)
    if changed:
        message = f"{path} was made with other versions of {', '.join(changed)}; its kernels are costed anew"
        placement = replace(placement, warnings=(*placement.warnings, message))
    return placement


def report(
    module: Module,
    placement: Placement,
    planner: Planner = pack,
    *,
    rules: RuleSet | None = None,
    sharing: Mapping[str, Sharing] | None = None,
    pinned: Sequence[str] = (),
) -> dict[str, bytes]:
    """placement.json, search.json and the placed model.onnx, by file name; `planner` lays out the arenas.

    `sharing` says which kernels may share bytes with their operands, by name; without it, that is found out, where
    operators are declared with the help of `rules`. Raises RewriteError where a device's memory is too small; where
    sizes follow from the data, no memory is planned.
    """
    from rewrite_engine.backend.memory import plan
    from rewrite_engine.passes.stages import sharing as sharing_by_lowering

    capacities = {device.name: device.memory for device in placement.machine.devices}
    memory: dict[str, MemoryUse] = {}
    if not open_sizes(placement.graph, placement.machine):
        if sharing is None:
            sharing = sharing_by_lowering(placement.graph, rules.meanings if rules is not None else {})
        used = plan(placement.graph, capacities, planner, sharing=sharing, pinned=pinned)
        memory = {use.device: MemoryUse(capacities.get(use.device), use.weights, use.peak) for use in used.devices}
    model = {"name": module.source.name, "sha256": module.source.sha256, "nodes": module.source.nodes}
    return {
        "placement.json": dump(placement_json(placement, model, memory)),
        "search.json": dump(search_json(placement)),
        "model.onnx": model_bytes(write_placed(placement.graph)),
    }


def files_of(module: Module, placement: Placement, planner: Planner = pack, **options: Any) -> dict[str, bytes]:
    """What a bundle holds beside what is needed to run: the report and the model as it was given."""
    return {**report(module, placement, planner, **options), SOURCE: module.source.original}


def compile(
    module: Module,
    rules: RuleSet,
    *,
    placement: Placement | str | Path | None = None,
    targets: Sequence[str] | Mapping[str, object] = (),
    planner: Planner = pack,
    engine: str = "auto",
    abi: str = "ffi",
    standalone: bool = False,
    pinned: Sequence[str] = (),
    **options: Any,
) -> Bundle:
    """The bundle of a module: placed with `options` (or as `placement` says), lowered, planned and verified.

    `placement` is one that `place` made, or the path of a placement.json, which may be an edited one, see `reuse`.

    `targets` names the targets that may be used, as in `place`; or it maps a target to its code generator (or to the
    name of an installed one), and "host" to the options of its C compiler: {"cc", "cpu", "triple"}. Kernels of targets
    without a code generator run as loop nests. `planner` lays out the arenas, see `backend.packing.Planner`. `engine`
    is "auto" (loop nests are compiled from C where there is a compiler), "c" (there must be one) or "numpy" (no C).
    `abi` is how other programs call the library's kernels, "ffi" or "packed", see `backend.abi`.
    `standalone` adds a C program that runs the whole model, see `Bundle.with_standalone`. `pinned` names values of the
    placed model whose bytes nothing overwrites until the end of a run.
    """
    from rewrite_engine.backend.bundle import build
    from rewrite_engine.backend.codegen import generate, read_targets
    from rewrite_engine.backend.sharing import sharing_of
    from rewrite_engine.passes.stages import programs
    from rewrite_engine.placement.bodies import with_bodies

    given = targets if isinstance(targets, Mapping) else {}
    chosen = () if given else tuple(targets)
    if placement is None:
        placement = place(module, rules, targets=chosen, **options)
    elif not isinstance(placement, Placement):
        placement = reuse(module, rules, placement, targets=chosen, **options)
    known = read_targets(given, [target.name for target in placement.machine.targets])
    for value in open_sizes(placement.graph, placement.machine)[:1]:
        if mend := without_rank(placement.graph):
            raise RewriteError(f"a bundle needs every size before it runs, and {mend}")
        raise RewriteError(
            f"`{value}` is {placement.graph.types[value]}: its size follows from the data, so that no --dim binds it, "
            f"and a bundle needs every size before it runs; `place` and `explain` take the model, and `compile` one "
            f"that is cut before `{value}`"
        )
    made = generate(placement.graph, known.generators)
    lowered = programs(with_bodies(placement.graph, rules.meanings), made)
    sharing = {name: sharing_of(program) for name, program in lowered.items()}
    bundle = build(
        placement.graph,
        lowered,
        {device.name: device.memory for device in placement.machine.devices},
        files_of(module, placement, planner, sharing=sharing, pinned=pinned),
        artifacts=made,
        generators=tuple(known.generators.values()),
        host_options=known.host,
        planner=planner,
        pinned=pinned,
    )
    bundle = bundle.with_c(engine, abi)
    return bundle.with_standalone(engine) if standalone else bundle
