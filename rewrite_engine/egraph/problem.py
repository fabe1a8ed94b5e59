"""The placement problem: what an explored e-graph offers, as plain integers.

In: a frozen e-graph (see `egraph.saturate`). Out: what every strategy and solver reads; also exported as JSON.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

Memory = tuple[int, int]  # (value, device)


@dataclass(frozen=True, slots=True, order=True)
class Read:
    """One operand of a kernel. `device` None: inside the kernel's own region, or from its target's memory.

    A device (always the host today) means that the operand is read from that memory, whatever runs the kernel: shapes,
    axes and sizes.
    """

    value: int
    device: int | None = None


@dataclass(frozen=True, slots=True, order=True)
class Kernel:
    """One way to compute `value` on `target`, at `cost` picoseconds; `payload` leads back to the e-node."""

    value: int
    target: int
    cost: int
    reads: tuple[Read, ...]
    payload: int


@dataclass(frozen=True, slots=True)
class TargetInfo:
    name: str
    device: int
    launch: int  # picoseconds for starting a region


@dataclass(frozen=True, slots=True, eq=False)
class Problem:
    """Values are 0..n-1 (classes of the e-graph).

    A kernel of a target reads an operand either from its own region (the operand is computed by a kernel of the same
    region) or from its device's memory. A value gets into a memory by a kernel on that device, by being `given` there
    (a graph input), by being `resident` (a compile-time constant: free, on any device), or by a copy from a memory
    where a kernel or an input put it. `solo` values (several results in one) never leave their region. The cost is the
    sum of kernels, copies and one launch per region; regions are connected, convex, and their graph has no cycle.
    """

    devices: tuple[str, ...]  # 0 is the host
    targets: tuple[TargetInfo, ...]
    values: int
    kernels: tuple[Kernel, ...]
    given: frozenset[Memory]
    resident: frozenset[int]  # constant values
    copies: Mapping[tuple[int, int, int], int]  # (value, from, to) -> cheapest path, picoseconds
    roots: tuple[Memory, ...]
    solo: frozenset[int]
    names: tuple[str, ...]  # of values, for messages
    originals: frozenset[int] = frozenset()  # payloads of kernels that compute an operator of the model as it was given


@dataclass(frozen=True, slots=True)
class Choice:
    """A kernel that runs, in a region; regions are numbered from 0 in the order of their first kernel."""

    kernel: int  # index into Problem.kernels
    region: int


@dataclass(frozen=True, slots=True, eq=False)
class Solution:
    """Chosen kernels in an order in which they can run, the copies made, and what is known of the cost."""

    choices: tuple[Choice, ...]
    copies: tuple[tuple[int, int, int], ...]  # (value, from, to)
    cost: int
    bound: int
    status: str  # "optimal" | "feasible" | "limit"
