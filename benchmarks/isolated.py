"""A measurement in a process of its own, where nothing is warm; what it found comes back as JSON."""

from __future__ import annotations

import json
import os
import subprocess
import sys


def isolated(name: str, script: str, *arguments: str) -> dict[str, object] | None:
    """What a script prints, on one thread; None where it failed, with the reason on stderr."""
    command = [sys.executable, script, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ | {"OPENBLAS_NUM_THREADS": "1"})
    if done.returncode:
        print(f"{name} failed: {done.stderr.strip()}", file=sys.stderr)
        return None
    row: dict[str, object] = json.loads(done.stdout)
    problems = row.get("problems", [])
    assert isinstance(problems, list)
    print(f"{name} measured", *problems, sep="\n  ", file=sys.stderr)
    return row
