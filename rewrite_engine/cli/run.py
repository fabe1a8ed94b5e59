"""`run`: executes a bundle, and compares it with ONNX Runtime."""

from __future__ import annotations

import argparse
import json
import sys
import zipfile
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from rewrite_engine.backend.bundle import Bundle
from rewrite_engine.backend.check import CheckReport, compare
from rewrite_engine.backend.inputs import random_inputs
from rewrite_engine.backend.runtime import Executor, StepTime
from rewrite_engine.diagnostics import RewriteError
from rewrite_engine.files import SOURCE, check_writable, write_file

_RAN = {"c": "in C", "numpy": "in NumPy", "target": "in the target's own code", "host": "host operators in NumPy",
        "copy": "copies"}  # fmt: skip


def run(options: argparse.Namespace) -> int:
    """Runs a bundle; status 1 where the check finds a difference."""
    if options.output:
        check_writable(Path(options.output).parent)
    bundle = Bundle.open(options.bundle)
    given = read_inputs(options.input) if options.input else None
    executor = bundle.executor(options.engine)
    feed = random_inputs(bundle.inputs, options.seed) if given is None else given
    for _ in range(options.repeat):
        outputs = executor.run(feed)
    if options.output:
        write_arrays(Path(options.output), outputs)
    report = check(bundle, options.seed, given, options.engine) if options.check else None
    if options.json:
        print(json.dumps(_result(executor, outputs, report), indent=1, sort_keys=True))
    else:
        print(_text(executor, outputs, report, options.verbose))
    return 0 if report is None or report.ok else 1


def check(
    bundle: Bundle, seed: int, given: Mapping[str, np.ndarray] | None = None, engine: str = "auto"
) -> CheckReport:
    """The comparison with ONNX Runtime on the model that the bundle was made from."""
    reference = bundle.extra_files.get(SOURCE)
    if reference is None:
        raise RewriteError(f"the bundle has no {SOURCE} to compare with; compile it again from the model's file")
    return compare(bundle, reference, seed, inputs=given, engine=engine)


def check_lines(report: CheckReport) -> list[str]:
    """The report for people: an error per output and seed."""
    lines = []
    for found in report.checks:
        seed = "given inputs" if found.seed is None else f"seed {found.seed}"
        lines.append(f"  {found.output}: {seed}: largest error {found.error:.2e} of {found.magnitude:.4g}")
    verdict = "agrees with ONNX Runtime" if report.ok else "differs from ONNX Runtime"
    return [f"check      {verdict}: largest error {report.largest_error:.2e}, allowed {report.tolerance:.0e}", *lines,
            *(f"  {problem}" for problem in report.problems)]  # fmt: skip


def read_inputs(path: str) -> dict[str, np.ndarray]:
    """The arrays of an .npz file."""
    try:
        with zipfile.ZipFile(path):  # NumPy opens other files too, and offers to unpickle them
            pass
        with np.load(path, allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files}
    except OSError as error:
        raise RewriteError(f"--input: {path} cannot be read: {error.strerror or error}") from error
    except (ValueError, zipfile.BadZipFile) as error:
        raise RewriteError(f"--input: {path}: expected an .npz file of arrays, found something else") from error


def write_arrays(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    """An .npz file, whole or not at all."""
    import io

    buffer = io.BytesIO()
    np.savez(buffer, **arrays)  # type: ignore[arg-type]
    write_file(path, buffer.getvalue())


def _result(executor: Executor, outputs: Mapping[str, np.ndarray], report: CheckReport | None) -> dict[str, object]:
    result: dict[str, object] = {
        "outputs": {name: {"dtype": str(a.dtype), "shape": list(a.shape)} for name, a in outputs.items()},
        "engine": executor.origin,
        "kernels": [_kernel(t) for t in executor.times],
    }
    if report is not None:
        result["check"] = {
            "ok": report.ok,
            "largest_error": report.largest_error,
            "tolerance": report.tolerance,
            "outputs": [
                {"output": c.output, "seed": c.seed, "error": c.error, "repeatable": c.repeatable}
                for c in report.checks
            ],
            "problems": list(report.problems),
        }
    return result


def _kernel(time: StepTime) -> dict[str, object]:
    reason = {"reason": time.reason} if time.reason else {}
    return {"kernel": time.name, "seconds": round(time.seconds, 9), "ran": time.ran, **reason}


def _text(executor: Executor, outputs: Mapping[str, np.ndarray], report: CheckReport | None, verbose: bool) -> str:
    total = sum(t.seconds for t in executor.times)
    lines = [f"outputs    {name}: {a.dtype}{list(a.shape)}" for name, a in outputs.items()]
    ran = Counter(_RAN[t.ran] for t in executor.times)
    shares = ", ".join(f"{count} {how}" for how, count in sorted(ran.items()))
    lines.append(f"ran        {len(executor.times)} steps in {total:.3f} s: {shares} ({executor.origin})")
    reasons = Counter(t.reason for t in executor.times if t.reason)
    lines += [f"  {count} not in C: {reason}" for reason, count in reasons.items()]
    if verbose:
        for t in sorted(executor.times, key=lambda t: -t.seconds)[:10]:
            print(f"  {t.name}: {t.seconds * 1e3:.2f} ms", file=sys.stderr)
    return "\n".join(lines + (check_lines(report) if report is not None else []))
