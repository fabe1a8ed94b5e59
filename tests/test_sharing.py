"""Views and results in place: proven from index maps, planned to the root, executed to the same bits, verified."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from backend_graphs import F23, edited, kernel
from hypothesis import given, settings
from hypothesis import strategies as st
from models import parse
from placing import place_at_random
from plugging import rules_of
from test_compiled_bundle import needs_compiler
from test_standalone import run, same

import rewrite_engine as rw
from rewrite_engine.backend import bundle as bundles
from rewrite_engine.backend.bundle import Bundle, build
from rewrite_engine.backend.graph_reader import read_graph
from rewrite_engine.backend.inputs import random_inputs
from rewrite_engine.backend.memory import MemoryPlan, Storage, plan
from rewrite_engine.backend.packing import pack
from rewrite_engine.backend.sharing import Sharing, sharing_of
from rewrite_engine.backend.verify_plan import verify
from rewrite_engine.graph import PlacedGraph, to_terms
from rewrite_engine.operators.types import TensorType
from rewrite_engine.passes.stages import programs


def placed(text: str) -> PlacedGraph:
    """Everything on the host, an operator a kernel."""
    return rw.place(rw.load(parse(text), fold=False), rules_of("supports Erf")).graph


def bundle_of(text: str, **options: Any) -> Bundle:
    graph = placed(text)
    return build(graph, programs(graph), {}, **options)


@pytest.mark.parametrize(
    ("operator", "expected"),
    [
        ("Reshape(x, s)", Sharing(0, (0,))),
        ("Identity(x)", Sharing(0, (0,))),
        ("Flatten(x)", Sharing(0, (0,))),
        ("Squeeze(u)", Sharing(0, (0,))),
        ("Unsqueeze(x, k)", Sharing(0, (0,))),
        ("Transpose<perm=[1,0,2]>(u)", Sharing(0, (0,))),  # only an axis of size 1 moves
        ("Cast<to=1>(x)", Sharing(0, (0,))),
        ("Transpose<perm=[1,0]>(x)", Sharing()),
        ("Cast<to=7>(x)", Sharing()),  # larger elements
        ("Cast<to=6>(x)", Sharing()),  # as large, another type
        ("Relu(x)", Sharing(None, (0,))),
        ("Add(x, z)", Sharing(None, (0, 1))),
        ("Add(x, x)", Sharing(None, (0,))),
        ("Mul(x, row)", Sharing(None, (0,))),  # the row is read again and again
        ("Sub(row, x)", Sharing(None, (1,))),
        ("Add(x, w)", Sharing(None, (0,))),  # w is read along its columns
        ("Where(m, x, z)", Sharing(None, (1, 2))),  # a mask is smaller
        ("Softmax(x)", Sharing()),
        ("MatMul(x, q)", Sharing()),
        ("Gather<axis=0>(x, g)", Sharing()),
        ("Concat<axis=0>(x, z)", Sharing()),
        ("Expand(row, s)", Sharing()),
        ("Slice(x, k, e)", Sharing()),
    ],
)
def test_what_a_kernel_allows(operator: str, expected: Sharing) -> None:
    turned = "w = Transpose<perm=[1,0]>(q)" if operator == "Add(x, w)" else ""
    text = f"""g (float[3,4] x, float[3,4] z, float[4] row, float[1,3,4] u, bool[3,4] m, int64[3] g, float[4,3] q)
        => (y) <int64[2] s = {{3, 4}}, int64[1] k = {{0}}, int64[1] e = {{2}}> {{ {turned} y = {operator} }}"""
    graph = placed(text)
    lowered = programs(graph)
    if operator == "Add(x, w)":  # as one kernel
        one = replace(graph.steps[1], body=tuple(n for s in graph.steps for n in s.body), inputs=("x", "q"),
                      inner_types={"w": TensorType("float32", (3, 4))})  # fmt: skip
        lowered = programs(replace(graph, steps=(one,)))
    assert sharing_of(list(lowered.values())[-1]) == expected


def storages(text: str, **options: Any) -> dict[str, Storage]:
    bundle = bundle_of(text, **options)
    for engine in ("numpy", "auto"):
        one, feed = bundle.with_c() if engine == "auto" else bundle, random_inputs(bundle.inputs, 3)
        executor = one.executor(engine)
        first, second = executor.run(feed), executor.run(feed)
        expected = alone(text).run(feed, "numpy")
        for name, array in expected.items():
            np.testing.assert_allclose(first[name], array, rtol=1e-5, atol=1e-6)
            assert first[name].tobytes() == second[name].tobytes()
    return bundle.plan.by_value()


def alone(text: str) -> Bundle:
    """The bundle in which nothing shares."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bundles, "sharing_by_call", lambda programs, hashes: {})
        return bundle_of(text)


