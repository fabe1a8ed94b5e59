"""docs/operators.md is current; random models of one operator agree with other implementations, or as it says."""

from __future__ import annotations

from collections import Counter

import pytest
from random_operators import Outcome, bases, run, trials

from rewrite_engine.loops import document
from rewrite_engine.loops.control import CONTROL
from rewrite_engine.loops.operators import OPERATORS


def test_the_page_is_current() -> None:
    assert document.PAGE.read_text(encoding="utf-8") == document.page()  # python -m rewrite_engine.loops.document


def test_the_page_speaks_of_operators_that_there_are() -> None:
    assert document.EXCEPTIONS.keys() <= {*OPERATORS, *CONTROL} and OPERATORS.keys() >= document.HOST
    assert document.DIFFERENCES.keys() <= OPERATORS.keys()
    assert not document.REFUSED.keys() & OPERATORS.keys()


def outcomes(seed: int, count: int) -> list[Outcome]:
    pytest.importorskip("onnxruntime")
    return [run(trial) for trial in trials(seed, count)]


def assert_explained(found: list[Outcome]) -> None:
    wrong = [o for o in found if o.kind == "broke"]
    wrong += [o for o in found if o.kind in ("differs", "split") and o.trial.op not in document.DIFFERENCES]
    assert not wrong, "\n".join(f"{o.kind} {o.trial.shown()}: {o.reason}" for o in wrong[:20])
    assert {o.trial.op for o in found if o.kind == "refused"} <= {"Dropout", "QLinearMatMul"}


def test_some_random_operators() -> None:
    found = outcomes(7, 165)
    assert_explained(found)
    assert Counter(o.kind for o in found)["agrees"] >= 145


@pytest.mark.slow
def test_every_operator_and_dtype() -> None:
    found = outcomes(11, 6000)
    assert_explained(found)
    assert {o.trial.op for o in found} == bases().keys() and len(bases()) >= 160
    assert len({(o.trial.op, o.trial.dtype) for o in found}) >= 1250
    assert Counter(o.kind for o in found)["agrees"] >= 5700
