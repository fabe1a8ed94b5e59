"""`run`: executes a bundle, and compares it with ONNX Runtime."""

from __future__ import annotations

import argparse
import json
import zipfile
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from rewrite_engine.backend.bindings_json import Binding, dims_text
from rewrite_engine.backend.bundle import Bundle
from rewrite_engine.backend.check import CheckReport, compare
from rewrite_engine.backend.check_each import EachReport, compare_each
from rewrite_engine.backend.inputs import random_inputs
from rewrite_engine.backend.runtime import StepTime
from rewrite_engine.cli.values import single_sizes
from rewrite_engine.diagnostics import RewriteError
from rewrite_engine.files import SOURCE, check_writable, write_file

_RAN = {"c": "in C", "numpy": "in NumPy", "target": "in the target's own code", "host": "host operators in NumPy",
        "copy": "copies", "view": "views"}  # fmt: skip


def run(options: argparse.Namespace) -> int:
    """Runs a bundle; status 1 where the check finds a difference."""
    if options.each and not options.check:
        raise RewriteError("--each compares kernel by kernel: give --check too")
    if options.tolerance is not None and not options.check:
        raise RewriteError("--tolerance is what --check allows: give --check too")
    if options.output:
        check_writable(Path(options.output).parent)
    given = read_inputs(options.input) if options.input else None
    bundle, binding = open_bundle(options.bundle, single_sizes(options.dim), given)
    executor = bundle.executor(options.engine)
    feed = random_inputs(bundle.inputs, options.seed) if given is None else given
    runs = []
    for _ in range(options.repeat):
        outputs = executor.run(feed)
        runs.append(executor.times)
    if options.output:
        write_arrays(Path(options.output), outputs)
    report = check(bundle, options.seed, given, options.engine, options.tolerance) if options.check else None
    each = None
    if options.each:
        each = compare_each(
            bundle, _reference(bundle), options.seed, inputs=given, tolerance=options.tolerance, engine=options.engine
        )
    times = [min(steps, key=lambda step: step.seconds) for steps in zip(*runs, strict=True)]
    if options.json:
        result = _result(executor.origin, times, outputs, report)
        result.update({} if binding is None else {"binding": dict(binding.dims)})
        print(json.dumps({**result, **({"each": _each(each)} if each else {})}, indent=1, sort_keys=True))
    else:
        lines = [] if binding is None else [f"binding    {binding}"]
        lines += _lines(executor.origin, times, outputs, options.verbose)
        lines += check_lines(report) if report is not None else []
        print("\n".join([*lines, *(_each_lines(each) if each else [])]))
    fine = (report is None or report.ok) and (each is None or each.first is None)
    return 0 if fine else 1


def open_bundle(
    folder: str, dims: Mapping[str, int], given: Mapping[str, np.ndarray] | None
) -> tuple[Bundle, Binding | None]:
    """The bundle in a folder; of several bindings, that of these sizes and inputs, or the first where neither is given.

    Raises RewriteError for sizes of a bundle that has no bindings, and where they do not say which one.
    """
    opened = Bundle.open(folder)
    if isinstance(opened, Bundle):
        if dims:
            raise RewriteError(f"{folder} has one size for every dimension: leave out --dim {dims_text(dims)}")
        return opened, None
    binding = opened.choose(dims, given) if dims or given is not None else opened.bindings[0]
    return opened.bundle(binding), binding


def check(
    bundle: Bundle,
    seed: int,
    given: Mapping[str, np.ndarray] | None = None,
    engine: str = "auto",
    tolerance: float | None = None,
) -> CheckReport:
    """The comparison with ONNX Runtime on the model that the bundle was made from."""
    return compare(bundle, _reference(bundle), seed, inputs=given, tolerance=tolerance, engine=engine)


def _reference(bundle: Bundle) -> bytes:
    reference = bundle.extra_files.get(SOURCE)
    if reference is None:
        raise RewriteError(f"the bundle has no {SOURCE} to compare with; compile it again from the model's file")
    return reference


def check_lines(report: CheckReport) -> list[str]:
    """The report for people: an error per output and seed."""
    lines = []
    for found in report.checks:
        seed = "given inputs" if found.seed is None else f"seed {found.seed}"
        steps = f" ({found.error / found.step:.2f} quantisation steps)" if found.step else ""
        lines.append(f"  {found.output}: {seed}: largest error {found.error:.2e} of {found.magnitude:.4g}{steps}")
    verdict = "agrees with ONNX Runtime" if report.agrees else "differs from ONNX Runtime"
    if report.agrees and not report.ok:
        verdict += ", but proves nothing (try another --seed, or --input)"
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


def _result(
    origin: str, times: Sequence[StepTime], outputs: Mapping[str, np.ndarray], report: CheckReport | None
) -> dict[str, object]:
    result: dict[str, object] = {
        "outputs": {name: {"dtype": str(a.dtype), "shape": list(a.shape)} for name, a in outputs.items()},
        "engine": origin,
        "kernels": [_kernel(t) for t in times],
    }
    if report is not None:
        result["check"] = {
            "ok": report.ok,
            "largest_error": report.largest_error,
            "tolerance": report.tolerance,
            "outputs": [
                {
                    "output": c.output,
                    "seed": c.seed,
                    "error": c.error,
                    "allowed": c.allowed,
                    "repeatable": c.repeatable,
                    "steps": c.error / c.step if c.step else None,
                }
                for c in report.checks
            ],
            "problems": list(report.problems),
        }
    return result


def _kernel(time: StepTime) -> dict[str, object]:
    reason = {"reason": time.reason} if time.reason else {}
    return {"kernel": time.name, "seconds": round(time.seconds, 9), "ran": time.ran, **reason}


def _lines(origin: str, times: Sequence[StepTime], outputs: Mapping[str, np.ndarray], verbose: bool) -> list[str]:
    total = sum(t.seconds for t in times)
    lines = [f"outputs    {name}: {a.dtype}{list(a.shape)}" for name, a in outputs.items()]
    ran = Counter(_RAN[t.ran] for t in times)
    shares = ", ".join(f"{count} {how}" for how, count in sorted(ran.items()))
    lines.append(f"ran        {len(times)} steps in {total * 1e3:.3f} ms: {shares} ({origin})")
    reasons = Counter(t.reason for t in times if t.reason)
    lines += [f"  {count} not in C: {reason}" for reason, count in reasons.items()]
    slowest = sorted(times, key=lambda t: -t.seconds)
    return lines + [f"  {t.seconds * 1e3:>9.3f} ms  {t.name}" for t in (slowest if verbose else slowest[:5])]


def _each(each: EachReport) -> dict[str, object]:
    rows = [
        {"kernel": c.kernel, "rule": c.rule, "value": c.value, "error": c.error, "allowed": c.allowed, "ran": c.ran}
        for c in each.checks
    ]
    first = None if each.first is None else rows[each.checks.index(each.first)]
    return {"compared": each.compared, "kernels": each.kernels, "first": first, "checks": rows}


def _each_lines(each: EachReport) -> list[str]:
    line = f"each       {each.compared} of {each.kernels} kernels compute values of the model"
    if each.first is None:
        return [f"{line}: all agree"]
    found = each.first
    return [
        f"{line}; the first that differs is {found.kernel}",
        f"  rule {found.rule}, value {found.value}: error {found.error:.2e} of {found.magnitude:.4g}, "
        f"allowed {found.allowed:.0e} (ran {_RAN[found.ran]})",
    ]
