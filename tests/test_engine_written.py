"""The engine under its own testing kit: everything that is written reloads equal."""

from __future__ import annotations

import json
import tempfile
from dataclasses import fields, is_dataclass
from pathlib import Path

import onnx
from drawing import (
    HOST,
    Case,
    always,
    assert_copies_cross,
    bound,
    compiled,
    holds,
    placeable,
    runnable,
)
from hypothesis import strategies as hypothesis
from placing import place_at_random
from test_placed_io import assert_same

import rewrite_engine as rw
from rewrite_engine import api
from rewrite_engine.backend.bundle import Bundle
from rewrite_engine.backend.memory import MemoryPlan
from rewrite_engine.diagnostics import Span
from rewrite_engine.graph import (
    Terms,
    load,
    model_bytes,
    read_placed,
    write_placed,
)
from rewrite_engine.language import RuleSet, load_text
from rewrite_engine.language.format import formatted
from rewrite_engine.loops.serialize import from_json, to_json
from rewrite_engine.passes import LowerLoops, Place, PlanMemory, load_module, save_module
from rewrite_engine.placement.place import place
from rewrite_engine.testing import strategies as st


@always(8)
def test_what_is_written_reloads_equal(examples: int) -> None:
    """(f) The module at every stage, the placed model, and all of a bundle's files."""

    def check(case: Case) -> None:
        graph, rules = case.graph, case.rules
        module = bound(graph)
        if compiled(module, HOST) is None:
            return
        with tempfile.TemporaryDirectory() as folder:
            staged = module
            for number, pass_ in enumerate((None, Place(rules), LowerLoops(), PlanMemory())):
                staged = staged if pass_ is None else pass_.run(staged)
                save_module(staged, f"{folder}/{number}")
                again = load_module(f"{folder}/{number}", rules)
                assert model_bytes(again.model) == model_bytes(staged.model)
                assert again.source == staged.source and again.memory == staged.memory
                assert {k: to_json(v) for k, v in again.lowered.items()} == {
                    k: to_json(v) for k, v in staged.lowered.items()
                }
                if pass_ is not None:
                    assert_same(read_placed(again.model), read_placed(staged.model))
                    assert [t.name for t in again.machine.targets] == [t.name for t in staged.machine.targets]
            placement = rw.place(module, rules)
            assert_same(read_placed(staged.model), placement.graph)
            bundle = rw.compile(module, rules, placement=placement, engine="numpy")
            bundle.save(f"{folder}/bundle")
            opened = Bundle.open(f"{folder}/bundle")
            assert (opened.graph, opened.plan, opened.functions) == (bundle.graph, bundle.plan, bundle.functions)
            assert opened.files() == bundle.files() and opened.metadata == bundle.metadata
            assert MemoryPlan.from_json(json.loads(json.dumps(bundle.plan.to_json()))) == bundle.plan
            for program in bundle.programs.values():
                data = json.loads(json.dumps(to_json(program)))
                assert to_json(from_json(data)) == data
            file = Path(folder, "bundle", "placement.json")
            followed = api.reuse(module, rules, file)
            files = api.report(module, followed, rules=rules)
            assert files["model.onnx"] == bundle.extra_files["model.onnx"]
            same, before = json.loads(files["placement.json"]), json.loads(file.read_bytes())
            assert {key for key in same if same[key] != before[key]} <= {"strategy"}

    holds(examples, check, runnable(6))


@always(20)
def test_placed_models_of_any_operator_reload_equal(examples: int) -> None:
    """(f) Also where nothing can be lowered: If, dimensions that are not bound, operators without a loop nest."""

    def check(case: Case) -> None:
        placement = place(case.graph, case.rules)
        written = write_placed(placement.graph)
        content = model_bytes(written)
        assert_same(read_placed(written), placement.graph)
        again = load(onnx.load_model_from_string(content), fold=False)
        assert_same(read_placed(again.model), placement.graph)
        assert model_bytes(write_placed(read_placed(again.model))) == model_bytes(write_placed(read_placed(written)))

    holds(examples, check, placeable(8))


@always(20)
def test_any_legal_placement_reloads_equal(examples: int) -> None:
    """(f) Placements that no strategy would choose, of dimensions that are not bound."""

    def check(graph: Terms, seed: int) -> None:
        placed = place_at_random(graph, seed)
        content = model_bytes(write_placed(placed))
        assert_same(read_placed(load(onnx.load_model_from_string(content), fold=False).model), placed)
        assert_copies_cross(placed)

    holds(examples, check, st.graphs(min_nodes=1), hypothesis.integers(0, 99))


@always(30)
def test_rule_text_says_the_same_in_the_one_format(examples: int) -> None:
    """(f) The formatter, read again: the same rules, and a text that it leaves as it is."""

    def check(rules: RuleSet) -> None:
        (path,) = rules.sources
        text, _ = rules.sources[path]
        shown = formatted(text, path)
        assert formatted(shown, path) == shown
        again = load_text(shown, path)
        for part in ("devices", "links", "targets"):
            assert [said(x) for x in getattr(again, part)] == [said(x) for x in getattr(rules, part)]
        assert [said(r) for r in again.rules] == [said(r) for r in rules.rules]

    holds(examples, check, st.machines())


def said(part: object) -> object:
    """Plain values of a rule without positions and compiled guards."""
    if isinstance(part, Span) or callable(part):
        return None
    if is_dataclass(part):
        return (type(part).__name__, *(said(getattr(part, field.name)) for field in fields(part)))
    if isinstance(part, tuple | list):
        return [said(x) for x in part]
    if isinstance(part, dict):
        return {key: said(value) for key, value in part.items()}
    return repr(part)
