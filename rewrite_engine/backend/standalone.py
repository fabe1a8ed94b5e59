"""A whole graph as one C program: a static memory per device, kernels called in order, copies as memcpy.

In: a graph with its memory plan and kernels in C. Out: model.c, which needs nothing but a C library, and weights.bin
beside it. The program reads inputs and writes outputs as .npy files; every value lives at its offset of the plan.
"""

from __future__ import annotations

import hashlib
import importlib.resources
from collections.abc import Mapping, Sequence

import numpy as np

from rewrite_engine.backend.c_kernels import CKernels, kernel_text, require_all
from rewrite_engine.backend.functions import Function
from rewrite_engine.backend.graph_reader import Entry, Node, ReadGraph
from rewrite_engine.backend.memory import DeviceUse, MemoryPlan, Storage
from rewrite_engine.loops.compiler import FLAGS
from rewrite_engine.loops.dtypes import numpy_dtype

FOLDER = "standalone/"
SOURCE = f"{FOLDER}model.c"
WEIGHTS = f"{FOLDER}weights.bin"
PROGRAM = f"{FOLDER}model"
_SLACK = 64
"""Bytes behind a memory, which whole vectors may read."""


def standalone_files(
    graph: ReadGraph,
    plan: MemoryPlan,
    functions: Mapping[str, Function],
    kernels: CKernels,
    parameters: Mapping[str, np.ndarray],
) -> dict[str, bytes]:
    """The files of the program, by path in the bundle. Raises RewriteError where a kernel is not in C."""
    require_all(functions, kernels.kernels, kernels.reasons, "a stand-alone program")
    images = [(use, _image(use, plan, parameters)) for use in plan.devices]
    weights = b"".join(image for _, (_, image) in images)
    digest = hashlib.sha256(weights).digest()
    memories = {use.device: f"re_memory_{number}" for number, use in enumerate(plan.devices)}
    storages = plan.by_value()

    def place(entry: Entry) -> str:
        return f"{memories[entry.device]} + {storages[entry.name].offset}"

    by_name = {entry.name: entry for entry in graph.entries}
    inputs = [(name, by_name[name]) for name in graph.inputs]
    outputs = [(name, graph.entries[head]) for name, head in zip(graph.output_names, graph.heads, strict=True)]
    prepare, infer, packed = _steps(graph, kernels, storages, place)
    workspace = max((kernel.workspace for kernel in kernels.kernels.values()), default=0)
    lines = [
        f"/* Compile with: cc {' '.join(FLAGS)} -march=native model.c -o model -lm */",
        kernel_text(kernels),
        "typedef struct { const char *name, *element; int32_t rank; const int64_t *shape; int64_t bytes; "
        "unsigned char *at; } re_value;",
        *(_array(memories[use.device], use.extent, f"the memory of {use.device}") for use in plan.devices),
        _array("re_workspace", workspace, "scratch memory of one kernel at a time"),
        _array("re_packed", packed, "weights as the kernels read them"),
        f"static const unsigned char re_digest[] = {{{', '.join(map(str, digest))}}};",
        f"#define RE_INPUTS {len(inputs)}",
        f"#define RE_OUTPUTS {len(outputs)}",
        _table("re_inputs", [_value(name, entry, storages[entry.name], place(entry)) for name, entry in inputs]),
        _table("re_outputs", [_value(name, entry, storages[entry.name], place(entry)) for name, entry in outputs]),
        _table(
            "re_weights",
            [
                f'{{"{use.device}", "|u1", 0, 0, {len(image)}, {memories[use.device]} + {start}}}'
                for use, (start, image) in images
            ],
        ),
        'static const char *re_kernel = ""; /* that failed */',
        _function("re_prepare", prepare),
        _function("re_infer", infer),
        (importlib.resources.files("rewrite_engine.backend") / "c" / "standalone.h").read_text(),
    ]
    return {SOURCE: "\n".join(lines).encode(), WEIGHTS: digest + weights}


def _image(use: DeviceUse, plan: MemoryPlan, parameters: Mapping[str, np.ndarray]) -> tuple[int, bytes]:
    """Where a device's parameters begin, and its bytes from there on."""
    rows = [row for row in plan.storages if row.device == use.device and row.kind == "parameter"]
    start = min((row.offset for row in rows), default=use.extent)
    image = bytearray(use.extent - start)
    for row in rows:
        image[row.offset - start : row.offset - start + row.size] = np.asarray(parameters[row.value]).tobytes()
    return start, bytes(image)


def _steps(
    graph: ReadGraph, kernels: CKernels, storages: Mapping[str, Storage], place: object
) -> tuple[list[str], list[str], int]:
    """Statements that pack constant operands, those of a run, and the bytes of packed operands."""
    assert callable(place)
    prepare: list[str] = []
    infer: list[str] = []
    packed = 0
    for node in graph.nodes:
        if node.kind in ("argument", "view"):
            continue
        given, made = ([place(graph.entries[entry]) for entry in side] for side in (node.inputs, node.outputs))
        if node.kind == "copy":
            size = storages[graph.entries[node.outputs[0]].name].size
            infer.append(f"memcpy({made[0]}, {given[0]}, {size});")
            continue
        kernel = kernels.kernels[node.function]
        tables = f"void *in[] = {{{_pointers(given)}}}, *out[] = {{{_pointers(made)}}}; "
        if kernel.packed:
            prepare.append(_call(node, tables, f"{kernel.c_symbol}_pack(in, re_packed + {packed})"))
            infer.append(_call(node, tables, f"{kernel.c_symbol}_packed(in, out, re_workspace, re_packed + {packed})"))
            packed += -(-kernel.packed // 64) * 64
        else:
            infer.append(_call(node, tables, f"{kernel.c_symbol}(in, out, re_workspace)"))
    return prepare, infer, packed


def _call(node: Node, tables: str, call: str) -> str:
    label = _text(f"kernel {node.name}: ")
    return f"{{ {tables}if ({call}) {{ re_kernel = {label}; return 1; }} }} /* {node.function} */"


def _pointers(places: Sequence[str]) -> str:
    return ", ".join(places) or "0"


def _array(name: str, size: int, note: str) -> str:
    return f"static unsigned char {name}[{size + _SLACK}] __attribute__((aligned(64))); /* {note} */"


def _table(name: str, rows: Sequence[str]) -> str:
    body = ",\n  ".join(rows) or "{0}"
    return f"static const re_value {name}[] = {{\n  {body}\n}};"


def _function(name: str, lines: Sequence[str]) -> str:
    body = "\n".join(f"  {line}" for line in lines)
    return f"static int {name}(void) {{\n{body}\n  return 0;\n}}"


def _value(name: str, entry: Entry, storage: Storage, place: str) -> str:
    shape = [str(size) for size in entry.type.shape or ()]
    sizes = f"(const int64_t[]){{{', '.join(shape)}}}" if shape else "0"
    return f"{{{_text(name)}, {_text(element_code(entry.type.dtype))}, {len(shape)}, {sizes}, {storage.size}, {place}}}"


def element_code(dtype: str) -> str:
    """How .npy files spell an element type; types that NumPy has no letter for are stored as their bits."""
    kind = numpy_dtype(dtype)
    return kind.str if kind.isbuiltin == 1 else np.dtype(f"u{kind.itemsize}").str


def _text(text: str) -> str:
    """A C string: bytes that are not plain as octal."""
    plain = (chr(byte) if 32 <= byte < 127 and chr(byte) not in '"\\?' else f"\\{byte:03o}" for byte in text.encode())
    return '"' + "".join(plain) + '"'
