"""`reduce`: the smallest model on which a command still fails."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from rewrite_engine.cli.text import say
from rewrite_engine.diagnostics import RewriteError
from rewrite_engine.files import check_writable, write_file

if TYPE_CHECKING:
    from rewrite_engine.graph.cut import Step


def reduce(options: argparse.Namespace) -> int:
    """Reduces, or replays the steps of an earlier run; the best model so far is on disk after each step."""
    from rewrite_engine.graph.onnx_file import read_model
    from rewrite_engine.testing.reduce import Check, replay
    from rewrite_engine.testing.reduce import reduce as search

    output = Path(options.output)
    check_writable(output.parent)
    model = read_model(options.model).model
    if options.replay is not None:
        found = replay(model, _steps(options.replay))
        write_file(output, found.SerializeToString(deterministic=True))
        say(options, f"{output}: {len(found.graph.node)} nodes")
        return 0
    if options.check is None:
        raise RewriteError("expected --check COMMAND, or --replay STEPS.json")
    check = Check(options.check, options.pattern, options.timeout)
    try:
        done = search(model, check, lambda text: say(options, text), lambda content: write_file(output, content))
    except KeyboardInterrupt:
        if output.exists():
            say(options, f"the smallest model so far is {output}")
        raise
    if not done.steps:
        write_file(output, model.SerializeToString(deterministic=True))
    if options.json:
        shown = {"model": str(output), "nodes": len(done.model.graph.node), "runs": done.runs,
                 "steps": [asdict(step) for step in done.steps]}  # fmt: skip
        print(json.dumps(shown, indent=1, sort_keys=True))
    else:
        count = f"{len(model.graph.node)} nodes, {len(done.model.graph.node)} left"
        print(f"{output}: {count}; {len(done.steps)} steps, the command ran {done.runs} times")
    return 0


def _steps(path: str) -> list[Step]:
    from rewrite_engine.graph.cut import Step

    try:
        rows = json.loads(Path(path).read_text())["steps"]
        return [Step(**{**row, "names": tuple(row["names"])}) for row in rows]
    except OSError as error:
        raise RewriteError(f"cannot read {path}: {error.strerror}") from None
    except (ValueError, TypeError, KeyError, RecursionError):
        raise RewriteError(f"{path} holds no steps; expected what `reduce --json` prints") from None
