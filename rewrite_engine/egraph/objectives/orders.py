"""Orders of the groups of a network, for cutting them into intervals.

In: a network. Out: blocks (groups that lead to each other, as one) with their operands, and orders that follow
priorities: operands first, right before what reads them.
"""

from __future__ import annotations

from collections.abc import Sequence

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
    component = _components([list(mine) for mine in after])
    number = {c: n for n, c in enumerate(dict.fromkeys(component))}
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


def _components(after: Sequence[Sequence[int]]) -> list[int]:
    """The strongly connected component of each node (Tarjan, without recursion)."""
    count = len(after)
    index, low, component = [-1] * count, [0] * count, [-1] * count
    open_: list[int] = []
    clock = 0
    for root in range(count):
        if index[root] >= 0:
            continue
        stack = [(root, 0)]
        while stack:
            node, at = stack.pop()
            if not at:
                index[node] = low[node] = clock
                clock += 1
                open_.append(node)
            for position in range(at, len(after[node])):
                other = after[node][position]
                if index[other] < 0:
                    stack += [(node, position + 1), (other, 0)]
                    break
                if component[other] < 0:
                    low[node] = min(low[node], index[other])
            else:
                if low[node] == index[node]:
                    while component[node] < 0:
                        component[open_.pop()] = node
                if stack:
                    low[stack[-1][0]] = min(low[stack[-1][0]], low[node])
    return component


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
