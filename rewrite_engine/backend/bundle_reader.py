"""Reading a bundle's folder: every file against its digest, every function with its program, artifact and C.

In: the folder. Out: its parts, or a `RewriteError` that names the file which is missing, damaged or of another kind.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from rewrite_engine.backend.archive import read_npz, sha256
from rewrite_engine.backend.bindings_json import BINDINGS, read_bindings
from rewrite_engine.backend.c_kernels import KERNELS_C, CKernels, read_c_kernels
from rewrite_engine.backend.codegen import Artifact
from rewrite_engine.backend.functions import Function
from rewrite_engine.backend.graph_reader import read_graph
from rewrite_engine.backend.library import FOLDER, StoredLibrary, read_library
from rewrite_engine.backend.memory import MemoryPlan
from rewrite_engine.backend.programs import content_hash, read_program
from rewrite_engine.diagnostics import RewriteError
from rewrite_engine.loops.compute import Program
from rewrite_engine.operators.types import TensorType

SCHEMA = "rewrite_engine/bundle/1"
METADATA_SCHEMA = "rewrite_engine/metadata/1"
MANIFEST = "manifest.json"
PARAMETERS = "params.npz"
PARAMETERS_TVM = "params.bin"
OWN_FILES = ("graph.json", "memory.json", "metadata.json", PARAMETERS)
OWN_FOLDERS = ("kernels/", FOLDER)


@dataclass(frozen=True, slots=True, eq=False)
class Parts:
    """What a bundle's folder holds, by the names of `Bundle`'s fields."""

    graph: Mapping[str, object]
    plan: MemoryPlan
    functions: Mapping[str, Function]
    programs: Mapping[str, Program]
    parameters: Mapping[str, np.ndarray]
    extra_files: Mapping[str, bytes]
    artifacts: Mapping[str, Artifact]
    host_options: Mapping[str, str]
    c_kernels: CKernels | None
    library: StoredLibrary | None


def read_parts(root: Path) -> Parts:
    """The parts of the bundle in `root`.

    Raises RewriteError when it is not a bundle, or a file is missing, differs from its sha256 or cannot be read.
    """
    listed = read_manifest(root)
    for path in OWN_FILES:
        if path not in listed:
            raise RewriteError(f"{root / MANIFEST}: expected `{path}` among the files, found {', '.join(listed)}")
    for path, digest in listed.items():
        _check_file(root, path, digest)
    contents = {path: (root / path).read_bytes() for path in listed if path != PARAMETERS}
    graph = _parse(root / "graph.json", contents["graph.json"])
    memory_plan = MemoryPlan.from_json(_parse(root / "memory.json", contents["memory.json"]))
    metadata = _parse(root / "metadata.json", contents["metadata.json"])
    functions, programs, artifacts = _read_functions(root, metadata, contents)
    c_kernels = read_c_kernels(root / "metadata.json", metadata, contents.get(KERNELS_C), functions)
    return Parts(
        graph=graph,
        plan=memory_plan,
        functions=functions,
        programs=programs,
        parameters=read_npz(root / PARAMETERS, _parameter_types(root, graph)),
        extra_files={
            p: c for p, c in contents.items() if p not in (*OWN_FILES, PARAMETERS_TVM) and not p.startswith(OWN_FOLDERS)
        },
        artifacts=artifacts,
        host_options=_host_options(root, metadata),
        c_kernels=c_kernels,
        library=read_library(root, contents, c_kernels),
    )


def read_manifest(root: Path) -> dict[str, str]:
    """The sha256 of each file by path. Raises RewriteError where `root` is no bundle."""
    path = root / MANIFEST
    if not root.is_dir():
        raise RewriteError(f"{root}: expected the folder of a bundle, found {'a file' if root.exists() else 'nothing'}")
    if not path.is_file():
        raise RewriteError(f"{root} is not a bundle: it has no {MANIFEST}; `rewrite-engine compile` writes one")
    data = _parse(path, path.read_bytes())
    rows = data.get("files")
    if data.get("schema") != SCHEMA or not isinstance(rows, dict):
        raise RewriteError(f"{path}: expected schema `{SCHEMA}` with `files`, found schema `{data.get('schema')}`")
    digests = {}
    for name, row in rows.items():
        if not isinstance(row, dict) or not isinstance(row.get("sha256"), str):
            raise RewriteError(f"{path}: expected a sha256 for `{name}`, found {row!r}")
        digests[name] = row["sha256"]
    return digests


def check_replaceable(folder: Path) -> None:
    """Only an earlier bundle or an empty folder makes way. Raises RewriteError for anything else."""
    if not folder.exists():
        return
    if not folder.is_dir():
        raise RewriteError(f"cannot write the bundle to {folder}: expected a folder, found a file; choose another name")
    try:
        found = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if not path.is_dir())
    except OSError as error:
        raise RewriteError(f"cannot read {folder}: {error.strerror or error}") from error
    if not found:
        return
    advice = "choose another folder or empty it first"
    if MANIFEST not in found and BINDINGS not in found:
        raise RewriteError(f"{folder} is there and is not a bundle (it has no {MANIFEST}); {advice}")
    listed = _listed(folder)
    foreign = [path for path in found if path not in listed]
    if foreign:
        names = ", ".join(foreign[:3])
        raise RewriteError(f"{folder} is an earlier bundle, but holds other files too ({names}); {advice}")


def holds_bindings(folder: Path) -> bool:
    """Whether a folder is one of several bindings, each with a bundle of its own."""
    return (folder / BINDINGS).is_file() and not (folder / MANIFEST).exists()


def _listed(folder: Path) -> set[str]:
    """Paths of all files of an earlier bundle, or of all its bindings; what is missing is not there to be kept."""
    if not holds_bindings(folder):
        return {MANIFEST, *read_manifest(folder)}
    paths = {BINDINGS}
    for row in read_bindings(folder):
        if (folder / row.folder / MANIFEST).is_file():
            paths.update(f"{row.folder}/{path}" for path in (MANIFEST, *read_manifest(folder / row.folder)))
    return paths


def _check_file(root: Path, path: str, digest: str) -> None:
    try:
        found = sha256(root / path)
    except OSError as error:
        raise RewriteError(f"{root / path}: listed in {MANIFEST}, cannot be read: {error.strerror or error}") from error
    if found != digest:
        raise RewriteError(f"{root / path}: changed or damaged: expected sha256 {digest} ({MANIFEST}), found {found}")


def _parse(path: Path, content: bytes) -> dict[str, object]:
    try:
        data = json.loads(content)
    except ValueError as error:
        raise RewriteError(f"{path}: expected JSON: {error}") from error
    if not isinstance(data, dict):
        raise RewriteError(f"{path}: expected a JSON object, found {type(data).__name__}")
    return data


def _parameter_types(root: Path, data: Mapping[str, object]) -> dict[str, TensorType]:
    graph, problems = read_graph(data)
    if graph is None:
        raise RewriteError(f"{root / 'graph.json'}: " + "; ".join(problems))
    types = {entry.name: entry.type for entry in graph.entries}
    return {name: types[name] for name in graph.parameters if name in types}


def _host_options(root: Path, metadata: Mapping[str, object]) -> dict[str, str]:
    host = metadata.get("host", {})
    if not isinstance(host, dict) or not all(isinstance(value, str) for value in host.values()):
        raise RewriteError(f"{root / 'metadata.json'}: expected texts by name in `host`, found {host!r}")
    return host


def _read_functions(
    root: Path, metadata: Mapping[str, object], contents: Mapping[str, bytes]
) -> tuple[dict[str, Function], dict[str, Program], dict[str, Artifact]]:
    """Functions, programs and artifacts by symbol, each checked against its function's hash."""
    path = root / "metadata.json"
    rows = metadata.get("functions")
    if metadata.get("schema") != METADATA_SCHEMA or not isinstance(rows, dict):
        raise RewriteError(f"{path}: expected schema `{METADATA_SCHEMA}` with `functions`")
    functions: dict[str, Function] = {}
    programs: dict[str, Program] = {}
    artifacts: dict[str, Artifact] = {}
    read: dict[str, Program] = {}
    for symbol, row in rows.items():
        function = functions[symbol] = Function.from_json(symbol, row)
        file = f"{row.get('kernel')}.{'json' if function.generator is None else 'bin'}"
        if file not in contents:
            raise RewriteError(f"{path}: kernel `{symbol}`: expected its program in `{file}`, found no such file")
        if function.generator is not None:
            artifacts[symbol] = Artifact(function.generator, function.generator_version or "", contents[file])
            if artifacts[symbol].hash != function.hash:
                raise RewriteError(f"{root / file}: expected the artifact of hash {function.hash}, found another one")
            continue
        text = contents[file].decode()
        if content_hash(text) != function.hash:
            raise RewriteError(f"{root / file}: expected the program of hash {function.hash}, found another one")
        if file not in read:
            try:
                read[file] = read_program(text)
            except (RewriteError, ValueError) as error:
                raise RewriteError(f"{root / file}: {error}") from error
        programs[symbol] = read[file]
    return functions, programs, artifacts
