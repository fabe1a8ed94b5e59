"""`place` and `compile`."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from rewrite_engine import api
from rewrite_engine.backend.memory import MemoryPlan
from rewrite_engine.cli.summary import summary
from rewrite_engine.cli.text import say
from rewrite_engine.cli.values import input_values, pairs, single_sizes
from rewrite_engine.diagnostics import RewriteError
from rewrite_engine.egraph.export import to_json, to_mps
from rewrite_engine.egraph.freeze import Explored
from rewrite_engine.egraph.problem import Solution
from rewrite_engine.files import check_writable, write_file, write_folder
from rewrite_engine.placement.compare import compare_file
from rewrite_engine.placement.place import Placement


def place(options: argparse.Namespace) -> int:
    """Places a model; prints the summary, or what changed since another placement; writes the files where asked."""
    if options.what_if:
        from rewrite_engine.cli.what_if import place_what_if

        return place_what_if(options)
    if options.output:
        check_writable(options.output)
    module, placement, rules = _placed(options)
    files = api.report(module, placement, rules=rules)
    found = compare_file(options.compare, json.loads(files["placement.json"])) if options.compare else None
    if options.output:
        write_folder(Path(options.output), files)
    if found is None:
        _show(options, placement, files["placement.json"])
    elif options.json:
        print(json.dumps(found.to_json(), indent=1, sort_keys=True, ensure_ascii=False))
    else:
        print("\n".join(found.lines()))
    return 0


def compile_(options: argparse.Namespace) -> int:
    """Places and lowers a model and writes its bundle; one bundle for each choice of sizes, where there are several."""
    check_writable(options.output)
    if any("," in text for text in options.dim):
        from rewrite_engine.cli.bindings import compile_bindings

        return compile_bindings(options)
    module, placement, rules = _placed(options)
    started = time.perf_counter()
    bundle = api.compile(module, rules, placement=placement, **compile_options(options))
    bundle.save(options.output)
    say(options, f"lowered and saved in {time.perf_counter() - started:.2f} s")
    warn_without_c(options, bundle)
    _show(options, placement, bundle.extra_files["placement.json"])
    if not options.json:
        print(f"bundle     {options.output}")
        print(f"library    {library_line(bundle)}")
        print("\n".join(memory_lines(bundle.plan)))
    return 0


def _placed(options: argparse.Namespace) -> tuple[api.Module, Placement, api.RuleSet]:
    rules = load_rules(options)
    started = time.perf_counter()
    module = load_model(options)
    imported = time.perf_counter() - started
    chosen = place_options(options)
    if options.placement:
        if chosen.pop("strategy") != "optimal":
            raise RewriteError(f"--placement says where everything runs: leave out --strategy {options.strategy}")
        placement = api.reuse(module, rules, options.placement, **chosen)
    else:
        written = getattr(options, "problem", None)
        if written:
            chosen["observe"] = _problem_writer(Path(written))
        placement = api.place(module, rules, **chosen)
    for warning in placement.warnings:
        say(options, f"warning: {warning}")
    return module, replace(placement, seconds={"import": imported, **placement.seconds}), rules


def _problem_writer(path: Path) -> Callable[[Explored, Solution], None]:
    """Writes the placement problem for other solvers, in the form that the file's name says."""
    forms = {".json": to_json, ".mps": to_mps}
    form = forms.get(path.suffix)
    if form is None:
        raise RewriteError(f"--problem: expected a file that ends in .json or .mps, found `{path}`")
    return lambda explored, solution: write_file(path, form(explored.problem).encode())


def load_model(options: argparse.Namespace) -> api.Module:
    """The model of a command, its dimensions bound."""
    return api.load(options.model, dims=single_sizes(options.dim), values=input_values(options.value))


def place_options(options: argparse.Namespace) -> dict[str, Any]:
    """The keywords of `api.place` that the options of a command say."""
    return {
        "strategy": options.strategy,
        "objective": options.objective,
        "targets": _names(options.targets or ""),
        "mapping": pairs("--map", options.map),
        "fallback": options.fallback,
        "pins": pairs("--pin", options.pin),
        "allow": _names(options.allow),
        "time_limit": options.time_limit,
        "gap": options.gap,
        "seed": options.seed,
        **({"costs": options.costs} if options.costs else {}),
    }


def compile_options(options: argparse.Namespace) -> dict[str, Any]:
    """The keywords of `api.compile`, beside the placement, that the options of `compile` say."""
    return {
        "targets": {"host": _host(options.host)} if options.host else (),
        "engine": options.engine,
        "abi": options.abi,
        "standalone": options.standalone,
    }


def warn_without_c(options: argparse.Namespace, bundle: api.Bundle) -> None:
    """A warning where kernels are not compiled and nobody asked for that."""
    if bundle.library is None and options.engine == "auto":
        say(options, "warning: no C compiler was found: kernels run in NumPy; install gcc or clang, or set CC")


def load_rules(options: argparse.Namespace) -> api.RuleSet:
    """The rules of a command; their warnings go to stderr."""
    rules = api.load_rules(*options.patterns, settings=pairs("--set", options.set))
    for warning in rules.warnings:
        say(options, warning)
    return rules


def _show(options: argparse.Namespace, placement: Placement, report: bytes) -> None:
    if options.json:
        sys.stdout.write(report.decode())
    else:
        print(summary(placement))
    if options.verbose:
        say(options, json.dumps({k: round(v, 3) for k, v in placement.seconds.items()}))


def library_line(bundle: api.Bundle) -> str:
    """What was compiled, by what."""
    if bundle.c_kernels is None:
        return "none: kernels run in NumPy"
    count = f"{len(bundle.c_kernels.kernels)} of {len(bundle.functions)} functions in C"
    library = bundle.library
    return f"{count}, not compiled" if library is None else f"{count}, by {library.version} for {library.triple}"


def memory_lines(plan: MemoryPlan) -> list[str]:
    """Per device: the arena beside the least that any could have, and what else is there; then what shares bytes."""
    lines = []
    for use in plan.devices:
        gap = (use.arena - use.lower_bound) / use.arena if use.arena else 0.0
        lines.append(
            f"  {use.device:<16} arena {use.arena} bytes, at least {use.lower_bound} (gap {gap:.2%}); "
            f"inputs and outputs {use.inputs_outputs}, weights {use.weights}"
        )
    shared = sum(storage.root != storage.value for storage in plan.storages)
    return [f"memory     {len(plan.storages)} values, {shared} in the bytes of another", *lines]


def _host(text: str) -> dict[str, str]:
    """`cc=…,cpu=…`: commas separate options, so that a command may hold spaces."""
    return pairs("--host", _names(text))


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())
