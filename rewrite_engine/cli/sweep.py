"""`sweep`."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rewrite_engine.cli.summary import amount
from rewrite_engine.cli.text import say
from rewrite_engine.sweep.experiment import Instance, read_experiment
from rewrite_engine.sweep.run import TABLE, run_experiment


def sweep(options: argparse.Namespace) -> int:
    """Runs what an experiment still lacks; status 1 where instances ended with errors."""
    path = Path(options.experiment)
    experiment = read_experiment(path)
    folder = Path(options.output) if options.output else path.with_suffix("")

    def told(done: int, count: int, instance: Instance, result: Mapping[str, Any]) -> None:
        what = f"{Path(instance.model.path).stem} {instance.strategy} {instance.objective}"
        settings = "".join(f" {key}={value}" for key, value in instance.settings)
        found = f"error: {result['error']}" if "error" in result else amount(result["cost"], result["unit"])
        say(options, f"{done}/{count} {what}{settings}: {found}")

    jobs = options.jobs or max(1, (os.cpu_count() or 2) - 1)
    found = run_experiment(experiment, folder, jobs, told)
    if options.json:
        report = {"instances": found.instances, "run": found.run, "errors": found.errors, "table": str(folder / TABLE)}
        print(json.dumps(report, indent=1, sort_keys=True))
    else:
        print(f"instances  {found.instances}   run now {found.run}   errors {found.errors}")
        print(f"results    {folder / TABLE}")
    return 1 if found.errors else 0
