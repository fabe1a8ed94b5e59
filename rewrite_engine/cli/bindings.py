"""`compile` with several sizes of a dimension: a bundle for each combination, in one folder."""

from __future__ import annotations

import argparse
import json
import time
from collections import Counter
from collections.abc import Iterator

from rewrite_engine import api
from rewrite_engine.backend.bindings import save_bindings
from rewrite_engine.backend.bindings_json import dims_text
from rewrite_engine.bindings import combinations, each_binding
from rewrite_engine.cli.place import compile_options, library_line, load_rules, place_options, warn_without_c
from rewrite_engine.cli.summary import amount
from rewrite_engine.cli.text import counted, say
from rewrite_engine.cli.values import dim_sizes, input_values
from rewrite_engine.diagnostics import RewriteError
from rewrite_engine.graph.placed import CopyCall, KernelCall
from rewrite_engine.placement.place import Placement


def compile_bindings(options: argparse.Namespace) -> int:
    """Writes a bundle for each choice of sizes; a line for each of them, as JSON its placement.json."""
    if options.placement:
        raise RewriteError("--placement is of one binding: give one size for each --dim, or leave it out")
    sizes = dim_sizes(options.dim)
    chosen = combinations(sizes)
    rules = load_rules(options)
    reports: list[dict[str, object]] = []
    lines: list[str] = []
    libraries: Counter[str] = Counter()

    def bundles() -> Iterator[tuple[dict[str, int], api.Bundle]]:
        warned: set[str] = set()
        started = time.perf_counter()
        for dims, _, placement, bundle in each_binding(
            options.model, rules, sizes, place_options(options), compile_options(options), input_values(options.value)
        ):
            say(options, f"{dims_text(dims)}: placed and compiled in {time.perf_counter() - started:.2f} s")
            for warning in placement.warnings:
                if warning not in warned:
                    warned.add(warning)
                    say(options, f"warning: {warning}")
            if not lines:
                warn_without_c(options, bundle)
            if options.json:
                reports.append({"dims": dims, "placement": json.loads(bundle.extra_files["placement.json"])})
            lines.append(_line(dims, placement))
            libraries[library_line(bundle)] += 1
            yield dims, bundle
            started = time.perf_counter()

    rows = save_bindings(options.output, bundles())
    if options.json:
        result = [{**report, "folder": row.folder} for report, row in zip(reports, rows, strict=True)]
        print(json.dumps({"bindings": result}, indent=1, sort_keys=True, ensure_ascii=False))
        return 0
    print(f"bindings   {len(chosen)}: " + "; ".join(f"{name} {_several(several)}" for name, several in sizes.items()))
    print("\n".join(lines))
    print(f"bundle     {options.output}")
    for library, count in libraries.items():
        print(f"library    {library} ({counted(count, 'binding')})")
    return 0


def _line(dims: dict[str, int], placement: Placement) -> str:
    """One binding in a line."""
    calls = [step for step in placement.graph.steps if isinstance(step, KernelCall)]
    copies = sum(isinstance(step, CopyCall) for step in placement.graph.steps)
    regions = len({(call.target, call.region) for call in calls})
    cost = amount(placement.costs.total, placement.unit)
    return (
        f"  {dims_text(dims)}: cost {cost}, {placement.status}, gap {placement.gap:.2%}; "
        f"kernels {len(calls)}, regions {regions}, copies {copies}"
    )


def _several(sizes: tuple[int, ...]) -> str:
    return ", ".join(map(str, sizes))
