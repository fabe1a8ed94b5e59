"""The backend on a real model, its operators scattered over three devices: right numbers, and no copy can be spared."""

from __future__ import annotations

import functools
import random
from dataclasses import replace

import pytest
from backend_graphs import edited
from test_verify_plan import drop_node

from rewrite_engine.backend.bundle import Bundle, build
from rewrite_engine.backend.check import compare
from rewrite_engine.backend.inputs import random_inputs
from rewrite_engine.diagnostics import RewriteError
from rewrite_engine.graph.module import bundled_model, load
from rewrite_engine.graph.placed import BodyNode, CopyCall, KernelCall, PlacedGraph
from rewrite_engine.graph.terms import ABSENT, Terms
from rewrite_engine.graph.terms_io import to_terms
from rewrite_engine.loops.compose import compose
from rewrite_engine.loops.lower import lower
from rewrite_engine.operators import find

DROPPED = r"expected (it on|from) device|before anything wrote it|expected the (operands|outputs)|heads"


class _Scatter:
    """Operators on devices by chance, a kernel each; values are copied over the host to where they are read."""

    def __init__(self, terms: Terms, seed: int) -> None:
        self.terms, self.choose = terms, random.Random(seed)
        self.outputs = {terms.values[index].name for index in terms.outputs}
        self.home: dict[int, str] = dict.fromkeys(terms.inputs, "host")
        self.present = {(index, "host"): terms.values[index].name for index in terms.inputs}
        self.placed = PlacedGraph("scattered", (), (), {}, (), {}, {})
        self.types = {terms.values[index].name: terms.values[index].type for index in terms.inputs}
        self.devices = dict.fromkeys(self.types, "host")
        self.parameters: dict[str, object] = {}
        self.steps: list[KernelCall | CopyCall] = []

    def name(self, index: int, device: str) -> str:
        value = self.terms.values[index]
        own = device == "host" if value.name in self.outputs else device == self.home.get(index)
        name = value.name if own else f"{value.name}@{device}"
        self.types[name], self.devices[name] = value.type, device
        self.present[index, device] = name
        return name

    def read(self, index: int, device: str) -> str:
        value = self.terms.values[index]
        if (index, device) not in self.present and index not in self.home:
            self.parameters[self.name(index, device)] = value.constant
        elif (index, device) not in self.present:
            source = self.home[index] if device == "host" else "host"
            origin = self.read(index, source)
            output = self.name(index, device)
            self.steps.append(CopyCall(origin, output, source, device, value.type.bytes or 0, 1))
        return self.present[index, device]

    def graph(self) -> PlacedGraph:
        device = "host"
        for number, node in enumerate(self.terms.nodes):
            if self.choose.random() < 0.15:
                device = self.choose.choice(["host", "npu0", "dsp0"])
            facts = find(node.op)
            assert facts is not None
            reads = [
                "" if index == ABSENT else self.read(index, "host" if position in facts.host_inputs else device)
                for position, index in enumerate(node.inputs)
            ]
            self.home.update(dict.fromkeys(node.outputs, device))
            writes = tuple(self.name(index, device) for index in node.outputs)
            self.steps.append(
                KernelCall(
                    name=f"{device}.{node.op}.{number}",
                    target=device.rstrip("0"),
                    device=device,
                    region=f"{device}.region",
                    rule=node.op,
                    inputs=tuple(dict.fromkeys(filter(None, reads))),
                    outputs=writes,
                    host_inputs=frozenset(reads[k] for k in facts.host_inputs if k < len(reads) and reads[k]),
                    body=(BodyNode(node.op, node.attributes, tuple(reads), writes),),
                    inner_types={},
                    attributes={},
                    cost=1,
                    cost_source="formula",
                    covers=writes[:1],
                )
            )
        outputs = tuple(self.read(index, "host") for index in self.terms.outputs)
        inputs = tuple(self.terms.values[index].name for index in self.terms.inputs)
        return PlacedGraph("scattered", inputs, outputs, self.parameters, tuple(self.steps), self.types, self.devices)


@functools.cache
def scattered_bundle(seed: int) -> Bundle:
    placed = _Scatter(to_terms(load(bundled_model())), seed).graph()
    calls = [call for call in placed.steps if isinstance(call, KernelCall)]
    programs = {call.name: compose(lower(call, placed.types, placed.parameters)) for call in calls}
    return build(placed, programs, {})


@pytest.mark.parametrize("seed", [0, 1])
def test_scattered_over_devices_the_numbers_are_right(seed: int) -> None:
    pytest.importorskip("onnxruntime")
    bundle = scattered_bundle(seed)
    assert [use.device for use in bundle.plan.devices] == ["host", "dsp0", "npu0"]
    report = compare(bundle, bundled_model().read_bytes())
    assert report.ok, report.problems


def test_arenas_are_close_to_the_peak_of_live_bytes() -> None:
    for use in scattered_bundle(0).plan.devices:
        assert 0 < use.lower_bound <= use.arena <= 1.05 * use.lower_bound


def test_no_copy_can_be_dropped() -> None:
    bundle = scattered_bundle(0)
    nodes = bundle.graph["nodes"]
    copies = [k for k, node in enumerate(nodes) if node.get("attrs", {}).get("func_name") == "__copy"]
    assert len(copies) >= 10
    inputs = random_inputs(bundle.inputs, 0)
    for node in copies:
        for rewire in (True, False):
            graph = edited(bundle.graph)
            drop_node(graph, node, rewire=rewire)
            broken = replace(bundle, graph=graph)
            assert broken.verify() != []
            with pytest.raises(RewriteError, match=DROPPED):
                broken.run(inputs)
