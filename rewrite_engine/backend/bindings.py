"""Several bindings of a dynamic model in one folder: a bundle for each, and bindings.json, which says what is where.

In: bundles by the sizes of their dimensions, or a folder. Out: the folder, written whole or not at all; or `Bindings`,
which runs the bundle whose input shapes are those given, and opens no other.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from rewrite_engine.backend.archive import json_bytes, sha256, written_whole
from rewrite_engine.backend.bindings_json import (
    BINDINGS,
    Binding,
    bindings_json,
    check_row,
    dims_text,
    joined,
    read_bindings,
)
from rewrite_engine.backend.bundle import Bundle
from rewrite_engine.backend.bundle_reader import MANIFEST, check_replaceable, read_manifest
from rewrite_engine.backend.codegen import CodeGenerator
from rewrite_engine.diagnostics import RewriteError, did_you_mean
from rewrite_engine.operators.types import TensorType

NO_DIMS: Mapping[str, int] = {}
LINKED = 4096
"""Files from this size on are stored once, however many bindings hold the same bytes."""


@dataclass(frozen=True, slots=True, eq=False)
class Bindings:
    """The bindings of one model: `bindings` says what there is, in order; `root` is the folder that they are read from.

    `opened` holds the bundles that are in memory, by folder. Their equal parameters are the same arrays.
    """

    bindings: tuple[Binding, ...]
    root: Path | None = None
    generators: tuple[CodeGenerator, ...] = ()
    opened: dict[str, Bundle] = field(default_factory=dict)

    @property
    def inputs(self) -> dict[str, TensorType]:
        """Types of the inputs by name, in order; a size that differs is the name of its dimension."""
        return joined(self.bindings, "inputs")

    @property
    def outputs(self) -> dict[str, TensorType]:
        """Types of the outputs by name, in order; a size that differs is its dimension, or unknown where it is none."""
        return joined(self.bindings, "outputs")

    def run(self, inputs: Mapping[str, np.ndarray], engine: str = "auto") -> dict[str, np.ndarray]:
        """Outputs by name, of the binding whose input shapes are those of `inputs`.

        Raises RewriteError where there is none, and as `Bundle.run` does.
        """
        return self.bundle(self.choose(inputs=inputs)).run(inputs, engine)

    def choose(self, dims: Mapping[str, int] = NO_DIMS, inputs: Mapping[str, np.ndarray] | None = None) -> Binding:
        """The binding of these sizes and of these inputs' shapes.

        Not every dimension needs a size in `dims`, but the binding must be the only one. Raises RewriteError, which
        lists the bindings, where it is not, and for an unknown dimension or input.
        """
        known = self.bindings[0]
        for name in dims:
            if name not in known.dims:
                raise RewriteError(
                    f"no dimension `{name}`: the bindings differ in {_names(known.dims)}" + _hint(name, known.dims)
                )
        found = [row for row in self.bindings if all(row.dims[name] == size for name, size in dims.items())]
        asked = dims_text(dims)
        if inputs is not None:
            for name in inputs:
                if name not in known.inputs:
                    raise RewriteError(
                        f"unknown input `{name}`: expected {_names(known.inputs)}" + _hint(name, known.inputs)
                    )
            for name, tensor in self.inputs.items():
                if name not in inputs:
                    raise RewriteError(f"missing input `{name}`: expected {tensor}")
            shapes = {name: np.shape(array) for name, array in inputs.items()}
            found = [row for row in found if all(row.inputs[name].shape == shapes[name] for name in shapes)]
            given = ", ".join(f"{name} {list(shape)}" for name, shape in shapes.items())
            asked = f"{asked} and the inputs {given}" if asked else f"the inputs {given}"
        if len(found) == 1:
            return found[0]
        if found:
            missing = [name for name in known.dims if name not in dims]
            advice = f"; say {' or '.join(f'{name}=SIZE' for name in missing)} too"
            raise RewriteError(f"{asked or 'no size'} fits {len(found)} bindings{advice}:\n{_listing(found)}")
        raise RewriteError(f"no binding for {asked}; there are\n{_listing(self.bindings)}")

    def bundle(self, binding: Binding) -> Bundle:
        """The bundle of a binding, opened when it is first asked for. Raises RewriteError as `Bundle.open` does."""
        if binding.folder not in self.opened:
            assert self.root is not None, "what was never saved is in memory"
            bundle = Bundle.open(self.root / binding.folder, self.generators)
            assert isinstance(bundle, Bundle)
            self.opened[binding.folder] = sharing_arrays(bundle, self.opened.values())
        return self.opened[binding.folder]

    def save(self, folder: str | Path) -> None:
        """Write all of them to `folder`, whole or not at all, as `Bundle.save` does."""
        save_bindings(folder, ((row.dims, self.bundle(row)) for row in self.bindings))

    @classmethod
    def open(cls, folder: str | Path, generators: Sequence[CodeGenerator] = ()) -> Bindings:
        """The bindings in `folder`; what is in a binding's files is checked when it is first used.

        Raises RewriteError when it holds none, or when one of them is missing or another one.
        """
        root = Path(folder)
        rows = read_bindings(root)
        for row in rows:
            path = root / row.folder / MANIFEST
            try:
                found = sha256(path)
            except OSError as error:
                reason = error.strerror or error
                raise RewriteError(f"{path}: binding {row} of {BINDINGS} cannot be read: {reason}") from error
            if found != row.manifest:
                raise RewriteError(
                    f"{path}: binding {row}: changed or damaged: expected sha256 {row.manifest} ({BINDINGS}), "
                    f"found {found}"
                )
        return cls(rows, root, tuple(generators))

    @classmethod
    def of(cls, bundles: Iterable[tuple[Mapping[str, int], Bundle]]) -> Bindings:
        """Bundles in memory, by their sizes. Raises RewriteError where two of them take the same inputs, or none is."""
        rows: list[Binding] = []
        opened: dict[str, Bundle] = {}
        for dims, bundle in bundles:
            row = _binding(dims, bundle)
            check_row(row, rows)
            rows.append(row)
            opened[row.folder] = sharing_arrays(bundle, opened.values())
        if not rows:
            raise RewriteError("bindings: expected at least one bundle, found none")
        return cls(tuple(rows), opened=opened)


def save_bindings(folder: str | Path, bundles: Iterable[tuple[Mapping[str, int], Bundle]]) -> tuple[Binding, ...]:
    """Write bundles to `folder` as they come, whole or not at all: only one of them is in memory at a time.

    An earlier bundle there is replaced. Raises RewriteError when something else is there, when it cannot be written,
    and where two bundles take the same inputs.
    """
    target = Path(folder).resolve()
    check_replaceable(target)
    rows: list[Binding] = []
    stored: dict[str, Path] = {}
    with written_whole(target) as temporary:
        for dims, bundle in bundles:
            row = _binding(dims, bundle)
            check_row(row, rows)
            bundle.save(temporary / row.folder)
            rows.append(replace(row, manifest=sha256(temporary / row.folder / MANIFEST)))
            _link_equal_files(temporary / row.folder, stored)
        if not rows:
            raise RewriteError("bindings: expected at least one bundle, found none")
        (temporary / BINDINGS).write_bytes(json_bytes(bindings_json(rows)))
    return tuple(rows)


def sharing_arrays(bundle: Bundle, others: Iterable[Bundle]) -> Bundle:
    """The bundle with those parameters and files of the others that are equal to its own, so that memory holds one."""
    parameters, files = dict(bundle.parameters), dict(bundle.extra_files)
    for other in others:
        for name, array in other.parameters.items():
            if name in parameters and _same(array, parameters[name]):
                parameters[name] = array
        files.update((path, content) for path, content in other.extra_files.items() if files.get(path) == content)
    return replace(bundle, parameters=parameters, extra_files=files)


def _same(one: np.ndarray, other: np.ndarray) -> bool:
    """Whether two arrays are of one type and hold the same bits."""
    if one is other or one.dtype != other.dtype or one.shape != other.shape:
        return one is other
    return np.array_equal(_bits(one), _bits(other))


def _bits(array: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def _binding(dims: Mapping[str, int], bundle: Bundle) -> Binding:
    """The row of a bundle that is not saved yet; its folder is named by its sizes, in order: `4x16`."""
    return Binding(dict(dims), "x".join(map(str, dims.values())), "", bundle.inputs, bundle.outputs)


def _link_equal_files(folder: Path, stored: dict[str, Path]) -> None:
    """Files that an earlier bundle has too become links to that one, where the file system can."""
    for path, digest in read_manifest(folder).items():
        file = folder / path
        if file.stat().st_size < LINKED:
            continue
        first = stored.setdefault(digest, file)
        if first == file:
            continue
        linked = file.with_name(f".{file.name}.link")
        try:
            os.link(first, linked)
            os.replace(linked, file)
        except OSError:  # no links here: the file stays, a copy
            linked.unlink(missing_ok=True)


def _listing(bindings: Sequence[Binding]) -> str:
    return "\n".join(f"  {row}: " + ", ".join(f"{n} {t}" for n, t in row.inputs.items()) for row in bindings)


def _names(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _hint(name: str, known: Iterable[str]) -> str:
    hint = did_you_mean(name, known)
    return f"; {hint}" if hint else ""
