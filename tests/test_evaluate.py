"""Answers about matches: guards in three values, literals, types, attributes, templates, costs."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from lowering import Leaf, facts_of, lowered, rule_of

from rewrite_engine.diagnostics import Problem, RewriteError
from rewrite_engine.language import arithmetic, functions, sources, units, values
from rewrite_engine.language.checks import literal_equals
from rewrite_engine.language.core import Answer, Refusal
from rewrite_engine.language.evaluate import UnboundCost, answer, evaluate_link_cost, evaluate_quantity
from rewrite_engine.language.lower import expand_rest
from rewrite_engine.language.values import Unknown
from rewrite_engine.operators.types import TensorType

F32 = np.float32
Attributes = Mapping[str, Mapping[str, object]]


def ask(
    text: str, leaves: Mapping[str, Leaf], attributes: Attributes | None = None, name: str = "r", index: int = 0
) -> Answer | Refusal:
    rule = rule_of(text, name)
    variant = rule.variants[index]
    return answer(rule, variant, facts_of(variant, leaves, attributes))


def holds(guard: str, extra: str = "", **leaves: Leaf) -> Answer | Refusal:
    """The answer of a rule over `Conv(x, w)` with a guard; x and w may be given."""
    known: dict[str, Leaf] = {"x": "float32[1, 8, 6, 6]", "w": np.ones((4, 8, 3, 3), F32), **leaves}
    return ask(f"{extra}\nrule r: Conv(x, w) as c => Conv(x, w, like c) if {guard}", known)


def reason(found: Answer | Refusal) -> str:
    assert isinstance(found, Refusal), found
    return found.reason


def target(items: str) -> str:
    return f"target t on host {{ {items} }}"


# ---------------------------------------------------------------- guards


@pytest.mark.parametrize(
    "guard",
    [
        "x.rank == 4 and x.dtype == float32", "x.shape == [1, 8, 6, 6]", "x.shape[1] == w.shape[-3]", "x.numel == 288",
        "x.bytes == 1152B", "x.bytes <= 2KiB", "x.bytes <= 2000", "c.group == 1", "c.kernel_shape == [3, 3]",
        "all(c.strides == 1)", "all(c.kernel_shape in {1, 3})", "c.attr.group == 1", "c.inputs[0].rank == 4",
        "c.shape[2:] == [4, 4]", "all(w == 1)", "close(w, 1)", "max(sum(abs(w), [1, 2, 3])) <= 127",
        "item(sum(w)) == 288", "all(sum(row) == 72 for row in w)", "all(i < 3 for i in {1, 2})",
        "x.dtype in {float16, float32}", "1 < x.rank <= 4", "not x.rank == 3",
        "x.rank == 3 or c.group == 1", "len(x.shape) == 4", "is_static(x)", "is_const(w) and not is_const(x)",
        "all(t.rank == 4 for t in inputs + outputs)", "any(d == 8 for d in x.shape)", "broadcasts(w, w)",
        "(if x.rank == 4 then 1 else 2) == 1", "all((c.kernel_shape - 1) * c.dilations + 1 <= 3)",
        "iota(3) == [0, 1, 2]", "[d * 2 for d in c.strides] == [2, 2]", "min(x.shape) == 1 and max(3, 4) == 4",
        "sqrt(4) == 2 and 7 // 2 == 3 and 7 % 2 == 1 and 1 / 2 == 0.5", "reach(c) == [3, 3]", "x.dtype in floats",
        "w.shape == reversed4(w)", "twice(x.rank + 1) == 10", "lowest(int8) == -128",
        "all([a + b for a, b in [(1, 2), (2, 1)]] == 3)",
    ],
)  # fmt: skip
def test_guards_that_hold(guard: str) -> None:
    extra = """let floats = {float16, float32}
        let reach(c) = (c.kernel_shape - 1) * c.dilations + 1
        let twice(n) = n + n
        let reversed4(w) = [w.shape[i] for i in iota(w.rank)]"""
    assert isinstance(holds(guard, extra), Answer)


@pytest.mark.parametrize(
    ("guard", "message"),
    [
        ("x.rank == 3", "`x.rank == 3` does not hold: 4 == 3"),
        ("x.rank == 4 and c.group == 2", "`c.group == 2` does not hold: 1 == 2"),
        ("all(w == 0)", "`all(w == 0)` does not hold: `w`: float32[4, 8, 3, 3]"),
        ("x.shape == [1, 8]", "[1, 8, 6, 6] == [1, 8]"),
        ("x.dtype in {int8, uint8}", "float32 in {int8, uint8}"),
        ("x.shape[7] == 1", "is not known to hold: index 7 is beyond the end of [1, 8, 6, 6]"),
        ("item(w) == 1", "item() needs exactly one element"),
        ("c.nothing == 1", "has no attribute `nothing`"),
        ("x.group == 1", "`x` is not the result of an operator"),
        ("w == 0", "write all(…) or any(…)"),
        ("x.bytes <= 2us", "expected"),
        ("1 / 0 == 1", "has no value"),
        ("item(x) == 1", "`x` is not a constant"),
        ("all(reshape(w, [7]) == 1)", "cannot reshape"),
        ("iota(x.numel * 1000000000) == x.shape", "elements are too many"),
        ("all(full([x.numel, 1000000000], 0) == 0)", "elements are too many"),
        ("all(expand(1, [x.numel, 1000000000]) == 0)", "elements are too many"),
        ("all(t.shape[1] == 8 for t in inputs + outputs)", "does not hold: not for `c`: float32[1, 4, 4, 4]"),
    ],
)
def test_refusals_say_why(guard: str, message: str) -> None:
    assert message in reason(holds(guard))


def test_the_refusal_points_at_the_clause() -> None:
    text = "rule r: Relu(x) => x if x.rank == 2 and x.dtype == int8"
    found = ask(text, {"x": "float32[2, 2]"})
    assert isinstance(found, Refusal)
    assert text[found.span.column - 1 : found.span.end_column - 1] == "x.dtype == int8"


@pytest.mark.parametrize(
    ("guard", "expected"),
    [
        ("x.shape[0] == 1", "dimension `N` of `x` is unknown"),
        ("not x.shape[0] == 1", "dimension `N` of `x` is unknown"),
        ("x.shape[0] == y.shape[0]", None),
        ("x.shape[0] != y.shape[0]", "does not hold"),
        ("x.shape == y.shape and x.numel == y.numel and x.bytes == y.bytes", None),
        ("x.shape[0] * 2 == 2 * y.shape[0]", None),
        ("x.shape[0] <= y.shape[0]", None),
        ("x.shape[0] == 1 or x.rank == 2", None),
        ("x.shape[0] == 1 or x.rank == 3", "dimension `N`"),
        ("all(d == 4 for d in x.shape)", "dimension `N`"),
        ("all(d == 5 for d in x.shape)", "does not hold"),
        ("any(d == 4 for d in x.shape)", None),
        ("is_static(x)", "does not hold"),
        ("u.rank == 2", "the rank of `u` is unknown"),
        ("u.shape == x.shape", "the rank of `u` is unknown"),
        ("x.shape != u.shape", "the rank of `u` is unknown"),
        ("[4, 4] == u.shape[0:2]", "the rank of `u` is unknown"),
        ("x.shape[0:u.rank] == [4, 4]", "the rank of `u` is unknown"),
        ("2 * u.shape == [4, 4]", "the rank of `u` is unknown"),
        ("u.shape[1] == 4", "the rank of `u` is unknown"),
        ("all([4, 4] == u.shape[1])", "the rank of `u` is unknown"),
        ("u.shape == x.shape or x.rank == 2", None),
        ("x.numel <= 10", "dimension `N` of `x` is unknown"),
    ],
)
def test_unknown_dimensions(guard: str, expected: str | None) -> None:
    leaves = {"x": "float32[N, 4]", "y": "float32[N, 4]", "u": TensorType("float32", None)}
    text = f"rule r: Concat(Concat(x, y, axis=0), u, axis=0) => Concat(x, y, u, axis=0) if {guard}"
    found = ask(text, leaves, {"Concat": {"axis": 0}})
    assert isinstance(found, Answer) if expected is None else expected in reason(found)


truths = st.sampled_from([True, False, Unknown("one"), Unknown("other")])


def weight(value: object) -> float:
    """False < unknown < true, as Kleene orders them."""
    return 0.5 if isinstance(value, Unknown) else float(bool(value))


@given(st.lists(truths, max_size=5), truths)
def test_three_valued_laws(parts: list[object], one: object) -> None:
    both = tuple(parts)
    assert weight(values.conjunction(both)) == min((weight(p) for p in both), default=1.0)
    assert weight(values.disjunction(both)) == max((weight(p) for p in both), default=0.0)
    inner = values.negation(values.conjunction(both))
    assert weight(inner) == weight(values.disjunction(tuple(values.negation(p) for p in both)))
    assert weight(values.negation(values.negation(one))) == weight(one)


sizes = st.one_of(st.integers(-3, 9), st.sampled_from(["N", "M"]))


@given(sizes, sizes, st.sampled_from(["+", "-", "*"]), st.sampled_from(["==", "!=", "<=", ">=", "<", ">"]))
def test_what_is_known_of_symbols_is_true_of_every_size(left: object, right: object, op: str, symbol: str) -> None:
    """A comparison of symbolic sizes is only true or false when every assignment of sizes makes it so."""

    def lift(size: object) -> object:
        return Unknown(f"{size}", ("dimension", size), str(size)) if isinstance(size, str) else size

    one, other = (arithmetic.binary(op, lift(a), lift(b)) for a, b in ((left, right), (right, left)))
    known = arithmetic.compare(symbol, one, other)
    if isinstance(known, Unknown):
        return
    for n in (0, 1, 5):
        for m in (0, 2, 7):
            a, b = ({"N": n, "M": m}.get(s, s) if isinstance(s, str) else s for s in (left, right))
            assert arithmetic.compare(symbol, arithmetic.binary(op, a, b), arithmetic.binary(op, b, a)) is known


# ---------------------------------------------------------------- absent captures


OPTIONAL = "rule r: Conv(x, const w, const b?) as c => Neg(Neg(Conv(x, w, b, like c))) if {}"


@pytest.mark.parametrize(
    ("guard", "with_bias", "without"),
    [
        ("all(b == 0)", True, True),
        ("all(b == 1)", False, True),  # skipped where there is no bias
        ("present(b)", True, False),
        ("not present(b)", False, True),
        ("present(b) and all(b == 0)", True, False),
        ("x.rank == 3 or present(b)", True, False),
        ("(if present(b) then item(sum(b)) else 0) == 0", True, True),
        ("all(default(b, 1) == 1)", False, True),
    ],
)
def test_absent_captures(guard: str, with_bias: bool, without: bool) -> None:
    leaves = {"x": "float32[1, 8, 6, 6]", "w": np.ones((4, 8, 3, 3), F32), "b": np.zeros(4, F32)}
    for index, expected in ((0, with_bias), (1, without)):
        assert isinstance(ask(OPTIONAL.format(guard), leaves, index=index), Answer) == expected


# ---------------------------------------------------------------- literals


@given(st.fractions(min_value=-1000, max_value=1000), st.sampled_from(["float16", "float32", "float64", "bfloat16"]))
def test_a_literal_equals_itself_rounded(number: Fraction, dtype: str) -> None:
    kind = np.dtype(ml_dtypes.bfloat16) if dtype == "bfloat16" else np.dtype(dtype)
    rounded = np.full((2, 1), float(number), kind)
    assert literal_equals(number, rounded)
    assert not literal_equals(number + max(abs(number), 1) / 10, rounded)


@given(st.integers(-300, 300), st.sampled_from(["int8", "uint8", "int64", "int32", "uint64"]))
def test_integers_are_compared_exactly(number: int, dtype: str) -> None:
    kind = np.dtype(dtype)
    array = np.array([number % 100], kind)
    assert literal_equals(number, array) == (number == number % 100)
    assert not literal_equals(Fraction(number * 2 + 1, 2), array)


@pytest.mark.parametrize(
    ("literal", "constant", "matches"),
    [
        ("0.5", np.array(0.5, F32), True),
        ("0.5", np.array(0.500001, F32), True),
        ("0.5", np.array(0.50001, F32), False),
        ("0.1", np.array(0.1, np.float16), True),
        ("0.5", np.full((1, 1, 4), 0.5, F32), True),  # uniform, and the other operand keeps its shape
        ("0.5", np.full((1, 1, 1, 4), 0.5, F32), False),  # of a higher rank
        ("0.5", np.full((2, 3, 8), 0.5, F32), False),  # 8 is not 4
        ("0.5", np.array([0.5, 0.5, 0.5, 0.4], F32), False),
        ("sqrt(2)", np.array(1.4142135, F32), True),
        ("inf", np.array(np.inf, F32), True),
        ("-inf", np.array(-np.inf, F32), True),
        ("inf", np.array(3e38, F32), False),
        ("[1, 2, 3, 4]", np.array([1, 2, 3, 4], F32), True),
        ("[1, 2, 3, 4]", np.array([[1, 2, 3, 4]], F32), False),
        ("1", np.zeros(0, F32), False),
    ],
)
def test_literals(literal: str, constant: np.ndarray, matches: bool) -> None:
    text = f"rule r: Mul(x, {literal}) as y => Relu(x) if y.rank >= 0"
    kind = TensorType(constant.dtype.name, (2, 3, 4))
    leaves: dict[str, Leaf] = {"x": kind, "$literal": constant, "y": kind}
    assert isinstance(ask(text, leaves), Answer) == matches


def test_a_literal_against_an_unknown_shape() -> None:
    leaves: dict[str, Leaf] = {"x": "float32[N, 4]", "$literal": np.full((1, 4), 2.0, F32)}
    assert isinstance(ask("rule r: Mul(x, 2) => Add(x, x)", leaves), Answer)
    leaves["$literal"] = np.full((3, 1), 2.0, F32)
    leaves["$Mul"] = "float32[N, 4]"
    assert "dimension `N` of `x` is unknown" in reason(ask("rule r: Mul(x, 2) => Add(x, x)", leaves))


@pytest.mark.parametrize(("axes", "matches"), [([2], True), ([-1], True), ([1], False), ([1, 2], False)])
def test_axes_as_constant_inputs_are_counted_modulo_rank(axes: list[int], matches: bool) -> None:
    leaves = {"x": "float32[2, 3, 4]", "$literal": np.array(axes, np.int64)}
    found = ask("rule r: ReduceMean(x, [-1], keepdims=1) => ReduceMax(x, [-1], keepdims=1)", leaves)
    assert isinstance(found, Answer) == matches


# ---------------------------------------------------------------- types and attributes


@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        ("float32[1, 4]", "float32[4, 1]", None),
        ("float32[1, K]", "float32[K, 1]", None),
        ("float32[2, 4]", "float32[4, 2]", "dimension 0 of `x` is 2, not 1"),
        ("float32[1, 4]", "float32[5, 1]", "dimension 0 of `y` is 5, not `C` = 4"),
        ("float16[1, 4]", "float32[4, 1]", "`y` is float32, but `T` is float16"),
        ("int8[1, 4]", "int8[4, 1]", "`x` is int8, not one of {float16, float32}"),
        ("float32[1, 4]", "float32[4, 1, 1]", "`y` has rank 3, not 2"),
        ("float32[1, K]", "float32[J, 1]", "dimension `J` of `y` is unknown"),
        ("float32[K, 4]", "float32[4, 1]", "dimension `K` of `x` is unknown"),
        ("float32", "float32[4, 1]", "the rank of `x` is unknown"),
    ],
)
def test_types_bind_dimensions(x: str, y: str, message: str | None) -> None:
    text = """let floats = {float16, float32}
        pattern r(x, y) = Concat(Relu(x: floats[1, C]), x: T[...], y: T[C, _]) as c if C == C"""
    leaves: dict[str, Leaf] = {"x": x, "y": y, "c": "float32[_, _]"}
    rule = rule_of(text)
    variant = rule.variants[0]
    found = answer(rule, variant, facts_of(variant, leaves))
    assert isinstance(found, Answer) if message is None else message in reason(found)


@pytest.mark.parametrize(
    ("pattern", "written", "holds"),
    [
        ("Softmax(x, axis=-1)", {}, True),
        ("Softmax(x, axis=-1)", {"axis": 2}, True),
        ("Softmax(x, axis=1)", {"axis": -1}, False),
        ("Transpose(x, perm=[2, 1, 0])", {}, True),  # the meaning of absence
        ("Transpose(x, perm=p) if p == [2, 1, 0]", {}, True),
        ("LeakyRelu(x, alpha=0.01)", {}, True),  # stored in single precision
        ("LeakyRelu(x, alpha=0.2)", {"alpha": 0.2}, True),
        ("LeakyRelu(x, alpha=0.2)", {"alpha": 0.21}, False),
        ("LeakyRelu(x, alpha=a) if a == 0.2", {"alpha": 0.2}, True),
        ("LeakyRelu(x, alpha=slope)", {"alpha": 0.3}, True),  # a `let`
        ("Cast(x, to=float16)", {"to": 10}, True),
        ("Cast(x, to=t) if t == float16", {"to": 10}, True),
        ("Cast(x, to=float16)", {"to": 1}, False),
        ("Gelu(x, approximate=\"none\")", {}, True),
        ("Gelu(x, approximate=\"tanh\")", {}, False),
    ],
)  # fmt: skip
def test_attributes(pattern: str, written: Mapping[str, object], holds: bool) -> None:
    call, _, guard = pattern.partition(" if ")
    op = call.split("(")[0]
    text = f"let slope = 0.3\npattern p(x) = {call} if {guard or '1 == 1'}"
    rule = rule_of(text, "p")
    found = answer(rule, rule.variants[0], facts_of(rule.variants[0], {"x": "float32[2, 3, 4]"}, {op: written}))
    assert isinstance(found, Answer) == holds


def test_an_attribute_captured_twice_is_the_same() -> None:
    text = "pattern p(x) = Softmax(LogSoftmax(x, axis=a), axis=a)"
    leaves: dict[str, Leaf] = {"x": "float32[2, 3]"}
    assert isinstance(ask(text, leaves, {"Softmax": {"axis": 1}, "LogSoftmax": {"axis": -1}}, "p"), Answer)
    assert "`axis` of Softmax is 0, not 1" in reason(
        ask(text, leaves, {"Softmax": {"axis": 0}, "LogSoftmax": {"axis": -1}}, "p")
    )


def test_an_attribute_that_may_be_absent() -> None:
    text = "pattern p(x) = com.x::Op(x, mode=m?) if m == 3"
    assert isinstance(ask(text, {"x": "float32[2]", "$com.x::Op": "float32[2]"}, {}, "p", 1), Answer)
    assert isinstance(ask(text, {"x": "float32[2]", "$com.x::Op": "float32[2]"}, {}, "p", 0), Refusal)
    given = {"com.x::Op": {"mode": 3}}
    assert isinstance(ask(text, {"x": "float32[2]", "$com.x::Op": "float32[2]"}, given, "p", 0), Answer)


# ---------------------------------------------------------------- values handed out of named patterns


SCALED = """pattern scaled(v, factor) =
    (Mul(v, const c) if c.numel == 1 with factor = item(c))
  | (Div(v, const c) if c.numel == 1 with factor = 1 / item(c))
  | (v with factor = 1)
