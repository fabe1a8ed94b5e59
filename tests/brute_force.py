"""Random placement problems and their optimum by brute force: kernels, places, real region partitions, copy sources.

Nothing here is shared with the package but the types of a problem.
"""

from __future__ import annotations

import functools
import itertools
import random
from collections.abc import Iterator

from rewrite_engine.egraph.problem import Kernel, Problem, Read, TargetInfo


def random_problem(seed: int, operators: int | None = None, cyclic: bool = False) -> Problem:
    """A random directed graph of operators with fused kernels, several results, constants, host reads and few links."""
    rng = random.Random(seed)
    count = operators or rng.randint(3, 8)
    devices = rng.randint(1, 4)
    targets = [TargetInfo("host", 0, rng.choice([0, 0, 0, 40]))]
    for number in range(rng.randint(1, 3)):
        launch = rng.choice([0, 15, 60, 60, 200])
        targets.append(TargetInfo(f"t{number}", rng.randint(min(1, devices - 1), devices - 1), launch))
    speed = [rng.choice([1, 2, 3])] + [rng.choice([0.3, 0.6, 1]) for _ in targets[1:]]
    values: list[tuple[int, ...]] = []  # operands of every value
    given: set[tuple[int, int]] = set()
    solo: set[int] = set()
    resident: set[int] = set()
    for _ in range(rng.randint(1, 2)):
        given.add((len(values), 0))
        values.append(())
    if rng.random() < 0.5:
        resident.add(len(values))
        values.append(())
    first = len(values)
    while len(values) - first < count:
        usable = [v for v in range(len(values)) if v not in solo]
        recent = usable[-4:]
        if rng.random() < 0.15 and len(values) - first + 3 <= count:  # an operator of two results
            operand = rng.choice(recent)
            solo.add(len(values))
            tuple_value = len(values)
            values.append((operand,))
            values.append((tuple_value,))
            values.append((tuple_value,))
        else:
            values.append(tuple(rng.choice(recent if rng.random() < 0.8 else usable) for _ in range(rng.randint(1, 3))))
    kernels: list[Kernel] = []

    def add(value: int, reads: tuple[Read, ...], base: int, everywhere: bool) -> None:
        for target in range(len(targets)):
            if (target == 0 and everywhere) or rng.random() < 0.65:
                cost = int((base + rng.randint(0, 120)) * speed[target])
                kernels.append(Kernel(value, target, cost, reads, len(kernels)))

    for value in range(first, len(values)):
        operands = values[value]
        projection = any(operand in solo for operand in operands)
        host_read = not projection and len(operands) > 1 and rng.random() < 0.15
        reads = tuple(Read(o, 0 if host_read and place else None) for place, o in enumerate(operands))
        add(value, reads, 5 if projection else 60, rng.random() < 0.9)
        inner = [o for o in operands if o >= first and o not in solo and not any(x in solo for x in values[o])]
        if inner and not projection and rng.random() < 0.5:  # a fused kernel of two or three operators
            fused = list(operands)
            for operand in inner[: rng.randint(1, 2)]:
                fused = [o for o in fused if o != operand] + list(values[operand])
            if all(o not in solo for o in fused):
                add(value, tuple(Read(o) for o in dict.fromkeys(fused)), 70, False)
    if cyclic:
        for _ in range(rng.randint(1, 3)):
            low, high = sorted(rng.choices([v for v in range(first, len(values)) if v not in solo] or [first], k=2))
            if low not in solo and high not in solo:
                add(low, (Read(high),), 20, False)
    used = {operand for operands in values for operand in operands}
    roots = [v for v in range(first, len(values)) if v not in used and v not in solo]
    roots = [(v, 0 if rng.random() < 0.9 else rng.randrange(devices)) for v in roots]
    copies = {}
    for source, destination in itertools.permutations(range(devices), 2):
        if rng.random() < 0.8:
            latency = rng.choice([5, 20, 60])
            for value in range(len(values)):
                if value not in solo:
                    copies[value, source, destination] = latency + (value % 3) * 7
    return Problem(
        devices=tuple(f"d{n}" for n in range(devices)),
        targets=tuple(targets),
        values=len(values),
        kernels=tuple(kernels),
        given=frozenset(given),
        resident=frozenset(resident),
        copies=copies,
        roots=tuple(roots) or ((len(values) - 1, 0),),
        solo=frozenset(solo),
        names=tuple(f"v{n}" for n in range(len(values))),
    )


