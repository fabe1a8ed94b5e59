"""RNN, GRU and LSTM: a scan over the time steps. Gate g of a cell is rows g*H .. (g+1)*H-1."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from rewrite_engine.loops.build import Builder, Tensor, Unsupported
from rewrite_engine.loops.build_scan import scan
from rewrite_engine.loops.expr import Expr, call, cast, const, select
from rewrite_engine.loops.operators.common import (
    Attributes,
    Operands,
    OperatorCompute,
    clamp,
    integer,
    number,
    optional,
    required,
    text,
    working_dtype,
)
from rewrite_engine.loops.operators.pointwise import FORMULAS

Activation = Callable[[Expr], Expr]
Gate = Callable[[int, Expr, Expr], Expr]
Cell = Callable[["_Direction", Tensor, list[Tensor]], list[Tensor]]

# ---- activations ----------------------------------------------------------------------------------------------------

_PARAMETERS: Mapping[str, Mapping[str, float]] = {
    "affine": {"alpha": 1.0, "beta": 0.0},
    "elu": {"alpha": 1.0},
    "hardsigmoid": {"alpha": 0.2, "beta": 0.5},
    "leakyrelu": {"alpha": 0.01},
    "scaledtanh": {"alpha": 1.0, "beta": 1.0},
    "thresholdedrelu": {"alpha": 1.0},
}
"""Activation (in lower case) -> the parameters it takes, with their defaults."""

_EXTRA = {
    "affine": lambda v, p: v * p["alpha"] + p["beta"],
    "scaledtanh": lambda v, p: call("tanh", v * p["beta"]) * p["alpha"],
}


def _activations(attributes: Attributes) -> list[Activation]:
    """The activation functions in order, clipped where told so; parameters go to those that take them, in order."""
    names, formulas = attributes["activations"], {name.lower(): formula for name, formula in FORMULAS.items()} | _EXTRA
    assert isinstance(names, tuple)
    given = {name: list(_numbers(attributes, f"activation_{name}")) for name in ("alpha", "beta")}
    limit = number(attributes, "clip") if "clip" in attributes else None
    result: list[Activation] = []
    for name in names:
        key = str(name).lower()
        if key not in formulas:
            raise Unsupported(f"activation {name} of a recurrent operator")
        defaults = _PARAMETERS.get(key, {})
        parameters = {p: given[p].pop(0) if given[p] else default for p, default in defaults.items()}
        result.append(_activation(formulas[key], parameters, limit))
    return result


def _numbers(attributes: Attributes, name: str) -> Iterator[float]:
    values = attributes.get(name, ())
    assert isinstance(values, tuple)
    return (float(v) for v in values)


def _activation(
    formula: Callable[[Expr, Mapping[str, float]], Expr], parameters: Mapping[str, float], limit: float | None
) -> Activation:
    def apply(v: Expr) -> Expr:
        return formula(v if limit is None else clamp(v, -limit, limit), parameters)

    return apply


# ---- one direction --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Direction:
    """What the steps of one direction share. `inputs` is x times the weights, [steps, batch, gates * hidden], of which
    a step gets one element."""

    b: Builder
    number: int
    hidden: int
    inputs: Tensor
    recurrence: Tensor
    bias: Tensor | None
    peepholes: Tensor | None
    activations: list[Activation]
    attributes: Attributes

    @property
    def shape(self) -> tuple[int, int]:
        """Of a state: [batch, hidden]."""
        return (self.inputs.shape[1], self.hidden)

    def recurrent(self, state: Tensor) -> Tensor:
        """The state times the recurrence weights, [batch, gates * hidden]."""
        rows = self.inputs.shape[2]

        def product(n: Expr, row: Expr, k: Expr) -> Expr:
            return state.lift([n, k]) * self.recurrence.lift([self.number, row, k])

        return self.b.compute([self.shape[0], rows], product, [self.hidden], "sum")

    def bias_of(self, gate: int, j: Expr, recurrent: bool) -> Expr:
        """The input's or the recurrence's bias of a gate; both count from one vector of 2 * gates * hidden."""
        offset = gate * self.hidden + (self.inputs.shape[2] if recurrent else 0)
        if self.bias is None:
            return const(0, self.inputs.dtype)
        return self.bias.lift([self.number, j + offset])

    def gate(self, given: Tensor, products: Tensor) -> Gate:
        """What goes into the activation of gate g at (n, j), peepholes excepted."""

        def value(g: int, n: Expr, j: Expr) -> Expr:
            row = j + g * self.hidden
            weighted = given[n, row] + products[n, row]
            return weighted + self.bias_of(g, j, False) + self.bias_of(g, j, True)

        return value


def _rnn_cell(d: _Direction, given: Tensor, states: list[Tensor]) -> list[Tensor]:
    gate, (f,) = d.gate(given, d.recurrent(states[0])), d.activations
    return [d.b.compute(d.shape, lambda n, j: f(gate(0, n, j)))]


def _gru_cell(d: _Direction, given: Tensor, states: list[Tensor]) -> list[Tensor]:
    """Gates z (update), r (reset), h (hidden)."""
    (state,), (f, g) = states, d.activations
    products = d.recurrent(state)
    gate = d.gate(given, products)
    update = d.b.compute(d.shape, lambda n, j: f(gate(0, n, j)))
    reset = d.b.compute(d.shape, lambda n, j: f(gate(1, n, j)))
    after = bool(integer(d.attributes, "linear_before_reset"))
    if not after:
        products = d.recurrent(d.b.map(lambda r, h: r * h, reset, state))

    def hidden(n: Expr, j: Expr) -> Expr:
        row = j + 2 * d.hidden
        past = products[n, row] + d.bias_of(2, j, True)
        return g(given[n, row] + d.bias_of(2, j, False) + (reset[n, j] * past if after else past))

    candidate = d.b.compute(d.shape, hidden)
    return [d.b.map(lambda z, c, h: (1.0 - z) * c + z * h, update, candidate, state)]


def _lstm_cell(d: _Direction, given: Tensor, states: list[Tensor]) -> list[Tensor]:
    """Gates i (input), o (output), f (forget), c (cell); peepholes i, o, f."""
    (state, cell), (f, g, h) = states, d.activations
    gate = d.gate(given, d.recurrent(state))

    def peeping(which: int, source: Tensor, n: Expr, j: Expr) -> Expr:
        value = gate(which, n, j)
        if d.peepholes is None:
            return value
        return value + d.peepholes.lift([d.number, j + which * d.hidden]) * source[n, j]

    def next_cell(n: Expr, j: Expr) -> Expr:
        taken = f(peeping(0, cell, n, j))
        kept = 1.0 - taken if integer(d.attributes, "input_forget") else f(peeping(2, cell, n, j))
        return kept * cell[n, j] + taken * g(gate(3, n, j))

    new_cell = d.b.compute(d.shape, next_cell)
    return [d.b.compute(d.shape, lambda n, j: f(peeping(1, new_cell, n, j)) * h(new_cell[n, j])), new_cell]


# ---- the operators --------------------------------------------------------------------------------------------------


def _recurrent(states: int, functions: int, cell: Cell) -> OperatorCompute:
    """Outputs: every hidden state, the last hidden state, and for LSTM the last cell state."""

    def compute(b: Builder, inputs: Operands, attributes: Attributes) -> list[Tensor]:
        x, weights, recurrence = required(inputs, 0), required(inputs, 1), required(inputs, 2)
        batch_first = bool(integer(attributes, "layout"))
        if batch_first:
            x = b.transpose(x, [1, 0, 2])
        initial = [_swapped(b, optional(inputs, 5 + k), batch_first) for k in range(states)]
        lengths, peepholes = optional(inputs, 4), optional(inputs, 7) if states == 2 else None
        activations, hidden = _activations(attributes), recurrence.shape[2]
        every, last = [], []
        for k in range(weights.shape[0]):
            direction = _Direction(
                b=b,
                number=k,
                hidden=hidden,
                inputs=_projected(b, x, weights, k),
                recurrence=recurrence,
                bias=optional(inputs, 3),
                peepholes=peepholes,
                activations=activations[k * functions : (k + 1) * functions],
                attributes=attributes,
            )
            backwards = k == 1 or text(attributes, "direction") == "reverse"
            outputs, final = _run(direction, [_initial(direction, t) for t in initial], lengths, backwards, cell)
            every.append(b.reshape(outputs, [outputs.shape[0], 1, *outputs.shape[1:]]))
            last.append([b.reshape(state, [1, *state.shape]) for state in final])
        y = b.concat(every, 1)
        finals = [b.concat([of_direction[k] for of_direction in last], 0) for k in range(states)]
        if batch_first:
            y, finals = b.transpose(y, [2, 0, 1, 3]), [b.transpose(state, [1, 0, 2]) for state in finals]
        return [b.map(lambda v: v, result, dtype=x.dtype) for result in (y, *finals)]

    return compute


def _run(
    d: _Direction, states: list[Tensor], lengths: Tensor | None, backwards: bool, cell: Cell
) -> tuple[Tensor, list[Tensor]]:
    """The hidden state of every step, [steps, batch, hidden], in order of time, and the states after the last one."""
    count = d.inputs.shape[0]
    sliced = [d.inputs] if lengths is None else [d.inputs, d.b.constant(np.arange(count), lengths.dtype)]

    def step(given: list[Tensor], now: list[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
        new = cell(d, given[0], now)
        if lengths is None:
            return new, [new[0]]
        kept = [_within(d.b, lengths, given[1], after, before) for after, before in zip(new, now, strict=True)]
        return kept, [_within(d.b, lengths, given[1], new[0], None)]

    finals, (outputs,) = scan(d.b, count, step, states, sliced, [backwards] * len(sliced), [backwards])
    return outputs, finals


def _within(b: Builder, lengths: Tensor, step: Tensor, after: Tensor, before: Tensor | None) -> Tensor:
    """`after` for the sequences that are that long, for the others `before`, or 0."""

    def element(n: Expr, j: Expr) -> Expr:
        other = const(0, after.dtype) if before is None else before[n, j]
        return select(step[()] < lengths[n], after[n, j], other)

    return b.compute(after.shape, element)


def _projected(b: Builder, x: Tensor, weights: Tensor, direction: int) -> Tensor:
    def product(s: Expr, n: Expr, row: Expr, k: Expr) -> Expr:
        return x.lift([s, n, k]) * weights.lift([direction, row, k])

    return b.compute([*x.shape[:2], weights.shape[1]], product, [x.shape[2]], "sum", working_dtype(x.dtype))


def _initial(d: _Direction, states: Tensor | None) -> Tensor:
    if states is None:
        return d.b.compute(d.shape, lambda n, j: const(0, d.inputs.dtype))
    return d.b.compute(d.shape, lambda n, j: cast(states[d.number, n, j], d.inputs.dtype))


def _swapped(b: Builder, states: Tensor | None, batch_first: bool) -> Tensor | None:
    return b.transpose(states, [1, 0, 2]) if states is not None and batch_first else states


RECURRENT: Mapping[str, OperatorCompute] = {
    "GRU": _recurrent(1, 2, _gru_cell),
    "LSTM": _recurrent(2, 3, _lstm_cell),
    "RNN": _recurrent(1, 1, _rnn_cell),
}
"""Operator -> compute."""
