"""Operators and named patterns in a pattern: inputs, attributes and arguments, on behalf of `expand.Builder`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rewrite_engine import operators
from rewrite_engine.language import core, names, syntax
from rewrite_engine.language.bindings import input_called
from rewrite_engine.language.forks import AttributeClause, DraftNode, LiteralClause, TypeClause
from rewrite_engine.language.names import Frame, LoweringError, Pruned

if TYPE_CHECKING:
    from rewrite_engine.language.expand import Builder


def operator_node(builder: Builder, op: str, call: syntax.CallPattern, frame: Frame) -> int:
    """The number of a new node: an operator over the patterns of its inputs, with what its attributes must be."""
    operator = builder.scope.operator(op)
    inputs: list[int] = []
    rest: str | None = None
    for argument in call.args:
        if isinstance(argument, syntax.Rest):
            rest = _rest(builder, argument, frame, inputs)
        else:
            inputs.append(builder.build(argument, frame, _optional_input(operator, len(inputs))))
    attributes: list[syntax.KeywordPattern] = []
    for keyword in call.keywords:
        position = input_called(operator, keyword.name)
        if position is None:
            attributes.append(keyword)
            continue
        while len(inputs) <= position:
            inputs.append(core.ABSENT)
        inputs[position] = builder.build(as_input(keyword), frame, _optional_input(operator, position))
    while rest is None and inputs and inputs[-1] == core.ABSENT:
        inputs.pop()
    node = len(builder.nodes)
    builder.nodes.append(DraftNode(op, call.span, inputs, [], rest))
    for position, slot in enumerate(inputs):
        literal = builder.slots[builder.root(slot)].literal if slot != core.ABSENT else None
        if literal is not None:
            builder.clauses.append(LiteralClause(literal[0].span, node, position, slot, *literal))
    for keyword in attributes:
        _attribute(builder, node, keyword, frame)
    return node


def _rest(builder: Builder, rest: syntax.Rest, frame: Frame, inputs: list[int]) -> str | None:
    """The key of a list capture, or None after its members, given as patterns, have been added to `inputs`."""
    cell = builder.cell(frame, rest.name)
    if cell.members is not None:
        for pattern, origin in cell.members:
            inputs.append(builder.build(pattern, origin))
        return None
    if cell.state == names.OPEN:
        taken = set(builder.lists)
        key = rest.name if rest.name not in taken else f"{rest.name}.{len(taken)}"
        builder.lists.append(key)
        cell.state, cell.lists = names.LIST, (key,)
    elif cell.state != names.LIST or len(cell.lists) != 1:
        raise LoweringError(rest.span, f"`{rest.name}` is not a list of inputs")
    return cell.lists[0]


def _attribute(builder: Builder, node: int, keyword: syntax.KeywordPattern, frame: Frame) -> None:
    value = keyword.value
    if not isinstance(value, syntax.Name) or not _captures(builder, value.name, frame):
        builder.clauses.append(AttributeClause(keyword.span, node, keyword.name, value, frame, keyword.optional))
        return
    cell = builder.cell(frame, value.name)
    if keyword.optional and (
        cell.state == names.ABSENT or (cell.state == names.OPEN and builder.choices.omit(keyword.span))
    ):
        cell.state = names.ABSENT
        builder.clauses.append(AttributeClause(keyword.span, node, keyword.name, None, frame, absent=True))
    elif cell.state == names.ABSENT:
        raise Pruned
    elif cell.state == names.OPEN and cell.thunk is None:
        cell.state, cell.node, cell.attribute = names.ATTRIBUTE, node, keyword.name
        builder.clauses.append(AttributeClause(keyword.span, node, keyword.name, None, frame))
    else:
        if cell.thunk is not None and cell.state == names.OPEN:
            builder.literal_cell(cell, keyword.span)
        builder.clauses.append(AttributeClause(keyword.span, node, keyword.name, value, frame))


def _captures(builder: Builder, name: str, frame: Frame) -> bool:
    """Whether an attribute's value names a capture, rather than a dimension, a `let` or an option."""
    if name in frame.names.dimensions or name not in frame.names.captured:
        return False
    return builder.embeds or name not in frame.names.given or frame.depth > 0 or name in frame.cells


