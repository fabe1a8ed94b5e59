"""`chain(start, {Ops}, most=4, others=os)`: one to N operators one after another, each reading the last one.

A chain of each length is one way to match. Which of the operators stands at each step stays open in the variant
(`DraftNode.choices`), so that K operators at N steps are N ways and not K + K² + … + K^N.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rewrite_engine.language import names, syntax
from rewrite_engine.language.forks import DraftNode
from rewrite_engine.language.names import Frame, LoweringError
from rewrite_engine.language.scope import Scope

if TYPE_CHECKING:
    from rewrite_engine.language.expand import Builder

CHAIN = "chain"
LONGEST = 16
"""How many steps a chain may have."""


@dataclass(frozen=True, slots=True)
class Chain:
    """The parts of a `chain(…)`; `most` is None where it is not a number from 1 to `LONGEST`."""

    start: syntax.Pattern
    operators: tuple[str, ...]
    most: int | None
    others: syntax.Name | None


def is_chain(pattern: object) -> bool:
    """Whether a pattern is a `chain(…)`."""
    return isinstance(pattern, syntax.CallPattern) and pattern.names == (CHAIN,)


def parts(call: syntax.CallPattern, scope: Scope) -> Chain | None:
    """The parts of a chain; None where it is not written as one."""
    if len(call.args) != 2:
        return None
    start, chosen = call.args
    if isinstance(start, syntax.Rest | syntax.SetExpr) or not isinstance(chosen, syntax.SetExpr):
        return None
    found = {keyword.name: keyword.value for keyword in call.keywords}
    others = found.get("others")
    return Chain(
        start,
        tuple(dict.fromkeys(item.name for item in chosen.items if isinstance(item, syntax.Name))),
        _most(found.get("most"), call, scope),
        others if isinstance(others, syntax.Name) else None,
    )


def _most(value: syntax.Expr | None, call: syntax.CallPattern, scope: Scope) -> int | None:
    """A number written out, or that of a `let`."""
    if isinstance(value, syntax.Name):
        let = scope.lets_in(call.span.file).get(value.name)
        value = let.value if let is not None and let.parameters is None else None
    if isinstance(value, syntax.Number) and isinstance(value.value, int) and 1 <= value.value <= LONGEST:
        return value.value
    return None


def chain_result(builder: Builder, call: syntax.CallPattern, frame: Frame) -> int:
    """The slot of the last step; `builder.chains` notes the steps under it. `chain?(…)` may have no steps."""
    chain = parts(call, builder.scope)
    if chain is None or chain.most is None or not chain.operators:
        raise LoweringError(call.span, f"a chain is written `{WRITTEN}`")
    slot = builder.build(chain.start, frame)
    least = 0 if call.optional_call else 1
    length = least + builder.choices.choose(chain.most + 1 - least)
    lists: list[str] = []
    steps: list[int] = []
    shown = chain.operators[0] if len(chain.operators) == 1 else f"{{{', '.join(chain.operators)}}}"
    for step in range(length):
        rest = None
        if chain.others is not None:
            rest = chain.others.name if length == 1 else f"{chain.others.name}.{step}"
            rest = rest if rest not in builder.lists else f"{rest}.{len(builder.lists)}"
            builder.lists.append(rest)
            lists.append(rest)
        choices = chain.operators if len(chain.operators) > 1 else ()
        builder.nodes.append(DraftNode(shown, call.span, [slot], [], rest, choices))
        slot = builder.output(len(builder.nodes) - 1, 0)
        steps.append(slot)
    if chain.others is not None:
        cell = builder.cell(frame, chain.others.name)
        if cell.state != names.OPEN or cell.members is not None:
            raise LoweringError(chain.others.span, f"`{cell.name}` already holds other inputs")
        cell.state, cell.lists = names.LIST, tuple(lists)
    builder.chains[slot] = tuple(steps)
    return slot


WRITTEN = "chain(start, {Add, Relu}, most=4, others=os)"
