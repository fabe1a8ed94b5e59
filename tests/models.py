"""Models for tests and benchmarks: where they are, seeded weights and inputs, and ONNX Runtime as the reference.

ONNX Runtime runs with graph optimisation off; nothing in the package imports this.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import helper, numpy_helper, parser

from rewrite_engine.graph import bundled_model

Array = np.ndarray[Any, Any]

DATA = Path(os.environ.get("REWRITE_ENGINE_DATA", Path(__file__).parent.parent.parent / "shared" / "data"))
"""The folder of wide checks."""

LIGHT = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
"""The structures that come with the onnx package, every weight the same number."""

MAIN_MODELS: Mapping[str, Mapping[str, int]] = {
    "mobilenetv2.legacy": {},
    "resnet18.legacy": {},
    "bert12.legacy": {},
    "distilbert6.legacy_dyn": {"batch": 1, "seq": 16},
    "light_resnet50": {},
    "light_squeezenet": {},
}
"""The models that the whole road is shown on, with the sizes of their dynamic dimensions."""

WIDE_MODELS: Mapping[str, Mapping[str, int]] = {
    "vit12.dynamo": {},
    "gpt2_12.dynamo": {},
    "albert12.legacy": {},
    "efficientnet_b0.legacy": {},
    "segformer_b0.legacy": {},
    "convnext_tiny.legacy.fp16": {},
    "resnet18.legacy.qdq": {},
    "mobilenetv2.legacy.qdq": {},
    "bert12.legacy.qdyn": {},
    "light_inception_v2": {},
    "light_densenet121": {},
    "basic_pitch": {"unk__749": 1},
    "rapidocr_cls": {"x:0": 1, "x:2": 48, "x:3": 192},
    "dnsmos": {"N": 1},
}
"""More exporters, architectures, half precision and quantised weights: the slow part of the road."""

MODELS: Mapping[str, Mapping[str, int]] = {**MAIN_MODELS, **WIDE_MODELS}

FROM_PACKAGES: Mapping[str, str] = {
    "basic_pitch": "basic_pitch/saved_models/icassp_2022/nmp.onnx",  # basic-pitch 0.4.0
    "rapidocr_cls": "rapidocr/models/ch_ppocr_mobile_v2.0_cls_mobile.onnx",  # rapidocr 3.10.0
    "dnsmos": "speechmos/dnsmos_models/model_v8.onnx",  # speechmos 0.0.1.1
}
"""Files of unpacked wheels (`pip download --no-deps`, `unzip`), below the folder REWRITE_ENGINE_PACKAGES."""


def find_model(name: str) -> Path:
    """The file of a model; skips the test when it is not there."""
    path, reason = locate_model(name)
    if not path.exists():
        pytest.skip(reason)
    return path


def locate_model(name: str) -> tuple[Path, str]:
    """Where the file of a model should be, and what to do when it is not there."""
    if name.startswith("light_"):
        path, variable = LIGHT / f"{name}.onnx", "no variable: it comes with the onnx package"
    elif name == "mobilenetv2.legacy":
        path, variable = bundled_model(), "no variable: it comes with this package"
    elif name in FROM_PACKAGES:
        path = Path(os.environ.get("REWRITE_ENGINE_PACKAGES", DATA / "packages")) / FROM_PACKAGES[name]
        variable = "REWRITE_ENGINE_PACKAGES to a folder of unpacked wheels"
    else:
        path, variable = DATA / "models" / f"{name}.onnx", "REWRITE_ENGINE_DATA"
    return path, f"{path} is not there; set {variable}"


def get_model(name: str, seed: int = 0) -> onnx.ModelProto:
    """A model with informative weights: those of `light_*` are replaced by random ones."""
    model = onnx.load(find_model(name))
    return randomize_weights(model, seed) if name.startswith("light_") else model


def parse(text: str, opset: int = 23, ir_version: int = 10) -> onnx.ModelProto:
    """A model in ONNX text, without its header: `parse("g (float[2] x) => (float[2] y) { y = Relu(x) }")`."""
    imports = f'"" : {opset}, "rewrite_engine" : 1, "custom" : 1'
    return parser.parse_model(f"<ir_version: {ir_version}, opset_import: [{imports}]>\n{text}")


def randomize_weights(model: onnx.ModelProto, seed: int) -> onnx.ModelProto:
    """The model with seeded random float weights in place of constant ones (initializers and ConstantOfShape).

    Kernels and matrices are scaled to keep the magnitude of what passes through; variances are positive; normalisation
    damps, so that the sum of many residual branches does not grow.
    """
    result = onnx.ModelProto()
    result.CopyFrom(model)
    graph = result.graph
    random = np.random.default_rng(seed)
    initial = {t.name: t for t in graph.initializer}
    shapes = {name: tuple(t.dims) for name, t in initial.items() if t.data_type == onnx.TensorProto.FLOAT}
    kept = []
    for node in graph.node:
        if node.op_type == "ConstantOfShape" and node.input[0] in initial:
            shapes[node.output[0]] = tuple(numpy_helper.to_array(initial[node.input[0]]).tolist())
        else:
            kept.append(node)
    readers = {name: (node, place) for node in kept for place, name in enumerate(node.input)}
    for name, shape in shapes.items():
        if name in readers:
            node, place = readers[name]
            if node.op_type == "Unsqueeze":  # what reads a scale per channel
                node, place = readers[node.output[0]]
            weight = _weight(random, node, place, shape).astype(np.float32)
            if name in initial:
                initial[name].CopyFrom(numpy_helper.from_array(weight, name))
            else:
                graph.initializer.append(numpy_helper.from_array(weight, name))
                if result.ir_version < 4:
                    graph.input.append(helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape))
    del graph.node[:]
    graph.node.extend(kept)
    return result


def _weight(random: np.random.Generator, node: onnx.NodeProto, place: int, shape: tuple[int, ...]) -> Array:
    if node.op_type == "BatchNormalization":
        low, high = ((0.4, 0.8), (-0.2, 0.2), (-0.2, 0.2), (0.6, 1.4))[place - 1]
        return random.uniform(low, high, shape)
    if node.op_type == "Mul":  # a scale after a normalisation: undoes its damping
        return random.uniform(1.2, 2.0, shape)
    if len(shape) < 2:
        return random.uniform(-0.1, 0.1, shape)
    fan = int(np.prod(shape[1:]))
    return random.standard_normal(shape) * np.sqrt(2.0 / fan)


def random_inputs(
    model: onnx.ModelProto | ir.Model, seed: int, dims: Mapping[str, int] | None = None
) -> dict[str, Array]:
    """Seeded inputs: normal floats, small non-negative integers, booleans; named dimensions by `dims`, others 1.

    Masks (inputs with "mask" in their name) are ones, but for the last element of each row.
    """
    if isinstance(model, ir.Model):
        model = ir.serde.serialize_model(model)
    random = np.random.default_rng(seed)
    weights = {t.name for t in model.graph.initializer}
    inputs: dict[str, Array] = {}
    for value in model.graph.input:
        if value.name in weights:
            continue
        tensor = value.type.tensor_type
        shape = [d.dim_value or (dims or {}).get(d.dim_param, 1) for d in tensor.shape.dim]
        dtype = np.dtype(helper.tensor_dtype_to_np_dtype(tensor.elem_type))
        if "mask" in value.name:
            array = np.ones(shape, dtype)
            array[..., -1] = 0
        elif dtype.kind == "b":
            array = random.integers(0, 2, shape).astype(dtype)
        elif dtype.kind in "iu":
            array = random.integers(0, 10, shape).astype(dtype)
        else:
            array = random.standard_normal(shape).astype(dtype)
        inputs[value.name] = array
    return inputs


def run_reference(model: onnx.ModelProto | ir.Model, inputs: Mapping[str, Array]) -> list[Array]:
    """The outputs in ONNX Runtime, graph optimisation off."""
    import onnxruntime

    if isinstance(model, ir.Model):
        model = ir.serde.serialize_model(model)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return list(session.run(None, dict(inputs)))


def largest_error(actual: list[Array], expected: list[Array]) -> float:
    """The largest difference, relative to each output's largest magnitude; infinite where shapes or dtypes differ."""
    errors = [0.0]
    for a, b in zip(actual, expected, strict=True):
        if a.shape != b.shape or a.dtype != b.dtype or not np.array_equal(np.isnan(a), np.isnan(b)):
            return float("inf")
        if a.size:
            x, y = np.nan_to_num(a.astype(np.float64)), np.nan_to_num(b.astype(np.float64))
            errors.append(float(np.max(np.abs(x - y)) / max(float(np.max(np.abs(y))), 1e-30)))
    return max(errors)
