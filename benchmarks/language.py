"""How long rule files take: parsing, checking and lowering of many ordinary declarations, and `check` as a process.

    python benchmarks/language.py [DECLARATIONS] [--repeat N]

Prints one line per stage with the best of N runs: seconds of the clock and of the processor (the machine may be busy).
The declarations are ten kinds in turn: a `let`, patterns with alternatives and `where`, rules with guards and computed
constants, a composite with types and a cost, `supports`.
"""

from __future__ import annotations

import argparse
import gc
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from rewrite_engine.language import check, lower, scope, sources

Result = TypeVar("Result")

BLOCK = """
let limit{i} = {i} * 16B + 1KiB
pattern dq{i}(v, scale, zero) = DequantizeLinear(v, const scale, const zero?)
pattern act{i}(v) = Relu(v) | Clip(v, 0, 6) | (Mul(v, const c) if c.numel == 1)
pattern norm{i}(x, gain, eps) = Mul(n, gain)
  where d = Sub(x, ReduceMean(x, [-1], keepdims=1));
        n = Div(d, Sqrt(Add(ReduceMean(Mul(d, d), [-1], keepdims=1), const eps)))
rule fuse{i}: norm{i}(x, gain, eps) => LayerNormalization(x, gain, axis=-1, epsilon=item(eps))
  if eps.numel == 1 and gain.shape == [x.shape[-1]] and x.dtype == float32
rule scale{i}: Mul(Conv(x, const w: T[_, _, _, _], none) as conv, const s)
  => Conv(x, w * reshape(s, [-1, 1, 1, 1]), like conv)
  if s.numel == w.shape[0]
rule twice{i}: Transpose(Transpose(x, perm=p), perm=r) => Transpose(x, perm=[p[i] for i in r]) if x.bytes > limit{i}
rule drop{i}: act{i}(dq{i}(x, s, z)) => x if all(z == 0) and item(s) == {i}
"""
TARGET = """
device npu {{ memory 64MiB }}
link host <-> npu: 4us + bytes / 8GBps
target t on npu {{ launch 12us flops 4TFLOPS bandwidth 64GBps
{items}
}}
"""
ITEM = """
  composite conv{i}(x: float16[1, C, H, W], w: float16[K, _, R, S], b?: float16[K]) = act{i}(conv) as y
    where conv = Conv(x, const w, const b)
    if conv.group == 1 and all(conv.strides in {{1, 2}}) and x.bytes + y.bytes <= 1MiB
    with strides = conv.strides, pads = conv.pads
    cost 2us + macs / 2TMACS
  supports Add(a, b), Sub(a, b) if a.dtype == float16 and a.rank == {i}  cost 1us + bytes / 64GBps
"""


def text(declarations: int) -> str:
    """A rule file with that many declarations: eight of ten outside of the target, two in it."""
    blocks = max(1, declarations // 10)
    outside = "".join(BLOCK.format(i=i) for i in range(blocks))
    return outside + TARGET.format(items="".join(ITEM.format(i=i) for i in range(blocks)))


def stages(source: str) -> dict[str, tuple[float, float]]:
    """Seconds of the clock and of the processor of each stage of one run."""
    seconds: dict[str, tuple[float, float]] = {}

    def timed(name: str, run: Callable[[], Result]) -> Result:
        gc.collect()
        started, used = time.perf_counter(), time.process_time()
        result = run()
        seconds[name] = (time.perf_counter() - started, time.process_time() - used)
        return result

    found = timed("parse", lambda: sources.read_text(source, "bench.pat", []))
    names, problems = timed("names", lambda: scope.build(found.files, found.visible, found.blind()))
    problems = [*found.problems, *problems]
    problems += timed("check", lambda: check.check(names, frozenset(found.named)))
    assert not [p for p in problems if p.severity == "error"], problems[:3]
    rules, further = timed("lower", lambda: lower.core_rules(names))
    assert rules and not further, further[:3]
    return seconds


def process(source: str) -> float:
    """Seconds of `rewrite-engine check` of one file, the start of Python included."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "one.pat"
        path.write_text(source)
        started = time.perf_counter()
        subprocess.run([sys.executable, "-m", "rewrite_engine", "check", str(path)], check=True, capture_output=True)
        return time.perf_counter() - started


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("declarations", nargs="?", type=int, default=5000)
    parser.add_argument("--repeat", type=int, default=3)
    options = parser.parse_args()
    source = text(options.declarations)
    stages(text(10))  # whatever is done once
    runs = [stages(source) for _ in range(options.repeat)]
    best = {name: min(run[name] for run in runs) for name in runs[0]}
    total = tuple(sum(best[name][k] for name in ("parse", "names", "check")) for k in (0, 1))
    best["parse and check"] = (total[0], total[1])
    print(f"{options.declarations} declarations, {source.count(chr(10))} lines, best of {options.repeat}")
    for name, (clock, processor) in best.items():
        print(f"  {name:<16} {clock:7.3f} s   {processor:7.3f} s of the processor")
    checks = [process(text(40)) for _ in range(options.repeat + 2)]
    print(f"  `check` of one file of 40 declarations as a process: {statistics.median(checks):.3f} s")


if __name__ == "__main__":
    main()
