"""The session that talks to egglog: programs, facts, rows; and its front end, imported later."""

from __future__ import annotations

import subprocess
import sys

import pytest

from rewrite_engine.egraph.session import Session

CHAIN = """
(relation edge (i64 i64)) (relation path (i64 i64))   ; two commands (and a comment) on a line
(ruleset walk)
(rule ((edge a b))
      ((path a b)) :ruleset walk)
(rule ((path a b) (edge b c)) ((path a c)) :ruleset walk)
"""


def test_programs_facts_and_rows():
    with Session() as session:
        session.run(CHAIN)
        session.facts("edge", [(10, 2), (2, 3), (3, 4)])
        session.saturate("walk")
        assert session.rows("path") == [(2, 3), (2, 4), (3, 4), (10, 2), (10, 3), (10, 4)]
        assert session.sizes()["path"] == 6 and session.sizes()["edge"] == 3
        assert not session.run_once("walk")
        session.facts("edge", [(4, 10)])
        assert session.run_once("walk")


def test_a_command_that_is_not_closed():
    with Session() as session, pytest.raises(AssertionError, match="not closed"):
        session.run("(relation a (i64)")


def test_sessions_are_apart():
    with Session() as one, Session() as other:
        one.run(CHAIN)
        one.facts("edge", [(1, 2)])
        other.run(CHAIN)
        assert other.rows("edge") == []


LATER = """
import sys
from rewrite_engine.egraph.session import Session
with Session() as session:
    session.run("(relation a (i64))")
assert "egglog" not in sys.modules, "the front end was imported"
from egglog import EGraph, Expr, eq, i64Like, rewrite, vars_
class N(Expr):
    def __init__(self, value: i64Like): ...
    def __add__(self, other: "N") -> "N": ...
graph, (a, b) = EGraph(), vars_("a b", N)
total = graph.let("total", N(1) + N(2))
graph.register(rewrite(a + b).to(b + a))
graph.run(3)
graph.check(eq(total).to(N(2) + N(1)))
with Session() as session:
    session.run("(relation a (i64))")
"""


@pytest.mark.second_python
def test_the_front_end_works_beside_the_engine():
    subprocess.run([sys.executable, "-c", LATER], check=True)
