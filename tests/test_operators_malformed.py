"""Type inference on input that cannot be: a clear refusal or an unknown, never another error, and never for long."""

from __future__ import annotations

import random

import numpy as np
import pytest

from rewrite_engine.operators import TypeMismatch, effective_attributes, find, infer_types, names
from rewrite_engine.operators.types import ITEM_BITS, TensorType

SIZES = (0, 1, 1, 2, 2, 3, 4, 7, 2**40, "N", None)
WHOLE = (-(2**63), -(2**31), -7, -2, -1, 0, 0, 1, 1, 1, 2, 3, 4, 8, 2**31 - 1, 2**63 - 1)
REAL = (0.0, 1.0, -1.0, 0.5, 1e30, float("nan"), float("inf"))
WORDS = ("", "NOTSET", "SAME_UPPER", "VALID", "none", "bidirectional", "ab,bc->ac", "...i,j->", "tf_crop_and_resize")
EACH = 60


class Malformed:
    """One application of an operator with inputs, constants and attributes that fit here and there."""

    def __init__(self, op: str, seed: int) -> None:
        self.random = choose = random.Random(f"{op} {seed}")
        self.operator = operator = find(op)
        least = operator.min_inputs
        most = operator.max_inputs if operator.max_inputs is not None and operator.max_inputs < 20 else least + 3
        self.rank = choose.randint(0, 5)
        self.bound: dict[str, str] = {}
        self.inputs: list[TensorType | None] = []
        self.constants: list[np.ndarray | None] = []
        for position in range(choose.randint(least, most)):
            self.operand(operator.input(position), position > 0)
        wanted = [a for a in operator.attributes.values() if a.required or choose.random() < 0.4]
        given = {a.name: self.attribute(a.type) for a in wanted}
        self.attributes = {name: value for name, value in given.items() if value is not None}
        end = operator.max_outputs if operator.max_outputs and operator.max_outputs < 9 else 3
        self.outputs = choose.randint(max(operator.min_outputs, 1), max(end, 1))

    def operand(self, formal, constants: bool) -> None:
        choose = self.random
        if formal.kind == "optional" and choose.random() < 0.4:
            self.inputs.append(None)
            self.constants.append(None)
            return
        allowed = [d for d in formal.dtypes if d in ITEM_BITS] or ["float32"]
        dtype = self.bound.setdefault(formal.type, choose.choice(allowed))
        dtype = dtype if dtype in allowed else choose.choice(allowed)
        if choose.random() < 0.02:
            dtype = choose.choice([*ITEM_BITS, "?"])
        if constants and dtype in ("int64", "int32", "float32", "float64", "bool") and choose.random() < 0.6:
            array = self.constant(dtype)
            self.inputs.append(TensorType(dtype, array.shape))
            self.constants.append(array)
            return
        rank = self.rank if choose.random() < 0.7 else choose.randint(0, 5)
        shape = tuple(choose.choice(SIZES if choose.random() < 0.5 else (1, 2, 2)) for _ in range(rank))
        self.inputs.append(TensorType(dtype, None if choose.random() < 0.07 else shape))
        self.constants.append(None)

    def constant(self, dtype: str) -> np.ndarray:
        """Of a wrong rank, length or dtype here and there, with elements that nothing can be."""
        choose = self.random
        shape = tuple(choose.choice((0, 1, 1, 2, 2, 3, 4)) for _ in range(choose.choice((0, 1, 1, 1, 1, 2))))
        count = int(np.prod(shape))
        if dtype.startswith("float") or choose.random() < 0.2:
            return np.array([choose.choice(REAL) for _ in range(count)]).reshape(shape)
        return np.array([choose.choice(WHOLE) for _ in range(count)], np.int64).reshape(shape)

    def attribute(self, kind: str) -> object:
        choose = self.random
        if choose.random() < 0.03:
            return choose.choice([1, 1.5, "x", (1,), ("x",), (1.5,)])
        pool = {"int": WHOLE, "float": REAL, "string": WORDS}.get(kind.removesuffix("s"))
        if kind == "tensor":
            return np.zeros(choose.choice([(), (1,), (2, 0)]), choose.choice(["float32", "int64", "bool"]))
        if pool is None:
            return None
        return (
            tuple(choose.choice(pool) for _ in range(choose.randint(0, 5))) if kind[-1] == "s" else choose.choice(pool)
        )


@pytest.mark.parametrize("op", names())
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_what_cannot_be_is_refused(op):
    """The result is a type that can be, or the one class of error, whose message names the operator."""
    for seed in range(EACH):
        case = Malformed(op, seed)
        shown = (case.attributes, [str(t) for t in case.inputs], case.constants)
        try:
            found = infer_types(op, case.attributes, case.inputs, case.constants, case.outputs)
        except TypeMismatch as error:
            assert str(error).startswith(f"{op}: "), shown
            continue
        assert len(found) == case.outputs, shown
        sizes = [d for kind in found for d in kind.shape or ()]
        assert all(d is None or isinstance(d, str) or (isinstance(d, int) and d >= 0) for d in sizes), (found, shown)


def test_effective_attributes_of_anything():
    """They are asked for before anything is checked."""
    for op in names():
        for seed in range(EACH // 3):
            case = Malformed(op, seed)
            effective_attributes(op, case.attributes, case.inputs, case.constants)


F32 = TensorType("float32", (2, 3, 4))


@pytest.mark.parametrize(
    ("constants", "message"),
    [
        (([0], [2], [0, 1]), "input 1 (starts) has 1 elements, expected 2"),
        (([0, 0], [2], [0, 1]), "input 2 (ends) has 1 elements, expected 2"),
        (([0, 0], [2, 2], [0, 1], [1]), "input 4 (steps) has 1 elements, expected 2"),
        (([0, 0], [2, 2], [0, 0]), "axes [0, 0] name one axis twice"),
        (([0], [2], [3]), "axis 3 is outside [-3, 3)"),
        (([0.5], [2], [0]), "input 1 (starts) holds something other than whole numbers"),
    ],
)
def test_slices_of_lists_that_do_not_go_together(constants, message):
    arrays = [None, *(np.array(c) for c in constants)]
    kinds = [F32, *(TensorType("int64", array.shape) for array in arrays[1:])]
    with pytest.raises(TypeMismatch) as caught:
        infer_types("Slice", {}, kinds, arrays, 1)
    assert str(caught.value).startswith(f"Slice: {message}")


def test_lists_of_unknown_elements_are_unknown():
    kinds = [F32, TensorType("int64", (2,)), TensorType("int64", (2,)), TensorType("int64", (2,))]
    assert infer_types("Slice", {}, kinds, [None, np.array([0, 0]), None, np.array([0, 2])], 1)[0].shape == (
        None,
        3,
        None,
    )


def test_attributes_of_another_kind():
    with pytest.raises(TypeMismatch, match="attribute `axis` is 'x', expected int"):
        infer_types("Softmax", {"axis": "x"}, [F32], [], 1)
    with pytest.raises(TypeMismatch, match=r"attribute `perm` is \(1.5,\), expected ints"):
        infer_types("Transpose", {"perm": (1.5,)}, [F32], [], 1)
