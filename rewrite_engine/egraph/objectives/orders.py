"""Orders of the groups of a network, for cutting them into intervals.

In: a network. Out: blocks (groups that lead to each other, as one) with their operands, and orders that follow
priorities: operands first, right before what reads them.
"""

from __future__ import annotations

from collections.abc import Sequence

from rewrite_engine.egraph.components import components
from rewrite_engine.egraph.objectives.calls import Network

Graph = tuple[list[list[int]], list[list[int]]]
"""Blocks of values, and the blocks that each reads."""


def blocks_of(net: Network, late: frozenset[int] = frozenset(), mirrored: bool = False) -> Graph:
    """Blocks and the blocks that each reads. What is read from or by a `late` value orders nothing.

    A block is a strongly connected set of groups: no order has all their operands first. `mirrored`: a group of late
    values alone comes before what it reads of late ones, and after what of them reads it, as if it had a part on the
    way there that were the mirror image of the way back; else nothing says where it comes.
    """
    count = len(net.groups)
    back = [mirrored and late.issuperset(group) for group in net.groups]
    after: list[dict[int, None]] = [{} for _ in range(count)]  # by group: groups that it reads
    for value, operands in enumerate(net.reads):
        reader = net.group_of[value]
        for operand in operands:
            group = net.group_of[operand]
            if group != reader and not {operand, value} & late:
                after[reader][group] = None
            elif group != reader and {operand, value} <= late and (back[reader] or back[group]):
                after[group][reader] = None
    found = components({group: list(mine) for group, mine in enumerate(after)})
    component = {group: first for first, *others in found for group in (first, *others)}
    number = {c: n for n, c in enumerate(dict.fromkeys(component[group] for group in range(count)))}
    place = {value: n for n, value in enumerate(net.order)}
    blocks: list[list[int]] = [[] for _ in number]
    reads: list[dict[int, None]] = [{} for _ in number]
    for group, mine in enumerate(net.groups):
        here = number[component[group]]
        blocks[here] += mine
        for other in after[group]:
            if number[component[other]] != here:
                reads[here][number[component[other]]] = None
    for block in blocks:
        block.sort(key=place.__getitem__)
    return blocks, [list(mine) for mine in reads]


def ordered(reads: Sequence[Sequence[int]], priority: Sequence[float]) -> list[int]:
    """Blocks with operands first: those of high priority are gone into first, depth first from the last ones."""
    read = {operand for mine in reads for operand in mine}
    done: set[int] = set()
    order = []
    ends = sorted((b for b in range(len(reads)) if b not in read), key=lambda b: (priority[b], b))
    stack = [(block, False) for block in ends]
    while stack:
        block, opened = stack.pop()
        if block in done:
            continue
        if opened:
            done.add(block)
            order.append(block)
            continue
        stack.append((block, True))
        stack += [(b, False) for b in sorted(reads[block], key=lambda b: (priority[b], b)) if b not in done]
    return order
