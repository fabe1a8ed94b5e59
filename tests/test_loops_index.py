"""The normal form of indices: equal to brute force over the box, bounds that hold, digits that cancel."""

import gc
import itertools
import math
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from loops_programs import run

from rewrite_engine.loops import expr
from rewrite_engine.loops.build import Builder, Tensor
from rewrite_engine.loops.compose import compose
from rewrite_engine.loops.expr import Expr, call, cast, const, load, maximum, minimum, select, var
from rewrite_engine.loops.index import bounds, flatten, modulo, terms, unflatten
from rewrite_engine.loops.interpret import value_at
from rewrite_engine.loops.text import text

VARIABLES = {var("a", 2): "a", var("b", 3): "b", var("c", 4): "c", var("d", 6): "d"}


@st.composite
def index_expressions(draw) -> tuple[Expr, str]:
    """An index as the room builds it, and the same index as Python text that nothing simplifies."""
    pool: list[tuple[Expr, str]] = list(VARIABLES.items())
    pool += [(const(k, "index"), str(k)) for k in draw(st.lists(st.integers(-7, 7), max_size=2))]
    for _ in range(draw(st.integers(1, 7))):
        x, x_text = draw(st.sampled_from(pool))
        y, y_text = draw(st.sampled_from(pool))
        k = draw(st.sampled_from((2, 3, 4, 6, 12)))
        pool += [
            draw(
                st.sampled_from(
                    (
                        (x + y, f"({x_text}+{y_text})"),
                        (x - y, f"({x_text}-{y_text})"),
                        (x * k, f"({x_text}*{k})"),
                        (x * k + y, f"({x_text}*{k}+{y_text})"),
                        (x * y, f"({x_text}*{y_text})"),
                        (x // k, f"({x_text}//{k})"),
                        (x % k, f"({x_text}%{k})"),
                        (minimum(x, y), f"min({x_text},{y_text})"),
                        (maximum(x, y), f"max({x_text},{y_text})"),
                        (select(x < y, x, y + k), f"({x_text} if {x_text}<{y_text} else {y_text}+{k})"),
                        (select(x.eq(y), x, y), f"({x_text} if {x_text}=={y_text} else {y_text})"),
                        (select((x <= y) & ~(y < k), x, y), f"({x_text} if {x_text}<={y_text}>={k} else {y_text})"),
                    )
                )
            )
        ] * 2
    return pool[-1]


@settings(max_examples=400, deadline=None)
@given(index_expressions())
def test_index_equals_brute_force_and_stays_in_bounds(pair):
    index, python = pair
    low, high = bounds(index)
    code = compile(python, "index", "eval")
    for point in itertools.product(*(range(v.extent) for v in VARIABLES)):
        expected = eval(code, dict(zip(VARIABLES.values(), point, strict=True)))
        values = {v: np.asarray(at) for v, at in zip(VARIABLES, point, strict=True)}
        assert int(value_at(index, values, {})) == expected, (python, text(index), point)
        assert low <= expected <= high, (python, text(index), point)


def test_quotients_are_decided_split_and_unnested():
    i, j = var("i", 8), var("j", 4)
    assert (4 * i + j) // 4 is i
    assert (4 * i + j) % 4 is j
    assert (i // 2) // 2 is i // 4
    assert ((i // 2) * 2 + i % 2) is i
    assert (8 * i + j + 4) // 8 is i
    assert (i + 16) // 8 is const(2, "index")
    assert (12 * i + j) // 6 is 2 * i
    assert bounds(modulo(i + 3, 5)) == (0, 4)
    assert (i < 8) is const(True, "bool") and (i < 0) is const(False, "bool")
    assert minimum(i, j + 8) is i


def test_every_small_quotient_and_remainder():
    i, j = var("i", 4), var("j", 3)
    for k, m, c, d in itertools.product((1, 2, 3, 4, 6), (1, 2, 4), (-3, 0, 1, 2), (2, 3, 4, 6, 8, 12)):
        index = k * i + m * j + c
        quotient, digit = index // d, (index // d) % 3
        for a, b in itertools.product(range(4), range(3)):
            values = {i: np.asarray(a), j: np.asarray(b)}
            expected = (k * a + m * b + c) // d
            assert int(value_at(quotient, values, {})) == expected, (k, m, c, d, text(quotient))
            assert int(value_at(digit, values, {})) == expected % 3, (k, m, c, d, text(digit))


def test_nested_guards_with_one_fill_are_one_guard():
    i = var("i", 9)
    x = load("x", [i - 2], "float32")
    assert select(i >= 1, select(i < 5, x, 0), 0) is select((i >= 1) & (i < 5), x, 0)
    assert select(i >= 1, select(i < 5, x, 1), 0) is not select((i >= 1) & (i < 5), x, 0)


def test_numpy_integers_are_sizes_too():
    i = var("i", 8)
    assert i // np.int64(2) is i // 2
    with pytest.raises(ValueError, match="positive int"):
        i // 0


def test_an_iterator_of_one_value_is_zero():
    assert var("i", 1) is const(0, "index")


def test_equal_expressions_are_one_object_and_different_constants_are_not():
    x = load("x0", [var("i", 3)], "float32")
    assert x + 1 is load("x0", [var("i", 3)], "float32") + 1.0
    assert const(0.0, "float32") is not const(-0.0, "float32")
    assert const(math.nan, "float32") is const(math.nan, "float32")
    assert const(0.1, "float32") is const(np.float32(0.1), "float32")
    assert var("i", 3) is not var("i", 4)


def test_terms_are_in_the_order_of_names_however_they_were_added():
    i2, i10 = var("i2", 5), var("i10", 5)
    assert text(i10 * 3 + i2 + 1) == text(1 + i2 + i10 * 3) == "i2 + 3*i10 + 1"


def test_text_has_the_parentheses_it_needs():
    i, j = var("i", 9), var("j", 9)
    x, y = load("x", [i], "float32"), load("y", [i // 2 * 3 - j], "float32")
    element = "y[3*(i // 2) - j]"
    assert (
        text(x - (y - x) * (x + y) / (x * y)) == f"x[i] - ({element} - x[i]) * (x[i] + {element}) / (x[i] * {element})"
    )
    assert text(((x < y) | (y < x)) & (i + j < 5)) == f"(x[i] < {element} or {element} < x[i]) and i + j < 5"
    assert text((i + j) // 2) == "(i + j) // 2" and text(x * -1.5) == "x[i] * (-1.5)" and text(-1 * i) == "-i"


def test_nodes_that_nobody_holds_leave_the_table():
    iterators = [var("gone", 100 + k) for k in range(50)]
    gc.collect()
    before = len(expr._nodes)
    kept = [load("gone", [iterator], "float32") * 2 for iterator in iterators]
    assert len(expr._nodes) >= before + 100
    del kept
    gc.collect()
    assert len(expr._nodes) <= before + 2


def test_conditions_have_no_truth_value_in_python():
    with pytest.raises(TypeError, match="use select"):
        bool(load("x0", [0], "float32") < 1)


def test_mixed_types_are_refused():
    with pytest.raises(TypeError, match="float32, int32"):
        load("x0", [0], "float32") + load("x1", [0], "int32")
    with pytest.raises(ValueError, match="unknown function 'sine'"):
        call("sine", load("x0", [0], "float32"))


def test_casts_stay_so_that_roundings_stay():
    x = load("x0", [0], "float32")
    assert cast(cast(x, "float16"), "float32") is not x
    assert cast(x, "float32") is x


def test_deep_expressions_need_no_recursion():
    x = load("x0", [var("i", 3)], "float32")
    value = x
    for _ in range(3_000):
        value = value + 1
    assert expr.substitute(value, {x: x}) is value
    assert text(value).count("+") == 3_000


def _factors(rng: random.Random, n: int, rank: int) -> list[int]:
    shape = [1] * rank
    for prime in (2, 3, 5, 7):
        while n % prime == 0:
            n //= prime
            shape[rng.randrange(rank)] *= prime
    shape[0] *= n
    return shape


def test_round_trips_of_reshapes_are_the_identity():
    rng = random.Random(0)
    for _ in range(150):
        builder = Builder()
        shape = _factors(rng, 360, 3)
        x = y = builder.input(shape, "float32")
        for _ in range(4):
            y = builder.reshape(y, _factors(rng, 360, rng.randrange(1, 5)))
        (compute,) = compose(builder.program([builder.reshape(y, shape)])).statements
        assert compute.body is x[[it.expr for it in compute.parallel]], compute


def _chain(rng: random.Random, builder: Builder, y: Tensor, array: np.ndarray) -> tuple[Tensor, np.ndarray]:
    """Two to five reshapes, transposes and slices (backwards, too) of a tensor, and what NumPy makes of them."""
    for _ in range(rng.randrange(2, 6)):
        kind = rng.choice(("reshape", "transpose", "slice"))
        if kind == "reshape":
            target = _factors(rng, array.size, rng.randrange(1, 5))
            y, array = builder.reshape(y, target), array.reshape(target)
        elif kind == "transpose":
            order = rng.sample(range(array.ndim), array.ndim)
            y, array = builder.transpose(y, order), array.transpose(order)
        else:
            axis = rng.randrange(array.ndim)
            start, step = rng.randrange(array.shape[axis]), rng.choice((1, 2, -1, -2))
            array = array[(slice(None),) * axis + (slice(start, None, step),)]
            move = lambda *i, a=axis, s=start, k=step: (*i[:a], i[a] * k + s, *i[a + 1 :])
            y = builder.move(y, array.shape, move)
    return y, array


def _is_affine(body: Expr) -> bool:
    return body.op == "load" and all(atom.op == "var" for index in body.args for atom in terms(index)[1])


def test_chains_of_movements_are_affine_or_one_copy():
    """600 chains, each a single statement: an affine map of the input, or where radices do not nest, one copy."""
    rng = random.Random(1)
    affine = 0
    for _ in range(600):
        builder = Builder()
        shape = _factors(rng, 48, 3)
        value = np.arange(math.prod(shape), dtype=np.float32).reshape(shape)
        y, array = _chain(rng, builder, builder.input(shape, "float32"), value)
        program = compose(builder.program([y]))
        (found,) = run(program, [value])
        np.testing.assert_array_equal(found, array)
        (only,) = program.statements
        affine += _is_affine(only.body)
    assert affine > 400


def test_chains_before_a_reduction_are_read_through_or_copied_once():
    """What reads a chain reads the input by an affine map, or a copy of it that is made once."""
    rng = random.Random(2)
    through = 0
    for _ in range(200):
        builder = Builder()
        shape = _factors(rng, 48, 3)
        value = np.arange(math.prod(shape), dtype=np.float32).reshape(shape)
        y, array = _chain(rng, builder, builder.input(shape, "float32"), value)
        program = compose(builder.program([builder.reduce(y, [y.rank - 1], "sum")]))
        (found,) = run(program, [value])
        np.testing.assert_array_equal(found, array.sum(-1, keepdims=True))
        assert 1 <= len(program.statements) <= 2
        through += len(program.statements) == 1
    assert through > 100


def test_heads_of_attention_fold_into_affine_maps():
    builder = Builder()
    x = builder.input((2, 16, 24), "float32")
    heads = builder.transpose(builder.reshape(x, (2, 16, 4, 6)), [0, 2, 1, 3])
    (compute,) = compose(builder.program([heads])).statements
    b, h, s, d = (it.expr for it in compute.parallel)
    assert compute.body is x[b, s, 6 * h + d]


@given(st.lists(st.integers(1, 5), min_size=1, max_size=4), st.integers(0, 10**6))
def test_unflatten_inverts_flatten(shape, number):
    names = [var(f"i{k}", n) for k, n in enumerate(shape)]
    assert unflatten(flatten(names, shape), shape) == names
    position = number % math.prod(shape)
    digits = [terms(digit)[0] for digit in unflatten(const(position, "index"), shape)]
    assert tuple(digits) == tuple(int(d) for d in np.unravel_index(position, shape))
