"""How long an interrupt and a limit of time are kept waiting by `place` on a large model: a Markdown table.

    python benchmarks/interrupts.py [--layers 98] [--trials 24] [--seed 0] [--objective latency] [--limits 0 0.5 2]

The model is the decoder of `scale.py`, 98 layers of which have 5,000 operators. A first run says when each stage begins
and ends; then each trial is a process of its own that gets SIGINT at a seeded time in one of the stages, in turn. The
table has the stage that the process was in when the signal came, by its own account, and the longest time from there to
its end. Then runs with `--time-limit`, with what the search took beyond it. Status 1 where an interrupt waited for more
than 2 seconds, or a process ended in another way than interrupted ones do.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from scale import FOUR_TARGETS, ROOT, decoder

STAGES = ("start", "rules", "import", "encode", "saturate", "freeze", "baselines", "search", "rebuild", "report", "end")
MOST = 2.0
INTERRUPTED = 130


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--layers", type=int, default=98, metavar="N")
    parser.add_argument("--trials", type=int, default=24, metavar="N", help="interrupts (default 24)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--objective", default="latency")
    parser.add_argument("--limits", type=float, nargs="*", default=[0, 0.5, 2], metavar="S", help="--time-limit S")
    parser.add_argument("--child", metavar="FILE", help=argparse.SUPPRESS)
    options, rest = parser.parse_known_args()
    if options.child:
        return child(options.child, rest)
    import onnx

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        onnx.save(decoder(options.layers), folder / "model.onnx")
        place = ["place", str(folder / "model.onnx"), "-p", FOUR_TARGETS, "--objective", options.objective]
        whole = run(folder, [*place, "-o", str(folder / "out")])
        print(f"uninterrupted: {whole.seconds:.1f} s, status {whole.status}")
        trials = interrupts(folder, place, whole, options.trials, options.seed)
        print(table(trials))
        print()
        print("| --time-limit | the search took | beyond it |\n| --- | --- | --- |")
        for limit in options.limits:
            took = limited(run(folder, [*place, "--time-limit", str(limit)]))
            print(f"| {limit:g} | {took:.2f} | {max(0.0, took - limit):.2f} |")
    late = [t for t in trials if t.status != INTERRUPTED or t.waited > MOST]
    for trial in late:
        print(f"in {trial.stage}: status {trial.status} after {trial.waited:.2f} s", file=sys.stderr)
    return int(bool(late) or whole.status != 0)


class Run:
    """A finished process: `begins` has the seconds at which each stage was entered, the last time."""

    def __init__(self, status: int, seconds: float, begins: list[tuple[str, float]], sent: float | None) -> None:
        self.status, self.seconds, self.begins = status, seconds, begins
        self.waited = 0.0 if sent is None else seconds - sent
        before = [stage for stage, at in begins if sent is not None and at <= sent]
        self.stage = before[-1] if before else "start"


def run(folder: Path, command: list[str], at: float | None = None) -> Run:
    """Runs `place`, with an interrupt after `at` seconds."""
    log = folder / "stages"
    log.write_text("")
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    told = [sys.executable, __file__, "--child", str(log), *command]
    started = time.monotonic()
    process = subprocess.Popen(told, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    sent = None
    if at is not None:
        try:
            process.wait(at)
        except subprocess.TimeoutExpired:
            sent = time.monotonic() - started
            process.send_signal(signal.SIGINT)
    try:
        status = process.wait(600)
    except subprocess.TimeoutExpired:
        process.kill()
        status = process.wait()
    seconds = time.monotonic() - started
    lines = [line.split() for line in log.read_text().splitlines()]
    return Run(status, seconds, [(stage, float(clock) - started) for stage, clock in lines], sent)


def interrupts(folder: Path, place: list[str], whole: Run, trials: int, seed: int) -> list[Run]:
    """The runs that were interrupted; the others ended before, and another time is tried."""
    rng = random.Random(seed)
    ends = [*(at for _, at in whole.begins[1:]), whole.seconds]
    spans = [(stage, begin, end) for (stage, begin), end in zip(whole.begins, ends, strict=True)]
    found: list[Run] = []
    for number in range(2 * trials):
        if len(found) == trials:
            break
        _, begin, end = spans[number % len(spans)]
        trial = run(folder, place, rng.uniform(begin, end))
        if trial.waited:
            found.append(trial)
    return found


def limited(done: Run) -> float:
    """Seconds from the first baseline to the rebuilt graph."""
    begins = dict(reversed(done.begins))
    return begins["report"] - begins["baselines"]


def table(trials: list[Run]) -> str:
    waited: dict[str, list[float]] = defaultdict(list)
    for trial in trials:
        waited[trial.stage].append(trial.waited)
    rows = [f"| {s} | {len(waited[s])} | {max(waited[s]):.2f} |" for s in STAGES if s in waited]
    return "\n".join(["| stage | interrupts | longest wait, s |", "| --- | --- | --- |", *rows])


def child(log: str, command: list[str]) -> int:
    """The command line, with a line in a file as each stage begins."""
    out = os.open(log, os.O_WRONLY | os.O_APPEND)

    def enter(stage: str) -> None:
        os.write(out, f"{stage} {time.monotonic()}\n".encode())

    def watch(home: object, name: str, stage: str, after: str = "") -> None:
        inner = getattr(home, name)

        def watched(*given, **named):  # type: ignore[no-untyped-def]
            enter(stage)
            found = inner(*given, **named)
            if after:
                enter(after)
            return found

        setattr(home, name, watched)

    enter("start")
    sys.argv = ["rewrite-engine", *command]
    from rewrite_engine import api
    from rewrite_engine.cli import entry
    from rewrite_engine.cli import place as placing
    from rewrite_engine.egraph import explore
    from rewrite_engine.placement import place

    watch(placing, "load_rules", "rules")
    watch(placing, "load_model", "import")
    watch(explore, "load", "encode")
    watch(explore, "_saturate", "saturate")
    watch(explore, "freeze", "freeze")
    watch(place, "baselines", "baselines", "search")
    watch(place, "rebuild", "rebuild")
    watch(api, "report", "report")
    watch(placing, "write_folder", "end")
    entry()
    return 0


if __name__ == "__main__":
    sys.exit(main())
