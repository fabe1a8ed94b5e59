"""Which results may have the bytes of an operand: proven from a kernel's index maps, then chosen along the graph.

In: programs, or a placed graph with what was proven of its kernels. Out: per kernel a `Sharing`, per value the `root`
that owns its bytes. A view holds what its operand holds, so its kernel does not run; a result in place overwrites an
operand that nothing reads any more. Roots are never views, and the owner of a graph output is the output itself.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from rewrite_engine.graph.placed import KernelCall, PlacedGraph
from rewrite_engine.loops.compute import Compute, Program
from rewrite_engine.loops.expr import loads
from rewrite_engine.loops.index import address, flatten


@dataclass(frozen=True, slots=True)
class Sharing:
    """What a kernel of one result allows, by the positions of its operands.

    `view`: the result is this operand, byte for byte. `in_place`: each element of the result reads of this operand the
    element at its own address only, so that it may overwrite it.
    """

    view: int | None = None
    in_place: tuple[int, ...] = ()


NOTHING = Sharing()
NO_SHARING: Mapping[str, Sharing] = {}


def sharing_of(program: Program) -> Sharing:
    """What a program allows. Only one that is a single pointwise statement allows anything."""
    if len(program.statements) != 1 or len(program.outputs) != 1:
        return NOTHING
    (statement,) = program.statements
    if not isinstance(statement, Compute) or not statement.is_pointwise or statement.post is not None:
        return NOTHING
    buffer = program.tensors[statement.out]
    if not buffer.size:
        return NOTHING
    place = flatten(statement.index, buffer.shape)
    apart = {load.name for load in loads(*statement.index)}  # read to find the address
    for load in loads(statement.body):
        given = program.tensors[load.name]
        alike = given.dtype == buffer.dtype and given.size == buffer.size
        if not alike or address(load.args, given.shape) is not place:
            apart.add(load.name)
    read = set(statement.reads)
    fits = tuple(k for k, name in enumerate(program.inputs) if name in read and name not in apart)
    body = statement.body
    return Sharing(fits[0] if body.op == "load" and body.name in read - apart and fits else None, fits)


@dataclass(frozen=True, slots=True)
class Lives:
    """What `roots` has to know of values: their kind, their size in bytes, and the last step that needs them."""

    kinds: Mapping[str, str]
    sizes: Mapping[str, int]
    lasts: Mapping[str, int]


def roots(placed: PlacedGraph, sharing: Mapping[str, Sharing], lives: Lives, in_place: bool = True) -> dict[str, str]:
    """The owner of every value's bytes, which is the value itself unless it shares. `sharing` is by kernel name.

    Views are taken wherever they are proven, except for graph outputs, which own their bytes. With `in_place`, a result
    overwrites an operand where the operand, and all that share its bytes, are read for the last time.
    """
    root = {name: name for name in (*placed.inputs, *placed.parameters)}
    held = {name: {name} for name in root}  # the values that an owner's bytes hold now
    for step, call in enumerate(placed.steps):
        written = call.outputs if isinstance(call, KernelCall) else (call.output,)
        for name in written:
            root[name], held[name] = name, {name}
        known = sharing.get(call.name, NOTHING) if isinstance(call, KernelCall) else NOTHING
        if not isinstance(call, KernelCall) or len(written) != 1 or lives.kinds[written[0]] == "output":
            continue
        result = written[0]
        if known.view is not None and _local(placed, call, call.inputs[known.view]):
            owner = root[call.inputs[known.view]]
            held[owner].add(result)
        elif in_place:
            found = _overwritten(placed, call, known, root, held, lives, step)
            if found is None:
                continue
            owner = found
            held[owner] = {result}
        else:
            continue
        root[result] = owner
        del held[result]
    return root


def _local(placed: PlacedGraph, call: KernelCall, operand: str) -> bool:
    return placed.devices[operand] == call.device and operand not in call.host_inputs


def _overwritten(
    placed: PlacedGraph,
    call: KernelCall,
    known: Sharing,
    root: Mapping[str, str],
    held: Mapping[str, Collection[str]],
    lives: Lives,
    step: int,
) -> str | None:
    """The owner of bytes that the result may take over: of the first operand that may go."""
    for position in known.in_place:
        owner = root[call.inputs[position]]
        readers = [k for k, name in enumerate(call.inputs) if root[name] == owner]
        if (
            all(lives.kinds[name] == "intermediate" for name in (owner, *held[owner]))
            and lives.sizes[owner] == lives.sizes[call.outputs[0]]
            and all(lives.lasts[name] <= step for name in held[owner])
            and all(k in known.in_place and _local(placed, call, call.inputs[k]) for k in readers)
        ):
            return owner
    return None
