"""Composites as e-nodes: the payload that says what was matched, what it costs and how its kernel is called."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rewrite_engine.egraph.encode import Table
from rewrite_engine.language.core import ABSENT, CoreRule, Variant
from rewrite_engine.machine import Offer
from rewrite_engine.operators import find
from rewrite_engine.operators.types import TensorType


@dataclass(frozen=True, slots=True, eq=False)
class FusedKernel:
    """One composite over values of these types. `question` leads back to the match."""

    rule: CoreRule
    variant: Variant
    shape: int
    question: tuple[int, ...]
    node_attributes: tuple[Mapping[str, object], ...]
    types: tuple[TensorType, ...]
    attributes: Mapping[str, object]  # for the code generator
    offer: Offer

    @property
    def table(self) -> Table:
        return kernel_table(self.rule, self.variant)

    def computed(self, slots: Sequence[int]) -> tuple[int, ...]:
        """Of the classes bound to the slots, those that the composite computes."""
        return tuple(slots[o] for node in self.variant.nodes for o in node.outputs if o != ABSENT)


def kernel_inputs(variant: Variant) -> tuple[int, ...]:
    """The slots that a composite's kernel reads: its parameters, then every other value that it does not compute."""
    made = {o for node in variant.nodes for o in node.outputs}
    rest = (i for node in variant.nodes for i in node.inputs if i != ABSENT and i not in made)
    return tuple(dict.fromkeys([*variant.inputs, *rest]))


def kernel_table(rule: CoreRule, variant: Variant) -> Table:
    """The table of a composite's e-nodes; what its operators only read as shapes or sizes is read on the host."""
    inputs = kernel_inputs(variant)
    shape: set[int] = set()
    data: set[int] = set()
    for node in variant.nodes:
        facts = find(node.op)
        for position, slot in enumerate(node.inputs):
            (shape if facts is not None and position in facts.host_inputs else data).add(slot)
    host = tuple(k for k, slot in enumerate(inputs) if slot in shape - data)
    return Table(rule.name, len(inputs), len(variant.roots), fused=True, host=host)
