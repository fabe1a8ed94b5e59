"""Files written whole or not at all: temporaries beside the targets, then renames."""

from __future__ import annotations

import os
import platform
import tempfile
from collections.abc import Mapping
from pathlib import Path

from rewrite_engine.diagnostics import RewriteError

SOURCE = "source.onnx"
"""The file of a bundle that holds the model as it was given."""


def check_writable(folder: str | Path) -> None:
    """Says early that a folder cannot be written, before any long work. Raises RewriteError."""
    place = Path(folder).absolute()
    if place.exists() and not place.is_dir():
        raise RewriteError(f"cannot write to {folder}: expected a folder, found a file; choose another name")
    for parent in (place, *place.parents):
        if parent.is_dir():
            if os.access(parent, os.W_OK | os.X_OK):
                return
            raise RewriteError(f"cannot write to {folder}: {parent} is read-only; choose a place that can be written")
        if parent.exists():
            raise RewriteError(f"cannot write to {folder}: {parent} is a file, not a folder; choose another name")


def write_file(path: Path, content: bytes) -> None:
    """Writes one file. Raises RewriteError where it cannot be written."""
    write_folder(path.parent, {path.name: content})


def write_folder(folder: Path, files: Mapping[str, bytes]) -> None:
    """Writes files into a folder: none appears before all are on disk. Raises RewriteError where they cannot be."""
    staged: dict[Path, Path] = {}
    try:
        for name, content in files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            if path.is_dir():
                raise IsADirectoryError(0, "there is a folder of that name")
            handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
            staged[path] = Path(temporary)
            with os.fdopen(handle, "wb") as file:
                file.write(content)
            os.chmod(temporary, 0o644)
        for path, temporary_path in staged.items():
            os.replace(temporary_path, path)
    except OSError as error:
        reason = error.strerror or error
        raise RewriteError(f"cannot write {path}: {reason}; choose a place that can be written") from error
    finally:
        for temporary_path in staged.values():
            temporary_path.unlink(missing_ok=True)


def own_name(prefix: str) -> str:
    """A name for a temporary of this process: the prefix, this machine, the process."""
    return f"{prefix}.{platform.node()}.{os.getpid()}"


def abandoned(folder: Path, prefix: str) -> list[Path]:
    """Temporaries in a folder, called as `own_name` does, that processes of this machine left when they were killed."""
    start = f"{prefix}.{platform.node()}."
    found = sorted(path for path in folder.iterdir() if path.name.startswith(start)) if folder.is_dir() else []
    return [path for path in found if not _is_alive(path.name[len(start) :].split(".")[0])]


def _is_alive(process: str) -> bool:
    """Whether a process of that number runs; what is no number is left alone."""
    try:
        os.kill(int(process), 0)
    except ProcessLookupError:
        return False
    except (OSError, ValueError, OverflowError):
        return True
    return True
