"""Kernels in C against the NumPy executor and ONNX Runtime, per model: `python benchmarks/kernels_c.py [MODEL...]`.

Each model is placed, lowered and composed; its kernels run one after the other on fixed arrays, by the NumPy executor
and as one sequence in C. ONNX Runtime runs the same model with its graph optimisations. Times are the least of several
runs taken in turn, in milliseconds; ratios are ONNX Runtime's time over that of C.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import onnx

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

import models

from rewrite_engine import api
from rewrite_engine.graph.placed import KernelCall, PlacedGraph
from rewrite_engine.loops import execute
from rewrite_engine.loops.build_c import Library, build, machine_lanes
from rewrite_engine.loops.compose import compose
from rewrite_engine.loops.compute import Program
from rewrite_engine.loops.dtypes import numpy_dtype
from rewrite_engine.loops.emit_c import CSource, NotEmitted, emit
from rewrite_engine.passes.stages import programs

MODELS = ("mobilenetv2.legacy", "resnet18.legacy", "bert12.legacy", "light_resnet50", "light_squeezenet")
RULES = ("npu.pat", "fastlib.pat")
Arrays = list[np.ndarray]
Step = tuple[str, Arrays, Arrays]


def main() -> None:
    """Prints one row per model and number of threads."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="*", default=MODELS)
    parser.add_argument("--seconds", type=float, default=5, help="of measuring per row")
    parser.add_argument("--threads", type=int, nargs="*", default=[1, 2])
    parser.add_argument("--kernels", type=int, default=0, help="also show this many of the slowest kernels")
    options = parser.parse_args()
    print(
        "| model | threads | kernels | functions | emit s | gcc s | NumPy ms | C ms | ORT ms | NumPy/C "
        "| ORT/C | error |\n"
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |"
    )
    for name in options.models:
        measure(name, options.threads, options.seconds, options.kernels)


def measure(name: str, threads: Sequence[int], seconds: float, kernels: int) -> None:
    """The rows of one model."""
    model, dims = models.get_model(name), models.MAIN_MODELS.get(name, {})
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        onnx.save(model, path)
        module = api.load(path, dims=dims) if dims else api.load(path)
        graph = api.place(module, api.load_rules(*RULES)).graph
        feeds = models.random_inputs(model, 0, dims)
        lowered = {call: compose(program) for call, program in programs(graph).items()}
        started = time.perf_counter()
        sources = emit_all(graph, lowered)
        emit_seconds = time.perf_counter() - started
        started = time.perf_counter()
        library = build(list(sources.values()), cache=folder)
        gcc_seconds = time.perf_counter() - started
        steps, reference, numpy_seconds = prepare(graph, lowered, sources, feeds)
        run = library.sequence(steps)
        error = largest_error(run, steps, reference)
        functions = len({function for source in sources.values() for function, _ in source.functions})
        for count in threads:
            library.set_threads(count)
            session = onnx_runtime(path, count)
            given = {value.name: feeds[value.name] for value in session.get_inputs()}
            c, ort = alternate([run, lambda s=session, g=given: s.run(None, g)], seconds)
            print(
                f"| {name} | {count} | {len(steps)} | {functions} | {emit_seconds:.2f} | {gcc_seconds:.2f} "
                f"| {numpy_seconds * 1e3:.1f} | {c * 1e3:.3f} | {ort * 1e3:.3f} | {numpy_seconds / c:.0f} "
                f"| {ort / c:.2f} | {error:.0e} |",
                flush=True,
            )
    if kernels:
        show_slowest(library, steps, graph, sources, kernels)


def emit_all(graph: PlacedGraph, lowered: dict[str, Program]) -> dict[str, CSource]:
    """The C of every kernel, by name; parameters of the graph are constant inputs."""
    lanes, sources = machine_lanes(), {}
    for number, call in enumerate(step for step in graph.steps if isinstance(step, KernelCall)):
        constants = [position for position, name in enumerate(call.inputs) if name in graph.parameters]
        try:
            sources[call.name] = emit(lowered[call.name], f"kernel{number}", constants=constants, lanes=lanes)
        except NotEmitted as error:
            sys.exit(f"{error}; this benchmark needs all kernels in C")
    return sources


