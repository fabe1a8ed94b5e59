"""What the bundle knows of its kernels: a symbol, the target and device it is for, and the types of its operands.

In: a placed graph and a content hash per kernel. Out: one function per distinct (content, target, device, operands),
however many kernel calls share it, with a C identifier as its symbol.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

from rewrite_engine.backend.memory import storage_bytes
from rewrite_engine.backend.sharing import NO_SHARING, NOTHING, Sharing
from rewrite_engine.diagnostics import RewriteError
from rewrite_engine.graph.placed import KernelCall, PlacedGraph
from rewrite_engine.operators.types import TensorType

Kind = TypeVar("Kind")
NO_GENERATORS: Mapping[str, tuple[str, str]] = {}


@dataclass(frozen=True, slots=True)
class Function:
    """A kernel that calls share. Sizes are bytes; `host_inputs` are positions of operands that are read on the host.

    `io` counts all operands; `constants` those that are parameters (of the call with the least); `workspace` is what
    the kernel needs beside its operands. `view` and `in_place` are what `sharing.Sharing` says of it.
    """

    symbol: str
    target: str
    device: str
    inputs: tuple[TensorType, ...]
    outputs: tuple[TensorType, ...]
    host_inputs: tuple[int, ...]
    hash: str
    workspace: int
    io: int
    constants: int
    generator: str | None = None  # the code generator that made the kernel; None: it is a loop nest
    generator_version: str | None = None
    view: int | None = None
    in_place: tuple[int, ...] = ()

    def input_device(self, position: int) -> str:
        """The device that holds the operand at `position` of the inputs."""
        return "host" if position in self.host_inputs else self.device

    def to_json(self) -> dict[str, object]:
        """The function as it stands in metadata.json."""
        return {
            "target": self.target,
            "device": self.device,
            "inputs": [_type_json(tensor) for tensor in self.inputs],
            "outputs": [_type_json(tensor) for tensor in self.outputs],
            "host_inputs": list(self.host_inputs),
            "hash": self.hash,
            "workspace": self.workspace,
            "io": self.io,
            "constants": self.constants,
            "generator": self.generator,
            "generator_version": self.generator_version,
            "view": self.view,
            "in_place": list(self.in_place),
        }

    @classmethod
    def from_json(cls, symbol: str, data: Mapping[str, object]) -> Function:
        """The function that `to_json` wrote. Raises RewriteError for anything else."""
        try:
            return cls(
                symbol=symbol,
                target=_typed(data["target"], str),
                device=_typed(data["device"], str),
                inputs=tuple(_type_from_json(row) for row in _typed(data["inputs"], list)),
                outputs=tuple(_type_from_json(row) for row in _typed(data["outputs"], list)),
                host_inputs=tuple(_typed(position, int) for position in _typed(data["host_inputs"], list)),
                hash=_typed(data["hash"], str),
                workspace=_typed(data["workspace"], int),
                io=_typed(data["io"], int),
                constants=_typed(data["constants"], int),
                generator=_text_or_none(data.get("generator")),
                generator_version=_text_or_none(data.get("generator_version")),
                view=None if data.get("view") is None else _typed(data["view"], int),
                in_place=tuple(_typed(position, int) for position in _typed(data.get("in_place", []), list)),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise RewriteError(f"metadata: function `{symbol}` cannot be read: {error!r}") from error


def share_functions(
    placed: PlacedGraph,
    hashes: Mapping[str, str],
    workspaces: Mapping[str, int],
    generators: Mapping[str, tuple[str, str]] = NO_GENERATORS,
    sharing: Mapping[str, Sharing] = NO_SHARING,
) -> tuple[dict[str, Function], dict[str, str]]:
    """Functions by symbol and the symbol of every kernel.

    `hashes` and `workspaces` are by kernel name: what the kernel computes, and the bytes it needs beside its operands.
    `generators` gives name and version of the code generator for the kernels that one made; `sharing` what is proven of
    the others.
    Kernels that agree in hash, target, device and operands share a function, named after the first of them.
    """
    functions: dict[str, Function] = {}
    symbols: dict[str, str] = {}
    known: dict[Function, str] = {}
    for call in placed.steps:
        if not isinstance(call, KernelCall):
            continue
        candidate = _function(placed, call, hashes[call.name], workspaces[call.name])
        if call.name in generators:
            name, version = generators[call.name]
            candidate = replace(candidate, generator=name, generator_version=version)
        proven = sharing.get(call.name, NOTHING)
        candidate = replace(candidate, view=proven.view, in_place=proven.in_place)
        key = replace(candidate, constants=0)
        if key in known:
            symbol = known[key]
            constants = min(functions[symbol].constants, candidate.constants)
            functions[symbol] = replace(functions[symbol], constants=constants)
        else:
            symbol = known[key] = _fresh_symbol(call.name, functions)
            functions[symbol] = replace(candidate, symbol=symbol)
        symbols[call.name] = symbol
    return functions, symbols


def _function(placed: PlacedGraph, call: KernelCall, content: str, workspace: int) -> Function:
    operands = (*call.inputs, *call.outputs)
    sizes = {name: storage_bytes(name, placed.types[name]) for name in operands}
    return Function(
        symbol="",
        target=call.target,
        device=call.device,
        inputs=tuple(placed.types[name] for name in call.inputs),
        outputs=tuple(placed.types[name] for name in call.outputs),
        host_inputs=host_positions(placed, call),
        hash=content,
        workspace=workspace,
        io=sum(sizes[name] for name in operands),
        constants=sum(sizes[name] for name in call.inputs if name in placed.parameters),
    )


def host_positions(placed: PlacedGraph, call: KernelCall) -> tuple[int, ...]:
    """Positions of the operands of `call` that are read on the host although the kernel runs elsewhere."""
    if call.device == "host":
        return ()
    return tuple(position for position, name in enumerate(call.inputs) if name in call.host_inputs)


def _fresh_symbol(kernel: str, taken: Mapping[str, object]) -> str:
    """The kernel's name as a C identifier; a clash gets a number."""
    base = re.sub(r"\W", "_", kernel, flags=re.ASCII)
    base = f"k_{base}" if not base or base[0].isdigit() or base.startswith("__") else base
    symbol, number = base, 1
    while symbol in taken:
        number += 1
        symbol = f"{base}_{number}"
    return symbol


def _type_json(tensor: TensorType) -> dict[str, object]:
    return {"dtype": tensor.dtype, "shape": None if tensor.shape is None else list(tensor.shape)}


def _type_from_json(data: object) -> TensorType:
    row = _typed(data, dict)
    shape = tuple(_typed(size, int) for size in _typed(row["shape"], list))
    return TensorType(_typed(row["dtype"], str), shape)


def _text_or_none(item: object) -> str | None:
    return None if item is None else _typed(item, str)


def _typed(item: object, kind: type[Kind]) -> Kind:
    if not isinstance(item, kind):
        raise TypeError(f"expected {kind.__name__}, found {item!r}")
    return item