def brute_force(problem: Problem, limit: int, budget: int = 40_000) -> int | None:
    """The least cost of all solutions that cost at most `limit`, else None. TimeoutError beyond the budget."""
    best = [limit + 1]
    steps = [budget]
    for chosen, least in _selections(problem, best, steps):
        _best_regions(problem, chosen, best, steps, least)
    return None if best[0] > limit else best[0]


def _selections(
    problem: Problem, best: list[int], steps: list[int], copied: bool = True, busiest: int | None = None
) -> Iterator[tuple[list[int], int]]:
    """Sets of kernels, at most one per value and target, such that every value that is read is computed or given.

    Each with a lower bound of what it costs, that of copies included where these are `copied` at a price; what costs
    at least `best`, or keeps a device busy for more than `busiest`, is left out.
    """
    by_value: dict[int, dict[int, list[int]]] = {}
    for number, kernel in enumerate(problem.kernels):
        if kernel.value not in problem.resident:
            by_value.setdefault(kernel.value, {}).setdefault(kernel.target, []).append(number)
    inputs = {value for value, _ in problem.given}
    homes = [target.device for target in problem.targets]

    def fetched(value: int, devices: frozenset[int], targets: tuple[int, ...]) -> int | None:
        """What it costs at least to have a value on all devices; None where it cannot get there."""
        sources = {homes[t] for t in targets} | {d for v, d in problem.given if v == value}
        total = 0
        for device in devices - sources:
            ways = [problem.copies[value, s, device] for s in sources if (value, s, device) in problem.copies]
            if not ways:
                return None
            total += min(ways)
        return total if copied else 0

    @functools.cache
    def floor(value: int, devices: frozenset[int]) -> int:
        """What it costs at least to compute a value and to have it on these devices, what it reads apart."""
        prices = []
        for device in devices or (None,):
            ways = [0] if value in inputs else []
            for target, able in by_value[value].items():
                copy = 0
                if copied and device is not None and homes[target] != device:
                    copy = problem.copies.get((value, homes[target], device), 10**9)
                ways.append(copy + min(problem.kernels[k].cost for k in able))
            prices.append(min(ways))
        return max(prices)

    needed = _unavoidable(problem, by_value, inputs)
    Needs = dict[int, frozenset[int]]  # value -> devices where it is read; none for several results in one
    nowhere: frozenset[int] = frozenset()

    def visit(
        needs: Needs, done: frozenset[int], chosen: list[int], cost: int, used: frozenset[int]
    ) -> Iterator[tuple[list[int], int]]:
        steps[0] -= 1
        if steps[0] < 0:
            raise TimeoutError
        pending = [v for v in needs if v not in done and v not in problem.resident]
        launches = sum(problem.targets[t].launch for t in used)
        left = {u for v in pending for u in needed.get(v, ())} - done
        if cost + launches + sum(floor(u, needs.get(u, nowhere)) for u in left) >= best[0]:
            return
        if not pending:
            yield chosen, cost
            return
        value = max(pending)
        targets = by_value.get(value, {})
        for size in range(0 if value in inputs else 1, len(targets) + 1):
            for where in itertools.combinations(sorted(targets), size):
                copies = fetched(value, needs[value], where)
                if copies is None:
                    continue
                for picked in itertools.product(*(targets[t] for t in where)):
                    more = dict(needs)
                    for kernel in (problem.kernels[k] for k in picked):
                        for read in kernel.reads:
                            device = homes[kernel.target] if read.device is None else read.device
                            there = frozenset() if read.value in problem.solo else frozenset({device})
                            more[read.value] = more.get(read.value, frozenset()) | there
                    if busiest is not None and max(_busy(problem, chosen + list(picked))) > busiest:
                        continue
                    spent = cost + copies + sum(problem.kernels[k].cost for k in picked)
                    yield from visit(more, done | {value}, chosen + list(picked), spent, used | {*where})

    roots: Needs = {}
    for value, device in problem.roots:
        roots[value] = roots.get(value, frozenset()) | {device}
    yield from visit(roots, frozenset(), [], 0, frozenset())


def _busy(problem: Problem, chosen: list[int]) -> list[int]:
    """What the kernels alone take on every device."""
    busy = [0] * len(problem.devices)
    for kernel in (problem.kernels[k] for k in chosen):
        busy[problem.targets[kernel.target].device] += kernel.cost
    return busy


def _unavoidable(
    problem: Problem, by_value: dict[int, dict[int, list[int]]], inputs: set[int]
) -> dict[int, frozenset[int]]:
    """Per value, those that every way to compute it computes as well, itself too; only some where there are cycles."""
    found = {v: frozenset({v}) for v in by_value if v not in inputs}
    for _ in range(len(found)):
        for v in found:
            ways = [
                frozenset().union(*(found.get(read.value, frozenset()) for read in problem.kernels[k].reads))
                for able in by_value[v].values()
                for k in able
            ]
            found[v] = frozenset({v}).union(frozenset.intersection(*ways))
    return found


