"""Placements used again: unedited to the same bytes, edited where the rules allow it, else one clear error."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from models import MAIN_MODELS, find_model, get_model, parse
from test_cli import cli, refused  # noqa: F401 (fixtures)

import rewrite_engine as rw
from rewrite_engine import api
from rewrite_engine.backend.inputs import random_inputs
from rewrite_engine.language import load_text
from rewrite_engine.placement.compare import compare
from rewrite_engine.placement.reuse import reuse

RULES = """
device acc { memory 1MiB }
link host <-> acc: 100ns + bytes / 8GBps
target fast on host { launch 100ns
  supports Relu(x), Exp(x) cost 200ns
}
target npu on acc { launch 100ns
  composite gate(x) = Sigmoid(Relu(x)) cost 10ns
  supports Relu(x), Sigmoid(x), Exp(x), Neg(x), Add(x, y), Split(x) cost 10ns
}
"""
MODEL = """g (float[4, 64] x) => (float[4, 64] y, float[2, 64] z) {
    a = Relu(x)  b = Sigmoid(a)  c = Exp(b)  d = Neg(c)  e = Add(d, b)
    p, q = Split<axis=0, num_outputs=2>(e)
    s = Add(p, q)  z = Softmax(s)  y = Tanh(e)
}"""


@pytest.fixture(scope="module")
def module() -> rw.Module:
    return rw.load(parse(MODEL))


@pytest.fixture(scope="module")
def rules() -> rw.RuleSet:
    return load_text(RULES)


@pytest.fixture(scope="module")
def written(module, rules) -> dict[str, bytes]:
    return api.report(module, rw.place(module, rules), rules=rules)


@pytest.fixture
def data(written) -> dict[str, Any]:
    """What a test may edit."""
    return json.loads(written["placement.json"])


def kernel(data: dict[str, Any], node: str) -> dict[str, Any]:
    return next(row for row in data["kernels"] if node in row["nodes"])


def placed(module, rules, data: dict[str, Any]) -> rw.Placement:
    return api.place(module, rules, strategy=reuse(data, "p.json"))


def targets(placement: rw.Placement) -> dict[str, str]:
    steps = [step for step in placement.graph.steps if hasattr(step, "covers")]
    return {name: step.target for step in steps for name in step.covers}


def test_the_placement_to_edit(data) -> None:
    """Everything that the accelerator can run is there, the gate as one kernel, in one region."""
    assert kernel(data, "a")["rule"] == "npu.gate" and kernel(data, "a")["nodes"] == ["a", "b"]
    assert {row["target"] for row in data["kernels"]} == {"npu", "host"} and data["status"] == "optimal"


def test_unedited_it_gives_the_same_bytes(module, rules, written, tmp_path) -> None:
    (tmp_path / "p.json").write_bytes(written["placement.json"])
    again = api.reuse(module, rules, tmp_path / "p.json")
    files = api.report(module, again, rules=rules)
    assert files["model.onnx"] == written["model.onnx"]
    found, before = json.loads(files["placement.json"]), json.loads(written["placement.json"])
    assert {key for key in found if found[key] != before[key]} == {"strategy"} and found["strategy"] == "reuse"
    bundle = rw.compile(module, rules, placement=str(tmp_path / "p.json"), engine="numpy")
    assert bundle.extra_files["model.onnx"] == written["model.onnx"]


@pytest.mark.parametrize("strategy", ["priority", "largest", "dp", "single:npu", "single:host"])
def test_other_strategies_are_used_again_too(module, rules, strategy) -> None:
    first = api.report(module, rw.place(module, rules, strategy=strategy), rules=rules)
    again = placed(module, rules, json.loads(first["placement.json"]))
    assert api.report(module, again, rules=rules)["model.onnx"] == first["model.onnx"]


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(MAIN_MODELS))
def test_real_models_are_used_again(name) -> None:
    find_model(name)
    module, board = rw.load(get_model(name), dims=MAIN_MODELS[name]), rw.load_rules("board.pat")
    for strategy in ("optimal", "priority"):
        first = api.report(module, rw.place(module, board, strategy=strategy), rules=board)
        again = placed(module, board, json.loads(first["placement.json"]))
        assert api.report(module, again, rules=board)["model.onnx"] == first["model.onnx"]


# ---------------------------------------------------------------- edits that are followed


def move(node: str, target: str, **more: str) -> Callable[[dict[str, Any]], None]:
    return lambda data: kernel(data, node).update(target=target, **more)


@pytest.mark.parametrize(
    ("edit", "expected"),
    [
        (move("c", "fast"), {"c": "fast"}),
        (move("c", "fast", device="host"), {"c": "fast"}),
        (move("c", "host", device="host", rule="host"), {"c": "host"}),  # all of the row edited
        (move("d", "host"), {"d": "host"}),
        (move("a", "host"), {"a": "host", "b": "host"}),  # a composite: its operators one by one
        (move("p", "host"), {"p": "host"}),  # an operator of two results
        (move("y", "host"), {}),  # it is there
        (lambda data: (move("a", "host")(data), move("c", "host")(data)), {"a": "host", "b": "host", "c": "host"}),
        (lambda data: [row.update(target="host") for row in data["kernels"]], dict.fromkeys("abcdepsyz", "host")),
    ],
)
def test_edits_are_followed_and_costed_anew(module, rules, data, edit, expected) -> None:
    before = targets(rw.place(module, rules))
    edit(data)
    placement = placed(module, rules, data)
    assert targets(placement) == {**before, **expected}
    report = json.loads(api.report(module, placement, rules=rules)["placement.json"])
    assert report["cost"]["total"] >= data["cost"]["total"] == report["bound"]
    assert report["status"] == ("optimal" if report["cost"]["total"] == report["bound"] else "feasible")
    bundle = rw.compile(module, rules, placement=placement, engine="numpy")
    feed = random_inputs(bundle.inputs, 1)
    expected_outputs = rw.compile(module, rules, targets=["host"], engine="numpy").run(feed)
    for name, array in bundle.run(feed).items():
        np.testing.assert_allclose(array, expected_outputs[name], rtol=1e-6)


def test_moving_back_what_was_moved_is_the_first_placement(module, rules, data, written) -> None:
    kernel(data, "c").update(target="host")
    moved = json.loads(api.report(module, placed(module, rules, data), rules=rules)["placement.json"])
    kernel(moved, "c").update(target="npu")
    again = api.report(module, placed(module, rules, moved), rules=rules)
    assert json.loads(again["placement.json"])["cost"] == json.loads(written["placement.json"])["cost"]


def test_regions_may_be_cut(module, rules, data) -> None:
    last = [row for row in data["kernels"] if row["target"] == "npu"][-1]
    last["region"] = "one of its own"
    placement = placed(module, rules, data)
    assert placement.costs.launches == data["cost"]["launches"] + 100_000


# ---------------------------------------------------------------- what cannot be followed


def drop(node: str) -> Callable[[dict[str, Any]], None]:
    return lambda data: data["kernels"].remove(kernel(data, node))


def twice(node: str, **changes: Any) -> Callable[[dict[str, Any]], None]:
    return lambda data: data["kernels"].append({**kernel(data, node), "id": "again", **changes})


def regions(**names: str) -> Callable[[dict[str, Any]], None]:
    return lambda data: [kernel(data, node).update(region=region) for node, region in names.items()]


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (move("z", "npu"), r"kernel `host\.Softmax\.1`: target `npu` cannot compute `z` of `z`: no capability of it .*"
         r"it can be computed by host"),
        (move("d", "fast"), "target `fast` cannot compute `d` of `d`"),
        (move("a", "fast"), "target `fast` cannot compute `b` of `a`, `b`"),
        (move("c", "gpu"), "there is no target `gpu`; there are fast, host, npu"),
        (move("c", "npuu"), "there is no target `npuu`; did you mean `npu`"),
        (move("c", "npu", device="host"), "target `npu` computes on `acc`, found device `host`; change the target"),
        (move("c", "npu", device="disk"), "there is no device `disk`"),
        (move("c", "npu", rule="npu.gaet"), "no kernel here comes from a rule `npu.gaet`; did you mean `npu.gate`"),
        (move("c", "npu", rule="npu.gate"), "rule `npu.gate` does not match `c` on `npu` in this model"),
        (move("c", "host", rule="npu.gate"), "rule `npu.gate` does not match `c` in this model"),
        (lambda data: kernel(data, "c").update(nodes=["cc"]), "the model has no operator that computes `cc`"),
        (lambda data: kernel(data, "c").update(nodes=["c", "d"]), "does not match `c`, `d` on `npu` in this model"),
        (drop("c"), "reads `c`, that no kernel of the file computes; a kernel was left out"),
        (drop("a"), "reads `b`, that no kernel of the file computes"),
        (drop("y"), "the model's output `y` is one that no kernel of the file computes"),
        (drop("p"), "reads `[pq]`, that no kernel of the file computes"),
        (twice("c"), "covers `c`, which kernel `npu.Exp.1` computes on `npu` too; leave one of them out"),
        (twice("a", id="npu.gate.1"), "kernel `npu.gate.1` is there 2 times"),
        (twice("a", rule="npu.supports.0", nodes=["a"]), "nothing reads `a`, which it computes; leave it out"),
        (regions(a="r", b="r", c="s", d="r", e="r", p="r", s="r"), "region `r` is not convex: a value leaves it and"),
        (regions(y="host.region.9", z="host.region.9"), "region `host.region.9` is not connected"),
        (regions(a="r", e="r", p="r", s="r", c="s", d="s"), "the graph of regions has a cycle: `[rs]` .* <- `[rs]`"),
    ],
)  # fmt: skip
def test_what_the_rules_do_not_allow_is_one_clear_error(module, rules, data, edit, message) -> None:
    edit(data)
    with pytest.raises(rw.RewriteError, match=rf"^p\.json: .*{message}"):
        placed(module, rules, data)


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (lambda data: data.update(schema="rewrite_engine/placement/2"), "expected schema `rewrite_engine/placement/1`"),
        (lambda data: data.pop("schema"), "expected schema .*, found `None`; `place -o DIR` writes such a file"),
        (lambda data: data.update(model=None), "expected the `sha256` of the model"),
        (lambda data: data.update(kernels={}), "expected a list `kernels`, found dict"),
        (lambda data: data.update(rules=3), "expected a list `rules`, found int"),
        (lambda data: data["kernels"].insert(0, 3), "kernel 0: expected an object, found int"),
        (lambda data: data["kernels"][0].pop("target"), r"kernel 0 \(`.*`\): expected a text `target`, found None"),
        (lambda data: data["kernels"][0].update(nodes="a"), "expected a list of names `nodes`, found 'a'"),
        (lambda data: data["kernels"][0].update(cost="1"), "expected whole picoseconds `cost`, found '1'"),
    ],
)
def test_what_is_no_placement_is_refused(data, edit, message) -> None:
    edit(data)
    with pytest.raises(rw.RewriteError, match=rf"^p\.json: .*{message}"):
        reuse(data, "p.json")


def test_another_model_and_other_rules(module, rules, written, tmp_path) -> None:
    (tmp_path / "p.json").write_bytes(written["placement.json"])
    other = rw.load(parse(MODEL.replace("Tanh", "Erf")))
    with pytest.raises(
        rw.RewriteError, match=r"p.json: made for another model: expected one with sha256 \w{12}…, found"
    ):
        rw.compile(other, rules, placement=tmp_path / "p.json")
    changed = api.reuse(module, load_text(RULES.replace("200ns", "300ns")), tmp_path / "p.json")
    assert any("was made with other versions of" in warning for warning in changed.warnings)
    assert not api.reuse(module, rules, tmp_path / "p.json").warnings
    with pytest.raises(rw.RewriteError, match=r"cannot be read: .*; expected a placement\.json"):
        api.reuse(module, rules, tmp_path / "none.json")
    for text in ("{", "[" * 100_000):
        (tmp_path / "bad.json").write_text(text)
        with pytest.raises(rw.RewriteError, match=r"expected the JSON of a placement\.json"):
            api.reuse(module, rules, tmp_path / "bad.json")


# ---------------------------------------------------------------- comparing


def test_equal_placements(data) -> None:
    found = compare(data, data)
    assert found.equal and found.to_json()["operators"] == [] and "the placements are equal" in found.lines()[-1]


def test_what_moved_is_listed_by_effect(module, rules, data) -> None:
    old = json.loads(json.dumps(data))
    kernel(data, "a").update(target="host")
    new = json.loads(api.report(module, placed(module, rules, data), rules=rules)["placement.json"])
    found = compare(old, new)
    assert not found.equal and found.costs["total"] == (old["cost"]["total"], new["cost"]["total"])
    (change,) = found.changes
    assert change.nodes == ("a", "b") and [p.target for p in change.old] == ["npu"]
    assert [p.rule for p in change.new] == ["host", "host"]
    assert change.effect == sum(p.cost for p in change.new) - change.old[0].cost
    assert {(c.value, c.destination, c.effect > 0) for c in found.copies} == {("x", "acc", False), ("b", "acc", True)}
    text = "\n".join(found.lines())
    assert "`a`, `b`" in text and "was npu by npu.gate: 0.010 us, with 1 more" in text
    assert "copies     1 added, 1 gone" in text and "+ `b` host -> acc" in text and "- `x` host -> acc" in text
    back = compare(new, old)
    assert [c.effect for c in back.changes] == [-change.effect] and back.changes[0].new == change.old
    parts = [found.costs[part][1] - found.costs[part][0] for part in ("total", "kernels", "copies", "launches")]
    assert parts[0] == sum(parts[1:]) and parts[1] == sum(c.effect for c in found.changes)
    assert parts[2] == sum(c.effect for c in found.copies)


def test_costs_alone_may_change(module, rules) -> None:
    reports = [
        json.loads(api.report(module, rw.place(module, r), rules=r)["placement.json"])
        for r in (rules, load_text(RULES.replace("cost 10ns", "cost 12ns", 1)))
    ]
    found = compare(*reports)
    assert [(c.nodes, c.effect) for c in found.changes] == [(("a", "b"), 2000)] and not found.copies
    assert found.rules and "rules      changed: " in "\n".join(found.lines())


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (lambda old: old["model"].update(sha256="0" * 64), "made for another model"),
        (lambda old: old.update(unit="pJ"), "its costs are in pJ, those to compare in ps"),
        (lambda old: old["cost"].pop("copies"), "expected a whole number for copies, found None"),
    ],
)
def test_placements_that_cannot_be_compared(data, edit, message) -> None:
    old = json.loads(json.dumps(data))
    edit(old)
    with pytest.raises(rw.RewriteError, match=message):
        compare(old, data, "old.json")


# ---------------------------------------------------------------- the command line


def test_the_commands(cli, refused, tmp_path) -> None:  # noqa: F811
    model, rules, out = tmp_path / "m.onnx", tmp_path / "r.pat", tmp_path / "a"
    model.write_bytes(parse(MODEL).SerializeToString())
    rules.write_text(RULES)
    assert cli("place", model, "-p", rules, "-o", out, "-q")[0] == 0
    file = out / "placement.json"
    status, text, _ = cli("place", model, "-p", rules, "--placement", file, "--compare", file)
    assert status == 0 and "the placements are equal" in text
    status, text, _ = cli("place", model, "-p", rules, "--strategy", "single:host", "--compare", file, "--json")
    found = json.loads(text)
    effects = [abs(row["effect"]) for row in found["operators"]]
    assert not found["equal"] and effects == sorted(effects, reverse=True) and effects
    edited = json.loads(file.read_text())
    moved = next(row for row in edited["kernels"] if row["target"] == "npu")
    moved["target"] = "host"
    (tmp_path / "edited.json").write_text(json.dumps(edited))
    assert cli("compile", model, "-p", rules, "--placement", tmp_path / "edited.json", "-o", tmp_path / "b")[0] == 0
    report = json.loads((tmp_path / "b" / "placement.json").read_text())
    assert {row["target"] for row in report["kernels"] if set(row["nodes"]) & set(moved["nodes"])} == {"host"}
    assert cli("run", tmp_path / "b", "--check")[0] == 0
    assert "leave out --strategy priority" in refused(
        "compile", model, "-p", rules, "--placement", file, "--strategy", "priority", "-o", tmp_path / "c"
    )
    assert not Path(tmp_path / "c").exists()
    moved["target"] = "nobody"
    (tmp_path / "edited.json").write_text(json.dumps(edited))
    assert "there is no target `nobody`" in refused(
        "place", model, "-p", rules, "--placement", tmp_path / "edited.json"
    )
