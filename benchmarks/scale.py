"""From the .onnx file to the proven placement on four targets, as a Markdown table: real models, and deep ones.

    python benchmarks/scale.py [--models bert12.legacy,light_vgg19] [--layers 98 746] [--patterns FILE,FILE]

Without arguments: every model of ../shared/data/models and every light model of the onnx package that is there, and
decoders of so many layers that they have 5,000 and 38,000 operators (written to a file first). Each runs in a process
of its own, so that nothing is warm; one thread. Seconds include the import of every library: `wall`, and `cpu` of the
processor. `peak` is the largest resident set.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from isolated import isolated

ROOT = Path(__file__).resolve().parent.parent
FOUR_TARGETS = str(Path(__file__).parent / "four_targets.pat")
STAGES = ("start", "rules", "import", "encode", "saturate", "extract", "rebuild")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", metavar="A,B", help="names in tests/models.py or of light models, or paths")
    parser.add_argument("--layers", type=int, nargs="*", metavar="N", help="decoders of N layers (default: 98 746)")
    parser.add_argument("--patterns", default=FOUR_TARGETS, metavar="FILE,FILE", help="the rule files")
    parser.add_argument("--one", metavar="FILE", help=argparse.SUPPRESS)
    parser.add_argument("--dims", default="{}", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(measure(options.one, json.loads(options.dims), options.patterns.split(","))))
        return 0
    rows, failed = [], False
    with tempfile.TemporaryDirectory() as folder:
        for name, path, dims in _asked(options, Path(folder)):
            asked = ("--one", str(path), "--dims", json.dumps(dims), "--patterns", options.patterns)
            row = isolated(name, __file__, *asked)
            failed |= row is None
            if row:
                rows.append({"name": name, **row})
    print(table(rows))
    return int(failed or not rows)


def _asked(options: argparse.Namespace, folder: Path):  # type: ignore[no-untyped-def]
    """Name, file and sizes of each model; what is made is made in `folder`."""
    sys.path.insert(0, str(ROOT / "tests"))
    import onnx
    from models import DATA, LIGHT, MODELS, get_model, locate_model

    names = [name for name in (options.models or "").split(",") if name]
    depths = options.layers or []
    if options.models is None and options.layers is None:
        names = [path.stem for path in sorted((DATA / "models").glob("*.onnx"))]
        names += [path.stem for path in sorted(LIGHT.glob("light_*.onnx"))]
        depths = [98, 746]
    for name in names:
        path = Path(name) if name.endswith(".onnx") else locate_model(name)[0]
        if not path.exists():
            print(f"{name} skipped: {path} is not there", file=sys.stderr)
            continue
        if name.startswith("light_"):
            path = folder / f"{name}.onnx"
            path.write_bytes(get_model(name).SerializeToString())
        yield name, path, MODELS.get(name, {})
    for layers in depths:
        path = folder / f"decoder_{layers}.onnx"
        onnx.save(decoder(layers), path)
        yield path.stem, path, {}


def measure(path: str, dims: dict[str, int], patterns: list[str]) -> dict[str, object]:
    """Everything about one model, in this process."""
    began = time.perf_counter()
    import rewrite_engine as rw
    from rewrite_engine.graph.placed import KernelCall

    rw.place  # noqa: B018 (imports what placing needs)
    seconds = {"start": time.perf_counter() - began}
    rules = rw.load_rules(*patterns)
    seconds["rules"] = time.perf_counter() - began - sum(seconds.values())
    module = rw.load(path, dims=dims)
    seconds["import"] = time.perf_counter() - began - sum(seconds.values())
    placement = rw.place(module, rules)
    wall, cpu = time.perf_counter() - began, time.process_time()
    calls = [step for step in placement.graph.steps if isinstance(step, KernelCall)]
    known = [cost for cost in placement.baselines.values() if cost is not None]
    return {
        "operators": module.source.nodes,
        "targets": Counter(call.target for call in calls),
        "regions": len({call.region for call in calls}),
        "cost": placement.costs.total,
        "bound": placement.bound,
        "status": placement.status,
        "best": min(known) / placement.costs.total if known else None,
        "wall": wall,
        "cpu": cpu,
        "peak": _peak(),
        "seconds": seconds | {stage: placement.seconds[stage] for stage in STAGES[3:]},
    }


def _peak() -> float:
    """MB of the largest resident set since this program started (a child's `ru_maxrss` begins with its parent's)."""
    status = Path("/proc/self/status")
    lines = status.read_text().splitlines() if status.exists() else []
    found = [int(line.split()[1]) for line in lines if line.startswith("VmHWM:")]
    return (found or [resource.getrusage(resource.RUSAGE_SELF).ru_maxrss])[0] / 1024


def table(rows: list[dict[str, object]]) -> str:
    """The rows as Markdown, and the median of their seconds."""
    heads = ("model", "operators", "kernels", "regions", "cost, us", "gap", "status", "best baseline", "wall", "cpu")
    lines = ["| " + " | ".join((*heads, *STAGES, "peak, MB")) + " |"]
    lines.append("|" + " --- |" * (len(heads) + len(STAGES) + 1))
    for row in rows:
        targets, seconds, cost, bound = row["targets"], row["seconds"], row["cost"], row["bound"]
        assert isinstance(targets, dict) and isinstance(seconds, dict)
        assert isinstance(cost, int) and isinstance(bound, int)
        shares = ", ".join(f"{target} {count}" for target, count in targets.items())
        best = "" if row["best"] is None else f"{row['best']:.2f}x"
        gap = f"{(cost - bound) / cost if cost else 0:.2%}"
        cells = (
            row["name"], row["operators"], f"{sum(targets.values())} ({shares})", row["regions"],
            f"{cost / 10**6:,.3f}", gap, row["status"], best, f"{row['wall']:.2f}", f"{row['cpu']:.2f}",
            *(f"{seconds[stage]:.2f}" for stage in STAGES), f"{row['peak']:.0f}",
        )  # fmt: skip
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    walls = [row["wall"] for row in rows]
    lines.append(f"\nmedian of {len(rows)}: {statistics.median(walls):.2f} s" if rows else "")  # type: ignore[type-var]
    return "\n".join(lines)


def decoder(layers: int, width: int = 32, heads: int = 4, length: int = 16):  # type: ignore[no-untyped-def]
    """A decoder as exporters spell it, 52 operators a layer: layer norm and GELU in pieces, masked attention."""
    import numpy as np
    from onnx import TensorProto, helper, numpy_helper

    random = np.random.default_rng(0)
    nodes, weights = [], []

    def constant(name: str, value: object) -> str:
        weights.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def add(op: str, *inputs: str, **attributes: object) -> str:
        name = f"v{len(nodes)}"
        nodes.append(helper.make_node(op, inputs, [name], name=name, **attributes))
        return name

    def linear(x: str, rows: int, columns: int) -> str:
        kind = f"w{len(weights)}"
        weight = (random.standard_normal((rows, columns)) / rows**0.5).astype(np.float32)
        product = add("MatMul", x, constant(kind, weight))
        return add("Add", product, constant(f"{kind}_b", random.standard_normal(columns).astype(np.float32) / 10))

    def norm(x: str) -> str:
        centred = add("Sub", x, add("ReduceMean", x, last, keepdims=1))
        variance = add("ReduceMean", add("Pow", centred, two), last, keepdims=1)
        scaled = add("Div", centred, add("Sqrt", add("Add", variance, epsilon)))
        gain = constant(f"g{len(weights)}", random.uniform(0.8, 1.2, width).astype(np.float32))
        return add("Add", add("Mul", scaled, gain), constant(f"s{len(weights)}", np.zeros(width, np.float32)))

    def split(x: str, perm: tuple[int, ...]) -> str:
        return add("Transpose", add("Reshape", x, apart), perm=perm)

    last, apart = constant("last", np.int64([-1])), constant("apart", np.int64([1, length, heads, width // heads]))
    two, epsilon, joined = (constant("two", np.float32(2)), constant("epsilon", np.float32(1e-5)),
                            constant("joined", np.int64([1, length, width])))  # fmt: skip
    one, half, root = (constant("one", np.float32(1)), constant("half", np.float32(0.5)),
                       constant("root", np.float32(2**0.5)))  # fmt: skip
    scale = constant("scale", np.float32((width // heads) ** 0.25))
    mask = constant("mask", np.triu(np.full((1, 1, length, length), -1e9, np.float32), 1))
    x = "x"
    for _ in range(layers):
        y = norm(x)
        query, key = split(linear(y, width, width), (0, 2, 1, 3)), split(linear(y, width, width), (0, 2, 3, 1))
        value = split(linear(y, width, width), (0, 2, 1, 3))
        scores = add("Add", add("MatMul", add("Div", query, scale), add("Div", key, scale)), mask)
        mixed = add("MatMul", add("Softmax", scores, axis=-1), value)
        x = add("Add", x, linear(add("Reshape", add("Transpose", mixed, perm=(0, 2, 1, 3)), joined), width, width))
        y = linear(norm(x), width, 4 * width)
        gate = add("Mul", add("Mul", y, add("Add", add("Erf", add("Div", y, root)), one)), half)
        x = add("Add", x, linear(gate, 4 * width, width))
    shape = (1, length, width)
    graph = helper.make_graph(
        nodes, "decoder", [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info(x, TensorProto.FLOAT, shape)], weights,
    )  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)


if __name__ == "__main__":
    raise SystemExit(main())
