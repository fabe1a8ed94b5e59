"""`match`: every match of every rule with operators and captures, the nearest miss of the others, and the command."""

from __future__ import annotations

import json

import pytest
from models import parse
from small_machines import BOARD, DYNAMIC, write_model, write_rules

import rewrite_engine as rw
from rewrite_engine.cli import main
from rewrite_engine.diagnostics import RewriteError
from rewrite_engine.language import load_text
from rewrite_engine.placement.explain_json import match_json
from rewrite_engine.placement.match import Matched, Matches

pytestmark = pytest.mark.second_python
GRAPH = """g (float[4, 6] x, float[4, 6] z) => (float[6, 4] y, float[4, 6] u)
    <float two = {2}, float[6] long = {1, 2, 3, 4, 5, 6}>
    { a = Mul(two, x) b = Add(a, long) t = Transpose <perm = [1, 0]> (b) y = Relu(t) u = Max(x, z, a) }"""


def found(rules: str, graph: str = GRAPH, **options: object) -> Matches:
    return rw.match(rw.load(parse(graph)), load_text(rules, "rules.pat"), **options)


def captured(match: Matched) -> dict[str, tuple[str, str, object]]:
    return {c.name: (c.value, c.type, c.elements) for c in match.captures}


def test_captures_by_name_value_and_type():
    (match,) = found("pattern scaled(x, c, k) = Add(Mul(x, const c), const k)").matches
    assert (match.rule, match.kind, match.target, str(match.span)) == ("scaled", "pattern", "", "rules.pat:1:1")
    assert [(node.op, node.name) for node in match.nodes] == [("Mul", "a"), ("Add", "b")]
    assert captured(match) == {
        "x": ("x", "float32[4, 6]", None), "c": ("two", "float32[]", 2.0),
        "k": ("long", "float32[6]", [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]),
    }  # fmt: skip


def test_captured_attributes_lists_and_inner_values():
    one, other = found(
        "pattern turned(x) = Relu(t) where t = Transpose(x, perm=p) if p == [1, 0]\npattern most(*xs) = Max(*xs)"
    ).matches
    assert captured(one) == {
        "x": ("b", "float32[4, 6]", None), "t": ("t", "float32[6, 4]", None), "p": ("", "perm of Transpose", (1, 0)),
    }  # fmt: skip
    assert captured(other) == {f"xs[{k}]": (n, "float32[4, 6]", None) for k, n in enumerate(("x", "z", "a"))}


def test_optional_parts_that_are_absent_are_no_captures():
    rules = "pattern biased(x, c, k?) = Add?(Mul(x, const c), const k?)"
    assert [sorted(captured(match)) for match in found(rules).matches] == [["c", "x"], ["c", "k", "x"]]


def test_capabilities_of_single_operators_and_of_targets_that_are_left_out():
    rules = """target t on host { bandwidth 1GBps supports Relu, Mul(a, const b) supports Add(a, b) if a.rank == 3 }
        target other on host { bandwidth 1GBps supports Relu }"""
    every = found(rules)
    assert [(m.rule, m.target, m.nodes[0].name) for m in every.matches] == [
        ("t.supports.0", "t", "y"), ("t.supports.0", "t", "a"), ("other.supports.0", "other", "y"),
    ]  # fmt: skip
    assert [u.rule for u in every.unmatched] == ["t.supports.1"]
    assert {m.target for m in found(rules, targets=["other"]).matches} == {"other"}


def test_every_supports_matches_where_a_cheaper_one_does():
    rules = "target t on host { supports Relu(x) cost 1us supports Relu cost 1ns }"
    assert [m.rule for m in found(rules).matches] == ["t.supports.0", "t.supports.1"]


def test_what_rules_make_matches_too():
    rules = "rule minus: Sub(x, y) => Add(x, Neg(y))\npattern negated(x) = Neg(x)"
    graph = "g (float[2] x, float[2] z) => (float[2] y) { y = Sub(x, z) }"
    rule, pattern = found(rules, graph).matches
    assert (rule.rule, pattern.rule) == ("minus", "negated")
    assert [(node.op, node.name) for node in pattern.nodes] == [("Neg", "")]
    assert "operators  Neg (made by rules)" in str(found(rules, graph))


def test_operands_that_rules_make_equal_keep_their_own_names():
    (match,) = found(
        "rule gone: Identity(x) => x", "g (float[2] x) => (float[2] y) { i = Identity(x) y = Relu(i) }"
    ).matches
    assert [(node.op, node.name) for node in match.nodes] == [("Identity", "i")]
    assert captured(match)["x"][0] == "x"