rule r: Relu(scaled(x, f)) => Mul(Relu(x), f) if f > 0"""


@pytest.mark.parametrize(("index", "factor"), [(0, 4.0), (1, 0.25), (2, 1.0)])
def test_with_values_differ_by_alternative(index: int, factor: float) -> None:
    found = ask(SCALED, {"x": "float32[2, 2]", "$c": np.full(1, 4, F32)}, index=index)
    assert isinstance(found, Answer)
    assert found.constants[0].dtype == F32 and found.constants[0] == factor


def test_a_literal_argument_must_equal_the_value_handed_out() -> None:
    text = SCALED.replace("scaled(x, f)", "scaled(x, 4)").replace(", f) if f > 0", ", 4)")
    assert isinstance(ask(text, {"x": "float32[2, 2]", "$c": np.full(1, 4, F32)}), Answer)
    assert "`factor` is 4, but 5 by `with`" in reason(ask(text, {"x": "float32[2, 2]", "$c": np.full(1, 5, F32)}))


# ---------------------------------------------------------------- templates


def test_batch_normalisation_folds_into_a_convolution() -> None:
    text = """rule r: BatchNormalization(conv, const g, const b, const m, const v, epsilon=e, training_mode=0)
      => Conv(x, w * reshape(k, [-1, 1, 1, 1]), (default(b0, 0) - m) * k + b, like conv)
      where conv = Conv(x, const w: T[_, _, _, _], const b0?)
      with k = g / sqrt(v + e)"""
    random = np.random.default_rng(7)
    w, g, b, m, b0 = (random.normal(size=s).astype(F32) for s in ((4, 8, 3, 3), 4, 4, 4, 4))
    v = random.uniform(0.5, 2, 4).astype(F32)
    leaves = {"x": "float32[N, 8, 6, 6]", "w": w, "g": g, "b": b, "m": m, "v": v, "b0": b0}
    attributes = {"Conv": {"auto_pad": "SAME_UPPER", "strides": (2, 2)}, "BatchNormalization": {"epsilon": 1e-3}}
    for index, bias in ((0, b0), (1, np.zeros(4, F32))):
        found = ask(text, leaves, attributes, index=index)
        assert isinstance(found, Answer)
        k = g.astype(np.float64) / np.sqrt(v.astype(np.float64) + float(F32(1e-3)))
        np.testing.assert_allclose(found.constants[0], w * k.reshape(-1, 1, 1, 1), rtol=1e-6)
        np.testing.assert_allclose(found.constants[1], (bias - m) * k + b, rtol=1e-5, atol=1e-6)
        assert {constant.dtype for constant in found.constants} == {np.dtype(F32)}
        assert found.attributes[0]["pads"] == (0, 0, 1, 1) and found.attributes[0]["strides"] == (2, 2)
        assert found.types == ((TensorType("float32", ("N", 4, 3, 3)),),)


@pytest.mark.parametrize(
    ("rule", "dtype", "expected"),
    [
        ("Relu(x) => Mul(x, 2)", "float16", "float16"),
        ("Relu(x) => Mul(x, 0.5)", "float64", "float64"),
        ("Relu(x) => Mul(x, 2)", "bfloat16", "bfloat16"),
        ("Relu(x) => Reshape(x, [2, 3])", "float32", "int64"),
        ("Relu(x) => Clip(x, 0, 6)", "float32", "float32"),
        ("Relu(x) => Pow(x, 2.0)", "float32", "float32"),
        ("Relu(x) => full(x.shape, 0)", "float32", "float32"),
    ],
)
def test_literals_take_the_dtype_the_schema_asks_for(rule: str, dtype: str, expected: str) -> None:
    found = ask(f"rule r: {rule}", {"x": f"{dtype}[2, 3]"})
    assert isinstance(found, Answer) and {c.dtype.name for c in found.constants} == {expected}


@pytest.mark.parametrize("wanted", ["int16", "uint16", "uint8", "int8"])
@pytest.mark.parametrize(
    "zero",
    [
        "full(s.shape, 0, T)",
        "full([1], 3, T)",
        "cast(s, T)",
        "cast(w, T)",
        "reshape(full([1, 1], 0, T), [1])",
        "transpose(cast(reshape(s, [1, 1]), T))[0:1]",
        "expand(cast(0, T), [1])",
        "if x.rank == 2 then cast(w, T) else full([1], 0, T)",
        "zeros(s.shape)",
        "z",
        "same(z)",
        "k with k = zeros(s.shape)",
        "k with j = cast(w, T), k = reshape(j, [1])",
    ],
)
def test_a_stated_dtype_is_kept(zero: str, wanted: str) -> None:
    """Where the schema leaves a choice: the dtype of a zero point, the last operand of QuantizeLinear."""
    template, _, give = zero.partition(" with ")
    text = f"""let zeros(s) = full(s, 0, {wanted})
        let z = full([1], 0, {wanted})
        let same(v) = reshape(v, [1])
        rule r: QuantizeLinear(x, const s, const w) => QuantizeLinear(x, s, {template}){" with " + give if give else ""}
    """.replace(", T)", f", {wanted})")
    one = np.ones(1, F32)
    found = ask(text, {"x": "float32[2, 3]", "s": one, "w": np.ones(1, wanted)})
    assert isinstance(found, Answer) and [c.dtype.name for c in found.constants] == [wanted]


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ("Relu(x) => Add(x, full([1], 0, int16))", "the constant is int16, but what stands there is one of float32"),
        ("Relu(x) => Add(x, cast(1, float64))", "the constant is float64, but what stands there is one of float32"),
        ("Relu(x) => full(x.shape, 0, int64)", "the constant is int64, but what stands there is one of float32"),
        ("Relu(x) => Reshape(x, cast([2, 3], int32))", "the constant is int32, but what stands there is one of int64"),
    ],
)
def test_a_stated_dtype_that_cannot_stand_is_refused(rule: str, message: str) -> None:
    assert message in reason(ask(f"rule r: {rule}", {"x": "float32[2, 3]"}))


@pytest.mark.parametrize(
    ("rule", "x", "message"),
    [
        ("Relu(x) => Cast(x, to=float16)", "float32[2, 3]", "the result would be float16, it was float32"),
        ("Relu(x) => Transpose(x, perm=[1, 0])", "float32[2, 3]", "the result would be float32[3, 2]"),
        ("Relu(x) => Reshape(x, [3, 2])", "float32[2, 3]", "the result would be float32[3, 2], it was float32[2, 3]"),
        ("Relu(x) => Transpose(x, perm=[1, 0])", "float32[N, M]", "the result would be float32[M, N]"),
        ("ReduceMax(x) => x", "float32[2, 3]", "the result would be float32[2, 3], it was float32[1, 1]"),
        ("Relu(x) => Add(x, 300)", "int8[2, 3]", "300 does not fit int8"),
        ("Relu(x) => Add(x, 0.5)", "int8[2, 3]", "0.5 does not fit int8"),
        ("Relu(x) => Reshape(x, [x.shape[0], 3])", "float32[N, 3]", "dimension `N` of `x` is unknown"),
        ("Relu(x) => Transpose(x, perm=[0.5, 1])", "float32[2, 3]", "expected a whole number, found 0.5"),
        ("Relu(x) => MatMul(x, x)", "float32[2, 3]", "MatMul"),
    ],
)
def test_templates_that_do_not_hold(rule: str, x: str, message: str) -> None:
    assert message in reason(ask(f"rule r: {rule}", {"x": x}))


def test_shapes_read_as_values_are_asked_for() -> None:
    text = "rule r: Reshape(Reshape(x, a), const b) => Reshape(x, b)"
    leaves = {"x": "float32[2, 6]", "a": np.array([3, 4]), "b": np.array([4, 3])}
    found = ask(text, leaves)
    assert isinstance(found, Answer) and found.types[0][0].shape == (4, 3)


def test_comprehensions_and_several_results() -> None:
    text = "rule r: Transpose(Transpose(x, perm=p), perm=q) => Transpose(x, perm=[p[i] for i in q])"
    leaves: dict[str, Leaf] = {"x": "float32[2, 3, 4]"}
    found = ask(text, leaves, {"Transpose": {"perm": (1, 2, 0)}})
    assert isinstance(found, Answer) and found.attributes[0]["perm"] == (2, 0, 1)


# ---------------------------------------------------------------- costs


COSTED = target("composite c(x, w, b?) = Relu(Conv(x, const w, const b)) with pads = 3 cost COST energy bytes * 20pJ")
CONV: Mapping[str, Leaf] = {"x": "float32[1, 8, 6, 6]", "w": np.ones((4, 8, 3, 3), F32), "b": np.ones(4, F32)}


@pytest.mark.parametrize(
    ("cost", "seconds"),
    [
        ("2us", Fraction(2, 10**6)),
        ("macs / 1TMACS", Fraction(4 * 8 * 9 * 16, 10**12)),
        ("macs / 1TOPS", Fraction(2 * 4 * 8 * 9 * 16, 10**12)),
        ("bytes / 1GBps", Fraction(1152 + 1152 + 16 + 256, 10**9)),
        ("input_bytes / 1GBps", Fraction(1152, 10**9)),
        ("const_bytes / 1GBps", Fraction(1152 + 16, 10**9)),
        ("output_bytes / 1GBps", Fraction(256, 10**9)),
        ("if present(b) then 1us else 2us", Fraction(1, 10**6)),
        ("max(1us, bytes / 1GBps)", Fraction(2576, 10**9)),
        ("w.bytes / 1GBps * 2", Fraction(2304, 10**9)),
    ],
)
def test_costs(cost: str, seconds: Fraction) -> None:
    found = ask(COSTED.replace("COST", cost), CONV, name="t.c")
    assert isinstance(found, Answer)
    assert found.cost == seconds and found.energy == Fraction(20 * 2576, 10**12)
    assert found.attributes == ({"pads": 3},)


def test_a_cost_over_an_unbound_dimension_says_how_to_bind_it() -> None:
    leaves = {**CONV, "x": "float32[batch, 8, 6, 6]"}
    with pytest.raises(UnboundCost, match="`batch` of `x` is unknown; bind it with --dim batch=SIZE"):
        ask(COSTED.replace("COST", "macs / 1TMACS"), leaves, name="t.c")
    refused = COSTED.replace("COST", "macs / 1TMACS").replace("with", "if x.rank == 3 with")
    assert isinstance(ask(refused, leaves, name="t.c"), Refusal)  # the guard comes first


@pytest.mark.parametrize(
    ("cost", "message"),
    [
        ("bytes", "expected a time, found bytes"),
        ("1us - 2us", "expected at least nothing"),
        ("inf", "finite"),
        ("1us * x.shape[9]", "the cost cannot be told: index 9 is beyond the end"),
    ],
)
def test_costs_that_are_none(cost: str, message: str) -> None:
    assert message in reason(ask(COSTED.replace("COST", cost), CONV, name="t.c"))


def test_a_cost_that_rests_on_what_the_target_does_not_run() -> None:
    text = target("composite c(x, w, b?) = Relu(conv) where conv = Conv(x, const w, const b) cost 1us + conv.cost")
    assert "the cost cannot be told: the target does not support Conv by itself" in reason(ask(text, CONV, name="t.c"))


def test_a_measured_cost_is_named() -> None:
    found = ask(COSTED.replace("COST", 'profile("conv_i8")'), CONV, name="t.c")
    assert isinstance(found, Answer) and (found.profile, found.cost) == ("conv_i8", None)


def test_requirements_and_options_of_a_target() -> None:
    text = target(
        "option arch = 69 requires all(t.rank <= 3 for t in inputs + outputs) supports Relu if arch >= 70 supports Neg"
    )
    rules, problems, _ = lowered(text)
    assert not problems
    found = {}
    for name in ("t.supports.0", "t.supports.1"):
        for x in ("float32[2]", "float32[1, 2, 3, 4]"):
            variant = expand_rest(rules[name].variants[0], {0: 1})
            found[name[-1], x[-2]] = answer(rules[name], variant, facts_of(variant, {"input[0]": x}))
    assert "`arch >= 70` does not hold: 69 >= 70" in reason(found["0", "2"])
    assert "requires" not in reason(found["1", "4"]) and "t.rank <= 3" in reason(found["1", "4"])
    assert isinstance(found["1", "2"], Answer)


def test_supported_and_cost_read_this_targets_capabilities() -> None:
    text = target(
        "flops 1TFLOPS bandwidth 1GBps supports Mul(a, b) if all(b == 1) cost 3us supports Mul(a, b) cost 5us "
        "supports Add(*xs) composite c(x, k) = Relu(Mul(x, k) as m) if supported(m) cost m.cost + 1us "
        "composite d(x, k) = Relu(Add(x, k) as m) if supported(m) cost m.cost "
        "composite e(x, k) = Relu(Sub(x, k) as m) if supported(m)"
    )
    leaves: dict[str, Leaf] = {"x": "float32[2, 2]", "k": np.ones(2, F32)}
    found = ask(text, leaves, name="t.c")
    assert isinstance(found, Answer) and found.cost == Fraction(4, 10**6)
    found = ask(text, {**leaves, "k": np.zeros(2, F32)}, name="t.c")
    assert isinstance(found, Answer) and found.cost == Fraction(6, 10**6)
    found = ask(text, leaves, name="t.d")
    assert isinstance(found, Answer) and found.cost == Fraction(16 + 8 + 16, 10**9)  # the roofline
    assert "`supported(m)` does not hold" in reason(ask(text, leaves, name="t.e"))


def test_readers_of_the_original_graph() -> None:
    rule = rule_of("rule r: Relu(x) as y => Neg(Neg(y)) if readers(y) == 1 and not is_graph_output(y)")
    facts = facts_of(rule.variants[0], {"x": "float32[2]"})
    assert "readers of `y` are not known" in reason(answer(rule, rule.variants[0], facts))
    for readers, outputs, holds in (((1, 1), (False, False), True), ((1, 2), (False, False), False),
                                    ((1, 1), (False, True), False)):  # fmt: skip
        known = dataclasses.replace(facts, readers=readers, is_output=outputs)
        assert isinstance(answer(rule, rule.variants[0], known), Answer) == holds


def test_links_and_sizes() -> None:
    text = "let rate = 8GBps device d { memory 64MiB } link host <-> d: 4us + bytes / rate energy bytes * 20pJ"
    _, _, scope = lowered(text)
    link = scope.links[0]
    assert evaluate_link_cost(link.cost, scope, 8000) == Fraction(5, 10**6)
    assert link.energy is not None
    assert evaluate_link_cost(link.energy, scope, 8000, units.ENERGY) == Fraction(16, 10**8)
    memory = dict(scope.devices["d"].fields)["memory"]
    assert evaluate_quantity(memory, scope, units.BYTES) == 1 << 26
    found = evaluate_quantity(memory, scope, units.TIME)
    assert isinstance(found, Problem)
    assert found.message == "expected a time, found bytes; divide by a rate such as 8GBps"


@pytest.mark.parametrize(
    ("cost", "message"),
    [
        ("bytes", "expected a time"),
        ("4us - bytes / 1Bps", "at least nothing"),
        ("x.bytes / 8GBps", "unknown name `x`"),
        ("bytes / 0Bps", "no value"),
    ],
)
def test_links_that_have_no_cost(cost: str, message: str) -> None:
    _, _, scope = lowered(f"device d {{ }} link host -> d: {cost}")
    with pytest.raises(RewriteError, match=message):
        evaluate_link_cost(scope.links[0].cost, scope, 100)


ATOMS = """x w c u n x.shape x.rank x.dtype c.strides c.group x.bytes w.numel u.shape u.rank 1 0 -2 0.5 inf [1,2] []
    {1,2} {int8} float32 int8 2us 3MiB 8GBps true "text" inputs outputs x.inputs c.nothing c.inputs [[1],2] (1,2)"""
atoms = st.sampled_from(ATOMS.split())


def grown(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    names = [f.name for f in functions.TABLE.values() if f.function is not None]
    symbols = st.sampled_from(["+", "-", "*", "/", "//", "%", "==", "!=", "<=", "<", "in", "not in", "and", "or"])
    return st.one_of(
        st.tuples(inner, symbols, inner).map(lambda p: f"({p[0]} {p[1]} {p[2]})"),
        st.tuples(st.sampled_from(names), inner).map(lambda p: f"{p[0]}({p[1]})"),
        st.tuples(st.sampled_from(names), inner, inner).map(lambda p: f"{p[0]}({p[1]}, {p[2]})"),
        st.tuples(inner, inner).map(lambda p: f"{p[0]}[{p[1]}]"),
        inner.map(lambda p: f"(not {p})"),
        inner.map(lambda p: f"[i for i in {p}]"),
        st.tuples(inner, inner, inner).map(lambda p: f"(if {p[0]} then {p[1]} else {p[2]})"),
    )


@settings(max_examples=400, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.recursive(atoms, grown, max_leaves=6))
def test_no_guard_raises(guard: str) -> None:
    """Whatever a guard says, the answer is an answer or a refusal."""
    text = f"rule r: Conv(x, const w, u) as c => Conv(x, w, u, like c) if {guard} with n = 3"
    found = sources.read_text(text, "test.pat", [])
    if found.problems:
        return
    rules, problems, _ = lowered(text)
    if problems:
        return
    variant = rules["r"].variants[0]
    leaves = {"x": "float32[N, 8, 6, 6]", "w": np.ones((4, 8, 3, 3), F32), "u": "float32[_]"}
    given = answer(rules["r"], variant, facts_of(variant, leaves))
    assert isinstance(given, Answer) or given.reason
