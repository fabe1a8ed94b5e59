"""What the classic passes share: the rules and the machine to work with, and the checks of a module's stage."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from rewrite_engine.diagnostics import RewriteError
from rewrite_engine.graph import Module
from rewrite_engine.graph.annotated_io import HOST, Annotated, read_annotated, write_annotated
from rewrite_engine.language.core import RuleSet
from rewrite_engine.machine import Machine, build
from rewrite_engine.passes.base import PassError


def rules_for(module: Module, rules: RuleSet | None, name: str) -> RuleSet:
    """The rules given to a pass, else those that an earlier pass was given. Raises PassError when there are none."""
    if rules is None and isinstance(module.rules, RuleSet):
        return module.rules
    if rules is None:
        raise PassError(f"{name}: nothing says what targets can run; pass `rules`, or run MergeComposite(rules) first")
    return rules


def machine_for(module: Module, given: RuleSet | Machine | None, name: str) -> Machine:
    """The machine given to a pass, by itself or by its rules, else the module's. Raises PassError without one."""
    if isinstance(given, Machine):
        return given
    if given is not None:
        return build(given)
    if isinstance(module.machine, Machine):
        return module.machine
    if isinstance(module.rules, RuleSet):
        return build(module.rules)
    raise PassError(f"{name}: the module has no machine; give the pass the rules that describe it")


def restricted(machine: Machine, targets: Sequence[str] | None, kept: Annotated, name: str) -> Machine:
    """The machine with these targets (None: all) and those that the module's kernels run on."""
    if targets is None:
        return machine
    used = [call.target for call in kept.kernels if call.target]
    try:
        return machine.restrict(list(dict.fromkeys([*targets, *used])))
    except RewriteError as error:
        raise PassError(f"{name}: {error}") from error


def not_lowered(module: Module, name: str) -> None:
    """Raises PassError for a module with lowered kernels: they would be of a graph that is no longer there."""
    if module.lowered or module.memory is not None:
        raise PassError(f"{name}: the module has lowered kernels or a memory plan already; run it before LowerLoops")


def all_decided(module: Module, name: str, step: str) -> Annotated:
    """What the module says; raises PassError when an operator has no target yet. `step` is what to run first."""
    annotated = read_annotated(module.model)
    for call in annotated.undecided:
        op = call.rule or call.body[0].op
        raise PassError(f"{name}: no target is chosen for {op} (`{call.outputs[0]}`); run {step} first")
    return annotated


def written(
    module: Module, annotated: Annotated, machine: Machine | None = None, rules: RuleSet | None = None
) -> Module:
    """A module like the given one of another graph, with the machine and rules where they are given."""
    return replace(
        module,
        model=write_annotated(annotated),
        machine=machine if machine is not None else module.machine,
        rules=rules if rules is not None else module.rules,
    )


def taken_names(annotated: Annotated) -> Iterable[str]:
    """Every name in the graph: of values, kernels and regions, those inside composites included."""
    yield from annotated.graph.types
    yield from annotated.graph.output_names
    for call in annotated.kernels:
        yield from (call.name, call.region, *call.inner_types)


__all__ = ["HOST", "all_decided", "machine_for", "not_lowered", "restricted", "rules_for", "taken_names", "written"]
