"""Files written whole or not at all: a temporary beside the target, then a rename."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path

from rewrite_engine.diagnostics import RewriteError

SOURCE = "source.onnx"
"""The file of a bundle that holds the model as it was given."""


def write_file(path: Path, content: bytes) -> None:
    """Writes one file. Raises RewriteError where it cannot be written."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(content)
            os.chmod(temporary, 0o644)
            os.replace(temporary, path)
        except BaseException:
            os.unlink(temporary)
            raise
    except OSError as error:
        raise RewriteError(
            f"cannot write {path}: {error.strerror or error}; choose a place that can be written"
        ) from error


def write_folder(folder: Path, files: Mapping[str, bytes]) -> None:
    """Writes files into a folder, each whole or not at all."""
    for name, content in files.items():
        write_file(folder / name, content)
