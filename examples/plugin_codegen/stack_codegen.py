"""A code generator: pointwise kernels as programs of a small stack machine, stored as JSON and run by an interpreter.

A vendor's generator has the same two methods: `generate` calls the vendor's compiler, `load` its driver.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from rewrite_engine.backend.runtime import Kernel
from rewrite_engine.graph.placed import KernelCall
from rewrite_engine.operators.types import TensorType

Operation = Callable[..., np.ndarray]
OPERATIONS: Mapping[str, Operation] = {
    "Relu": lambda x: np.maximum(x, 0),
    "Neg": np.negative,
    "Add": np.add,
    "Sub": np.subtract,
    "Mul": np.multiply,
}


class StackMachine:
    """Makes kernels whose operators are all in `OPERATIONS`; declines the others, which then run as loop nests."""

    name = "stack"
    version = "1.0"

    def generate(
        self, call: KernelCall, types: Mapping[str, TensorType], parameters: Mapping[str, np.ndarray]
    ) -> bytes | None:
        """The kernel's body: per operator its name, the places of its operands, and a new place for its result."""
        places = {name: place for place, name in enumerate(call.inputs)}
        program = []
        for node in call.body:
            if node.op not in OPERATIONS or "" in node.inputs:
                return None
            program.append([node.op, [places[name] for name in node.inputs]])
            places[node.outputs[0]] = len(places)
        results = [places[name] for name in call.outputs]
        return json.dumps({"inputs": len(call.inputs), "program": program, "results": results}).encode()

    def load(self, artifact: bytes) -> Kernel:
        """A callable that interprets the program."""
        code = json.loads(artifact)

        def kernel(inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray]) -> None:
            values = list(inputs)
            for operator, operands in code["program"]:
                values.append(OPERATIONS[operator](*(values[place] for place in operands)))
            for output, place in zip(outputs, code["results"], strict=True):
                output[...] = values[place]

        return kernel
