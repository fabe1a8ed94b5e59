"""Memory plans: live values never overlap, counts are right, and what does not fit is refused with the reasons."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from backend_graphs import F23, copied, kernel, random_graph, small_graph
from hypothesis import given, settings
from hypothesis import strategies as st

from rewrite_engine.backend.memory import MemoryPlan, device_types, lifetimes, plan, storage_bytes
from rewrite_engine.backend.packing import ALIGNMENT, Block, pack, peak_of_live_bytes, pool
from rewrite_engine.diagnostics import RewriteError
from rewrite_engine.graph.placed import PlacedGraph
from rewrite_engine.operators.types import TensorType

_BLOCKS = st.lists(st.tuples(st.integers(0, 700), st.integers(0, 15), st.integers(0, 8)), max_size=25)


@given(_BLOCKS)
def test_blocks_live_together_never_overlap(rows: list[tuple[int, int, int]]) -> None:
    blocks = [Block(f"b{i}", size, first, first + length) for i, (size, first, length) in enumerate(rows)]
    offsets = pack(blocks)
    assert sorted(offsets) == sorted(block.name for block in blocks)
    assert all(offset >= 0 and offset % ALIGNMENT == 0 for offset in offsets.values())
    for i, one in enumerate(blocks):
        for other in blocks[:i]:
            if one.first <= other.last and other.first <= one.last:
                start, end = offsets[one.name], offsets[one.name] + one.size
                assert end <= offsets[other.name] or offsets[other.name] + other.size <= start
    arena = max((offsets[block.name] + block.size for block in blocks), default=0)
    assert peak_of_live_bytes(blocks, 30) <= arena


@given(_BLOCKS)
def test_blocks_of_a_pool_are_never_live_together(rows: list[tuple[int, int, int]]) -> None:
    blocks = [Block(f"b{i}", size, first, first + length) for i, (size, first, length) in enumerate(rows)]
    pools = pool(blocks)
    assert sorted(pools) == sorted(block.name for block in blocks)
    assert set(pools.values()) == set(range(len(set(pools.values()))))
    for i, one in enumerate(blocks):
        for other in blocks[:i]:
            if pools[one.name] == pools[other.name]:
                assert one.last < other.first or other.last < one.first
    assert pool(blocks[::-1]) == pools


def test_pools_are_reused_as_soon_as_they_are_free() -> None:
    blocks = [Block("a", 9, 0, 1), Block("b", 9, 1, 2), Block("c", 5, 2, 3), Block("d", 5, 5, 6), Block("e", 1, 2, 6)]
    assert pool(blocks) == {"a": 0, "b": 1, "c": 0, "d": 0, "e": 2}
    assert pool([Block("a", 9, 0, 1), Block("b", 8, 0, 4), Block("c", 5, 5, 6)]) == {"a": 0, "b": 1, "c": 1}


def test_a_chain_needs_no_more_than_its_peak() -> None:
    blocks = [Block(f"b{i}", 64 * (1 + i % 2), i, i + 1) for i in range(40)]
    offsets = pack(blocks)
    assert max(offsets[block.name] + block.size for block in blocks) == peak_of_live_bytes(blocks, 41) == 64 * 3


def test_offsets_fill_gaps_and_do_not_depend_on_the_order_of_equals() -> None:
    # Two long-lived blocks with a hole between them that the short one fits.
    blocks = [Block("left", 64, 0, 9), Block("hole", 128, 0, 1), Block("right", 256, 0, 9), Block("late", 100, 2, 3)]
    offsets = pack(blocks)
    assert max(offsets[block.name] + block.size for block in blocks) == 448
    assert pack(blocks[::-1]) == offsets


@given(st.integers(0, 10_000), st.integers(1, 25))
@settings(max_examples=60, deadline=None)
def test_plans_of_random_graphs_hold(seed: int, size: int) -> None:
    placed = random_graph(seed, size)
    memory_plan = plan(placed, {})
    lives = lifetimes(placed)
    assert set(memory_plan.by_value()) == set(placed.devices) == set(lives)
    for i, one in enumerate(memory_plan.storages):
        assert (one.first, one.last) == lives[one.value]
        assert one.size == storage_bytes(one.value, placed.types[one.value])
        for other in memory_plan.storages[:i]:
            together = one.first <= other.last and other.first <= one.last
            if one.device == other.device and together:
                assert one.offset + one.size <= other.offset or other.offset + other.size <= one.offset
                assert one.storage_id != other.storage_id
            assert one.device == other.device or one.storage_id != other.storage_id
    for use in memory_plan.devices:
        here = [storage for storage in memory_plan.storages if storage.device == use.device]
        assert use.lower_bound <= use.arena <= use.peak
        assert use.lower_bound <= use.pooled
        assert use.weights == sum(storage.size for storage in here if storage.kind == "parameter")
        assert use.extent >= max((storage.offset + storage.size for storage in here), default=0)
    assert MemoryPlan.from_json(json.loads(json.dumps(memory_plan.to_json()))) == memory_plan


def test_the_small_graph_by_hand() -> None:
    memory_plan = plan(small_graph(), {"npu0": 1000})
    storages = memory_plan.by_value()
    assert [(storages[name].first, storages[name].last) for name in ("a", "sum", "positive", "shifted", "back")] == [
        (1, 2), (2, 3), (3, 4), (4, 5), (5, 6)]  # fmt: skip
    assert {storages[name].kind for name in ("x", "size")} == {"input"}
    assert storages["y"].kind == "output" and (storages["y"].first, storages["y"].last) == (0, 6)
    # Four values of 24 bytes in two slots of 64 (the second slot ends after 24).
    npu = memory_plan.by_device()["npu0"]
    assert (npu.arena, npu.lower_bound, npu.pooled) == (88, 48, 48)
    assert (npu.weights, npu.inputs_outputs, npu.peak) == (24, 0, 88)
    assert storages["a"].storage_id == storages["positive"].storage_id != storages["sum"].storage_id
    host = memory_plan.by_device()["host"]
    assert (host.device_type, npu.device_type) == (1, 12)
    assert (host.arena, host.inputs_outputs, host.peak) == (24, 24 + 16 + 24, 88)


def test_over_capacity_names_device_bytes_and_the_largest_values() -> None:
    plan(small_graph(), {"npu0": 112})
    with pytest.raises(RewriteError) as error:
        plan(small_graph(), {"npu0": 111, "host": None})
    message = str(error.value)
    assert "device `npu0` is too small: expected at most 111 bytes, needed 112" in message
    assert "24 of weights and a peak of 88" in message
    assert "`a` (intermediate, 24 bytes)" in message


def test_an_unused_result_lives_for_its_step_and_outputs_for_the_whole_run() -> None:
    placed = PlacedGraph(
        "g",
        ("x",),
        ("y", "x"),
        {},
        (kernel("h.a.1", ["x"], ["y", "unused"]), kernel("h.b.1", ["y"], ["z"])),
        dict.fromkeys("xyz", F23) | {"unused": F23},
        dict.fromkeys("xyz", "host") | {"unused": "host"},
    )
    storages = plan(placed, {}).by_value()
    assert (storages["unused"].first, storages["unused"].last) == (0, 0)
    assert (storages["y"].first, storages["y"].last) == (0, 1)
    assert storages["x"].kind == "input"


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        ((kernel("h.a.1", ["missing"], ["y"]),), "step 0 reads `missing`, which no earlier step computes"),
        ((kernel("h.a.1", ["x"], ["y"]), kernel("h.b.1", ["x"], ["y"])), "step 1 computes `y` a second time"),
        ((copied("x", "z", "host", "npu0", 24),), "no step computes the graph output `y`"),
    ],
)
def test_inconsistent_graphs_are_refused(steps: tuple[object, ...], message: str) -> None:
    names = ("x", "y", "z", "missing")
    placed = PlacedGraph("g", ("x",), ("y",), {}, steps, dict.fromkeys(names, F23), dict.fromkeys(names, "host"))
    with pytest.raises(RewriteError, match=message):
        plan(placed, {})


def test_sizes_in_memory() -> None:
    assert storage_bytes("x", TensorType("int4", (3, 3))) == 9  # one addressable byte per element
    assert storage_bytes("x", TensorType("bfloat16", ())) == 2
    unknown = {TensorType("float32", ("batch", 3)): "bind it with --dim batch=SIZE"}
    unknown |= dict.fromkeys((TensorType("float32", None), TensorType("?", (1,))), "declare the shapes of the inputs")
    for tensor, mend in unknown.items():
        with pytest.raises(RewriteError, match=rf"value `x` is .*{mend}"):
            storage_bytes("x", tensor)
    with pytest.raises(RewriteError, match="strings have no place"):
        storage_bytes("x", TensorType("string", (1,)))


def test_device_types_are_distinct_and_limited() -> None:
    assert device_types(["npu0", "host", "dsp0"]) == {"host": 1, "dsp0": 12, "npu0": 16}
    with pytest.raises(RewriteError, match="tell 8 devices from the host"):
        device_types([f"d{i}" for i in range(9)])


@pytest.mark.parametrize("edit", [{"schema": "other"}, {"steps": "7"}, {"devices": None}, {"storages": [{}]}])
def test_a_damaged_plan_is_refused(edit: dict[str, object]) -> None:
    data = plan(small_graph(), {}).to_json()
    with pytest.raises(RewriteError, match="memory plan"):
        MemoryPlan.from_json({**data, **edit})


def test_plans_do_not_depend_on_the_order_of_mappings() -> None:
    placed = small_graph()
    turned = replace(
        placed,
        parameters=dict(reversed(placed.parameters.items())),
        types=dict(reversed(placed.types.items())),
        devices=dict(reversed(placed.devices.items())),
    )
    assert plan(turned, {}) == plan(placed, {})
