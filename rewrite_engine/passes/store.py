"""A module in a folder: its model, lowered kernels and memory plan; any stage can be saved, reloaded and gone on with.

`model.onnx` runs by itself; `source.onnx` is what it was imported from; `module.json` says what else is there.
"""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

from rewrite_engine.backend.memory import MemoryPlan
from rewrite_engine.diagnostics import RewriteError
from rewrite_engine.files import SOURCE, write_folder
from rewrite_engine.graph import Module, SourceInfo, load, model_bytes
from rewrite_engine.language.core import RuleSet
from rewrite_engine.loops.compute import Program
from rewrite_engine.loops.serialize import from_json, to_json
from rewrite_engine.machine import Machine, build

SCHEMA = "rewrite_engine/module/1"
MODULE, MODEL, LOWERED, MEMORY = "module.json", "model.onnx", "lowered.json", "memory.json"


def save_module(module: Module, folder: str | os.PathLike[str]) -> None:
    """Writes a module. Raises RewriteError where that cannot be done, or for a lowered kernel that is no program.

    Rules and machine are not written: they are what rule files say, see `load_module`.
    """
    files = {MODEL: model_bytes(module.model)}
    if module.source.original:
        files[SOURCE] = module.source.original
    if module.lowered:
        files[LOWERED] = _dump(
            {name: to_json(_program(name, kernel)) for name, kernel in sorted(module.lowered.items())}
        )
    if isinstance(module.memory, MemoryPlan):
        files[MEMORY] = _dump(module.memory.to_json())
    source = module.source
    targets = [target.name for target in module.machine.targets] if isinstance(module.machine, Machine) else None
    files[MODULE] = _dump(
        {
            "schema": SCHEMA,
            "source": {"name": source.name, "sha256": source.sha256, "nodes": source.nodes},
            "targets": targets,
            "files": sorted(files),
        }
    )
    write_folder(Path(folder), files)


def load_module(folder: str | os.PathLike[str], rules: RuleSet | None = None) -> Module:
    """The module that `save_module` wrote. With `rules` it has its machine and its rules again, too.

    Raises RewriteError for a folder that holds no module, and for damaged files.
    """
    place = Path(folder)
    facts = _read(place / MODULE)
    if facts.get("schema") != SCHEMA:
        raise RewriteError(f"{place / MODULE}: expected schema {SCHEMA}, found {facts.get('schema')!r}")
    try:
        files, source, targets = facts["files"], SourceInfo(**facts["source"]), facts["targets"]
    except (KeyError, TypeError) as error:
        raise RewriteError(f"{place / MODULE}: damaged: {error}; save the module again") from error
    if SOURCE in files:
        source = replace(source, original=_bytes(place / SOURCE))
    module = replace(load(place / MODEL, fold=False), source=source)
    if LOWERED in files:
        module = replace(module, lowered={name: from_json(data) for name, data in _read(place / LOWERED).items()})
    if MEMORY in files:
        module = replace(module, memory=MemoryPlan.from_json(_read(place / MEMORY)))
    if rules is not None:
        machine = build(rules)
        module = replace(module, rules=rules, machine=machine if targets is None else machine.restrict(targets))
    return module


def _program(name: str, kernel: object) -> Program:
    if not isinstance(kernel, Program):
        raise RewriteError(f"kernel {name}: expected a program of loop nests, found {type(kernel).__name__}")
    return kernel


def _dump(value: object) -> bytes:
    return (json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False) + "\n").encode()


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise RewriteError(f"{path}: cannot be read: {error.strerror or error}; expected a saved module") from error


def _read(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(_bytes(path))
    except ValueError as error:
        raise RewriteError(f"{path}: damaged: {error}; save the module again") from error
    if not isinstance(found, dict):
        raise RewriteError(f"{path}: expected an object, found {type(found).__name__}; save the module again")
    return found