def _best_regions(problem: Problem, chosen: list[int], best: list[int], steps: list[int], least: int) -> None:
    """All partitions of the kernels into connected regions of one target; `least` is what they cost without launches,
    where every copy is the cheapest."""
    kernels = [problem.kernels[k] for k in chosen]
    base = sum(kernel.cost for kernel in kernels)
    for launches, regions in partitions(problem, kernels, least, best):
        steps[0] -= 1
        if steps[0] < 0:
            raise TimeoutError
        where = {k: n for n, region in enumerate(regions) for k in region}
        if base + launches < best[0]:
            copies = _cheapest_copies(problem, kernels, regions, where, best[0] - base - launches)
            if copies is not None:
                best[0] = base + launches + copies


def partitions(
    problem: Problem, kernels: list[Kernel], base: int, best: list[int]
) -> Iterator[tuple[int, list[list[int]]]]:
    """(launches, regions), as `_connected_partitions`; none where a tuple is not computed where it is read."""
    together: set[tuple[int, int]] = set()  # a value of several results is computed in the region that reads it
    edges: set[tuple[int, int]] = set()
    for b, reader in enumerate(kernels):
        for read in reader.reads:
            makers = [a for a, k in enumerate(kernels) if k.value == read.value and k.target == reader.target]
            if read.value in problem.solo:
                if not makers:
                    return
                together.update((a, b) for a in makers)
            if read.device in (None, problem.targets[reader.target].device):
                edges.update((a, b) for a in makers)
    yield from _connected_partitions(problem, kernels, edges, together, base, best)


def _connected_partitions(
    problem: Problem,
    kernels: list[Kernel],
    edges: set[tuple[int, int]],
    together: set[tuple[int, int]],
    base: int,
    best: list[int],
) -> Iterator[tuple[int, list[list[int]]]]:
    """(launches, set partition): parts are of one target and connected by operands, cheap enough to be the best.

    Where a launch costs nothing, kernels that need not be together are kept apart: that is never dearer, and a
    partition that holds still holds when a region is split.
    """
    beside: list[set[int]] = [set() for _ in kernels]
    for a, b in edges:
        if kernels[a].target == kernels[b].target:
            beside[a].add(b)
            beside[b].add(a)
    group = list(range(len(kernels)))
    for a, b in together:
        group = [group[a] if g == group[b] else g for g in group]

    def parts_with(seed: int, left: frozenset[int]) -> Iterator[frozenset[int]]:
        """The connected sets of kernels that are left, with `seed` in them."""
        if not problem.targets[kernels[seed].target].launch:
            left = frozenset(k for k in left if group[k] == group[seed])

        def extend(part: frozenset[int], refused: frozenset[int]) -> Iterator[frozenset[int]]:
            near = sorted({other for k in part for other in beside[k]} & left - part - refused)
            yield part
            for place, other in enumerate(near):
                yield from extend(part | {other}, refused | {*near[:place]})

        yield from extend(frozenset({seed}), frozenset())

    def grow(left: frozenset[int], parts: list[list[int]], launches: int) -> Iterator[tuple[int, list[list[int]]]]:
        more = {kernels[k].target for k in left}
        if base + launches + sum(problem.targets[target].launch for target in more) >= best[0]:
            return
        if not left:
            yield launches, [list(part) for part in parts]
            return
        seed = min(left)
        for part in parts_with(seed, left):
            inner = {group[k] for k in part}
            if all(group[k] not in inner for k in left - part):
                launch = problem.targets[kernels[seed].target].launch
                yield from grow(left - part, [*parts, sorted(part)], launches + launch)

    yield from grow(frozenset(range(len(kernels))), [], 0)


