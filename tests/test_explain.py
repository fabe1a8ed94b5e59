"""Why operators run where they do: verdicts per target, near misses in words, what alternatives cost."""

from __future__ import annotations

from models import parse

import rewrite_engine as rw
from rewrite_engine.language import load_text

NPU = """device npu0 { memory 1MiB }
link host <-> npu0: 100ns + bytes / 8GBps
target npu on npu0 { launch 100ns
"""
CONV = "g (float[1, 3, 8, 8] x) => (float[1, 4, 6, 6] y) <float[4, 3, 3, 3] w = {W}, float[4] b = {1, 2, 3, 4}>"
WEIGHTS = ", ".join(["1"] * 108)


def explained(graph: str, capabilities: str, **options: object) -> rw.Explanation:
    """A small graph in ONNX text, explained for a target behind a link that has these capabilities."""
    rules = load_text(f"{NPU}{capabilities}\n}}\n", "npu.pat")
    return rw.explain(rw.load(parse(graph.replace("{W}", f"{{{WEIGHTS}}}"))), rules, **options)


def test_row_20_a_bias_spelt_as_an_add_misses_convolutions_that_have_it_as_an_input():
    capability = "  composite conv_bias(x, w, b) = Relu(Add(Conv(x, const w), const b)) cost 1ns"
    found = explained(CONV + " { c = Conv(x, w, b) y = Relu(c) }", capability, node="c")
    assert found.node is not None
    (verdict,) = found.node.verdicts
    assert (verdict.target, verdict.status, verdict.rule) == ("npu", "no match", "npu.conv_bias")
    miss = verdict.miss
    assert miss is not None and (miss.kind, miss.value) == ("extra_input", "c")
    assert miss.text == "Conv `c` has input B here (`b`), `Conv(x, const w)` has none"
    assert "every Conv with input B is missed" in miss.hint
    assert (str(miss.span), miss.span.end_column) == ("npu.pat:4:43", 59)