def test_rules_without_a_match_have_their_nearest_miss():
    rules = "pattern low(x) = Relu(Add(x, _))\npattern high(x) = Sigmoid(x)\npattern pair(x) = Tanh(x) | Exp(x)"
    low, high, pair = found(rules).unmatched
    assert (low.miss.value, low.miss.kind, low.miss.fitting, low.miss.operators) == ("b", "reader", 1, 2)
    assert (high.miss, high.wanted, pair.wanted) == (None, ("Sigmoid",), ("Tanh", "Exp"))
    shown = str(found(rules))
    assert "rules.pat:1:18: note: `b` must be read by Relu, but is read by Transpose" in shown
    assert "pattern high (rules.pat:2:1): the model has no Sigmoid" in shown
    assert "pattern pair (rules.pat:3:1): the model has none of Tanh, Exp" in shown


def test_the_nearest_miss_is_the_one_with_the_fewest_things_wrong():
    graph = """g (float[4, 4] x) => (float[4, 4] y) { a = Relu(x) b = Tanh(a) c = Exp(b) d = Relu(c) e = Tanh(d)
        f = Sigmoid(e) y = Relu(f) }"""
    (unmatched,) = found("pattern p(x) = Sigmoid(Tanh(Relu(Sigmoid(x))))", graph).unmatched
    assert (unmatched.miss.value, unmatched.miss.fitting) == ("c", 3)


def test_rules_that_allow_leaves_out_are_named():
    rules = "rule close approximates: Relu(x) => Abs(x)\nrule same: Relu(Relu(x)) => Relu(x)"
    assert found(rules).left_out == ("close",)
    assert [m.rule for m in found(rules).matches] == []
    assert [m.rule for m in found(rules, allow=("approximates",)).matches] == ["close"]
    assert "left out by --allow: close" in str(found(rules))


def test_dimensions_without_a_size_do_not_stop_it():
    matches = found(BOARD + "pattern big(x) = Relu(x) if x.shape[0] > 4", DYNAMIC)
    assert {m.rule for m in matches.matches} == {"fast.supports.0", "npu.supports.0", "npu.supports.1"}
    (big,) = matches.unmatched
    assert (big.miss.kind, big.miss.hint) == ("unknown", "--dim n=SIZE binds it")


@pytest.mark.parametrize("name", ["fastlib.pat", pytest.param("board.pat", marks=pytest.mark.slow)])
def test_the_bundled_rules_on_the_bundled_model(name):
    module, rules = rw.load(rw.bundled_model()), rw.load_rules(name)
    matches = rw.match(module, rules)
    assert matches.saturation == "complete"
    asked = [rule.name for rule in rules.rules if not rule.defines]
    seen = {m.rule for m in matches.matches}
    assert seen and seen.isdisjoint(u.rule for u in matches.unmatched)
    assert sorted([*seen, *(u.rule for u in matches.unmatched), *matches.left_out]) == sorted(asked)
    order = {name: k for k, name in enumerate(asked)}
    assert [order[m.rule] for m in matches.matches] == sorted(order[m.rule] for m in matches.matches)


def test_the_command_prints_text_and_json(tmp_path, capsys):
    rules, model = write_rules(tmp_path, BOARD), write_model(tmp_path)
    matches = rw.match(rw.load(model), rw.load_rules(rules))
    assert main(["match", model, "-p", rules]) == 0
    assert capsys.readouterr().out == str(matches) + "\n"
    assert main(["match", model, "-p", rules, "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed == match_json(matches)
    assert printed["schema"] == "rewrite_engine/match/1"
    assert [(m["rule"], m["nodes"][0]["name"], m["captures"][0]["type"]) for m in printed["matches"]] == [
        ("fast.supports.0", "t", "float32[1, 8]"), ("npu.supports.0", "t", "float32[1, 8]"),
        ("npu.supports.1", "y", "float32[1, 8]"),
    ]  # fmt: skip


@pytest.mark.parametrize(("options", "message"), [
    ({"allow": ("all",)}, "--allow takes exact, reassociates, approximates; found `all`"),
    ({"targets": ("gpu",)}, "gpu"),
])  # fmt: skip
def test_bad_options_are_one_clear_message(options, message):
    with pytest.raises(RewriteError, match=message):
        found(BOARD, **options)
