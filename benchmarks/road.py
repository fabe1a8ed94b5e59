"""The whole road per model, from the .onnx file to a checked run, as a Markdown table.

    python benchmarks/road.py [--models mobilenetv2.legacy,bert12.legacy] [--patterns npu.pat,fastlib.pat]

Each model runs in a process of its own, so that nothing is warm; times are wall-clock seconds on one thread. `to
placement` is the sum from reading rules and model to the proven placement, the import of every library included.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from isolated import isolated

ROOT = Path(__file__).resolve().parent.parent
TO_PLACEMENT = ("start", "rules", "import", "encode", "saturate", "extract", "rebuild")
STAGES = (*TO_PLACEMENT, "lower", "save", "run")
"""`start` imports what placing needs, `lower` the rest; `import` reads the model; `run` is one execution in NumPy."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", metavar="A,B", help="names in tests/models.py, or `wide` (default: the main six)")
    parser.add_argument("--patterns", default="npu.pat,fastlib.pat", metavar="FILE,FILE", help="the rule files")
    parser.add_argument("--one", metavar="MODEL", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(measure(options.one, options.patterns.split(","))))
        return 0
    sys.path.insert(0, str(ROOT / "tests"))
    from models import MAIN_MODELS, MODELS, WIDE_MODELS, locate_model

    asked = options.models.split(",") if options.models else list(MAIN_MODELS)
    names = [name for word in asked for name in (WIDE_MODELS if word == "wide" else [word])]
    if unknown := [name for name in names if name not in MODELS]:
        parser.error(f"--models: {', '.join(unknown)}: not in tests/models.py; known: {', '.join(MODELS)}, wide")
    rows, failed = [], False
    for name in names:
        path, reason = locate_model(name)
        if not path.exists():
            print(f"{name} skipped: {reason}", file=sys.stderr)
        elif row := isolated(name, __file__, "--one", name, "--patterns", options.patterns):
            rows.append(row)
            failed |= not row["ok"]
        else:
            failed = True
    if not rows and not failed:
        return 2
    print(table(rows))
    return 1 if failed else 0


def measure(name: str, patterns: list[str]) -> dict[str, object]:
    """Everything about one model, in this process."""
    seconds: dict[str, float] = {}

    @contextmanager
    def clock(stage: str) -> Iterator[None]:
        started = time.perf_counter()
        yield
        seconds[stage] = time.perf_counter() - started

    with clock("start"):
        import rewrite_engine as rw
        from rewrite_engine import api
        from rewrite_engine.egraph.session import Session
        from rewrite_engine.graph.placed import CopyCall, KernelCall

        with Session() as session:  # egglog is imported here, in no other stage
            session.run("(relation started (i64))")

    sys.path.insert(0, str(ROOT / "tests"))
    from models import MODELS, find_model, get_model

    with tempfile.TemporaryDirectory() as folder:
        path = find_model(name)
        if name.startswith("light_"):
            path = Path(folder) / path.name
            path.write_bytes(get_model(name).SerializeToString())
        with clock("rules"):
            rules = rw.load_rules(*patterns)
        with clock("import"):
            module = rw.load(path, dims=MODELS[name])
        placement = rw.place(module, rules)
        seconds |= placement.seconds
        with clock("lower"):
            from rewrite_engine.backend.bundle import build
            from rewrite_engine.passes.stages import programs

            lowered = programs(placement.graph)
        with clock("save"):
            capacities = {device.name: device.memory for device in placement.machine.devices}
            bundle = build(placement.graph, lowered, capacities, api.files_of(module, placement))
            bundle.save(Path(folder) / "bundle")
        from rewrite_engine.backend.check import compare
        from rewrite_engine.backend.inputs import random_inputs

        executor = rw.Bundle.open(Path(folder) / "bundle").executor()
        with clock("run"):
            executor.run(random_inputs(bundle.inputs, 0))
        report = compare(bundle, module.source.original)
    steps = placement.graph.steps
    calls = [step for step in steps if isinstance(step, KernelCall)]
    known = {key: cost for key, cost in placement.baselines.items() if cost is not None}
    best = min(known, key=lambda key: (known[key], key))
    return {
        "model": name,
        "operators": module.source.nodes,
        "kernels": len(calls),
        "targets": Counter(call.target for call in calls),
        "regions": len({call.region for call in calls}),
        "copies": sum(isinstance(step, CopyCall) for step in steps),
        "cost": placement.costs.total,
        "bound": placement.bound,
        "status": placement.status,
        "best": f"{best} {known[best] / placement.costs.total:.2f}x",
        "enodes": placement.enodes,
        "seconds": seconds,
        "error": report.largest_error,
        "problems": list(report.problems),
        "ok": report.ok,
    }


def table(rows: list[dict[str, object]]) -> str:
    """The rows as Markdown."""
    heads = ["model", "operators", "kernels", "regions", "copies", "cost, us", "bound, us", "status", "best baseline",
             "to placement", *STAGES, "largest error"]  # fmt: skip
    lines = ["| " + " | ".join(heads) + " |", "|" + " --- |" * len(heads)]
    for row in rows:
        seconds, targets = row["seconds"], row["targets"]
        assert isinstance(seconds, dict) and isinstance(targets, dict)
        shares = ", ".join(f"{target} {count}" for target, count in targets.items())
        cells = [
            row["model"], row["operators"], f"{row['kernels']} ({shares})", row["regions"], row["copies"],
            *(f"{row[key] / 10**6:,.3f}" for key in ("cost", "bound")),  # type: ignore[operator]
            row["status"], row["best"], f"{sum(seconds[s] for s in TO_PLACEMENT):.2f}",
            *(f"{seconds[stage]:.2f}" for stage in STAGES), f"{row['error']:.1e}",
        ]  # fmt: skip
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    return "\n".join(lines)


if __name__ == "__main__":
    raise SystemExit(main())
