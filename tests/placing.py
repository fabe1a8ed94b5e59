"""A placement drawn at random, for tests of what reads and writes placed graphs; costs are made up, legality is not."""

from __future__ import annotations

import random
from fractions import Fraction

import numpy as np

from rewrite_engine.graph import ABSENT, BodyNode, CopyCall, KernelCall, Names, PlacedGraph, Terms
from rewrite_engine.graph.placed import kept_outputs
from rewrite_engine.operators import find

TARGETS = {"host": "host", "dnnl": "host", "tern": "npu0"}
"""Targets and their devices."""


def place_at_random(terms: Terms, seed: int) -> PlacedGraph:
    """Runs of consecutive operators become regions of random targets; inside, up to three become one composite.

    A value that is read on another device is copied there once. Graph inputs and outputs are on the host.
    """
    return _Placing(terms, seed).graph()


class _Placing:
    def __init__(self, terms: Terms, seed: int) -> None:
        self.terms = terms
        self.random = random.Random(seed)
        self.names = Names(value.name for value in terms.values)
        self.steps: list[KernelCall | CopyCall] = []
        self.types = {}
        self.devices: dict[str, str] = {}
        self.parameters: dict[str, np.ndarray] = {}
        self.at: dict[tuple[int, str], str] = {}  # value and device -> name there
        self.readers = {i for node in terms.nodes for i in node.inputs} | set(terms.outputs)

    def graph(self) -> PlacedGraph:
        terms = self.terms
        for index in terms.inputs:
            self.define(index, "host", terms.values[index].name)
        todo = list(range(len(terms.nodes)))
        while todo:
            target = self.random.choice(sorted(TARGETS))
            run, todo = todo[: (length := self.random.randint(1, 8))], todo[length:]
            region = self.names.numbered(f"{target}.region")
            while run:
                size = self.random.randint(1, 3)
                self.kernel(run[:size], target, region)
                run = run[size:]
        outputs = tuple(self.value(index, "host") for index in terms.outputs)
        own = tuple(terms.values[index].name for index in terms.outputs)
        return PlacedGraph(
            name="g",
            inputs=tuple(terms.values[index].name for index in terms.inputs),
            outputs=outputs,
            parameters=self.parameters,
            steps=tuple(self.steps),
            types=self.types,
            devices=self.devices,
            output_names=() if own == outputs else own,
        )

    def define(self, index: int, device: str, name: str) -> str:
        self.at[index, device] = name
        self.types[name], self.devices[name] = self.terms.values[index].type, device
        return name

    def value(self, index: int, device: str) -> str:
        """The name of a value on a device, copied there or made resident there when it is not."""
        if (index, device) in self.at:
            return self.at[index, device]
        value = self.terms.values[index]
        if value.constant is not None:
            taken = any((index, other) in self.at for other in TARGETS.values())
            name = self.define(index, device, self.names.on_device(value.name, device) if taken else value.name)
            self.parameters[name] = value.constant
            return name
        source = next(d for d in sorted(set(TARGETS.values())) if (index, d) in self.at)
        own = device == "host" and index in self.terms.outputs
        name = self.define(index, device, value.name if own else self.names.on_device(value.name, device))
        self.steps.append(CopyCall(self.at[index, source], name, source, device, value.type.bytes or 0, 7))
        return name

    def kernel(self, chunk: list[int], target: str, region: str) -> None:
        terms, device = self.terms, TARGETS[target]
        nodes = [terms.nodes[i] for i in chunk]
        later = {i for node in terms.nodes[chunk[-1] + 1 :] for i in node.inputs} | set(terms.outputs)
        host = self._host_reads(nodes)
        made: dict[int, str] = {}
        body, inputs, outputs, inner, host_inputs = [], [], [], {}, set()
        for position, node in enumerate(nodes):
            names = []
            for place, index in enumerate(node.inputs):
                if index == ABSENT:
                    names.append("")
                    continue
                if index in made:
                    names.append(made[index])
                    continue
                on_host = (position, place) in host
                name = self.value(index, "host" if on_host else device)
                if on_host:
                    host_inputs.add(name)
                names.append(name)
                if name not in inputs:
                    inputs.append(name)
            results = []
            for index in node.outputs:
                if index not in self.readers:
                    results.append("")
                    continue
                name = terms.values[index].name
                if index in terms.outputs and device != "host":  # the output itself is the copy on the host
                    name = self.names.on_device(name, device)
                if index in later:
                    outputs.append(self.define(index, device, name))
                else:
                    inner[name] = terms.values[index].type
                made[index] = name
                results.append(name)
            body.append(BodyNode(node.op, node.attributes, tuple(names), kept_outputs(node.op, results)))
        name = self.names.numbered(f"{target}.{'fused' if len(nodes) > 1 else nodes[0].op.lower()}")
        attributes = {
            "rate": Fraction(1, 3),
            "tile": (4, (8, "x")),
            "table": np.arange(3, dtype=np.int8),
            "inf": -np.inf,
        }
        self.steps.append(
            KernelCall(
                name=name,
                target=target,
                device=device,
                region=region,
                rule=f"{target}.rule",
                inputs=tuple(inputs),
                outputs=tuple(outputs),
                host_inputs=frozenset(host_inputs),
                body=tuple(body),
                inner_types=inner,
                attributes=attributes,
                cost=self.random.randint(1, 10**12),
                cost_source="formula",
                covers=tuple(terms.values[node.outputs[0]].name for node in nodes),
                rewrites=("algebra.pull",) if len(nodes) == 2 else (),
            )
        )

    @staticmethod
    def _host_reads(nodes) -> set[tuple[int, int]]:
        """Operands that are read as shapes, axes or sizes, unless the kernel itself computes them."""
        made = {i for node in nodes for i in node.outputs}
        found = set()
        for position, node in enumerate(nodes):
            operator = find(node.op)
            for place in operator.host_inputs if operator else ():
                if place < len(node.inputs) and node.inputs[place] not in (ABSENT, *made):
                    found.add((position, place))
        return found