SHAPES = "<int64[1] flat = {12}, int64[2] wide = {2, 6}, int64[2] tall = {6, 2}>"


def roots(text: str, **options: Any) -> dict[str, str]:
    """Who owns the bytes of the values that share."""
    return {name: row.root for name, row in storages(text, **options).items() if row.root != name}


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        # A view, and a view of a view: all are the root's.
        ("s = Exp(x) v = Reshape(s, flat) u = Reshape(v, tall) y = Softmax(u)", {"v": "s", "u": "s"}),
        # The view outlives the value that owns the bytes.
        ("s = Exp(x) v = Reshape(s, wide) t = Softmax(x) r = Softmax(t) y = Add(v, r)", {"v": "s"}),
        # s is not used again for t while its view is live.
        ("s = Exp(x) v = Reshape(s, wide) t = Exp(x) y = Add(v, t)", {"v": "s"}),
        # In place, where the operand dies; not while another reader comes later.
        ("s = Softmax(x) t = Exp(s) u = Neg(t) y = Softmax(u)", {"t": "s", "u": "s"}),
        ("s = Softmax(x) t = Exp(s) u = Neg(s) r = Softmax(t) y = Add(r, u)", {"u": "s"}),
        # Not while a view of the operand has a reader later.
        ("s = Softmax(x) v = Reshape(s, flat) t = Neg(s) w = Reshape(t, flat) r = Softmax(w) y = Add(r, v)",
         {"v": "s", "w": "t"}),
        # In place of a view, whose root then dies with it.
        ("s = Softmax(x) v = Reshape(s, flat) t = Neg(v) y = Softmax(t)", {"v": "s", "t": "s"}),
        # The operand and its view are read by one kernel: both at the same address, one of them not.
        ("s = Softmax(x) v = Identity(s) t = Add(s, v) y = Softmax(t)", {"v": "s", "t": "s"}),
        ("s = Softmax(x) v = Reshape(s, tall) c = Reshape(v, wide) m = ReduceSum<keepdims=1>(c) t = Add(s, m) "
         "y = Softmax(t)", {"v": "s", "c": "s", "t": "s"}),
        # Inputs are viewed, never overwritten; nor what is a view of them.
        ("v = Reshape(x, flat) t = Neg(v) y = Softmax(t)", {"v": "x"}),
        ("t = Neg(x) y = Softmax(t)", {}),
        # Outputs own their bytes: a view of an input, of an intermediate, of an output; views of outputs are views.
        ("y = Reshape(x, flat)", {}),
        ("s = Softmax(x) y = Reshape(s, flat)", {}),
        ("y = Softmax(x) v = Reshape(y, flat) z = Softmax(v)", {"v": "y"}),
        ("s = Softmax(x) y = Reshape(s, flat) z = Reshape(s, tall)", {}),
        ("y = Softmax(x) z = Neg(y)", {}),
        # What nobody reads, and a kernel of several results.
        ("s = Softmax(x) v = Reshape(s, flat) y = Exp(s)", {}),
        ("s = Softmax(x) a, b = Split<axis=0, num_outputs=2>(s) y = Concat<axis=0>(b, a)", {}),
    ],
)  # fmt: skip
def test_the_plan_of_what_shares(body: str, expected: dict[str, str]) -> None:
    outputs = ", ".join(name for name in "yz" if f"{name} = " in body)
    text = f"g (float[2,6] x) => ({outputs}) {SHAPES} {{ {body} }}"
    found = roots(text)
    assert found == expected
    for name, root in found.items():
        rows = storages(text)
        for fact in ("offset", "size", "device", "storage_id"):
            assert getattr(rows[name], fact) == getattr(rows[root], fact)