def prepare(
    graph: PlacedGraph, lowered: dict[str, Program], sources: dict[str, CSource], feeds: dict[str, np.ndarray]
) -> tuple[list[Step], list[Arrays], float]:
    """Calls in C on arrays of their own, what the NumPy executor computes for each, and its least time of two runs."""
    fixed = {**{name: np.array(array, order="C") for name, array in graph.parameters.items()}, **feeds}
    ours, theirs = dict(fixed), dict(fixed)
    steps, reference, numpy_calls = [], [], []
    for step in graph.steps:
        if not isinstance(step, KernelCall):
            ours[step.output], theirs[step.output] = ours[step.value], theirs[step.value]
            continue
        for values in (ours, theirs):
            for name, buffer in zip(step.outputs, sources[step.name].outputs, strict=True):
                values[name] = np.zeros(buffer.shape, numpy_dtype(buffer.dtype))
        steps.append((sources[step.name].symbol, [ours[n] for n in step.inputs], [ours[n] for n in step.outputs]))
        reference.append([theirs[name] for name in step.outputs])
        numpy_calls.append((lowered[step.name], [theirs[name] for name in step.inputs], reference[-1]))
    seconds = []
    for _ in range(2):
        started = time.perf_counter()
        for program, inputs, outputs in numpy_calls:
            execute.run(program, inputs, outputs)
        seconds.append(time.perf_counter() - started)
    return steps, reference, min(seconds)


def largest_error(run: Callable[[], None], steps: Sequence[Step], reference: Sequence[Arrays]) -> float:
    """The largest difference of any kernel's output from NumPy's, relative to its largest magnitude; after two runs."""
    run()
    run()
    worst = 0.0
    for (_, _, outputs), expected in zip(steps, reference, strict=True):
        for found, wanted in zip(outputs, expected, strict=True):
            finite = np.isfinite(wanted.astype(np.float64))
            if not np.array_equal(finite, np.isfinite(found.astype(np.float64))):
                return float("inf")
            a, b = found[finite].astype(np.float64), wanted[finite].astype(np.float64)
            if a.size:
                worst = max(worst, float(np.max(np.abs(a - b)) / max(float(np.max(np.abs(b))), 1e-30)))
    return worst


def onnx_runtime(path: Path, threads: int):  # type: ignore[no-untyped-def]
    """A session with graph optimisations on."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = threads, 4
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def alternate(calls: Sequence[Callable[[], object]], seconds: float) -> list[float]:
    """The least time of each call, taken in turn, three at a time, for so many seconds after one that is not counted.

    In between is a pause, in which the threads of the other stop waiting for work.
    """
    for call in calls:
        call()
    best = [float("inf")] * len(calls)
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        for number, call in enumerate(calls):
            if len(calls) > 1:
                time.sleep(0.005)
            for _ in range(3):
                started = time.perf_counter()
                call()
                best[number] = min(best[number], time.perf_counter() - started)
    return best


def show_slowest(
    library: Library, steps: Sequence[Step], graph: PlacedGraph, sources: dict[str, CSource], count: int
) -> None:
    """The slowest kernels, each run alone a few times."""
    names = {source.symbol: name for name, source in sources.items()}
    times = []
    for step in steps:
        run = library.sequence([step])
        (best,) = alternate([run], 0.02)
        times.append((best, names[step[0]], step[0]))
    for best, name, symbol in sorted(times, reverse=True)[:count]:
        source = library.sources[symbol]
        notes = [text.splitlines()[0].strip("/* ") for _, text in source.functions if text.startswith("/*")]
        print(f"{best * 1e3:9.3f} ms  {name}: {'; '.join(notes)}")


if __name__ == "__main__":
    main()
