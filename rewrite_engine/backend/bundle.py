"""A bundle: everything needed to run a placement, in memory or as a folder.

In: a placed graph and a program per kernel. Out: graph.json, memory.json, metadata.json, params.npz, kernels/ and the
caller's files (placement.json, search.json, model.onnx), listed with their sha256 in manifest.json. The same content
gives the same bytes, and a folder is written whole or not at all.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

import numpy as np

from rewrite_engine.backend.archive import json_bytes, read_npz, sha256, write_npz, written_whole
from rewrite_engine.backend.codegen import Artifact, CodeGenerator, loaded
from rewrite_engine.backend.functions import Function, share_functions
from rewrite_engine.backend.graph_json import graph_json
from rewrite_engine.backend.graph_reader import read_graph
from rewrite_engine.backend.memory import MemoryPlan, plan
from rewrite_engine.backend.packing import Planner, pack
from rewrite_engine.backend.programs import (
    check_operands,
    content_hash,
    kernel_of,
    program_nest,
    program_text,
    read_program,
    workspace_of,
)
from rewrite_engine.backend.runtime import Executor, Kernel
from rewrite_engine.backend.verify_plan import verify
from rewrite_engine.diagnostics import RewriteError
from rewrite_engine.graph.placed import KernelCall, PlacedGraph
from rewrite_engine.loops.compute import Program
from rewrite_engine.operators.types import TensorType

SCHEMA = "rewrite_engine/bundle/1"
METADATA_SCHEMA = "rewrite_engine/metadata/1"
MANIFEST = "manifest.json"
PARAMETERS = "params.npz"
NO_ARTIFACTS: Mapping[str, Artifact] = {}
NO_OPTIONS: Mapping[str, str] = {}
OWN_FILES = ("graph.json", "memory.json", "metadata.json", PARAMETERS)


@dataclass(frozen=True, slots=True, eq=False)
class Bundle:
    """`graph` is the content of graph.json; `functions` and `programs` are by symbol, `parameters` by name.

    `extra_files` are the caller's, by path relative to the folder; they are kept, not interpreted. A symbol that a code
    generator made has an artifact in place of a program; `generators` are those at hand, beside the installed ones.
    `host_options` are what the host's C compiler is told.
    """

    graph: Mapping[str, object]
    plan: MemoryPlan
    functions: Mapping[str, Function]
    programs: Mapping[str, Program]
    parameters: Mapping[str, np.ndarray]
    extra_files: Mapping[str, bytes] = field(default_factory=dict)
    artifacts: Mapping[str, Artifact] = field(default_factory=dict)
    generators: tuple[CodeGenerator, ...] = ()
    host_options: Mapping[str, str] = field(default_factory=dict)

    @property
    def kernels(self) -> dict[str, Kernel]:
        """A callable for each symbol. Raises RewriteError where the code generator that made a kernel is missing."""
        made = loaded(self.functions, self.artifacts, self.generators)
        return {**{symbol: kernel_of(program) for symbol, program in self.programs.items()}, **made}

    @property
    def inputs(self) -> dict[str, TensorType]:
        """Types of the graph's inputs by name, in order."""
        return self._types("inputs")

    @property
    def outputs(self) -> dict[str, TensorType]:
        """Types of the graph's outputs by the model's names, in order."""
        return self._types("outputs")

    @property
    def metadata(self) -> dict[str, object]:
        """The content of metadata.json: functions by symbol with their sizes, and sizes in bytes per device."""
        stems = self._kernel_stems()
        functions = {
            symbol: {**function.to_json(), "kernel": f"kernels/{stems[function.hash]}"}
            for symbol, function in self.functions.items()
        }
        devices = {
            use.device: {
                "workspace": max((f.workspace for f in self.functions.values() if f.device == use.device), default=0),
                "io": use.inputs_outputs,
                "constants": use.weights,
            }
            for use in self.plan.devices
        }
        host = dict(self.host_options)
        return {"schema": METADATA_SCHEMA, "functions": functions, "devices": devices, "host": host}

    def verify(self) -> list[str]:
        """Problems that make this bundle unfit to run; an empty list means that it holds."""
        types = {name: TensorType(array.dtype.name, array.shape) for name, array in self.parameters.items()}
        return [*verify(self.graph, self.plan, self.functions, types), *check_operands(self.functions, self.programs)]

    def executor(self) -> Executor:
        """An executor with its own memories, to run more than once or to read `times`."""
        return Executor(self)

    def run(self, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Graph outputs by name. Raises RewriteError for inputs that do not fit, see `runtime.Executor.run`."""
        return self.executor().run(inputs)

    def files(self) -> dict[str, bytes]:
        """Content of every file but the manifest and the parameters, by path relative to the folder.

        Raises RewriteError for a path of `extra_files` that leaves the folder or is taken.
        """
        stems = self._kernel_stems()
        files = {
            "graph.json": json_bytes(self.graph, sort_keys=False),
            "memory.json": json_bytes(self.plan.to_json()),
            "metadata.json": json_bytes(self.metadata),
        }
        for symbol in sorted(stems.values()):
            if symbol in self.artifacts:
                files[f"kernels/{symbol}.bin"] = self.artifacts[symbol].content
                continue
            files[f"kernels/{symbol}.json"] = program_text(self.programs[symbol]).encode()
            files[f"kernels/{symbol}.loops"] = program_nest(self.programs[symbol]).encode()
        for path, content in sorted(self.extra_files.items()):
            parts = PurePosixPath(path)
            if path in (*files, *OWN_FILES, MANIFEST) or parts.is_absolute() or ".." in parts.parts or not parts.parts:
                raise RewriteError(f"bundle: extra file: expected a relative path that is not taken, found `{path}`")
            files[path] = content
        return files

    def save(self, folder: str | Path) -> None:
        """Write the bundle to `folder`, whole or not at all.

        An earlier bundle there is replaced. Raises RewriteError when something else is there, or it cannot be written.
        """
        target = Path(folder).resolve()
        _check_replaceable(target)
        files = self.files()
        with written_whole(target) as temporary:
            for path, content in files.items():
                (temporary / path).parent.mkdir(parents=True, exist_ok=True)
                (temporary / path).write_bytes(content)
            write_npz(temporary / PARAMETERS, self.parameters)
            (temporary / MANIFEST).write_bytes(json_bytes(_manifest(temporary, [*files, PARAMETERS])))

    @classmethod
    def open(cls, folder: str | Path, generators: Sequence[CodeGenerator] = ()) -> Bundle:
        """The bundle in `folder`. `generators` load the kernels that they made; others are looked for as plug-ins.

        Raises RewriteError when it is not a bundle, a file is missing or differs from its sha256, or it does not hold.
        """
        root = Path(folder)
        listed = _read_manifest(root)
        for path in OWN_FILES:
            if path not in listed:
                raise RewriteError(f"{root / MANIFEST}: expected `{path}` among the files, found {', '.join(listed)}")
        for path, digest in listed.items():
            _check_file(root, path, digest)
        contents = {path: (root / path).read_bytes() for path in listed if path != PARAMETERS}
        graph = _parse(root / "graph.json", contents["graph.json"])
        memory_plan = MemoryPlan.from_json(_parse(root / "memory.json", contents["memory.json"]))
        functions, programs, artifacts = _read_functions(root, contents)
        bundle = cls(
            graph=graph,
            plan=memory_plan,
            functions=functions,
            programs=programs,
            parameters=read_npz(root / PARAMETERS, _parameter_types(root, graph)),
            extra_files={p: c for p, c in contents.items() if p not in OWN_FILES and not p.startswith("kernels/")},
            artifacts=artifacts,
            generators=tuple(generators),
            host_options=_host_options(root, contents),
        )
        _require(bundle, str(root))
        return bundle

    def _kernel_stems(self) -> dict[str, str]:
        """File name by content hash: the first symbol of that content."""
        stems: dict[str, str] = {}
        for symbol in sorted(self.functions):
            stems.setdefault(self.functions[symbol].hash, symbol)
        return stems

    def _types(self, side: str) -> dict[str, TensorType]:
        graph, problems = read_graph(self.graph)
        if graph is None:
            raise RewriteError("graph.json: " + "; ".join(problems))
        if side == "outputs":
            return {name: graph.entries[head].type for name, head in zip(graph.output_names, graph.heads, strict=True)}
        types = {entry.name: entry.type for entry in graph.entries}
        return {name: types[name] for name in graph.inputs}


def build(
    placed: PlacedGraph,
    programs: Mapping[str, Program],
    capacities: Mapping[str, int | None],
    extra_files: Mapping[str, bytes] | None = None,
    *,
    artifacts: Mapping[str, Artifact] = NO_ARTIFACTS,
    generators: Sequence[CodeGenerator] = (),
    host_options: Mapping[str, str] = NO_OPTIONS,
    planner: Planner = pack,
) -> Bundle:
    """The bundle of a placed graph, verified. `programs` are by kernel name, `capacities` bytes by device or None.

    `artifacts`, by kernel name, stand in place of programs; `generators` are those that made them. `planner` lays out
    the arenas. Raises RewriteError for a kernel without a program, a device that is too small, or a bundle that does
    not hold.
    """
    calls = [call for call in placed.steps if isinstance(call, KernelCall)]
    missing = [call.name for call in calls if call.name not in programs and call.name not in artifacts]
    if missing:
        raise RewriteError(f"bundle: expected a program for each kernel, found none for {', '.join(missing)}")
    programs = {call.name: programs[call.name] for call in calls if call.name not in artifacts}
    hashes = {name: content_hash(program_text(program)) for name, program in programs.items()}
    hashes.update((name, artifact.hash) for name, artifact in artifacts.items())
    workspaces = {call.name: workspace_of(programs[call.name]) if call.name in programs else 0 for call in calls}
    makers = {name: (artifact.generator, artifact.version) for name, artifact in artifacts.items()}
    functions, symbols = share_functions(placed, hashes, workspaces, makers)
    first_calls = {symbols[call.name]: call.name for call in reversed(calls)}
    memory_plan = plan(placed, capacities, planner)
    bundle = Bundle(
        graph=graph_json(placed, memory_plan, symbols),
        plan=memory_plan,
        functions=functions,
        programs={symbol: programs[call] for symbol, call in first_calls.items() if call in programs},
        parameters=dict(placed.parameters),
        extra_files=dict(extra_files or {}),
        artifacts={symbol: artifacts[call] for symbol, call in first_calls.items() if call in artifacts},
        generators=tuple(generators),
        host_options=dict(host_options),
    )
    _require(bundle, placed.name)
    return bundle


def _require(bundle: Bundle, where: str) -> None:
    problems = bundle.verify()
    if problems:
        shown = "\n  ".join(problems[:10])
        more = f"\n  and {len(problems) - 10} more" if len(problems) > 10 else ""
        raise RewriteError(f"{where}: the bundle does not hold:\n  {shown}{more}")


def _manifest(folder: Path, paths: Sequence[str]) -> dict[str, object]:
    rows = {path: {"sha256": sha256(folder / path), "bytes": (folder / path).stat().st_size} for path in paths}
    return {"schema": SCHEMA, "files": rows}


def _check_replaceable(folder: Path) -> None:
    """Only an earlier bundle or an empty folder makes way."""
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
    if MANIFEST not in found:
        raise RewriteError(f"{folder} is there and is not a bundle (it has no {MANIFEST}); {advice}")
    listed = _read_manifest(folder)
    foreign = [path for path in found if path not in listed and path != MANIFEST]
    if foreign:
        names = ", ".join(foreign[:3])
        raise RewriteError(f"{folder} is an earlier bundle, but holds other files too ({names}); {advice}")


def _read_manifest(root: Path) -> dict[str, str]:
    """The sha256 of each file by path."""
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


def _host_options(root: Path, contents: Mapping[str, bytes]) -> dict[str, str]:
    host = _parse(root / "metadata.json", contents["metadata.json"]).get("host", {})
    if not isinstance(host, dict) or not all(isinstance(value, str) for value in host.values()):
        raise RewriteError(f"{root / 'metadata.json'}: expected texts by name in `host`, found {host!r}")
    return host


def _read_functions(
    root: Path, contents: Mapping[str, bytes]
) -> tuple[dict[str, Function], dict[str, Program], dict[str, Artifact]]:
    """Functions, programs and artifacts by symbol, each checked against its function's hash."""
    path = root / "metadata.json"
    data = _parse(path, contents["metadata.json"])
    rows = data.get("functions")
    if data.get("schema") != METADATA_SCHEMA or not isinstance(rows, dict):
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