def test_inputs_that_are_outputs_and_outputs_of_one_value_stay_apart() -> None:
    text = "g (float[2,6] x) => (float[2,6] x, float[2,6] y, float[2,6] z) { y = Identity(x) z = Identity(y) }"
    assert roots(text) == {}
    feed = {"x": np.arange(12, dtype=np.float32).reshape(2, 6)}
    outputs = bundle_of(text).run(feed)
    assert set(outputs) == {"x", "y", "z"} and all(np.array_equal(array, feed["x"]) for array in outputs.values())


def test_a_pinned_value_keeps_its_bytes() -> None:
    body = "s = Softmax(x) t = Exp(s) u = Neg(t) r = Softmax(u) q = Softmax(r) y = Softmax(q)"
    text = f"g (float[2,6] x) => (y) {{ {body} }}"
    assert roots(text) == {"t": "s", "u": "s"}
    assert roots(text, pinned=["t"]) == {"t": "s"}  # t may overwrite s, nothing overwrites t
    bundle = bundle_of(text, pinned=["t"])
    row = bundle.plan.by_value()["t"]
    assert (row.kind, row.last) == ("pinned", bundle.plan.steps - 1)
    assert (
        Bundle.verify(replace(bundle, plan=MemoryPlan.from_json(json.loads(json.dumps(bundle.plan.to_json()))))) == []
    )
    others = [other for other in bundle.plan.storages if other.root != row.root and other.last >= row.first]
    assert all(o.offset + o.size <= row.offset or row.offset + row.size <= o.offset for o in others)
    executor, feed = bundle.executor("numpy"), random_inputs(bundle.inputs, 5)
    seen: dict[str, np.ndarray] = {}
    executor.run(feed, lambda step, results: seen.update({name: array.copy() for name, array in results.items()}))
    assert np.array_equal(executor.value("t"), seen["t"])
    assert not np.array_equal(executor.value("s"), seen["s"])  # t is there now
    with pytest.raises(rw.RewriteError, match="the graph has no value `tt`"):
        executor.value("tt")
    with pytest.raises(rw.RewriteError, match="no step computes the pinned value `tt`"):
        bundle_of(text, pinned=["tt"])


def test_arena_and_bound_count_shared_bytes_once() -> None:
    body = "s = Softmax(x) v = Reshape(s, flat) t = Neg(v) u = Exp(t) y = Softmax(u)"
    text = f"g (float[2,6] x) => (y) {SHAPES} {{ {body} }}"
    shared, apart = bundle_of(text).plan.by_device()["host"], alone(text).plan.by_device()["host"]
    assert (shared.arena, shared.lower_bound, shared.pooled) == (48, 48, 48)
    assert (apart.arena, apart.lower_bound) == (112, 96)


def test_overwriting_is_left_out_where_it_costs_room() -> None:
    """A planner that dislikes long blocks: views stay, results in place go."""

    def planner(blocks):
        offsets = pack(blocks)
        longest = max((block.last - block.first for block in blocks), default=0)
        return {name: offset + (1 << 20 if longest > 2 else 0) for name, offset in offsets.items()}

    text = "g (float[2,6] x) => (y) { s = Softmax(x) t = Exp(s) u = Neg(t) v = Identity(u) y = Softmax(v) }"
    assert roots(text) == {"t": "s", "u": "s", "v": "s"}
    assert roots(text, planner=planner) == {"v": "u"}


# ---------------------------------------------------------------- random graphs

_SHAPES = ((24,), (2, 12), (4, 6), (2, 3, 4), (1, 24), (6, 1, 4))


