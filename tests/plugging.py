"""Small models and a machine for tests of what plugs in: every kernel of the target is worth moving there."""

from __future__ import annotations

from typing import Any

import rewrite_engine as rw
from rewrite_engine.language import load_text
from tests.models import parse

MACHINE = """
device n {{ memory 1MiB }}
link host <-> n: 10ns + bytes / 800GBps
target t on n {{ launch 10ns flops 9TFLOPS bandwidth 900GBps {items} }}
"""


def rules_of(items: str = "", **options: Any) -> rw.RuleSet:
    """A target `t` on a device `n`, both fast, so that what `t` can run is worth moving there."""
    return load_text(MACHINE.format(items=items), **options)


def module() -> rw.Module:
    """Relu, Neg, Add, Mul on images; the sizes are such that the host is worth leaving."""
    body = """g (float[1,4,32,32] x) => (float[1,4,32,32] y) {
        a = Relu(x)
        b = Neg(a)
        c = Add(a, b)
        d = Exp(c)
        y = Mul(d, x)
    }"""
    return rw.load(parse(body))


def clip_and_split() -> rw.Module:
    """An operator with an input that is absent, and one with two results."""
    body = """g (float[1,4,32,32] x) => (float[1,2,32,32] p, float[1,2,32,32] q) <float six = {6.0}> {
        c = Clip(x, , six)
        p, q = Split<axis=1, num_outputs=2>(c)
    }"""
    return rw.load(parse(body))


def targets_of(placement: rw.Placement) -> dict[str, str]:
    """The target of each operator by its first output."""
    steps = [step for step in placement.graph.steps if hasattr(step, "covers")]
    return {name: step.target for step in steps for name in step.covers}  # type: ignore[union-attr]
