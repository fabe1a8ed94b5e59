"""Memory plans and builds, per model and device, as Markdown tables: `python benchmarks/bundle.py [MODEL...] [--wide]`.

The first table is the arena of each device against the peak of live bytes, which no arena can beat: with views and
results in place, and without. The second is wall-clock seconds: placing, lowering and planning, and building the C
library with an empty cache and again with a full one. Models are those of tests/models.py (default: the main six;
--wide adds the others that are there); every model is placed by --patterns, and a second time wholly on the host.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

import models

import rewrite_engine as rw
from rewrite_engine import api
from rewrite_engine.backend.bundle import Bundle
from rewrite_engine.backend.memory import DeviceUse, MemoryPlan, plan
from rewrite_engine.passes.stages import sharing as sharing_of_graph

PLANNINGS = 5
Times = dict[str, float]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="*", metavar="MODEL", help="names in tests/models.py (default: the main six)")
    parser.add_argument("--wide", action="store_true", help="all models of tests/models.py that are there")
    parser.add_argument("--patterns", default="board.pat", metavar="FILE,FILE", help="the rule files")
    parser.add_argument("--no-build", action="store_true", help="leave out the C library")
    options = parser.parse_args()
    names = options.models or [*models.MAIN_MODELS, *(models.WIDE_MODELS if options.wide else ())]
    memory, seconds = [], []
    for name in names:
        path, reason = models.locate_model(name)
        if not path.exists():
            print(f"{name} skipped: {reason}", file=sys.stderr)
            continue
        try:
            for where, targets in (("", ()), (" on the host", ("host",))):
                bundle, apart, times = measured(name, options.patterns.split(","), targets, not options.no_build)
                memory += memory_rows(name + where, bundle.plan, apart)
                seconds.append((name + where, times))
        except rw.RewriteError as error:
            print(f"{name} failed: {error}", file=sys.stderr)
            continue
        except KeyboardInterrupt:
            print("interrupted: what is measured follows", file=sys.stderr)
            break
        print(f"{name} measured", file=sys.stderr)
    if not any(models.locate_model(name)[0].exists() for name in names):
        return 2
    print(memory_table(memory))
    print()
    print(time_table(seconds))
    return 0


def measured(name: str, patterns: list[str], targets: tuple[str, ...], build: bool) -> tuple[Bundle, MemoryPlan, Times]:
    """The bundle of a model, its plan if nothing shared bytes, and the seconds of each stage."""
    rules = api.load_rules(*patterns)
    module = api.load(models.get_model(name), dims=models.MODELS[name])
    times: Times = {}
    started = time.perf_counter()
    placement = api.place(module, rules, targets=targets)
    times["place"] = time.perf_counter() - started
    started = time.perf_counter()
    bundle = api.compile(module, rules, placement=placement, engine="numpy")
    times["lower, plan, verify"] = time.perf_counter() - started
    sharing = sharing_of_graph(placement.graph, rules.meanings)
    rounds = []
    for _ in range(PLANNINGS):
        started = time.perf_counter()
        plan(placement.graph, {}, sharing=sharing)
        rounds.append(time.perf_counter() - started)
    times["plan"] = statistics.median(rounds)
    if build:
        with tempfile.TemporaryDirectory() as cache:
            os.environ["REWRITE_ENGINE_CACHE"] = cache
            for key in ("build, cold", "build, cached"):
                started = time.perf_counter()
                replace(bundle).with_c("c")
                times[key] = time.perf_counter() - started
    return bundle, plan(placement.graph, {}), times


def memory_rows(name: str, shared: MemoryPlan, apart: MemoryPlan) -> list[list[str]]:
    """A row per device that has intermediates."""
    rows = []
    for use in shared.devices:
        other = apart.by_device()[use.device]
        here = [storage for storage in shared.storages if storage.device == use.device]
        count = sum(storage.kind == "intermediate" for storage in here)
        if count:
            sharers = sum(storage.root != storage.value for storage in here)
            rows.append([
                name, use.device, str(count), str(sharers), f"{use.arena:,}", f"{use.lower_bound:,}", gap(use),
                f"{other.arena:,}", gap(other), f"{use.pooled:,}",
            ])  # fmt: skip
    return rows


def gap(use: DeviceUse) -> str:
    return f"{(use.arena - use.lower_bound) / use.lower_bound:.2%}" if use.lower_bound else "0.00%"


def memory_table(rows: list[list[str]]) -> str:
    head = ["model", "device", "values", "sharing", "arena", "lower bound", "gap", "arena apart", "gap apart", "pools"]
    return markdown(head, rows)


def time_table(rows: list[tuple[str, Times]]) -> str:
    keys = list(dict.fromkeys(key for _, times in rows for key in times))
    return markdown(["seconds", *keys], [[name, *(f"{times[k]:.3f}" for k in keys)] for name, times in rows])


def markdown(head: list[str], rows: list[list[str]]) -> str:
    widths = [max(len(row[k]) for row in [head, *rows]) for k in range(len(head))]
    lines = [head, ["-" * width for width in widths], *rows]
    return "\n".join("| " + " | ".join(f"{c:<{w}}" for c, w in zip(row, widths, strict=True)) + " |" for row in lines)


if __name__ == "__main__":
    sys.exit(main())