def random_text(seed: int, size: int) -> str:
    """Values of 24 elements, so that nearly everything could share; outputs that are inputs, views and twice used."""
    choose = random.Random(seed)
    shapes: dict[str, tuple[int, ...]] = {"x": (2, 3, 4), "z": (4, 6)}
    lines, constants = [], []
    for number in range(size):
        name, source = f"v{number}", choose.choice([*list(shapes)[-3:], *shapes])
        alike = [other for other, shape in shapes.items() if shape == shapes[source]]
        kind = choose.choice(
            ["reshape", "reshape", "identity", "relu", "neg", "add", "add", "softmax", "turn", "sum", "split"]
        )
        shape = shapes[source]
        if kind == "reshape":
            shape = choose.choice(_SHAPES)
            constants.append(f"int64[{len(shape)}] s{number} = {{{', '.join(map(str, shape))}}}")
            lines.append(f"{name} = Reshape({source}, s{number})")
        elif kind == "add":
            lines.append(f"{name} = Add({source}, {choose.choice(alike)})")
        elif kind == "turn":
            perm = list(range(len(shape)))
            choose.shuffle(perm)
            shape = tuple(shape[axis] for axis in perm)
            lines.append(f"{name} = Transpose<perm={perm}>({source})")
        elif kind == "sum":
            lines.append(f"m{number} = ReduceMean<keepdims=1>({source}) {name} = Sub({source}, m{number})")
        elif kind == "split" and shape[-1] % 2 == 0:
            lines.append(f"a{number}, b{number} = Split<axis=-1, num_outputs=2>({source})")
            lines.append(f"{name} = Concat<axis=-1>(b{number}, a{number})")
        else:
            operator = {"identity": "Identity", "relu": "Relu", "neg": "Neg"}.get(kind, "Softmax")
            lines.append(f"{name} = {operator}({source})")
        shapes[name] = shape
    outputs = dict.fromkeys([f"v{size - 1}", *choose.sample([f"v{n}" for n in range(size)], min(size, 2))])
    initial = f"<{', '.join(constants)}>" if constants else ""
    return f"g (float[2,3,4] x, float[4,6] z) => ({', '.join(outputs)}) {initial} {{ {' '.join(lines)} }}"


def random_bundles(seed: int, size: int) -> tuple[Bundle, Bundle]:
    """A random graph at random places: with sharing, and without."""
    graph = place_at_random(to_terms(rw.load(parse(random_text(seed, size)), fold=False)), seed)
    made = programs(graph)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bundles, "sharing_by_call", lambda programs, hashes: {})
        apart = build(graph, made, {})
    return build(graph, made, {}), apart


@given(st.integers(0, 100_000), st.integers(1, 20))
@settings(max_examples=60, deadline=None)
def test_random_graphs_compute_the_same_with_and_without_sharing(seed: int, size: int) -> None:
    shared, apart = random_bundles(seed, size)
    feed = random_inputs(shared.inputs, seed)
    expected = apart.run(feed, "numpy")
    executor = shared.executor("numpy")
    for _ in range(2):
        found = executor.run(feed)
        assert all(found[name].tobytes() == array.tobytes() for name, array in expected.items())
    for use, other in zip(shared.plan.devices, apart.plan.devices, strict=True):
        assert use.lower_bound <= use.arena and use.lower_bound <= other.lower_bound
        assert use.lower_bound <= use.pooled


@needs_compiler
@pytest.mark.parametrize("seed", [3, 8])
def test_random_graphs_compute_the_same_in_c_and_stand_alone(seed: int, tmp_path) -> None:
    shared, apart = random_bundles(seed, 40)
    kinds = {row.kind for row in shared.plan.storages if row.root != row.value}
    assert "intermediate" in kinds
    feed = random_inputs(shared.inputs, seed)
    bundle = shared.with_c("c").with_standalone("c")
    bundle.save(tmp_path / "b")
    found = Bundle.open(tmp_path / "b").run(feed, "c")
    for name, array in apart.with_c("c").run(feed, "c").items():
        assert found[name].tobytes() == array.tobytes()
    same(run(tmp_path, bundle, feed), found)


