"""Row-wise chains as one nest against statement by statement: `python benchmarks/groups.py`.

Softmax, layer normalisation and attention in C, one thread: the median of runs taken in turn, in microseconds, and how
many times faster the group is. Tensors from a few kilobytes to more than the caches hold.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from loops_chains import attention, layer_norm, softmax

from rewrite_engine.loops import group
from rewrite_engine.loops.build_c import build, machine_lanes
from rewrite_engine.loops.compose import compose
from rewrite_engine.loops.compute import Program
from rewrite_engine.loops.emit_c import emit
from rewrite_engine.loops.group import Group, grouped

CASES = {
    "softmax [8, 128, 128]": softmax(8, 128, 128),
    "softmax [12, 512, 512]": softmax(12, 512, 512),
    "softmax [64, 1024, 1024]": softmax(64, 1024, 1024),
    "layer norm [1, 128, 768]": layer_norm(1, 128, 768),
    "layer norm [8, 512, 768]": layer_norm(8, 512, 768),
    "layer norm [32, 1024, 1024]": layer_norm(32, 1024, 1024),
    "attention, 12 heads, 128 x 128 x 64": attention(1, 12, 128, 128, 64),
    "attention, 8 heads, 512 x 512 x 64": attention(1, 8, 512, 512, 64),
    "attention, 4 heads, 2048 x 2048 x 64": attention(1, 4, 2048, 2048, 64),
}


def main() -> None:
    """Prints a row per case."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=4, help="of measuring per row")
    seconds = parser.parse_args().seconds
    print("| chain | points | statements | one by one, us | as a group, us | ratio |")
    print("| --- | ---: | ---: | ---: | ---: | ---: |")
    for name, program in CASES.items():
        measure(name, compose(program), seconds)


def measure(name: str, program: Program, seconds: float) -> None:
    """The row of one case."""
    found = grouped(program.statements, program.tensors, program.wanted)
    groups = [s for s in found if isinstance(s, Group)]
    points = max((int(np.prod([it.extent for it in g.shared])) for g in groups), default=1)
    statements = max((len(g.statements) for g in groups), default=0)
    lanes = machine_lanes()
    sources = [emit(program, "grouped", lanes=lanes)]
    room, most = group.ROOM, group.MOST_ROOM
    group.ROOM = group.MOST_ROOM = -1
    sources.append(emit(program, "flat", lanes=lanes))
    group.ROOM, group.MOST_ROOM = room, most
    library = build(sources)
    library.set_threads(1)
    rng = np.random.default_rng(0)
    inputs = [rng.standard_normal(program.tensors[n].shape).astype(np.float32) for n in program.inputs]
    outputs = [np.empty(program.tensors[n].shape, np.float32) for n in program.outputs]
    times: dict[str, list[float]] = {"flat": [], "grouped": []}
    stop = time.perf_counter() + seconds
    while time.perf_counter() < stop or len(times["flat"]) < 5:
        for symbol, found_times in times.items():
            started = time.perf_counter()
            library.kernel(symbol)(inputs, outputs)
            found_times.append(time.perf_counter() - started)
    flat, one = (statistics.median(times[symbol]) * 1e6 for symbol in ("flat", "grouped"))
    print(f"| {name} | {points} | {statements} | {flat:.0f} | {one:.0f} | {flat / one:.2f} |", flush=True)


if __name__ == "__main__":
    main()
