"""The summary table of a placement."""

from __future__ import annotations

from collections import Counter

from rewrite_engine.graph.placed import CopyCall, KernelCall
from rewrite_engine.placement.place import Placement


def microseconds(picoseconds: int | None) -> str:
    """A time as people read it."""
    return "-" if picoseconds is None else f"{picoseconds / 10**6:,.3f} us"


def amount(value: int | None, unit: str) -> str:
    """A cost as people read it: a time, or an energy."""
    return microseconds(value) if unit == "ps" or value is None else f"{value / 10**6:,.3f} uJ"


def summary(placement: Placement) -> str:
    """Cost, bound, gap, regions, copies, kernels by target, and the baselines."""
    steps = placement.graph.steps
    calls = [step for step in steps if isinstance(step, KernelCall)]
    copies = [step for step in steps if isinstance(step, CopyCall)]
    kernels = Counter(call.target for call in calls)
    regions = Counter(target for target, _ in dict.fromkeys((call.target, call.region) for call in calls))
    costs = placement.costs
    lines = [
        f"model      {placement.graph.name}",
        f"status     {placement.status} ({placement.strategy}, {placement.objective}); "
        f"saturation {placement.saturation}",
        f"cost       {amount(costs.total, placement.unit)}   kernels {amount(costs.kernels, placement.unit)}, "
        f"copies {amount(costs.copies, placement.unit)}, launches {amount(costs.launches, placement.unit)}",
        f"bound      {amount(placement.bound, placement.unit)}   gap {placement.gap:.2%}",
        f"kernels    {len(calls)}   regions {sum(regions.values())}   copies {len(copies)}",
    ]
    for target in placement.machine.targets:
        if kernels[target.name]:
            share = kernels[target.name] / len(calls)
            lines.append(
                f"  {target.name:<16} {kernels[target.name]:>5} kernels ({share:.0%}) in {regions[target.name]} regions"
            )
    lines.append("baselines")
    for name, cost in sorted(placement.baselines.items(), key=lambda pair: (pair[1] is None, pair[1], pair[0])):
        worse = "" if not cost or not costs.total else f"   {cost / costs.total:.2f}x"
        lines.append(f"  {name:<16} {amount(cost, placement.unit):>16}{worse}")
    return "\n".join(lines)
