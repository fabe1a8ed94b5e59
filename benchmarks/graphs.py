"""How fast valid graphs are drawn, and how many operators they reach.

    python benchmarks/graphs.py [--graphs 1000] [--nodes 10] [--check 200]

Prints graphs of so many operators per second after a warm-up of 50, the operators reached, and how many of a sample the
ONNX checker with strict shape inference and this importer take.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections import Counter

import onnx
import onnx_ir
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.errors import HypothesisWarning

from rewrite_engine.graph import load
from rewrite_engine.graph.terms import Terms
from rewrite_engine.graph.terms_io import from_terms
from rewrite_engine.testing import strategies as st


def drawn(count: int, nodes: int) -> tuple[list[Terms], float, float]:
    """So many graphs of exactly so many operators, and the seconds after the warm-up: wall and processor."""
    found: list[Terms] = []
    stamps: list[tuple[float, float]] = []

    @settings(max_examples=count + 50, database=None, derandomize=True, phases=[Phase.generate], deadline=None,
              suppress_health_check=list(HealthCheck))  # fmt: skip
    @given(st.graphs(min_nodes=nodes, max_nodes=nodes))
    def collect(graph: Terms) -> None:
        found.append(graph)
        stamps.append((time.perf_counter(), time.process_time()))

    collect()
    wall, busy = (stamps[-1][k] - stamps[49][k] for k in (0, 1))
    return found[50:], wall, busy


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--graphs", type=int, default=1000)
    parser.add_argument("--nodes", type=int, default=10)
    parser.add_argument("--check", type=int, default=200)
    options = parser.parse_args()
    warnings.simplefilter("ignore", HypothesisWarning)
    graphs, wall, busy = drawn(options.graphs, options.nodes)
    reached = Counter(node.op for graph in graphs for node in graph.nodes)
    print(
        f"{len(graphs)} graphs of {options.nodes} operators: {len(graphs) / wall:.0f} a second, "
        f"{len(graphs) / busy:.0f} per second of processor time"
    )
    print(f"{len(reached)} operators reached, of {len(st.drawable()) + 1} that are drawn")
    valid = imported = 0
    sample = graphs[: options.check]
    for graph in sample:
        model = onnx_ir.to_proto(from_terms(graph).model)
        onnx.checker.check_model(model, full_check=True)
        onnx.shape_inference.infer_shapes(model, strict_mode=True)
        valid += 1
        load(model)
        imported += 1
    print(f"{valid} of {len(sample)} valid by the checker and strict shape inference, {imported} imported")


if __name__ == "__main__":
    main()