def _cheapest_copies(
    problem: Problem, kernels: list[Kernel], regions: list[list[int]], where: dict[int, int], limit: int
) -> int | None:
    """Tries every provider of every memory that is read; the regions must then have an order."""
    needs: dict[tuple[int, int], set[int]] = {}
    for number, kernel in enumerate(kernels):
        own = {kernels[k].value for k in regions[where[number]]}
        device = problem.targets[kernel.target].device
        for read in kernel.reads:
            if read.value in problem.resident or (read.value in own and read.device in (None, device)):
                continue
            if read.value in problem.solo:
                return None
            needs.setdefault((read.value, device if read.device is None else read.device), set()).add(where[number])
    for root in problem.roots:
        if root[0] not in problem.resident:
            needs.setdefault(root, set())
    options = []
    for value, device in needs:
        ways = []
        for source in sorted(d for v, d in problem.given if v == value):
            price = 0 if source == device else problem.copies.get((value, source, device))
            if price is not None:
                ways.append((price, -1))
        for number, kernel in enumerate(kernels):
            if kernel.value == value and value not in problem.solo:
                source = problem.targets[kernel.target].device
                price = 0 if source == device else problem.copies.get((value, source, device))
                if price is not None:
                    ways.append((price, where[number]))
        options.append(sorted(ways))
    best = None
    inside = {
        (a, b)
        for a, b in itertools.product(range(len(kernels)), repeat=2)
        if where[a] == where[b] and any(r.value == kernels[a].value for r in kernels[b].reads)
    }
    if not _has_order(len(kernels), inside):
        return None
    for picked in itertools.product(*options):
        cost = sum(price for price, _ in picked)
        if cost < limit and (best is None or cost < best):
            edges = {
                (source, reader)
                for (_, source), need in zip(picked, needs, strict=True)
                for reader in needs[need]
                if source >= 0
            }
            if _has_order(len(regions), edges):
                best = cost
    return best


def _has_order(count: int, edges: set[tuple[int, int]]) -> bool:
    left = set(range(count))
    while left:
        free = {r for r in left if not any(b == r and a in left for a, b in edges)}
        if not free:
            return False
        left -= free
    return True


def layered_problem(values: int, seed: int, targets: int = 4) -> Problem:
    """Blocks as in a transformer: a residual stream, three branches, fused kernels; all layers are alike."""
    rng = random.Random(seed)
    infos = [
        TargetInfo("host", 0, 0),
        TargetInfo("gpu", 1, 8000),
        TargetInfo("npu", 2, 15000),
        TargetInfo("lib", 0, 1500),
    ]
    infos += [TargetInfo(f"t{n}", n % 3, 3000) for n in range(4, targets)]
    infos = infos[:targets]
    speed = [20.0, 1.5, 1.0, 6.0] + [4.0] * targets
    overhead = [300, 1500, 800, 400] + [600] * targets
    names, kernels = ["x"], list[Kernel]()
    made: dict[tuple[str, int], int] = {}

    def kernel(op: str, value: int, reads: list[int], work: int, share: float) -> None:
        for target in range(targets):
            if (op, target) not in made:
                able = target == 0 or rng.random() < share
                made[op, target] = int(work * speed[target] + overhead[target] + rng.randint(0, 200)) if able else -1
            if made[op, target] >= 0 and (share > 0.5 or target):
                operands = tuple(Read(read) for read in dict.fromkeys(reads))
                kernels.append(Kernel(value, target, made[op, target], operands, len(kernels)))

    def operator(op: str, *reads: int, work: int = 400) -> int:
        value = len(names)
        names.append(f"{op}_{value}")
        kernel(op, value, list(reads), work, 0.7)
        return value

    stream = 0
    while len(names) < values:
        mean = operator("mean", stream)
        norm = operator("norm", operator("sub", stream, mean))
        kernel("layer_norm", norm, [stream], 700, 0.4)
        branches = []
        for name in ("q", "k", "v"):
            product = operator("matmul", norm, work=5000)
            bias = operator("bias", product)
            kernel("matmul_bias", bias, [norm], 5100, 0.5)
            branches.append(operator(name, bias, work=200))
        scores = operator("scores", branches[0], branches[1], work=3000)
        context = operator("context", operator("softmax", scores, work=900), branches[2], work=3000)
        middle = operator("add", stream, operator("project", context, work=5000))
        wide = operator("gelu", operator("expand", middle, work=20000), work=1500)
        kernel("expand_gelu", wide, [middle], 20500, 0.4)
        stream = operator("add", middle, operator("contract", wide, work=20000))
    links = {(0, 1): 9000, (1, 0): 9000, (1, 2): 10000, (2, 1): 10000, (2, 0): 12000, (0, 2): 19000}
    copies = {
        (v, *pair): cost * (4 if "expand" in names[v] else 1) for v in range(len(names)) for pair, cost in links.items()
    }
    return Problem(
        devices=("host", "gpu", "npu"),
        targets=tuple(infos),
        values=len(names),
        kernels=tuple(kernels),
        given=frozenset({(0, 0)}),
        resident=frozenset(),
        copies=copies,
        roots=((stream, 0),),
        solo=frozenset(),
        names=tuple(names),
    )
