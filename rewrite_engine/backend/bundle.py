"""A bundle: everything needed to run a placement, in memory or as a folder.

In: a placed graph and a program per kernel. Out: graph.json, memory.json, metadata.json, params.npz, kernels/ and the
caller's files (placement.json, search.json, model.onnx), listed with their sha256 in manifest.json. The same content
gives the same bytes, and a folder is written whole or not at all.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

import numpy as np

from rewrite_engine.backend import standalone
from rewrite_engine.backend.abi import check_abi
from rewrite_engine.backend.archive import json_bytes, sha256, write_npz, written_whole
from rewrite_engine.backend.bundle_reader import (
    MANIFEST,
    METADATA_SCHEMA,
    OWN_FILES,
    PARAMETERS,
    PARAMETERS_TVM,
    SCHEMA,
    check_replaceable,
    holds_bindings,
    read_parts,
)
from rewrite_engine.backend.c_kernels import KERNELS_C, LANES, CKernels, emit_kernels
from rewrite_engine.backend.codegen import Artifact, CodeGenerator, loaded
from rewrite_engine.backend.functions import Function, share_functions
from rewrite_engine.backend.graph_json import graph_json
from rewrite_engine.backend.graph_reader import read_graph
from rewrite_engine.backend.library import LIBRARY, LIBRARY_JSON, StoredLibrary, build_library, host_compiler
from rewrite_engine.backend.memory import MemoryPlan, plan
from rewrite_engine.backend.native import load
from rewrite_engine.backend.packing import Planner, pack
from rewrite_engine.backend.programs import (
    check_operands,
    content_hash,
    kernel_of,
    program_nest,
    program_text,
    sharing_by_call,
    workspace_of,
)
from rewrite_engine.backend.runtime import Executor, Kernel
from rewrite_engine.backend.standalone import standalone_files
from rewrite_engine.backend.tvm_params import params_bytes
from rewrite_engine.backend.verify_plan import verify
from rewrite_engine.diagnostics import RewriteError
from rewrite_engine.graph.placed import KernelCall, PlacedGraph
from rewrite_engine.loops.compiler import build_text
from rewrite_engine.loops.compute import Program
from rewrite_engine.operators.types import TensorType

if TYPE_CHECKING:
    from rewrite_engine.backend.bindings import Bindings

NO_ARTIFACTS: Mapping[str, Artifact] = {}
NO_OPTIONS: Mapping[str, str] = {}


@dataclass(frozen=True, slots=True, eq=False)
class Bundle:
    """`graph` is the content of graph.json; `functions` and `programs` are by symbol, `parameters` by name.

    `extra_files` are the caller's, by path relative to the folder; they are kept, not interpreted. A symbol that a code
    generator made has an artifact in place of a program; `generators` are those at hand, beside the installed ones.
    `host_options` are what the host's C compiler is told; `c_kernels` are the kernels in C, `library` what it made of
    them, see `with_c`.
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
    c_kernels: CKernels | None = None
    library: StoredLibrary | None = None

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
        c: dict[str, object] = {}
        if self.c_kernels is not None:
            c = {"c": {"abi": self.c_kernels.abi, "lanes": self.c_kernels.lanes}}
            for symbol, row in functions.items():
                row["c"] = self.c_kernels.function_json(symbol)
        devices = {
            use.device: {
                "workspace": max((f.workspace for f in self.functions.values() if f.device == use.device), default=0),
                "io": use.inputs_outputs,
                "constants": use.weights,
            }
            for use in self.plan.devices
        }
        host = dict(self.host_options)
        return {"schema": METADATA_SCHEMA, "functions": functions, "devices": devices, "host": host, **c}

    def verify(self) -> list[str]:
        """Problems that make this bundle unfit to run; an empty list means that it holds."""
        types = {name: TensorType(array.dtype.name, array.shape) for name, array in self.parameters.items()}
        return [*verify(self.graph, self.plan, self.functions, types), *check_operands(self.functions, self.programs)]

    def executor(self, engine: str = "auto") -> Executor:
        """An executor with its own memories, to run more than once or to read `times`.

        `engine` is "auto" (kernels run in C where there is a library or a compiler, else in NumPy), "c" or "numpy".
        Raises RewriteError where C is asked for and there is no compiler, or where the compiler fails.
        """
        return Executor(self, load(self.functions, self.programs, self.c_kernels, self.library, engine))

    def run(self, inputs: Mapping[str, np.ndarray], engine: str = "auto") -> dict[str, np.ndarray]:
        """Graph outputs by name. Raises RewriteError for inputs that do not fit, see `runtime.Executor.run`."""
        return self.executor(engine).run(inputs)

    def with_c(self, engine: str = "auto", abi: str = "ffi") -> Bundle:
        """This bundle with its kernels in C, and the library of them where there is a compiler.

        The compiler is the one that `host_options` ask for. Engine "numpy" leaves the bundle as it is, "c" needs a
        compiler. `abi` is that of the wrappers that the library exports, "ffi" or "packed"; the latter comes with
        params.bin and needs every kernel in C. Raises RewriteError where there is no compiler, or where it fails.
        """
        compiler = host_compiler(self.host_options, engine)
        check_abi(abi)
        if engine == "numpy":
            if abi != "ffi":
                raise RewriteError(f"abi `{abi}` is C; expected engine auto or c, found numpy")
            return self
        graph, problems = read_graph(self.graph)
        if graph is None:
            raise RewriteError("graph.json: " + "; ".join(problems))
        lanes = LANES if compiler is None else compiler.lanes
        c_kernels = emit_kernels(graph, self.functions, self.programs, lanes, abi)
        library = None if compiler is None else build_library(c_kernels, compiler)
        return replace(self, c_kernels=c_kernels, library=library)

    def with_standalone(self, engine: str = "auto") -> Bundle:
        """This bundle with a C program that runs it: standalone/ has model.c, weights.bin and, where there is a
        compiler, the program itself.

        Raises RewriteError where a kernel is not in C, or where the compiler fails.
        """
        graph, problems = read_graph(self.graph)
        if graph is None or self.c_kernels is None:
            raise RewriteError("; ".join(problems) or "a stand-alone program is C; expected engine auto or c")
        files = standalone_files(graph, self.plan, self.functions, self.c_kernels, self.parameters)
        compiler = host_compiler(self.host_options, engine)
        if compiler is not None:
            built = build_text(files[standalone.SOURCE].decode(), compiler, kind="program")
            files[standalone.PROGRAM] = built.path.read_bytes()
        return replace(self, extra_files={**self.extra_files, **files})

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
        if self.c_kernels is not None:
            files[KERNELS_C] = self.c_kernels.text.encode()
            if self.c_kernels.abi == "packed":
                files[PARAMETERS_TVM] = params_bytes(self.parameters)
        if self.library is not None:
            files[LIBRARY] = self.library.content
            files[LIBRARY_JSON] = json_bytes(self.library.to_json())
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
        check_replaceable(target)
        files = self.files()
        with written_whole(target) as temporary:
            for path, content in files.items():
                (temporary / path).parent.mkdir(parents=True, exist_ok=True)
                (temporary / path).write_bytes(content)
                if path == standalone.PROGRAM:
                    (temporary / path).chmod(0o755)
            write_npz(temporary / PARAMETERS, self.parameters)
            (temporary / MANIFEST).write_bytes(json_bytes(_manifest(temporary, [*files, PARAMETERS])))

    @classmethod
    def open(cls, folder: str | Path, generators: Sequence[CodeGenerator] = ()) -> Bundle | Bindings:
        """The bundle in `folder`. `generators` load the kernels that they made; others are looked for as plug-ins.

        A folder with several bindings of a dynamic model gives `Bindings`, whose `run` picks one by its inputs.
        Raises RewriteError when it is not a bundle, a file is missing or differs from its sha256, or it does not hold.
        """
        root = Path(folder)
        if holds_bindings(root):
            from rewrite_engine.backend.bindings import Bindings  # which opens bundles

            return Bindings.open(root, generators)
        parts = read_parts(root)
        values = {field.name: getattr(parts, field.name) for field in fields(parts)}
        bundle = cls(**values, generators=tuple(generators))
        _require(bundle, str(root))
        return bundle

    def _kernel_stems(self) -> dict[str, str]:
        """File name by content hash: the first symbol of that content."""
        stems: dict[str, str] = {}
        for symbol in sorted(self.functions):
            stems.setdefault(self.functions[symbol].hash, symbol)
        return stems

    @property
    def constant_outputs(self) -> frozenset[str]:
        """The outputs, by the model's names, that are computed from parameters alone: no input changes them."""
        graph, _ = read_graph(self.graph)
        if graph is None:
            return frozenset()
        still = {index for index, entry in enumerate(graph.entries) if entry.name in self.parameters}
        for node in graph.nodes:
            if node.kind != "argument" and still.issuperset(node.inputs):
                still.update(node.outputs)
        return frozenset(name for name, head in zip(graph.output_names, graph.heads, strict=True) if head in still)

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
    pinned: Collection[str] = (),
) -> Bundle:
    """The bundle of a placed graph, verified. `programs` are by kernel name, `capacities` bytes by device or None.

    `artifacts`, by kernel name, stand in place of programs; `generators` are those that made them. `planner` lays out
    the arenas; `pinned` values keep their bytes to the end of a run. Raises RewriteError for a kernel without a
    program, a device that is too small, or a bundle that does not hold.
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
    sharing = sharing_by_call(programs, hashes)
    functions, symbols = share_functions(placed, hashes, workspaces, makers, sharing)
    first_calls = {symbols[call.name]: call.name for call in reversed(calls)}
    memory_plan = plan(placed, capacities, planner, sharing=sharing, pinned=pinned)
    bundle = Bundle(
        graph=graph_json(placed, memory_plan, symbols, sharing),
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
