"""When an answer is done at the earliest, when some of its kernels are known.

In: a problem whose values do not lead back to themselves, and a partial selection. Out: a time before which no answer
with these kernels ends: the longest chain of kernels, copies and launches, or what a device has to do one after the
other between the first of it that can begin and the shortest way from the last of it to an output.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence

from rewrite_engine.egraph.objectives.floors import Busiest, Launches
from rewrite_engine.egraph.objectives.loads import Shares
from rewrite_engine.egraph.objectives.selections import Partial
from rewrite_engine.egraph.problem import Problem

_FAR = 1 << 60
_OUTPUT = -1
Reader = tuple[int, int, int]  # target (or _OUTPUT), the device it reads in, from there to the end of all
Jobs = dict[int, list[tuple[int, int, int]]]  # by device: (earliest beginning, cost, time from its end to that of all)


class Ends:
    """For the makespan."""

    def __init__(self, problem: Problem, order: Mapping[int, int]) -> None:
        self.problem = problem
        nothing: Shares = defaultdict(tuple)
        self.loads = Busiest(problem, nothing)
        self.homes = [target.device for target in problem.targets]
        self.launch = [target.launch for target in problem.targets]
        self.given: dict[int, list[int]] = defaultdict(list)
        for value, device in problem.given:
            self.given[value].append(device)
        self.of: dict[int, list[int]] = defaultdict(list)
        for number, kernel in enumerate(problem.kernels):
            if kernel.value in order and kernel.value not in problem.resident:
                self.of[kernel.value].append(number)
        everything = [number for value in sorted(self.of, key=order.__getitem__) for number in self.of[value]]
        self.begins = self._forward(everything)
        self.first: dict[tuple[int, int, int], int] = {}

    def partial(self, partial: Partial) -> int:
        complete = not partial.pending
        begins = self._forward(partial.chosen) if complete else self.begins
        if begins is None:
            return _FAR
        jobs, late = self._backward(partial, begins)
        if complete:
            for value, device in self.problem.roots:
                if value not in self.problem.resident:
                    mine = [k for k in partial.chosen if self.problem.kernels[k].value == value]
                    late = max(late, self._arrives(value, _OUTPUT, device, mine, begins))
        launches = [0] * len(self.problem.devices)
        for target in {self.problem.kernels[k].target for k in partial.chosen}:
            launches[self.homes[target]] += self.launch[target]
        return max(late, self.loads.partial(partial), one_by_one(jobs), _all_of(jobs, launches))

    def regions(self, partial: Partial) -> Callable[[Launches], int]:
        begins = self._forward(partial.chosen) or {}
        jobs, _ = self._backward(partial, begins)
        return lambda launches: _all_of(jobs, launches)

    def _forward(self, numbers: Sequence[int]) -> dict[int, int] | None:
        """When each of these kernels, consumers first, can begin; None where one of them never can in a selection."""
        begins: dict[int, int] = {}
        made: dict[int, list[int]] = defaultdict(list)
        for number in reversed(numbers):
            kernel = self.problem.kernels[number]
            home = self.homes[kernel.target]
            begin = self.launch[kernel.target]
            for read in kernel.reads:
                if read.value not in self.problem.resident:
                    device = home if read.device is None else read.device
                    begin = max(begin, self._arrives(read.value, kernel.target, device, made[read.value], begins))
            begins[number] = begin
            made[kernel.value].append(number)
        return begins

    def _arrives(self, value: int, target: int, device: int, makers: Iterable[int], begins: Mapping[int, int]) -> int:
        """When a value that these kernels make can be read; a region that reads from memory is launched after that."""
        copies = self.problem.copies
        launch = self.launch[target] if target >= 0 else 0
        best = _FAR
        for source in self.given.get(value, ()):
            delay = 0 if source == device else copies.get((value, source, device), _FAR)
            best = min(best, delay + launch)
        for number in makers:
            kernel = self.problem.kernels[number]
            end = begins[number] + kernel.cost
            best = min(best, end + self._delay(value, kernel.target, target, device))
        return best

    def _delay(self, value: int, maker: int, target: int, device: int) -> int:
        """From the end of a kernel on target `maker` to the beginning of one that reads its value."""
        source = self.homes[maker]
        if source == device:
            return 0 if target in (maker, _OUTPUT) else self.launch[target]
        copy = self.problem.copies.get((value, source, device), _FAR)
        return copy if target == _OUTPUT else copy + self.launch[target]

    def _earliest(self, value: int, target: int, device: int) -> int:
        key = (value, target, device)
        if key not in self.first:
            assert self.begins is not None
            self.first[key] = self._arrives(value, target, device, self.of.get(value, ()), self.begins)
        return self.first[key]

    def _backward(self, partial: Partial, begins: Mapping[int, int]) -> tuple[Jobs, int]:
        """The chosen kernels as jobs, and the longest chain through what is chosen."""
        problem = self.problem
        readers: dict[int, list[Reader]] = defaultdict(list)
        for value, device in problem.roots:
            readers[value].append((_OUTPUT, device, 0))
        made: dict[int, int] = defaultdict(int)
        for number in partial.chosen:
            made[problem.kernels[number].value] += 1
        jobs: Jobs = defaultdict(list)
        late = 0
        for number in partial.chosen:
            kernel = problem.kernels[number]
            mine = readers.get(kernel.value, ())
            tails = [after + self._delay(kernel.value, kernel.target, target, device) for target, device, after in mine]
            alone = made[kernel.value] == 1 and kernel.value not in self.given
            tail = max(tails, default=0) if alone else 0
            late = max(late, begins[number] + kernel.cost + tail)
            home = self.homes[kernel.target]
            jobs[home].append((begins[number], kernel.cost, tail))
            for read in kernel.reads:
                if read.value not in problem.resident:
                    device = home if read.device is None else read.device
                    readers[read.value].append((kernel.target, device, kernel.cost + tail))
        for value in partial.pending:
            for target, device, after in readers.get(value, ()):
                late = max(late, self._earliest(value, target, device) + after)
        return jobs, late


def one_by_one(jobs: Jobs) -> int:
    """A device does one thing at a time: those that cannot begin before some time, and none of them ends the last."""
    best = 0
    for mine in jobs.values():
        work, tail = 0, _FAR
        for begin, cost, after in sorted(mine, reverse=True):
            work, tail = work + cost, min(tail, after)
            best = max(best, begin + work + tail)
    return best


def _all_of(jobs: Jobs, launches: Launches) -> int:
    """All that a device does, its launches too."""
    best = 0
    for device, mine in jobs.items():
        work = sum(cost for _, cost, _ in mine) + launches[device]
        best = max(best, work + min(after for _, _, after in mine))
    return best
