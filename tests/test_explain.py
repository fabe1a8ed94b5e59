"""Why operators run where they do: verdicts per target, what alternatives cost, obstacles, and the command."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from drawing import always, fitted, holds, some_graphs
from models import parse
from small_machines import BOARD, DYNAMIC, NO_LINK, write_model, write_rules

import rewrite_engine as rw
from rewrite_engine.cli import main
from rewrite_engine.diagnostics import RewriteError
from rewrite_engine.egraph.explore import explore
from rewrite_engine.graph.placed import KernelCall
from rewrite_engine.graph.terms import ABSENT
from rewrite_engine.language import load_text
from rewrite_engine.machine import build
from rewrite_engine.placement.explain import explain
from rewrite_engine.placement.explain_json import explain_json
from rewrite_engine.placement.explain_story import Explanation
from rewrite_engine.placement.place import place

pytestmark = pytest.mark.second_python
NPU = """device npu0 { memory 1MiB }
link host <-> npu0: 100ns + bytes / 8GBps
target npu on npu0 { launch 100ns
"""
CONV = f"""g (float[1, 3, 8, 8] x) => (float[1, 4, 6, 6] y)
    <float[4, 3, 3, 3] w = {{{", ".join(["1"] * 108)}}}, float[4] b = {{1, 2, 3, 4}}>"""
CHAIN = "g (float[4, 4] x) => (float[4, 4] y) { r = Relu(x) s = Sigmoid(r) t = Softmax(s) y = Tanh(t) }"


def explained(graph: str, capabilities: str, **options: object) -> Explanation:
    """A small graph in ONNX text, explained for a target behind a link that has these capabilities."""
    rules = load_text(f"{NPU}{capabilities}\n}}\n", "npu.pat")
    return rw.explain(rw.load(parse(graph)), rules, **options)


def verdict(explanation: Explanation, name: str, target: str = "npu"):
    (story,) = [story for story in explanation.stories if story.name == name]
    (found,) = [verdict for verdict in story.verdicts if verdict.target == target]
    return found


# ---------------------------------------------------------------- verdicts


def test_row_20_a_bias_spelt_as_an_add_misses_convolutions_that_have_it_as_an_input():
    capability = "  composite conv_bias(x, w, b) = Relu(Add(Conv(x, const w), const b)) cost 1ns"
    found = explained(CONV + " { c = Conv(x, w, b) y = Relu(c) }", capability)
    conv = verdict(found, "c")
    assert (conv.status, conv.rule) == ("no match", "npu.conv_bias")
    assert conv.miss.text == "Conv `c` has input B here (`b`), `Conv(x, const w)` has none"
    shown = str(found)
    assert "1. npu: 1 of 1 Conv, " in shown  # the first obstacle of the overview
    assert "every Conv with input B is missed; an optional input B (`b?` in its place) matches" in shown
    lines = shown.splitlines()
    at = next(k for k, line in enumerate(lines) if line.strip().startswith("npu.pat:4:43: note: Conv `c` has input B"))
    assert lines[at + 1].strip() == f"4 | {capability}"
    assert lines[at + 2].index("^") == lines[at + 1].index("Conv(x, const w)")


def test_every_kind_of_verdict_in_one_model():
    capabilities = """  supports Relu(x) cost 1ns
  supports Sigmoid(x) if x.shape[0] <= 2 cost 1ns
  composite pair(x) = Exp(Softmax(x)) cost 1ns"""
    found = explained(CHAIN, capabilities)
    assert {story.name: verdict(found, story.name).status for story in found.stories} == {
        "r": "dearer", "s": "refused", "t": "no match", "y": "unsupported",
    }  # fmt: skip
    refused = verdict(found, "s")
    assert refused.miss.text == "`x.shape[0] <= 2` does not hold: 4 <= 2 (x is `r`)"
    assert refused.rule == "npu.supports.1" and str(refused.span) == "npu.pat:5:3"
    assert verdict(found, "t").miss.text == "`t` must be read by Exp, but is read by Tanh"


def test_dearer_by_the_kernel_the_launch_and_the_copies():
    found = explained("g (float[4, 4] x) => (float[4, 4] y) { y = Relu(x) }", "  supports Relu(x) cost 3ns", node="y")
    dearer = verdict(found, "y").dearer
    host = found.node.runs[0].cost
    copy = 100_000 + 64 * 125  # ps: 100ns + 64 bytes at 8GBps
    assert (dearer.kernel, dearer.launches, dearer.copies) == (3_000 - host, 100_000, 2 * copy)
    assert dearer.total == dearer.kernels + dearer.launches + dearer.copies and dearer.exact
    assert [(c.value, c.source, c.destination, c.cost) for c in dearer.more] == [
        ("x", "host", "npu0", copy), ("y", "npu0", "host", copy),
    ]  # fmt: skip
    assert "copied as well: `x` host -> npu0 (0.108 us), `y` npu0 -> host (0.108 us)" in str(found)


def test_what_moves_with_an_operator_is_told():
    graph = "g (float[64, 64] x) => (float[64, 64] y) { a = Relu(x) b = Tanh(a) y = Relu(b) }"
    found = explained(graph, "  supports Relu(x) cost 1ns\n  supports Tanh(x) cost 1ns", node="b")
    dearer = verdict(found, "b").dearer if found.node.runs[0].target == "host" else verdict(found, "b", "host").dearer
    assert {name for name, _, _ in dearer.moved} == {"a", "b", "y"}
    assert "moves with it: `a` from" in str(found)


def test_where_no_link_leads_nothing_brings_values_there():
    rules = load_text(NO_LINK, "board.pat")
    found = rw.explain(rw.load(parse("g (float[2] x) => (float[2] y) { y = Sigmoid(x) }")), rules, node="y")
    assert verdict(found, "y").status == "impossible"
    assert "nothing brings its values there and back" in str(found)


def test_a_pin_is_the_reason_where_it_is_one():
    found = explained(CHAIN, "  supports Relu(x) cost 1ps", pins={"r": "host"})
    assert (verdict(found, "r").status, verdict(found, "r").rule) == ("pinned", "host")
    assert "npu: pinned to host" in str(found)


def test_row_21_what_is_computed_twice_is_said_to_be():
    graph = "g (float[1000] x) => (float[1000] b, float[1000] c) { a = Relu(x) b = Tanh(a) c = Erf(a) }"
    rules = load_text("""target host { bandwidth 1GBps }
        target lib on host { launch 1us composite both(x) = Tanh(Relu(x)) cost 1us }""")
    found = rw.explain(rw.load(parse(graph)), rules)
    (story,) = [story for story in found.stories if story.name == "a"]
    assert sorted(run.target for run in story.runs) == ["host", "lib"]
    assert "computed 2 times: a kernel keeps its result to itself, and others read it too" in str(found)


def test_what_rewriting_leaves_nothing_of():
    rules = load_text("rule drop_identity: Identity(x) => x")
    found = rw.explain(
        rw.load(parse("g (float[2] x) => (float[2] y) { a = Identity(x) y = Relu(a) }")), rules, node="a"
    )
    assert found.node.runs == () and found.node.rewrites == ("drop_identity",)
    assert "nowhere: rewriting has left nothing of it to compute (drop_identity)" in str(found)


def test_a_size_that_is_not_known_leaves_a_model_unplaced_but_explained():
    rules = load_text(BOARD.replace("supports Sigmoid(x)", "supports Sigmoid(x) if x.shape[0] <= 4"), "board.pat")
    found = rw.explain(rw.load(parse(DYNAMIC)), rules)
    assert found.placement is None and "--dim n=SIZE" in found.unplaced
    unknown = verdict(found, "y")
    assert (unknown.status, unknown.miss.kind, unknown.miss.hint) == ("refused", "unknown", "--dim n=SIZE binds it")
    assert unknown.miss.text == "`x.shape[0] <= 4` is not known to hold: dimension `n` of `x` is unknown (x is `t`)"
    assert verdict(found, "t").status == "legal"
    bound = rw.explain(rw.load(parse(DYNAMIC), dims={"n": 8}), rules)
    assert verdict(bound, "y").miss.text.startswith("`x.shape[0] <= 4` does not hold: 8 <= 4")
    fits = rw.explain(rw.load(parse(DYNAMIC), dims={"n": 4}), rules)
    assert verdict(fits, "y").status == "dearer"


def test_a_cost_over_a_size_that_is_not_known_leaves_matches_as_they_are():
    rules = load_text("target t on host { supports Relu(x) cost x.shape[0] * 1ns }", "t.pat")
    module = rw.load(parse(DYNAMIC))
    assert [(m.rule, m.nodes[0].name) for m in rw.match(module, rules).matches] == [("t.supports.0", "t")]
    assert verdict(rw.explain(module, rules), "t", "t").status == "legal"


# ---------------------------------------------------------------- what alternatives cost


@always(8)
def test_dearer_is_what_pinning_the_operator_costs_more(examples):
    rules = load_text(
        NPU.replace("100ns", "1us")
        + """
  supports Relu(x) cost 10ns  supports Add(a, b) cost 20ns  supports Mul(a, b) cost 700ns  supports Neg(x) cost 1ns
}
target fast on host { launch 300ns  supports Relu(x) cost 5ns  supports Sub(a, b) cost 5ns  supports Neg(x) cost 1ns }
target host { bandwidth 10GBps }"""
    )
    compared = []

    def check(graph):
        best = place(graph, rules)
        for index, node in enumerate(graph.nodes[:6]):
            if len(node.outputs) > 1 or repeated(graph, index) or node.outputs[0] in graph.outputs:
                continue  # an output of the model that is pinned stays there
            name = graph.values[node.outputs[0]].name
            found = explain(graph, rules, node=name)
            for one in found.node.verdicts:
                if one.dearer is not None:
                    pinned = place(graph, rules, pins={name: one.target})
                    assert one.dearer.total == pinned.costs.total - best.costs.total, (name, one)
                    assert one.dearer.exact and one.dearer.total >= 0
                    compared.append(one)

    holds(examples, check, some_graphs())
    assert len(compared) >= (examples or 8)


def repeated(graph, index: int) -> bool:
    """Whether another operator of the graph is the same: a pin is for both."""
    same = [n for n in graph.nodes if (n.op, set(n.inputs)) == (graph.nodes[index].op, set(graph.nodes[index].inputs))]
    return len(same) > 1


# ---------------------------------------------------------------- matches and the e-graph


@always(10)
def test_the_explainer_says_that_it_matches_exactly_where_egglog_matched(examples):
    seen = {True: 0, False: 0}

    def check(case):
        terms, rules = case.graph, case.rules
        explored = explore(terms, rules.rules, build(rules))
        assert explored.saturation == "complete"
        for node in terms.nodes[len(terms.nodes) % 3 :: 3]:
            outputs = [o for o in node.outputs if o != ABSENT]
            classes = {explored.class_of[o] for o in outputs}
            matched = {match.rule.name for match in explored.matches if classes & set(match.computed)}
            found = explain(terms, rules, node=terms.values[outputs[0]].name)
            said = {one.rule for one in found.candidates if one.matches and ".supports." not in one.rule}
            assert said == matched
            assert not any(candidate.miss.kind == "off" for candidate in found.candidates)
            for candidate in found.candidates:
                seen[candidate.matches] += 1

    holds(examples, check, fitted())
    assert min(seen.values()) >= (examples or 10) // 2, seen


# ---------------------------------------------------------------- the whole


def test_the_overview_is_complete_and_ordered():
    found = rw.explain(rw.load(rw.bundled_model()), rw.load_rules("npu.pat", "fastlib.pat"))
    groups = found.groups()
    assert sorted(s.name for group in groups for s in group) == sorted(s.name for s in found.stories)
    costs = [sum(run.cost for story in group for run in story.runs) for group in groups]
    assert costs == sorted(costs, reverse=True)
    assert [o.cost for o in found.obstacles] == sorted((o.cost for o in found.obstacles), reverse=True)
    calls = [step for step in found.placement.graph.steps if isinstance(step, KernelCall)]
    for story in found.stories:
        assert {run.kernel for run in story.runs} == {call.name for call in calls if story.name in call.covers}
        assert {run.target for run in story.runs}.isdisjoint(verdict.target for verdict in story.verdicts)
        if story.runs:
            assert len({run.target for run in story.runs}) + len(story.verdicts) == 3
    blocked = [(v.target, s.name) for s in found.stories for v in s.verdicts if v.miss or v.status == "unsupported"]
    listed = [(o.target, name) for o in found.obstacles for name in o.names]
    assert sorted(listed) == sorted(pair for pair in blocked if pair[0] != "host")


def test_the_same_text_in_every_process(tmp_path):
    rules, model = write_rules(tmp_path, BOARD), write_model(tmp_path)
    texts = set()
    for seed in ("0", "1"):
        command = [sys.executable, "-m", "rewrite_engine", "explain", model, "-p", rules]
        done = subprocess.run(command, capture_output=True, env={**os.environ, "PYTHONHASHSEED": seed}, check=True)
        texts.add(done.stdout)
    assert len(texts) == 1 and b"operators, the most expensive kinds first" in texts.pop()


# ---------------------------------------------------------------- the command


def test_the_command_prints_text_and_json(tmp_path, capsys):
    rules, model = write_rules(tmp_path, BOARD), write_model(tmp_path)
    module, loaded = rw.load(model), rw.load_rules(rules)
    for arguments, expected in (
        ([], {}),
        (["--node", "t"], {"node": "t"}),
        (["--targets", "fast"], {"targets": ["fast"]}),
    ):
        assert main(["explain", model, "-p", rules, *arguments]) == 0
        explanation = rw.explain(module, loaded, **expected)
        assert capsys.readouterr().out == str(explanation) + "\n"
        assert main(["explain", model, "-p", rules, *arguments, "--json"]) == 0
        assert json.loads(capsys.readouterr().out) == explain_json(explanation)


def test_the_json_has_all_that_the_text_has():
    capabilities = "  supports Relu(x) cost 1ns\n  supports Sigmoid(x) if x.shape[0] <= 2 cost 1ns"
    found = explain_json(explained(CHAIN, capabilities))
    assert (found["schema"], found["unit"]) == ("rewrite_engine/explain/1", "ps")
    by_name = {operator["name"]: operator for operator in found["operators"]}
    (elsewhere,) = by_name["s"]["elsewhere"]
    assert elsewhere["status"] == "refused" and elsewhere["miss"]["line"] == 5
    assert elsewhere["miss"]["message"].startswith("`x.shape[0] <= 2` does not hold: 4 <= 2")
    assert by_name["r"]["elsewhere"][0]["dearer"]["total"] > 0
    assert [o["op"] for o in found["obstacles"]] and found["obstacles"][0]["verdict"]["target"] == "npu"
    node = explain_json(explained(CHAIN, capabilities, node="s"))
    assert node["operator"]["name"] == "s" and node["candidates"][0]["matches"] is False
    assert "operators" not in node


@pytest.mark.parametrize(("node", "message"), [
    ("nothing", "no operator of the model computes `nothing`; give the name of an operator's result, such as `relu_1`"),
    ("relu_2", "no operator of the model computes `relu_2`; give the name of an operator's result; did you mean "
     "`relu_1`?"),
    ("x", "`x` is an input of the model"),
    ("c", "`c` is a constant"),
])  # fmt: skip
def test_a_name_that_is_no_operators_result(node, message):
    graph = "g (float[2] x) => (float[2] y) <float c = {2}> { relu_1 = Relu(x) y = Mul(relu_1, c) }"
    with pytest.raises(RewriteError) as caught:
        explained(graph, "  supports Relu(x)", node=node)
    assert str(caught.value).startswith("--node: ") and message in str(caught.value)


def test_bad_usage_of_the_command_is_one_clear_message(tmp_path, capsys):
    rules, model = write_rules(tmp_path, BOARD), write_model(tmp_path)
    for arguments, message in (
        (["--node", "nothing"], "--node: no operator of the model computes `nothing`"),
        (["--targets", "gpu"], "gpu"), (["--allow", "all"], "--allow takes exact"), (["--pin", "q=npu"], "--pin"),
    ):  # fmt: skip
        assert main(["explain", model, "-p", rules, *arguments]) == 2
        captured = capsys.readouterr()
        assert captured.out == "" and message in captured.err and "Traceback" not in captured.err


def test_energies_are_told_in_their_unit_and_other_objectives_without_totals():
    graph = "g (float[64, 64] x) => (float[64, 64] y) { y = Relu(x) }"
    capability = "  supports Relu(x) cost 1ns energy 5nJ"
    energy = explained(graph, capability, objective="energy")
    assert explain_json(energy)["unit"] == "pJ" and " uJ" in str(energy) and " us" not in str(energy)
    makespan = explained(graph, capability, objective="makespan", node="y")
    assert {v.status for v in makespan.node.verdicts} == {"legal"}
    assert "could run there by npu.supports.0 (npu.pat:4:3), its kernel 0.001 us" in str(makespan)
