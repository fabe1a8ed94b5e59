"""The operators and domains that annotate a model: `OnDevice`, `DeviceCopy`, regions and composites.

Marks are ONNX functions that return their input, so that an annotated model still runs in any ONNX runtime.
"""

from __future__ import annotations

from collections.abc import Iterable

import onnx
from onnx import helper

OPSET = 23
"""The version of the default domain that every module has."""

IR_VERSION = 10
"""The version of the file format that is written: functions with types, metadata on nodes."""

IR_VERSION_OF_FUNCTIONS = 8
"""The first version of the file format with functions."""

DOMAIN = "rewrite_engine"
VERSIONS = {"ai.onnx.ml": 5}
"""Versions of domains that have several; others have 1."""

COMPOSITES = "rewrite_engine.composite"
REGIONS = "rewrite_engine.region."  # and the target

ON_DEVICE = "OnDevice"  # attribute device: the value is to be on this device
DEVICE_COPY = "DeviceCopy"  # attributes source and destination: the value moves over this link
MARKS = {ON_DEVICE: ("device",), DEVICE_COPY: ("source", "destination")}
"""The marks and their attributes."""

KERNEL_FACTS = "rewrite_engine.kernel"
COPY_FACTS = "rewrite_engine.copy"
GRAPH_FACTS = "rewrite_engine.placed"
FACTS = (KERNEL_FACTS, COPY_FACTS, GRAPH_FACTS)
"""Keys of metadata_props: JSON facts of a kernel's node, of a copy's node, and of the model."""


def opset_imports(domains: Iterable[str]) -> dict[str, int]:
    """What a graph or function with operators of these domains imports."""
    others = sorted(set(domains) - {""})
    return {"": OPSET, **{domain: VERSIONS.get(domain, 1) for domain in others}}


def is_ours(domain: str) -> bool:
    """Whether a domain is one of the project's own."""
    return domain == DOMAIN or domain.startswith(f"{DOMAIN}.")


def mark_function(mark: str, opset: int = OPSET) -> onnx.FunctionProto:
    """The function behind a mark: y = Identity(x)."""
    return helper.make_function(
        DOMAIN,
        mark,
        ["x"],
        ["y"],
        [helper.make_node("Identity", ["x"], ["y"])],
        [helper.make_opsetid("", opset)],
        list(MARKS[mark]),
    )
