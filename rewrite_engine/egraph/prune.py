"""Kernels that some cheapest answer does without, where nothing but kernels costs anything.

In: a problem of one device without launches. Out: the options that are left, and what is known of them. Wide e-graphs
of arithmetic or of one library lose most of their kernels here, and small ones all but those of an answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from rewrite_engine.egraph.needs import MOST_VALUES, Facts, Option, Options, members, options_of, possible
from rewrite_engine.egraph.problem import Problem


def is_plain(problem: Problem) -> bool:
    """Whether kernels are all that costs, and any kernel can read what any other computes."""
    return len(problem.devices) == 1 and not problem.solo and not any(target.launch for target in problem.targets)


def pruned(
    problem: Problem, kernels: Iterable[int], keep_on: Callable[[], bool] = lambda: True
) -> Facts | None:  # fmt: skip
    """Facts about the options that are left of these kernels.

    None where there is no choice or no answer, or the problem is not plain, or too large. Stops early, with more left,
    when it may not keep on.
    """
    if not is_plain(problem) or problem.values > MOST_VALUES:
        return None
    free = problem.resident | {value for value, _ in problem.given}
    roots = [value for value, _ in problem.roots if value not in free]
    left = possible(options_of(problem, kernels), roots)
    if all(len(mine) == 1 for mine in left.values()):
        return None
    return closed(left, roots, keep_on)


def closed(options: Options, roots: Sequence[int], keep_on: Callable[[], bool]) -> Facts | None:
    """Facts about the options that are left when none makes another useless; None where there is no answer."""
    left = possible(options, roots)
    if not all(left.get(root) for root in roots):
        return None
    facts = Facts(left, roots)
    while keep_on():
        fewer = {value: _useful(facts, value, mine) for value, mine in facts.options.items()}
        if all(len(fewer[value]) == len(mine) for value, mine in facts.options.items()):
            break
        left = possible(fewer, roots)
        if not all(left.get(root) for root in roots):
            return None
        facts = Facts(left, roots)
    return facts


def _useful(facts: Facts, value: int, options: Sequence[Option]) -> Sequence[Option]:
    """Options that no other one makes useless, and that do not need their own value.

    One stays of those that are as good as each other.
    """
    if len(options) == 1:
        return options
    sets = [(option, facts.drawn(option.operands), facts.all_needs(option.operands)) for option in options]
    sets = [mine for mine in sets if not mine[2] >> value & 1]
    left = dict(enumerate(sets))
    for place, (option, _, needs) in enumerate(sets):
        own = needs & facts.private(value)
        others = (mine for other, mine in left.items() if other != place)
        if any(_replaces(facts, value, instead, drawn, option, needs, own) for instead, drawn, _ in others):
            del left[place]
    return [option for option, _, _ in left.values()]


def _replaces(
    facts: Facts, value: int, instead: Option, drawn: int, option: Option, needs: int, own: int
) -> bool:  # fmt: skip
    """Whether an answer with `option` stays one, and costs no more, with `instead` in its place.

    What `instead` draws in beyond what `option` needs, or any answer, is paid for; what `option` needs and nothing else
    can read (`own`) is saved. Open values are never new to the answer, so that no choice comes back that was given up:
    they are needed by `option`, so that they do not lead to `value` there, or by any answer, and lead to it in none.
    """
    price, most = instead.cost, option.cost
    if own:
        saved = own & ~facts.all_leads(instead.operands)
        most += sum(min(other.cost for other in facts.options[v]) for v in members(saved))
    if price > most:
        return False
    for other in members(drawn & ~needs):
        if facts.open >> other & 1:
            if not facts.certain >> other & 1 or facts.leads(other) >> value & 1:
                return False
        elif not facts.certain >> other & 1:
            price += facts.options[other][0].cost
            if price > most:
                return False
    return True
