"""Benchmarks without the data that they read say what is missing, with status 2 and no traceback."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"


@pytest.mark.parametrize(
    "words",
    [
        ["match.py"],
        ["instances.py"],
        ["partitioning.py"],
        ["beside_tvm.py"],
        ["translated_rules.py"],
        ["road.py"],
        ["bundle.py"],
    ],
    ids=lambda words: words[0],
)
def test_missing_data_is_named(tmp_path: Path, words: list[str]) -> None:
    nowhere = str(tmp_path / "nowhere")
    variables = {"REWRITE_ENGINE_DATA": nowhere, "REWRITE_ENGINE_PACKAGES": nowhere}
    if words[0] in ("road.py", "bundle.py"):  # of the main models one comes with the package
        words = [*words, *(["--models"] if words[0] == "road.py" else []), "bert12.legacy"]
    if words[0] == "beside_tvm.py":  # what it needs is another Python
        words = [*words, "--tvm-python", nowhere]
    command = [sys.executable, str(BENCHMARKS / words[0]), *words[1:]]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ | variables)
    said = done.stdout + done.stderr
    assert done.returncode == 2, said
    assert nowhere in said and "Traceback" not in said
