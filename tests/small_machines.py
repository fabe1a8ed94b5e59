"""Small rule files and models for tests of placement and of the command line."""

from __future__ import annotations

from pathlib import Path

import onnx
from models import parse

TARGETS = """
target fast on host { launch 100ns
  supports Relu(x) cost 10ns
}
target npu on acc { launch 100ns
  supports Relu(x) cost 1ns
  supports Sigmoid(x) cost 1ns
}
"""
DEVICE = "device acc { memory 1MiB }\n"
BOARD = DEVICE + "link host <-> acc: 100ns + bytes / 8GBps\n" + TARGETS
"""A library on the host that knows Relu, and an accelerator behind a link that knows Sigmoid too."""
ONE_WAY = DEVICE + "link host -> acc: 100ns + bytes / 8GBps\n" + TARGETS
NO_LINK = DEVICE + TARGETS

CHAIN = "g (float[1, 8] x) => (float[1, 8] y) { t = Relu(x) y = Sigmoid(t) }"
DYNAMIC = CHAIN.replace("float[1, 8]", "float[n, 8]")


def write_rules(folder: Path, text: str, name: str = "board.pat") -> str:
    """The path of a rule file with that text."""
    (folder / name).write_text(text)
    return str(folder / name)


def write_model(folder: Path, text: str = CHAIN, name: str = "model.onnx") -> str:
    """The path of an ONNX file with a model in ONNX text."""
    onnx.save(parse(text), folder / name)
    return str(folder / name)
