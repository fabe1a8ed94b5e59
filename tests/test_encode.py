"""Encoding: what makes two constants the same, and what does not."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from models import parse
from small_machines import BOARD

import rewrite_engine as rw
from rewrite_engine.egraph.encode import constant_key
from rewrite_engine.graph.placed import KernelCall

APART = [
    np.float32(0).reshape(()),
    np.zeros(1, np.float32),
    np.zeros((1, 1), np.float32),
    np.zeros(0, np.float32),
    np.array(-0.0, np.float32),
    np.array(0, np.int32),
    np.array([b"0"], object),
]


@pytest.mark.parametrize("one, other", list(combinations(range(len(APART)), 2)))
def test_constants_of_another_shape_dtype_or_bits_are_others(one, other):
    assert constant_key(APART[one]) != constant_key(APART[other])


@pytest.mark.parametrize("array", [*APART, np.arange(60.0).reshape(3, 20)])
def test_the_layout_in_memory_is_no_part_of_a_constant(array):
    assert constant_key(array) == constant_key(np.asfortranarray(array) if array.ndim else array.copy())


def test_a_scalar_does_not_take_the_place_of_a_vector_of_one():
    """As the bias of a convolution with one filter a scalar has the wrong rank."""
    text = """g (float[1, 1, 1, 8] x) => (float[1, 1, 1, 7] y, float[1, 1, 1, 7] z)
    <float[1, 1, 1, 2] w = {0.5, 0.25}, float[1] b = {0.0}, float s = {0.0}>
    { c = Conv(x, w, b) y = Relu(c) z = Max(c, s) }"""
    graph = rw.place(rw.load(parse(text)), rw.language.load_text(BOARD)).graph
    nodes = [node for step in graph.steps if isinstance(step, KernelCall) for node in step.body]
    ranks = {
        node.op: [len(graph.types[name].shape or ()) for name in node.inputs if name in graph.parameters]
        for node in nodes
    }
    assert ranks["Conv"] == [4, 1] and ranks["Max"] == [0]
