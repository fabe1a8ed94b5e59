"""`init`: a rule file to start from."""

from __future__ import annotations

import argparse
import json
import re
from pathlib import Path

from rewrite_engine.cli.text import say
from rewrite_engine.diagnostics import RewriteError
from rewrite_engine.files import write_file
from rewrite_engine.language.reader import RESERVED

SKELETON = """\
## TARGET: what it is, and where its numbers come from (a datasheet, a measurement). All of these are made up.

# `rewrite-engine check FILE` shows every problem of this file, `rewrite-engine test FILE` runs the tests at its end.
# `include "std/conv.pat"` would bring in spellings and rewrites that come with rewrite-engine.

# A device is a memory: what fits in it is the weights and the values that are alive at once.
device DEVICE { memory 64MiB }
# What moving one tensor costs, both ways. Every number has a unit, and the units must fit.
link host <-> DEVICE: 2us + bytes / 8GBps

target TARGET on DEVICE {
  launch 4us   flops 2TFLOPS   bandwidth 32GBps             # starting it; the roofline where no cost is given

  # Single operators. A bare name takes any inputs; names in parentheses are there for the condition to ask.
  supports Relu, Sigmoid
  supports Add(a, b), Mul(a, b) if a.shape == b.shape

  ## Convolution, bias and activation in one kernel.
  composite conv_act(x: float32[1, C, H, W], w, b?) = Relu?(conv)
    where conv = Conv(x, const w, const b)
    if conv.group == 1 and all(conv.kernel_shape <= 7)
    cost 1us + macs / 1TMACS
}

# A rewrite: both sides compute the same, and costs decide which is run.
rule drop_transpose: Transpose(x, perm=p) => x if p == iota(x.rank)

test "activations": TARGET runs Sigmoid(Relu(x: float32[1, 8]))
test "nothing is broadcast": TARGET rejects Mul(x: float32[1, 8], y: float32[8])
test "one kernel": TARGET runs
  Relu(Conv(x: float32[1, 8, 16, 16], const w: float32[8, 8, 3, 3], const b: float32[8])) in conv_act
test "grouped is refused": TARGET rejects Conv(x: float32[1, 8, 16, 16], const w: float32[8, 4, 3, 3], group=2)
test "nothing is turned": Transpose(x: float32[2, 3], perm=[0, 1]) => x
test "worth the way": place Relu(Conv(x: float32[1, 64, 28, 28], const w: float32[64, 64, 3, 3]))
  => Relu(Conv(x, w)) on TARGET
test "too small for the link": place Relu(x: float32[1, 8]) => Relu(x) on host
"""


def init(options: argparse.Namespace) -> int:
    """Prints the skeleton for a target, or writes it to a file that must not be there yet."""
    text = skeleton(options.target)
    if options.output is not None:
        path = Path(options.output)
        if path.exists() or path.is_symlink():
            raise RewriteError(f"{options.output}: is there already; choose another name, or remove it first")
        write_file(path, text.encode())
        say(options, f"{options.output}: written; next: rewrite-engine test {options.output}")
    if options.json:
        row = {"target": options.target, "file": options.output, "text": text}
        print(json.dumps(row, indent=1, sort_keys=True))
    elif options.output is None:
        print(text, end="")
    return 0


def skeleton(target: str) -> str:
    """The rule file, with the target's name. Raises RewriteError where no target can be called so."""
    if not re.fullmatch(r"[a-z][A-Za-z0-9_]*", target) or target in RESERVED:
        raise RewriteError(f"`{target}` is no name for a target: a word that begins with a small letter, such as npu")
    if target == "host":
        raise RewriteError("target `host` always exists: choose another name")
    device = f"{target}_0" if target[-1].isdigit() else f"{target}0"
    return SKELETON.replace("TARGET", target).replace("DEVICE", device)
