"""The machine that rule files describe: devices, links, targets, rooflines; costs in whole picoseconds.

In: a checked `RuleSet`. Out: a frozen `Machine`. Device 0 and target 0 are the host's.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import TypeVar

from rewrite_engine.costs import Measured, signature
from rewrite_engine.diagnostics import RewriteError, Span, did_you_mean
from rewrite_engine.language.core import Answer, CoreRule, Facts, LinkSpec, Refusal, RuleSet, Variant
from rewrite_engine.language.evaluate import UnboundCost, answer, evaluate_link_cost
from rewrite_engine.language.scope import Scope
from rewrite_engine.language.units import ENERGY
from rewrite_engine.operators import work
from rewrite_engine.operators.types import TensorType

HOST = "host"
HOST_FLOPS = Fraction(20 * 10**9)
HOST_BANDWIDTH = Fraction(10 * 10**9)
"""The host's roofline where no rule file gives one: 20 GFLOPS and 10 GB/s."""
NOTHING_MEASURED: Mapping[str, Measured] = {}


def picoseconds(seconds: Fraction) -> int:
    """An exact time, rounded up once to whole picoseconds (an energy: joules to picojoules)."""
    return math.ceil(seconds * 10**12)


@dataclass(frozen=True, slots=True)
class Device:
    """A memory space; `memory` in bytes, None without a limit."""

    name: str
    memory: int | None


@dataclass(frozen=True, slots=True)
class Target:
    """What runs kernels on one device. `launch` in picoseconds; rates per second, None where not given."""

    name: str
    device: str
    launch: int
    flops: Fraction | None
    bandwidth: Fraction | None


@dataclass(frozen=True, slots=True)
class Hop:
    """One link on a path, with what it costs for the tensor at hand, in picoseconds."""

    source: str
    destination: str
    cost: int


