"""Why a guard does not hold: the part that fails first, through `and`s and `let`s, with the values that it saw."""

from __future__ import annotations

import re

import pytest
from models import parse

import rewrite_engine as rw
from rewrite_engine.language import load_text

LETS = """let most = 3
let small(c) = all(c.kernel_shape <= most) and plain(c)
let plain(c) = c.group == 1 and all(c.pads == 0)
let even(n) = n % 2 == 0
let fits(c) = small(c) and even(c.inputs[0].shape[1])
let never = most > 4
"""
ROWS = [
    ("all(c.kernel_shape <= 2)", "`all(c.kernel_shape <= 2)` does not hold: `c.kernel_shape`: [3, 3]"),
    ("c.group == 2 or all(c.pads == 0)",
     "`(c.group == 2) or all(c.pads == 0)` does not hold: `c.group`: 1, `c.pads`: [1, 1, 1, 1]"),
    ("even(x.shape[1])", "`even(x.shape[1])` does not hold: `(n % 2) == 0`: 1 == 0"),
    ("plain(c)", "`plain(c)` does not hold: `all(c.pads == 0)`: `c.pads`: [1, 1, 1, 1]"),
    ("small(c)", "`small(c)` does not hold: `all(c.pads == 0)`: `c.pads`: [1, 1, 1, 1]"),
    ("fits(c)", "`fits(c)` does not hold: `all(c.pads == 0)`: `c.pads`: [1, 1, 1, 1]"),
    ("never or c.group == 4", "`never or (c.group == 4)` does not hold: `c.group`: 1"),
    ("c.group == 1 and even(x.shape[1]) and plain(c)",
     "`even(x.shape[1])` does not hold: `(n % 2) == 0`: 1 == 0"),
    ("all(even(d) for d in x.shape)", "`all(even(d) for d in x.shape)` does not hold: not for 1"),
    ("x.shape[1] in {2, 4}", "`x.shape[1] in {2, 4}` does not hold: 3 in {2, 4}"),
    ("not even(2)", "`not even(2)` does not hold"),
]  # fmt: skip
GRAPH = f"""g (float[1, 3, 8, 8] x) => (float[1, 4, 8, 8] c) <float[4, 3, 3, 3] w = {{{", ".join(["1"] * 108)}}}>
    {{ c = Conv <pads = [1, 1, 1, 1]> (x, w) }}"""


@pytest.mark.parametrize(("guard", "text"), ROWS)
def test_the_part_that_fails_and_what_it_saw(guard, text):
    named = " as c" if re.search(r"\bc\b", guard) else ""
    rules = load_text(f"{LETS}pattern p(x, w) = Conv(x, w){named} if {guard}", "rules.pat")
    (unmatched,) = rw.match(rw.load(parse(GRAPH)), rules).unmatched
    assert unmatched.miss.text == text


def test_what_is_not_known_inside_a_let():
    rules = load_text(f"{LETS}pattern p(x) = Relu(x) as r if even(x.shape[0]) and even(r.rank)", "rules.pat")
    graph = "g (float[n, 2] x) => (float[n, 2] y) { y = Relu(x) }"
    (unmatched,) = rw.match(rw.load(parse(graph)), rules).unmatched
    assert unmatched.miss.text == "`even(x.shape[0])` is not known to hold: dimension `n` of `x` is unknown"