def named_results(
    builder: Builder, name: str, call: syntax.CallPattern, frame: Frame, wanted: Sequence[bool]
) -> list[int]:
    """The slots of the results of a named pattern, built in a frame of its own."""
    decl = builder.named(name, call.span.file)
    if decl is None:
        raise LoweringError(call.span, f"unknown pattern `{name}`")
    inner = Frame(decl.span.file, builder.cache.of(decl), None, frame.depth + 1)
    if inner.depth > 40:
        raise LoweringError(call.span, f"pattern `{name}` is built from itself")
    _bind_arguments(builder, decl, call, frame, inner)
    builder.declare_where(decl.tail.where, inner)
    slots = builder.results(decl.pattern, inner, wanted)
    builder.build_unreferenced(inner.names.where, inner.names.referenced, inner)
    builder.tail(decl.tail, inner)
    return slots


def _bind_arguments(
    builder: Builder, decl: syntax.PatternDecl, call: syntax.CallPattern, frame: Frame, inner: Frame
) -> None:
    positional = list(call.args)
    keywords = {keyword.name: keyword for keyword in call.keywords}
    for parameter in decl.parameters:
        if parameter.rest:
            _bind_list(builder, parameter, positional, frame, inner)
            positional = []
        elif positional:
            _bind_one(builder, parameter, positional.pop(0), frame, inner)
        elif parameter.name in keywords:
            _bind_one(builder, parameter, as_input(keywords.pop(parameter.name)), frame, inner)
        elif parameter.optional:
            builder.cell(inner, parameter.name).state = names.ABSENT
        else:
            raise LoweringError(call.span, f"pattern `{decl.name}` needs an argument for `{parameter.name}`")
        if parameter.type is not None:
            cell = builder.cell(inner, parameter.name)
            builder.clauses.append(TypeClause(parameter.type.span, cell, parameter.type, inner))
    if positional or keywords:
        raise LoweringError(call.span, f"pattern `{decl.name}` takes {len(decl.parameters)} arguments")


def _bind_one(builder: Builder, parameter: syntax.Parameter, argument: Any, frame: Frame, inner: Frame) -> None:
    if parameter.optional:
        inner.optional.add(parameter.name)
    match argument:
        case syntax.ValuePattern():
            cell = inner.cells[parameter.name] = builder.cell(frame, argument.name)
            cell.constant |= argument.constant
            if argument.optional or argument.name in frame.optional:
                inner.optional.add(parameter.name)
            if argument.type is not None:
                builder.clauses.append(TypeClause(argument.type.span, cell, argument.type, frame))
        case syntax.AnyPattern():
            cell = builder.cell(inner, parameter.name)
            cell.anything, cell.constant = True, argument.constant or builder.embeds
        case syntax.NonePattern():
            builder.cell(inner, parameter.name).state = names.ABSENT
            inner.optional.add(parameter.name)
        case syntax.Rest():
            raise LoweringError(argument.span, f"`{parameter.name}` takes one value, not a list")
        case _:
            builder.cell(inner, parameter.name).thunk = (argument, frame)


def _bind_list(builder: Builder, parameter: syntax.Parameter, arguments: list[Any], frame: Frame, inner: Frame) -> None:
    if len(arguments) == 1 and isinstance(arguments[0], syntax.Rest):
        inner.cells[parameter.name] = builder.cell(frame, arguments[0].name)
    else:
        builder.cell(inner, parameter.name).members = tuple((argument, frame) for argument in arguments)


def _optional_input(operator: operators.Operator | None, position: int) -> bool:
    if operator is None:
        return True
    formal = operator.input(position)
    return formal is None or formal.kind == "optional"


def as_input(keyword: syntax.KeywordPattern) -> Any:
    value = keyword.value
    if isinstance(value, syntax.Name):
        return syntax.ValuePattern(value.span, value.name, optional=keyword.optional)
    if isinstance(value, syntax.NoneExpr):
        return syntax.NonePattern(value.span)
    return syntax.LiteralPattern(value.span, value)
