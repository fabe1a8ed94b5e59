"""From a problem to ways: drops kernels that can never run or never pay, sorts operands by where they come from.

Raises RewriteError when an output cannot be had, naming the value and the reason.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from rewrite_engine.diagnostics import RewriteError
from rewrite_engine.egraph.extract.model import Machine, Way, Ways
from rewrite_engine.egraph.problem import Kernel, Memory, Problem

Need = tuple[Memory | None, tuple[int, int] | None]  # one operand: in this memory, or computed by this (value, target)


def operand_needs(problem: Problem, kernel: Kernel) -> list[Need]:
    """Where operands may come from, without constants; nothing can serve a kernel that reads its own value."""
    device = problem.targets[kernel.target].device
    needs: list[Need] = []
    for read in dict.fromkeys(kernel.reads):
        if read.value in problem.resident:
            continue
        where = device if read.device is None else read.device
        memory = None if read.value in problem.solo else (read.value, where)
        inside = (read.value, kernel.target) if where == device else None
        needs.append((None, None) if read.value == kernel.value else (memory, inside))
    return needs


def machine_of(problem: Problem) -> Machine:
    """Tracked are targets with a launch, and those where regions matter for another reason.

    That is when a kernel reads a value of several results beside other operands: those two kernels are one region, and
    such a region can be on both sides of another kernel. (One that reads nothing else cannot.)
    """
    mixed = {
        kernel.target
        for kernel in problem.kernels
        if any(read.value in problem.solo for read in kernel.reads)
        and any(read.value not in problem.solo and read.value not in problem.resident for read in kernel.reads)
    }
    everything = range(len(problem.targets))
    tracked = tuple(t for t in everything if problem.targets[t].launch or t in mixed)
    untracked = tuple(t for t in everything if t not in tracked)
    return Machine(
        target_devices=tuple(target.device for target in problem.targets),
        launches=tuple(target.launch for target in problem.targets),
        tracked=tracked,
        untracked=untracked,
        items=max(1, len(problem.devices), len(untracked) if problem.solo else 0),
    )


def possible_kernels(problem: Problem, among: Iterable[int] | None = None) -> list[int]:
    """Kernels (`among` these) that can be completed, from the inputs up.

    Raises RewriteError when they do not give every output.
    """
    links: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for value, source, destination in problem.copies:
        links[value].append((source, destination))
    waiting: dict[object, list[int]] = defaultdict(list)
    missing: list[int] = []
    slots: list[int] = []  # of every operand: its kernel, or -1 once it can be had
    every = range(len(problem.kernels)) if among is None else sorted(among)
    candidates = [number for number in every if problem.kernels[number].value not in problem.resident]
    place_of = {}
    todo: list[tuple[str, int, int]] = []
    for place, number in enumerate(candidates):
        place_of[place] = number
        needs = operand_needs(problem, problem.kernels[number])
        missing.append(len(needs))
        for memory, inside in needs:
            slot = len(slots)
            slots.append(place)
            if memory is not None:
                waiting["memory", *memory].append(slot)
            if inside is not None:
                waiting["computed", *inside].append(slot)
    had: set[tuple[str, int, int]] = set()

    def get(value: int, device: int) -> None:
        todo.append(("memory", value, device))
        todo.extend(("memory", value, destination) for source, destination in links[value] if source == device)

    def complete(place: int) -> None:
        kernel = problem.kernels[place_of[place]]
        todo.append(("computed", kernel.value, kernel.target))
        if kernel.value not in problem.solo:
            get(kernel.value, problem.targets[kernel.target].device)

    for value, device in sorted(problem.given):
        get(value, device)
    for place, count in enumerate(missing):
        if not count:
            complete(place)
    while todo:
        event = todo.pop()
        if event in had:
            continue
        had.add(event)
        for slot in waiting[event]:
            place = slots[slot]
            if place >= 0:
                slots[slot] = -1
                missing[place] -= 1
                if not missing[place]:
                    complete(place)
    possible = [number for place, number in enumerate(candidates) if not missing[place]]
    for value, device in problem.roots:
        if value not in problem.resident and ("memory", value, device) not in had:
            raise Unreachable(_why_not(problem, value, device, had), problem.names[value])
    return possible


class Unreachable(RewriteError):
    """An output that cannot be had where it must be; `output` is its name."""

    def __init__(self, message: str, output: str = "") -> None:
        super().__init__(message)
        self.output = output


def _why_not(problem: Problem, value: int, device: int, had: set[tuple[str, int, int]]) -> str:
    """Walks from an output to the operand at which everything stops."""
    output = problem.names[value]
    seen: set[int] = set()
    while True:
        seen.add(value)
        name = f"`{problem.names[value]}`"
        via = "" if problem.names[value] == output else f"; the output `{output}` needs it"
        kernels = [kernel for kernel in problem.kernels if kernel.value == value]
        computed = sorted({k.target for k in kernels if ("computed", value, k.target) in had})
        inputs = sorted(d for v, d in problem.given if v == value)
        if value in problem.solo and computed:
            return f"{name} has several results and never leaves its region, so it cannot be an output"
        if computed or inputs:
            places = [problem.targets[t].name for t in computed] + [problem.devices[d] for d in inputs]
            return (
                f"{name} is available on {', '.join(dict.fromkeys(places))}, but no link leads from there into the "
                f"memory of {problem.devices[device]}{via}; add a link or a target there that can compute it"
            )
        if not kernels:
            return f"no target can compute {name}{via}; add a capability or a target that supports it"
        for kernel in kernels:
            blocked = _blocked(problem, kernel, had, seen)
            if blocked is not None:
                value, device = blocked
                break
        else:
            return f"no target can compute {name} from the inputs: every way to it needs {name} itself{via}"


def _blocked(problem: Problem, kernel: Kernel, had: set[tuple[str, int, int]], seen: set[int]) -> Memory | None:
    for read in kernel.reads:
        device = problem.targets[kernel.target].device if read.device is None else read.device
        here = ("memory", read.value, device) in had or ("computed", read.value, kernel.target) in had
        if not here and read.value not in problem.resident and read.value not in seen:
            return read.value, device
    return None


def ways_of(problem: Problem, machine: Machine, possible: Iterable[int]) -> dict[int, tuple[Way, ...]]:
    """The ways to compute every value, without those that another way of the same target makes useless."""
    kernels = [(number, problem.kernels[number]) for number in possible]
    computed = {(kernel.value, kernel.target) for _, kernel in kernels}
    plain = {target: place for place, target in enumerate(machine.untracked)}
    found: dict[tuple[int, int], list[Way]] = defaultdict(list)
    for number, kernel in kernels:
        inside: dict[int, None] = {}
        memory: dict[tuple[int, int], None] = {}
        for place, own in operand_needs(problem, kernel):
            if own is not None and own in computed and kernel.target not in plain:
                inside[own[0]] = None
            elif place is not None:
                memory[place] = None
            else:
                assert own is not None
                memory[own[0], plain[kernel.target]] = None
        way = Way(number, kernel.target, kernel.cost, tuple(inside), tuple(memory))
        found[kernel.value, kernel.target].append(way)
    result: dict[int, list[Way]] = defaultdict(list)
    for value, target in sorted(found):
        result[value] += _useful(found[value, target], machine.launches[target])
    return {value: tuple(ways) for value, ways in result.items()}


def _useful(ways: list[Way], launch: int) -> list[Way]:
    """Drops a way if another costs no more and reads no more.

    An operand from the own region may also join two regions into one: each such operand that the other way lacks is
    worth a launch at most.
    """
    kept: list[Way] = []
    for way in sorted(ways, key=lambda w: (w.cost, len(w.inside) + len(w.memory), w.kernel)):
        inside, memory = set(way.inside), set(way.memory)
        if not any(
            set(k.inside) <= inside
            and set(k.memory) <= memory
            and k.cost + launch * len(inside - set(k.inside)) <= way.cost
            for k in kept
        ):
            kept.append(way)
    return kept


def reachable(ways: Ways, roots: Iterable[int]) -> dict[int, tuple[Way, ...]]:
    """The ways of values that an output can depend on."""
    found: dict[int, tuple[Way, ...]] = {}
    todo = list(roots)
    while todo:
        value = todo.pop()
        if value not in found:
            found[value] = ways.get(value, ())
            todo.extend(operand for way in found[value] for operand in way.operands)
    return dict(sorted(found.items()))
