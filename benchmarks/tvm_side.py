"""What TVM decides, for `beside_tvm.py`: run by a Python that has TVM 0.19; JSON on standard input and output.

In: `five`, or `collage`, a fusion style, a depth and `copies` or `none`; operators in order with what they read, and
kernels by the operators they compute (`covers`), in seconds. Out: the sets of operators that TVM put into one composite
of the accelerator, and the seconds it took. Operators are known by the index of their calls, which TVM keeps in spans.
Collage keeps costs for as long as the process lives, so there is one process per run.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from functools import cache
from typing import Any

import tvm
from tvm import relay
from tvm.relay.dataflow_pattern import is_op, wildcard
from tvm.relay.op.contrib import register_pattern_table

EXTERNAL = "ccompiler"
"""The only external code generator that the wheel has as a kind of target; no code is generated here."""
NAMES = {
    "Conv": ("nn.conv2d", "nn.bias_add"),
    "Gemm": ("nn.dense", "nn.bias_add"),
    "MaxPool": ("nn.max_pool2d",),
    "AveragePool": ("nn.avg_pool2d",),
    "GlobalAveragePool": ("nn.global_avg_pool2d",),
    "Relu": ("nn.relu",),
    "Add": ("add",),
    "Sum": ("add",),
    "Softmax": ("nn.softmax",),
    "Concat": ("concatenate",),
    "Reshape": ("reshape",),
    "Flatten": ("reshape",),
}
"""The calls that an operator becomes, the first with its operands; every Conv and Gemm here has a bias."""
Shape = tuple[str, tuple[Any, ...]]  # an operator, and per operand None or what computes it in the same kernel


def main() -> None:
    task = json.load(sys.stdin)
    sys.setrecursionlimit(100_000)
    module, owner = relay_of(task)
    table = patterns(task, owner)
    register_pattern_table(EXTERNAL, lambda: table)
    kind, *settings = sys.argv[1:]
    started = time.perf_counter()
    if kind == "five":
        out = five_passes(module, table)
    else:
        style, depth, copies = settings
        estimate = estimator(task, owner, copies == "copies", 1 if style == "single" else len(task["ops"]))
        out = collage(module, estimate, "NoFusion" if style == "single" else style, int(depth))
    json.dump({"seconds": time.perf_counter() - started, "taken": taken(out, owner)}, sys.stdout)


def relay_of(task: dict[str, Any]) -> tuple[Any, dict[int, int]]:
    """The module, and the operator of each call by its index."""
    values: dict[int, Any] = {}
    for key, shape in task["given"].items():
        values[int(key)] = relay.var(f"v{key}", shape=shape, dtype="float32")
    parameters = list(values.values())
    made: dict[int, int] = {}
    for number, op in enumerate(task["ops"]):
        result = _call(op, [values[k] for k in op["reads"]])
        values[op["result"]] = result
        for name in reversed(NAMES[op["op"]]):
            assert result.op.name == name, f"expected {name} for {op['op']}, found {result.op.name}"
            made[hash(result)] = number
            result = result.args[0]
    body = relay.Tuple([values[k] for k in task["outputs"]])
    plain = tvm.IRModule.from_expr(relay.Function(parameters, body))
    module = relay.transform.InferType()(plain)
    module = relay.transform.InferType()(relay.transform.CapturePostDfsIndexInSpans()(module))
    before, after = calls_in(plain["main"]), calls_in(module["main"])
    assert [c.op.name for c in before] == [c.op.name for c in after], "the passes keep the order of calls"
    owner = {index(now): made[hash(then)] for then, now in zip(before, after, strict=True)}
    for call in after:
        op = task["ops"][owner[index(call)]]
        if call.op.name == NAMES[op["op"]][-1]:
            found = [int(d) for d in call.checked_type.shape]
            assert found == op["shape"], f"operator {op['op']}: expected shape {op['shape']}, found {found}"
    return module, owner


def _call(op: dict[str, Any], x: list[Any]) -> Any:
    """An operator as Relay calls."""
    a, kind = op["attributes"], op["op"]
    if kind == "Conv":
        result = relay.nn.conv2d(
            x[0], x[1], strides=a["strides"], padding=a["pads"], dilation=a["dilations"], groups=a["group"],
            kernel_size=a["kernel_shape"], channels=op["shape"][1],
        )  # fmt: skip
        return relay.nn.bias_add(result, x[2])
    if kind == "MaxPool":
        return relay.nn.max_pool2d(
            x[0], a["kernel_shape"], a["strides"], padding=a["pads"], ceil_mode=bool(a["ceil_mode"])
        )
    if kind == "AveragePool":
        return relay.nn.avg_pool2d(
            x[0], a["kernel_shape"], a["strides"], padding=a["pads"], ceil_mode=bool(a["ceil_mode"]),
            count_include_pad=bool(a["count_include_pad"]),
        )  # fmt: skip
    if kind == "Gemm":
        return relay.nn.bias_add(relay.nn.dense(x[0], x[1]), x[2])
    if kind in ("Reshape", "Flatten"):
        return relay.reshape(x[0], op["shape"])
    if kind == "Concat":
        return relay.concatenate(x, axis=a["axis"])
    simple = {
        "Relu": relay.nn.relu,
        "Add": relay.add,
        "Sum": relay.add,
        "Softmax": relay.nn.softmax,
        "GlobalAveragePool": relay.nn.global_avg_pool2d,
    }
    return simple[kind](*x)


def calls_in(expression: Any) -> list[Any]:
    """Calls of operators, operands first; those inside functions too."""
    found: list[Any] = []

    def visit(node: Any) -> None:
        if isinstance(node, relay.Call) and isinstance(node.op, tvm.ir.Op):
            found.append(node)

    relay.analysis.post_order_visit(expression, visit)
    return found


def index(call: Any) -> int:
    """Which call of the model this is."""
    assert call.span is not None and call.span.source_name.name == "index", f"{call.op.name} has lost its span"
    return int(call.span.line)


def patterns(task: dict[str, Any], owner: dict[int, int]) -> list[tuple[str, Any, Callable[[Any], bool]]]:
    """The accelerator's kernels as TVM's table of patterns, the largest first.

    Shape and attribute conditions are the rule's own: a match is good where the engine has that kernel.
    """
    able = {frozenset(kernel["covers"]) for kernel in task["kernels"] if kernel["external"]}
    shapes: dict[Shape, int] = {}
    for covers in sorted(able, key=sorted):
        shapes[_shape(task, max(covers), covers)] = len(covers)
    table = []
    for number, shape in enumerate(sorted(shapes, key=lambda s: (-shapes[s], s[0], str(s)))):

        def good(expression: Any, shape: Shape = shape) -> bool:
            return frozenset(owner[i] for i in _met(expression, shape)) in able

        table.append((f"{EXTERNAL}.k{number}", _pattern(shape), good))
    return table


def _shape(task: dict[str, Any], root: int, covers: frozenset[int]) -> Shape:
    made = {task["ops"][k]["result"]: k for k in covers}
    op = task["ops"][root]
    return op["op"], tuple(_shape(task, made[v], covers) if v in made else None for v in op["reads"])


def _pattern(shape: Shape) -> Any:
    kind, operands = shape
    inner = [wildcard() if operand is None else _pattern(operand) for operand in operands]
    first, *rest = NAMES[kind]
    if not rest:
        return is_op(first)(*inner)
    return is_op(rest[0])(is_op(first)(*inner[:2]), inner[2])


def _met(expression: Any, shape: Shape) -> list[int]:
    """Indices of the calls of a match."""
    kind, operands = shape
    found = [index(expression)]
    arguments = list(expression.args)
    if len(NAMES[kind]) > 1:
        found.append(index(arguments[0]))
        arguments = [*arguments[0].args, *arguments[1:]]
    for argument, operand in zip(arguments, operands, strict=True):
        if operand is not None:
            found += _met(argument, operand)
    return found


def five_passes(module: Any, table: list[Any]) -> Any:
    passes = [
        relay.transform.MergeComposite(table),
        relay.transform.AnnotateTarget([EXTERNAL]),
        relay.transform.MergeCompilerRegions(),
        relay.transform.PartitionGraph(),
        relay.transform.InferType(),
    ]
    return tvm.transform.Sequential(passes)(module)


def collage(module: Any, estimate: Callable[[Any, Any], float], style: str, depth: int) -> Any:
    tvm.register_func("beside_tvm.estimate", estimate, override=True)
    host = tvm.target.Target("llvm")
    targets = [host, tvm.target.Target(EXTERNAL, host)]
    limits: dict[str, object] = {"relay.collage.tvm_max_depth": 4, "relay.collage.byoc_max_depth": depth}
    if style != "any":  # Collage's own choice for an external generator that it does not know: join whatever touches
        limits["relay.collage.byoc_fusion_style"] = [f"{EXTERNAL}.{style}"]
    with tvm.transform.PassContext(config=limits) as context:
        configuration = tvm.target.make_compilation_config(context, targets)
        guess = relay.collage.CustomCostEstimator("beside_tvm.estimate")
        return relay.transform.CollagePartition(configuration, guess)(module)


def estimator(task: dict[str, Any], owner: dict[int, int], copies: bool, most: int) -> Callable[[Any, Any], float]:
    """The costs of the rules, per candidate: kernels, the accelerator's launch, its copies where they are told.

    A candidate of more than `most` composites costs without end.
    """
    kernels = {
        kind: {frozenset(k["covers"]): k["cost"] for k in task["kernels"] if k["external"] == kind}
        for kind in (True, False)
    }
    made = {op["result"]: number for number, op in enumerate(task["ops"])}
    readers: dict[int, set[int]] = {}
    for number, op in enumerate(task["ops"]):
        for value in op["reads"]:
            readers.setdefault(value, set()).add(number)

    @cache
    def native(rest: frozenset[int]) -> float:
        if not rest:
            return 0.0
        first = min(rest)
        ways = (cost + native(rest - k) for k, cost in kernels[False].items() if first in k and k <= rest)
        return min(ways, default=float("inf"))

    def moved(inside: set[int]) -> float:
        everything = {v for k in inside for v in task["ops"][k]["reads"] if v in task["copies_of"]}
        read = {v for v in everything if made.get(v) not in inside}
        left = {
            task["ops"][k]["result"]
            for k in inside
            if readers.get(task["ops"][k]["result"], {-1}) - inside or task["ops"][k]["result"] in task["outputs"]
        }
        return sum(task["copies_of"][v] for v in [*read, *left])

    def estimate(module: Any, target: Any) -> float:
        sets = composites(module, owner)
        inside = {owner[index(call)] for f in module.functions.values() for call in calls_in(f)}
        if target.kind.name != EXTERNAL:
            return native(frozenset(inside))
        if len(sets) > most:
            return float("inf")
        total = sum(kernels[True].get(mine, float("inf")) for mine in sets) + task["launch"]
        return total + (moved(inside) if copies else 0.0)

    task["copies_of"] = {int(k): seconds for k, seconds in task["copies"].items()}
    return estimate


def composites(module: Any, owner: dict[int, int]) -> list[frozenset[int]]:
    """The operators of every composite of a module."""
    found: dict[int, frozenset[int]] = {}

    def visit(node: Any) -> None:
        if isinstance(node, relay.Function) and node.attrs and "Composite" in node.attrs:
            found[hash(node)] = frozenset(owner[index(call)] for call in calls_in(node))

    for function in module.functions.values():
        relay.analysis.post_order_visit(function, visit)
    return list(found.values())


def taken(module: Any, owner: dict[int, int]) -> list[list[int]]:
    """The composites of the accelerator; each operator is in one at most."""
    everything = [sorted(mine) for mine in composites(module, owner)]
    assert len({k for mine in everything for k in mine}) == sum(map(len, everything)), "an operator is there twice"
    return sorted(everything)


if __name__ == "__main__":
    main()
