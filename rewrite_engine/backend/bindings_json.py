"""bindings.json: which bindings of a dynamic model a folder holds, by the sizes of their dimensions.

In: rows, or a folder. Out: bindings.json, or its rows; a `RewriteError` for a file that is none and for a binding whose
folder is missing or another one.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from rewrite_engine.diagnostics import RewriteError
from rewrite_engine.operators.types import Dimension, TensorType

Kind = TypeVar("Kind")
BINDINGS = "bindings.json"
SCHEMA = "rewrite_engine/bindings/1"


@dataclass(frozen=True, slots=True)
class Binding:
    """One binding: its sizes by dimension, its folder within the whole, the sha256 of the manifest there, its types.

    `inputs` and `outputs` are types by name, every size known.
    """

    dims: Mapping[str, int]
    folder: str
    manifest: str
    inputs: Mapping[str, TensorType]
    outputs: Mapping[str, TensorType]

    def __str__(self) -> str:
        return dims_text(self.dims)


def dims_text(dims: Mapping[str, int]) -> str:
    """`batch=4, seq=16`."""
    return ", ".join(f"{name}={size}" for name, size in dims.items())


def bindings_json(bindings: Sequence[Binding]) -> dict[str, object]:
    """The content of bindings.json."""
    rows = [
        {
            "dims": dict(row.dims),
            "folder": row.folder,
            "manifest": row.manifest,
            "inputs": [_type_json(name, tensor) for name, tensor in row.inputs.items()],
            "outputs": [_type_json(name, tensor) for name, tensor in row.outputs.items()],
        }
        for row in bindings
    ]
    return {"schema": SCHEMA, "dims": list(bindings[0].dims), "bindings": rows}


def read_bindings(root: Path) -> tuple[Binding, ...]:
    """The rows of a folder's bindings.json. Raises RewriteError for a file that does not hold."""
    path = root / BINDINGS
    try:
        data = json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise RewriteError(f"{path}: expected JSON: {error}") from error
    schema = data.get("schema") if isinstance(data, dict) else None
    if schema != SCHEMA:
        raise RewriteError(f"{path}: expected schema `{SCHEMA}`, found `{schema}`")
    try:
        names = [_typed(name, str) for name in data["dims"]]
        rows = tuple(_row(names, row) for row in _typed(data["bindings"], list))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise RewriteError(f"{path}: the bindings cannot be read: {error!r}") from error
    if not rows:
        raise RewriteError(f"{path}: expected at least one binding, found none")
    for number, row in enumerate(rows):
        try:
            check_row(row, rows[:number])
        except RewriteError as error:
            raise RewriteError(f"{path}: {error}") from error
    return rows


def check_row(row: Binding, earlier: Sequence[Binding]) -> None:
    """Raises RewriteError where a row is of another model than the earlier ones, or takes the inputs of one of them."""
    for first in earlier[:1]:
        if list(first.dims) != list(row.dims):
            raise RewriteError(f"bindings: expected a size for each of {', '.join(first.dims)}, found {row}")
        for side in ("inputs", "outputs"):
            expected, found = _ranks(getattr(first, side)), _ranks(getattr(row, side))
            if expected != found:
                raise RewriteError(
                    f"binding {row}: expected the {side} of the first binding, {', '.join(expected)}, found "
                    f"{', '.join(found)}"
                )
    for other in earlier:
        if other.folder == row.folder or {n: t.shape for n, t in other.inputs.items()} == {
            n: t.shape for n, t in row.inputs.items()
        }:
            raise RewriteError(f"bindings {other} and {row} take inputs of the same shapes; leave one out")


def _ranks(types: Mapping[str, TensorType]) -> list[str]:
    return [f"{name} {tensor.dtype} of rank {tensor.rank}" for name, tensor in types.items()]


def joined(bindings: Sequence[Binding], side: str) -> dict[str, TensorType]:
    """The types of all bindings as one, by name. `side` is "inputs" or "outputs".

    A size in which they differ is the dimension that it follows, or unknown where it follows none.
    """
    types: Sequence[Mapping[str, TensorType]] = [getattr(row, side) for row in bindings]
    found = {}
    for name, first in types[0].items():
        shapes = [row[name].shape or () for row in types]
        sizes = zip(*shapes, strict=True)
        found[name] = TensorType(first.dtype, tuple(_joined(bindings, axis) for axis in sizes))
    return found


def _joined(bindings: Sequence[Binding], sizes: Sequence[Dimension]) -> Dimension:
    if len(set(sizes)) == 1:
        return sizes[0]
    follows = (d for d in bindings[0].dims if all(row.dims[d] == n for row, n in zip(bindings, sizes, strict=True)))
    return next(follows, None)


def _row(names: Sequence[str], row: Mapping[str, object]) -> Binding:
    sizes = _typed(row["dims"], dict)
    folder = _typed(row["folder"], str)
    if sorted(sizes) != sorted(names):
        raise ValueError(f"expected a size for each of {names}, found {sizes}")
    if not folder or "/" in folder or "\\" in folder or folder in (".", ".."):
        raise ValueError(f"expected the name of a folder, found {folder!r}")
    return Binding(
        dims={name: _typed(sizes[name], int) for name in names},
        folder=folder,
        manifest=_typed(row["manifest"], str),
        inputs=_types(row["inputs"]),
        outputs=_types(row["outputs"]),
    )


def _type_json(name: str, tensor: TensorType) -> dict[str, object]:
    return {"name": name, "dtype": tensor.dtype, "shape": list(tensor.shape or ())}


def _types(rows: object) -> dict[str, TensorType]:
    return {
        _typed(row["name"], str): TensorType(
            _typed(row["dtype"], str), tuple(_typed(size, int) for size in _typed(row["shape"], list))
        )
        for row in _typed(rows, list)
    }


def _typed(value: object, kind: type[Kind]) -> Kind:
    if not isinstance(value, kind) or isinstance(value, bool):
        raise TypeError(f"expected {kind.__name__}, found {value!r}")
    return value