@dataclass(frozen=True, slots=True, eq=False)
class Machine:
    """What there is to run on. On a `free` one nothing costs anything: sizes need not be known.

    `unit` is what costs are in: "ps", or "pJ" (see `by_energy`). `bindable` are the dimensions of the model's inputs
    that have no size, see `reading`; None where the model is not known.
    """

    devices: tuple[Device, ...]
    targets: tuple[Target, ...]
    links: tuple[LinkSpec, ...]
    scope: Scope
    free: bool = False
    unit: str = "ps"
    measured: Mapping[str, Measured] = field(default_factory=dict)  # costs by the key of `profile("key")`
    bindable: tuple[str, ...] | None = None
    _paths: dict[int, dict[tuple[str, str], tuple[Hop, ...]]] = field(default_factory=dict, repr=False)

    def target(self, name: str) -> Target:
        """The target of that name; an unknown one is a RewriteError."""
        return _find(self.targets, name, "target")

    def device(self, name: str) -> Device:
        """The device of that name; an unknown one is a RewriteError."""
        return _find(self.devices, name, "device")

    def targets_at(self, place: str) -> frozenset[int]:
        """The targets, by number, that the name of a target or a device means; a name that is both is the target's."""
        named = frozenset(k for k, target in enumerate(self.targets) if target.name == place)
        return named or frozenset(k for k, target in enumerate(self.targets) if target.device == place)

    def restrict(self, names: Sequence[str]) -> Machine:
        """The machine with the named targets only (the host always stays), in the machine's own order."""
        keep = {self.target(name).name for name in names} | {HOST}
        targets = tuple(t for t in self.targets if t.name in keep)
        return replace(self, targets=targets, _paths={})

    def reading(self, inputs: Iterable[TensorType]) -> Machine:
        """The same machine for a model with inputs of these types.

        Sizes that are no input's follow from others, which must be bound, or else from the data: where every size of
        the inputs is known, those left count as one in rooflines and copies; a formula that reads one is refused.
        """
        names = dict.fromkeys(d for kind in inputs for d in kind.shape or () if isinstance(d, str))
        return replace(self, bindable=tuple(names))

    def ask(self, rule: CoreRule, variant: Variant, facts: Facts) -> Answer | Refusal:
        """What `rule` says of a match, see `language.evaluate.answer`; UnboundCost only where sizes can be bound."""
        try:
            return answer(rule, variant, facts)
        except UnboundCost as error:
            if self._follows(error.what, error.dimension, error.span):
                return Refusal(error.what, error.span or rule.span)
            raise

    def without_costs(self) -> Machine:
        """The same machine where nothing costs anything, for questions about capabilities alone."""
        return replace(self, free=True, _paths={})

    def by_energy(self) -> Machine:
        """The same machine with energies for costs, in picojoules: of kernels and links; starting a region costs none.

        What has no `energy` counts nothing.
        """
        targets = tuple(replace(target, launch=0) for target in self.targets)
        return replace(self, targets=targets, unit="pJ", _paths={})

    def paths(self, size: int) -> Mapping[tuple[str, str], tuple[Hop, ...]]:
        """For a tensor of `size` bytes: the cheapest path between every pair of devices that has one.

        Ties go to fewer hops, then to the order in which devices are declared.
        """
        if size not in self._paths:
            self._paths[size] = _cheapest_paths([d.name for d in self.devices], self._hops(size))
        return self._paths[size]

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """The pairs of devices that a tensor can travel between, over one link or several."""
        linked = {(link.source, link.destination): Hop(link.source, link.destination, 1) for link in self.links}
        return sorted(_cheapest_paths([d.name for d in self.devices], linked))

    def size(self, kind: TensorType) -> int:
        """Bytes of a tensor, for copies, with dimensions as in `offer`."""
        if self.free:
            return 0
        return sum(t.bytes or 0 for t in self._sized([kind], "the cost of copying a value") if t is not None)

    def _hops(self, size: int) -> dict[tuple[str, str], Hop]:
        hops: dict[tuple[str, str], Hop] = {}
        for link in self.links:
            cost = picoseconds(self._link(link, size))
            known = hops.get((link.source, link.destination))
            if known is None or cost < known.cost:
                hops[link.source, link.destination] = Hop(link.source, link.destination, cost)
        return hops

    def _link(self, link: LinkSpec, size: int) -> Fraction:
        if self.unit == "ps":
            return evaluate_link_cost(link.cost, self.scope, size)
        return Fraction(0) if link.energy is None else evaluate_link_cost(link.energy, self.scope, size, ENERGY)

    def offer(
        self,
        index: int,
        rule: str,
        answer: Answer,
        nodes: Sequence[Application],
        inputs: Sequence[TensorType | None],
        outputs: Sequence[TensorType],
    ) -> Offer:
        """What target `index` asks for one kernel: by its formula or measurement, else by the roofline.

        `nodes` are the operators that the kernel computes; `inputs` its external inputs, each once, and `outputs`.
        A dimension that is not bound is an `UnboundCost`; one that depends on the data counts as one element.
        """
        if self.free:
            return Offer(rule, 0, "formula")
        if self.unit == "pJ":
            return Offer(
                rule, picoseconds(answer.energy or Fraction(0)), "none" if answer.energy is None else "formula"
            )
        if answer.cost is not None:
            return Offer(rule, picoseconds(answer.cost), "formula")
        if answer.profile is not None and answer.profile in self.measured:
            known = self.measured[answer.profile].of(signature(inputs, outputs))
            if known is not None:
                return Offer(rule, known, "profile")
        target = self.targets[index]
        flops, bandwidth = target.flops, target.bandwidth
        if flops is None and bandwidth is None:
            if answer.profile is not None:
                raise RewriteError(
                    f'`{rule}` costs profile("{answer.profile}"), of which there is no measurement for '
                    f"{signature(inputs, outputs)}, and target `{target.name}` has no roofline to take it from; "
                    f"give a table with --costs, or the target `flops` or `bandwidth`"
                )
            raise RewriteError(
                f"`{rule}` has no cost, and target `{target.name}` no roofline to take it from; "
                f"give the target `flops` or `bandwidth`, or the capability a `cost`"
            )
        where = f"the cost of `{rule}` ({', '.join(op for op, *_ in nodes)})"
        times = [Fraction(0)]
        if flops is not None:
            done = sum(
                work(op, attributes, self._sized(i, where), self._sized(o, where)).flops or 0
                for op, attributes, i, o in nodes
            )
            times.append(done / flops)
        if bandwidth is not None:
            sizes = [t.bytes or 0 for t in self._sized([*inputs, *outputs], where) if t is not None]
            times.append(sum(sizes) / bandwidth)
        return Offer(rule, picoseconds(max(times)), "roofline")

    def _sized(self, types: Sequence[TensorType | None], where: str) -> list[TensorType | None]:
        """The types with every dimension a number."""
        sized: list[TensorType | None] = []
        for kind in types:
            if kind is None or kind.shape is None:
                sized.append(None if kind is None else TensorType(kind.dtype, ()))
                continue
            for d in kind.shape:
                what = f"{where} reads the dimension `{d}`, which is not bound"
                if isinstance(d, str) and not self._follows(what, d):
                    raise UnboundCost(what, d)
            sized.append(TensorType(kind.dtype, tuple(d if isinstance(d, int) else 1 for d in kind.shape)))
        return sized

    def _follows(self, what: str, dimension: str, span: Span | None = None) -> bool:
        """Whether a size depends on the data alone; UnboundCost where it may depend on sizes that can be bound."""
        if self.bindable is None or dimension in self.bindable:
            return False
        if self.bindable:
            mend = f"it follows from others or from the data: bind those of the inputs, --dim {self.bindable[0]}=SIZE"
            raise UnboundCost(what, dimension, span, mend)
        return True


