"""Pins: of all kernels, those that compute pinned values where they are pinned."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from rewrite_engine.diagnostics import RewriteError
from rewrite_engine.egraph.problem import Kernel
from rewrite_engine.machine import Machine

if TYPE_CHECKING:
    from rewrite_engine.egraph.freeze import ENode


def pinned_kernels(
    kernels: list[Kernel], enodes: Sequence[ENode], machine: Machine, pins: Mapping[int, str], names: Sequence[str]
) -> list[Kernel]:
    """Only the kernels that pins allow, composites around a pinned value included; one that leaves none is an error."""
    kept = kernels
    inner = [frozenset(n.fused.computed(n.slots) if n.fused is not None else ()) for n in enodes]
    for value, place in sorted(pins.items()):
        allowed = machine.targets_at(place)
        here = [kernel for kernel in kept if kernel.value == value]
        if here and not any(kernel.target in allowed for kernel in here):
            can = sorted({machine.targets[kernel.target].name for kernel in here})
            raise RewriteError(
                f"`{names[value]}` is pinned to `{place}`, but nothing there can compute it; "
                f"it can be computed by {', '.join(can)}"
            )
        kept = [
            kernel
            for kernel in kept
            if kernel.target in allowed or (kernel.value != value and value not in inner[kernel.payload])
        ]
    return kept
