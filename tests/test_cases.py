"""Faults that others have met, by the row of the table they stand in: each row's kind, and its neighbours.

What rule files can say is in `tests/cases`, one file per row; what needs a hand-made graph, limits or several files is
in `test_cases_engine.py`.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from rewrite_engine.language import load
from rewrite_engine.testing.in_file import run_case

FILES = sorted((Path(__file__).parent / "cases").glob("*.pat"))
CASES = [
    pytest.param(path, case.title, id=f"{path.stem}: {case.title}")
    for path in FILES
    for case in load([path]).tests
    if case.file.endswith(path.name)
]


@pytest.mark.parametrize(("path", "title"), CASES)
def test_row(path: Path, title: str) -> None:
    rules = load([path])
    (case,) = (case for case in rules.tests if case.title == title and case.file.endswith(path.name))
    result = run_case(rules, case)
    assert result.passed, result.reason
