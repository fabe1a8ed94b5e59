"""Measured costs, for `cost profile("key")`: a JSON table from `--costs FILE` (written by hand or by a profiler).

    {"conv_i8": {"unit": "us", "cost": 12.5,
                 "entries": {"int8[1, 64, 28, 28], int8[32, 64, 3, 3] -> int8[1, 32, 26, 26]": 9.75}}}

`entries` are by the types of the kernel: its external inputs in order, each once, then its results; `cost` is what any
other shape costs. Either may be left out.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path

from rewrite_engine.diagnostics import RewriteError, did_you_mean
from rewrite_engine.language import units
from rewrite_engine.operators.types import TensorType

_FIELDS = ("cost", "entries", "unit")


@dataclass(frozen=True, slots=True)
class Measured:
    """What one key costs, in whole picoseconds, by signature and otherwise (None: not known)."""

    cost: int | None = None
    entries: Mapping[str, int] = field(default_factory=dict)

    def of(self, signature: str) -> int | None:
        """The cost of a kernel of that signature."""
        return self.entries.get(signature, self.cost)


def signature(inputs: Sequence[TensorType | None], outputs: Sequence[TensorType]) -> str:
    """The types of a kernel as the table spells them.

    >>> signature([TensorType("int8", (1, 8)), None], [TensorType("int32", ())])
    'int8[1, 8] -> int32[]'
    """
    return f"{', '.join(str(kind) for kind in inputs if kind is not None)} -> {', '.join(map(str, outputs))}"


def read_costs(path: str | Path) -> dict[str, Measured]:
    """The measured costs of a file. RewriteError, with the file and the key, for anything that is not such a table."""
    try:
        text = Path(path).read_text("utf-8")
        table = json.loads(text, parse_float=Fraction)
    except OSError as error:
        raise RewriteError(f"{path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise RewriteError(f"{path}: not UTF-8 text") from None
    except (ValueError, RecursionError) as error:
        raise RewriteError(f"{path}: not JSON: {error}") from None
    if not isinstance(table, dict):
        raise RewriteError(f'{path}: expected an object by key, such as {{"conv_i8": {{"unit": "us", "cost": 12.5}}}}')
    return {key: _measured(entry, f"{path}: `{key}`") for key, entry in sorted(table.items())}


def _measured(entry: object, where: str) -> Measured:
    if not isinstance(entry, dict):
        raise RewriteError(f'{where}: expected {{"unit": …, "cost": …, "entries": …}}, found {_show(entry)}')
    for name in sorted(entry):
        if name not in _FIELDS:
            hint = did_you_mean(name, _FIELDS)
            raise RewriteError(f"{where}: unknown field `{name}`" + (f"; {hint}" if hint else ""))
    unit = units.lookup(entry["unit"]) if isinstance(entry.get("unit"), str) else None
    if unit is None or unit.dimension != units.TIME:
        raise RewriteError(f"{where}: expected a `unit` of time, such as us or ps, found {_show(entry.get('unit'))}")
    entries = entry.get("entries", {})
    if not isinstance(entries, dict):
        raise RewriteError(f"{where}: expected `entries` by signature, found {_show(entries)}")
    cost = _amount(entry["cost"], unit.factor, where) if "cost" in entry else None
    return Measured(cost, {_spelt(name): _amount(value, unit.factor, where) for name, value in sorted(entries.items())})


def _amount(value: object, factor: Fraction, where: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int | Fraction) or value < 0:
        raise RewriteError(f"{where}: expected a number of at least 0, found {_show(value)}")
    return math.ceil(value * factor * 10**12)


def _spelt(name: str) -> str:
    """A signature without regard to spaces."""
    return "".join(name.split()).replace("->", " -> ").replace(",", ", ")


def _show(value: object) -> str:
    return "nothing" if value is None else str(float(value)) if isinstance(value, Fraction) else json.dumps(value)
