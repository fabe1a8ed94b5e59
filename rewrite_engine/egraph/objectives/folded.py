"""Blocks that can be left out of a search for loads, because where they go is clear.

In: a network and blocks with what each reads. Out: the same with fewer blocks.
"""

from __future__ import annotations

from rewrite_engine.egraph.objectives.calls import Network
from rewrite_engine.egraph.objectives.orders import Graph


def folded(net: Network, blocks: list[list[int]], reads: list[list[int]]) -> Graph:
    """Blocks that cost nothing on any device go with their only neighbour, which costs no more: fewer orders are left.

    That is so where memories never matter: all values together fit any device, or else nothing is folded.
    """
    whole = sum(net.sizes)
    if any(limit is not None and limit < whole for limit in net.memory):
        return blocks, reads
    near: list[set[int]] = [set(mine) for mine in reads]
    for block, mine in enumerate(reads):
        for other in mine:
            near[other].add(block)
    home = {value: number for number, block in enumerate(blocks) for value in block}
    for value, operands in enumerate(net.reads):
        for operand in operands:
            if home[value] != home[operand]:
                near[home[value]].add(home[operand])
                near[home[operand]].add(home[value])
    into = list(range(len(blocks)))
    todo = list(into)
    while todo:
        block = todo.pop()
        if into[block] != block or len(near[block]) != 1 or not all(_for_nothing(net, v) for v in blocks[block]):
            continue
        (other,) = near[block]
        into[block] = other
        near[other].discard(block)
        todo.append(other)
    return _gathered(net, blocks, reads, into)


def _for_nothing(net: Network, value: int) -> bool:
    return not any(cost is None or cost for cost in net.cost[value]) and not (
        value in net.wanted and any(net.out[value])
    )


def _gathered(net: Network, blocks: list[list[int]], reads: list[list[int]], into: list[int]) -> Graph:
    """Blocks joined: each goes where the one that it goes with goes."""
    for block in range(len(blocks)):
        while into[into[block]] != into[block]:
            into[block] = into[into[block]]
    number = {block: n for n, block in enumerate(b for b in range(len(blocks)) if into[b] == b)}
    place = {value: n for n, value in enumerate(net.order)}
    joined: list[list[int]] = [[] for _ in number]
    needs: list[dict[int, None]] = [{} for _ in number]
    for block, mine in enumerate(blocks):
        here = number[into[block]]
        joined[here] += mine
        needs[here] |= {number[into[other]]: None for other in reads[block] if number[into[other]] != here}
    for values in joined:
        values.sort(key=place.__getitem__)
    return joined, [list(mine) for mine in needs]
