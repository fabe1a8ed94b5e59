"""Files of a bundle: arrays as .npy members with fixed timestamps, JSON with one spelling, folders swapped whole.

In: arrays, JSON values, files by relative path. Out: bytes that depend on the content alone, and a folder that is
either all there or not at all.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from rewrite_engine.backend.runtime import numpy_dtype
from rewrite_engine.diagnostics import RewriteError
from rewrite_engine.files import abandoned, own_name
from rewrite_engine.operators.types import TensorType

_TIMESTAMP = (1980, 1, 1, 0, 0, 0)


def json_bytes(value: object, *, sort_keys: bool = True) -> bytes:
    """JSON with one spelling: one-space indent, keys sorted unless their order means something."""
    return (json.dumps(value, indent=1, sort_keys=sort_keys, ensure_ascii=False) + "\n").encode()


def write_npz(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    """An .npz in the order of the names. Types that NumPy has no letter for (bfloat16, int4) are stored as bits."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        for name in sorted(arrays):
            member = zipfile.ZipInfo(f"{name}.npy", _TIMESTAMP)
            array = np.asarray(arrays[name], order="C")
            own = array.dtype.isbuiltin == 2  # 0 is what some libraries make of NumPy's own: the same letters
            bits = array.view(f"u{array.dtype.itemsize}") if own else array.astype(array.dtype.name, copy=False)
            with archive.open(member, "w", force_zip64=True) as stream:
                np.lib.format.write_array(stream, bits, version=(1, 0), allow_pickle=False)


def read_npz(path: Path, types: Mapping[str, TensorType]) -> dict[str, np.ndarray]:
    """The arrays of an .npz, viewed as `types` say. Raises RewriteError where they disagree."""
    try:
        with np.load(path, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
    except (OSError, ValueError, zipfile.BadZipFile) as error:
        raise RewriteError(f"{path}: expected an .npz archive of parameters: {error}") from error
    if sorted(arrays) != sorted(types):
        different = ", ".join(sorted(set(arrays) ^ set(types)))
        raise RewriteError(f"{path}: expected the parameters of graph.json, found a difference in {different}")
    for name, tensor in types.items():
        dtype = numpy_dtype(tensor.dtype)
        if arrays[name].dtype.itemsize != dtype.itemsize or arrays[name].shape != tensor.shape:
            found = TensorType(arrays[name].dtype.name, arrays[name].shape)
            raise RewriteError(f"{path}: parameter `{name}`: expected {tensor}, found {found}")
        arrays[name] = arrays[name].view(dtype)
    return arrays


def sha256(path: Path) -> str:
    """The digest of a file, in hexadecimal."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


@contextmanager
def written_whole(folder: Path) -> Iterator[Path]:
    """A temporary sibling of `folder` to write into; it takes the folder's place when the block ends without an error,
    and vanishes otherwise. What is at `folder` is replaced, so check it first. What killed processes left goes too."""
    own = own_name(f".{folder.name}")
    temporary, earlier = folder.with_name(f"{own}.new"), folder.with_name(f"{own}.old")
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        for path in abandoned(folder.parent, f".{folder.name}"):
            shutil.rmtree(path, ignore_errors=True)
        temporary.mkdir()
        yield temporary
        _swap(temporary, folder, earlier)
    except OSError as error:
        raise RewriteError(f"cannot write the bundle to {folder}: {error.strerror or error}") from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
        shutil.rmtree(earlier, ignore_errors=True)


def _swap(temporary: Path, folder: Path, earlier: Path) -> None:
    """Two renames; when the second fails, the first is undone."""
    if not folder.exists():
        temporary.rename(folder)
        return
    folder.rename(earlier)
    try:
        temporary.rename(folder)
    except OSError:
        earlier.rename(folder)
        raise