Application = tuple[str, Mapping[str, object], Sequence[TensorType | None], Sequence[TensorType]]
"""An operator with its effective attributes, input types (None: absent) and result types."""


@dataclass(frozen=True, slots=True)
class Offer:
    """What a target asks for running a kernel, in picoseconds: by which capability, and where the number comes from."""

    rule: str
    cost: int
    source: str  # "formula" | "profile" | "roofline" | "none": an energy that no rule gives


def build(rules: RuleSet, measured: Mapping[str, Measured] = NOTHING_MEASURED) -> Machine:
    """The machine of a rule set, with costs as measured; where the host has no roofline it gets the default one."""
    targets = []
    for spec in rules.targets:
        flops, bandwidth = spec.flops, spec.bandwidth
        if spec.name == HOST:
            flops, bandwidth = flops or HOST_FLOPS, bandwidth or HOST_BANDWIDTH
        targets.append(Target(spec.name, spec.device, picoseconds(spec.launch), flops, bandwidth))
    assert isinstance(rules.scope, Scope)
    devices = tuple(Device(spec.name, spec.memory) for spec in rules.devices)
    return Machine(devices, tuple(targets), rules.links, rules.scope, measured=measured)


Named = TypeVar("Named", Device, Target)


def _find(items: Sequence[Named], name: str, kind: str) -> Named:
    for item in items:
        if item.name == name:
            return item
    names = [item.name for item in items]
    hint = did_you_mean(name, names)
    raise RewriteError(f"unknown {kind} `{name}`; the machine has {', '.join(names)}" + (f"; {hint}" if hint else ""))


def _cheapest_paths(
    devices: Sequence[str], hops: Mapping[tuple[str, str], Hop]
) -> dict[tuple[str, str], tuple[Hop, ...]]:
    """All-pairs cheapest paths (Floyd and Warshall)."""
    best: dict[tuple[str, str], tuple[int, tuple[Hop, ...]]] = {
        pair: (hop.cost, (hop,)) for pair, hop in hops.items() if pair[0] != pair[1]
    }
    for middle in devices:
        for source in devices:
            for destination in devices:
                if source == destination or (source, middle) not in best or (middle, destination) not in best:
                    continue
                (c1, p1), (c2, p2) = best[source, middle], best[middle, destination]
                known = best.get((source, destination))
                if known is None or (c1 + c2, len(p1) + len(p2)) < (known[0], len(known[1])):
                    best[source, destination] = (c1 + c2, p1 + p2)
    return {pair: path for pair, (_, path) in best.items()}