# ---------------------------------------------------------------- verification

GOOD = f"""g (float[2,6] x) => (y) {SHAPES} {{
    s = Softmax(x) v = Reshape(s, flat) t = Neg(v)
    r = Softmax(t) c = Reshape(x, flat) u = Add(r, c) y = Softmax(u) }}"""


def test_the_good_one_shares() -> None:
    assert roots(GOOD) == {"v": "s", "t": "s", "c": "x", "u": "r"}


def _changed(bundle: Bundle, name: str, **changes: Any) -> MemoryPlan:
    rows = tuple(replace(row, **changes) if row.value == name else row for row in bundle.plan.storages)
    return replace(bundle.plan, storages=rows)


@pytest.mark.parametrize(
    ("name", "changes", "message"),
    [
        ("v", {"root": "v"}, "expected it in the bytes of operand 0 of `host_Reshape_1`, found it in those of `v`"),
        ("v", {"root": "r"}, "expected it in the bytes of operand 0"),
        ("v", {"offset": 64}, "expected the offset 0 of its root `s`, found 64"),
        ("t", {"offset": 64}, "expected the offset 0 of its root `s`, found 64"),
        ("t", {"storage_id": 9}, "expected the storage id"),
        ("t", {"root": "t"}, "found them in use by"),
        ("t", {"root": "v"}, "expected a root that owns its bytes, found `v`, a value in the bytes of `s`"),
        ("u", {"root": "x"}, "value `u`: expected to leave input `x` as it is, found it overwritten"),
        ("r", {"root": "s"}, "an operand that `host_Softmax_2` may overwrite (none), found it in those of `s`"),
        ("c", {"root": "r"}, "expected it in the bytes of operand 0 of `host_Reshape_1`"),
        ("y", {"root": "u"}, "expected bytes of its own for a graph output, found those of"),
        ("s", {"kind": "pinned"}, "expected to leave pinned `s` as it is, found it overwritten"),
    ],
)  # fmt: skip
def test_plans_that_share_wrong_are_refused(name: str, changes: dict[str, Any], message: str) -> None:
    bundle = bundle_of(GOOD)
    problems = replace(bundle, plan=_changed(bundle, name, **changes)).verify()
    assert any(message in problem for problem in problems), problems


@pytest.mark.parametrize("claim", [{"view": 0}, {"in_place": (0,)}, {"in_place": (0, 1)}])
def test_functions_that_claim_more_than_their_program_allows_are_refused(claim: dict[str, Any]) -> None:
    bundle = bundle_of(GOOD)
    functions = {**bundle.functions, "host_Softmax_1": replace(bundle.functions["host_Softmax_1"], **claim)}
    problems = replace(bundle, functions=functions).verify()
    assert any("as its program allows, found" in problem for problem in problems), problems
    made = replace(functions["host_Softmax_1"], generator="theirs")
    assert any("code generator" in p for p in replace(bundle, functions={**functions, "host_Softmax_1": made}).verify())


def test_reads_of_overwritten_values_are_refused_and_not_executed() -> None:
    bundle = bundle_of(GOOD)
    graph = edited(json.loads(json.dumps(bundle.graph)))
    made = [json.loads(node.get("attrs", {}).get("rewrite_engine", "{}")).get("outputs") for node in graph["nodes"]]
    reader, view = made.index(["r"]), made.index(["v"])
    graph["nodes"][reader]["inputs"] = [[view, 0, 0]]
    facts = json.loads(graph["nodes"][reader]["attrs"]["rewrite_engine"])
    graph["nodes"][reader]["attrs"]["rewrite_engine"] = json.dumps({**facts, "inputs": ["v"]})
    functions = {symbol: replace(f, inputs=(TensorType("float32", (12,)),)) if symbol == "host_Softmax_2" else f
                 for symbol, f in bundle.functions.items()}  # fmt: skip
    types = {name: TensorType(a.dtype.name, a.shape) for name, a in bundle.parameters.items()}
    found = verify(graph, bundle.plan, functions, types)
    assert any("value `v`: expected it in its bytes, found them taken over by `t`" in p for p in found), found
    with pytest.raises(rw.RewriteError, match="reads value `v` before anything wrote it"):
        replace(bundle, graph=graph).run(random_inputs(bundle.inputs, 0), "numpy")


@given(st.integers(0, 100_000), st.data())
@settings(max_examples=100, deadline=None)
def test_a_hundred_seeded_mutations_of_what_shares_are_refused(seed: int, data: st.DataObject) -> None:
    bundle, _ = random_bundles(seed, 12)
    assert bundle.verify() == []
    shares = [row for row in bundle.plan.storages if row.root != row.value]
    if not shares:
        return
    row = data.draw(st.sampled_from(shares))
    others = [other.value for other in bundle.plan.storages if other.value != row.root]
    what = data.draw(st.sampled_from(["root", "offset", "storage_id", "device", "run", "last"]))
    if what == "run":  # a view runs after all, or a kernel does not
        graph = edited(json.loads(json.dumps(bundle.graph)))
        read, _ = read_graph(graph)
        assert read is not None
        node = graph["nodes"][next(entry.node for entry in read.entries if entry.name == row.value)]
        facts = json.loads(node["attrs"]["rewrite_engine"])
        if node["attrs"]["func_name"] == "__nop":
            node["attrs"]["func_name"] = facts.pop("function")
            node["attrs"]["rewrite_engine"] = json.dumps(facts)
            changed, feed = replace(bundle, graph=graph), random_inputs(bundle.inputs, 1)
            if not changed.verify():  # elements written where they are: as good, if slower
                expected = bundle.run(feed, "numpy")
                assert all(array.tobytes() == expected[k].tobytes() for k, array in changed.run(feed, "numpy").items())
            return
        facts["function"], node["attrs"]["func_name"] = node["attrs"]["func_name"], "__nop"
        node["attrs"]["rewrite_engine"] = json.dumps(facts)
        assert replace(bundle, graph=graph).verify() != []
        return
    value = {
        "root": lambda: data.draw(st.sampled_from(others)),
        "offset": lambda: row.offset + 64,
        "storage_id": lambda: row.storage_id + 1,
        "device": lambda: "npu0" if row.device == "host" else "host",
        "last": lambda: row.last + 1,
    }[what]()
    if what == "root" and value == row.value:
        return
    assert replace(bundle, plan=_changed(bundle, row.value, **{what: value})).verify() != []


def test_a_kernel_without_a_program_shares_nothing() -> None:
    graph = placed(GOOD)
    assert all(row.root == row.value for row in plan(graph, {}).storages)


@pytest.mark.parametrize(
    ("reads", "allowed", "expected"),
    [
        (["s", "v"], (0, 1), "s"),  # one value under two names, both read at the address that is written
        (["s", "v"], (0,), "t"),  # v is read at other addresses
        (["x"], (0,), "t"),  # in the last step everything is read for the last time: an input is kept all the same
        (["w"], (0,), "t"),
        (["y"], (0,), "t"),
        (["p"], (0,), "t"),  # pinned
    ],
)
def test_what_the_last_kernel_may_overwrite(reads: list[str], allowed: tuple[int, ...], expected: str) -> None:
    steps = (
        kernel("h.spread.1", ["x"], ["s"]),
        kernel("h.shape.1", ["s"], ["v"]),
        kernel("h.spread.2", ["x"], ["y"]),
        kernel("h.spread.3", ["x"], ["p"]),
        kernel("h.add.1", reads, ["t"]),
    )
    names = ("x", "w", "s", "v", "y", "p", "t")
    weights = {"w": np.zeros((2, 3), np.float32)}
    graph = PlacedGraph("g", ("x",), ("y",), weights, steps, dict.fromkeys(names, F23), dict.fromkeys(names, "host"))
    proven = {"h.shape.1": Sharing(0, (0,)), "h.add.1": Sharing(None, allowed)}
    found = plan(graph, {}, sharing=proven, pinned=["p"]).by_value()
    assert (found["v"].root, found["t"].root) == ("s", expected)
