"""A placement used again: the kernels of a placement.json, possibly edited, found among those that the rules allow.

In: the content of placement.json. Out: a `Reuse`, a strategy, see `follow`. Costs, copies and the bound are computed
anew; regions are those of the file, but for those around kernels that were moved.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rewrite_engine.diagnostics import RewriteError
from rewrite_engine.egraph.freeze import Explored
from rewrite_engine.egraph.problem import Choice
from rewrite_engine.placement.follow import Following, Row
from rewrite_engine.placement.report import SCHEMA
from rewrite_engine.placement.strategies import Options

_TEXTS = ("id", "target", "device", "rule", "region")
_LISTS = ("nodes", "inputs", "outputs")


@dataclass(frozen=True, slots=True)
class Reuse:
    """A strategy that follows the kernels of a file; `model` is the sha256 of the model that it was made for."""

    where: str
    model: str
    rules: Mapping[str, str]
    rows: tuple[Row, ...]
    name: str = "reuse"

    def check_model(self, name: str, sha256: str) -> None:
        """Raises RewriteError where the placement was made for another model."""
        if self.model != sha256:
            raise RewriteError(
                f"{self.where}: made for another model: expected one with sha256 {self.model[:12]}…, found {name} with "
                f"{sha256[:12]}…; place this model anew"
            )

    def changed_rules(self, rules: Mapping[str, str]) -> list[str]:
        """Rule files that are not what they were when the placement was made, by path."""
        mine = {Path(path).name: digest for path, digest in self.rules.items()}
        return sorted(p for p, digest in rules.items() if mine.get(Path(p).name, digest) != digest)

    def __call__(self, explored: Explored, options: Options) -> Sequence[Choice]:
        return Following(self.where, self.rows, explored).choices()


def read_placement(path: str | Path) -> Reuse:
    """The placement in a file. Raises RewriteError for one that cannot be read or is no placement.json."""
    return reuse(read_json(path), str(path))


def read_json(path: str | Path) -> dict[str, Any]:
    """The content of a placement.json, with its kernels in order. Raises RewriteError for what is none."""
    try:
        data = json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise RewriteError(f"{path}: cannot be read: {error.strerror or error}; expected a placement.json") from error
    except (ValueError, RecursionError) as error:
        raise RewriteError(f"{path}: expected the JSON of a placement.json: {error}") from error
    reuse(data, str(path))
    return dict(data)


def reuse(data: object, where: str = "placement") -> Reuse:
    """The content of a placement.json as a strategy. Raises RewriteError where it is none."""
    if not isinstance(data, dict) or data.get("schema") != SCHEMA:
        found = data.get("schema") if isinstance(data, dict) else type(data).__name__
        raise RewriteError(f"{where}: expected schema `{SCHEMA}`, found `{found}`; `place -o DIR` writes such a file")
    model, kernels, rules = data.get("model"), data.get("kernels"), data.get("rules", [])
    if not isinstance(model, dict) or not isinstance(model.get("sha256"), str):
        raise RewriteError(f"{where}: expected the `sha256` of the model in `model`, found {model!r:.80}")
    if not isinstance(kernels, list):
        raise RewriteError(f"{where}: expected a list `kernels`, found {type(kernels).__name__}")
    if not isinstance(rules, list):
        raise RewriteError(f"{where}: expected a list `rules`, found {type(rules).__name__}")
    rows = tuple(_row(where, number, row) for number, row in enumerate(kernels))
    for name, count in Counter(row.id for row in rows).items():
        if count > 1:
            raise RewriteError(f"{where}: kernel `{name}` is there {count} times; leave one out, or give it another id")
    known = {r["path"]: r["sha256"] for r in rules if isinstance(r, dict) and {"path", "sha256"} <= r.keys()}
    return Reuse(where, model["sha256"], known, rows)


def _row(where: str, number: int, row: Any) -> Row:
    here = f"{where}: kernel {number}"
    if not isinstance(row, dict):
        raise RewriteError(f"{here}: expected an object, found {type(row).__name__}")
    here += f" (`{row['id']}`)" if isinstance(row.get("id"), str) else ""
    for key in _TEXTS:
        if not isinstance(row.get(key), str):
            raise RewriteError(f"{here}: expected a text `{key}`, found {row.get(key)!r:.80}")
    for key in _LISTS:
        if not isinstance(row.get(key), list) or not all(isinstance(item, str) for item in row[key]):
            raise RewriteError(f"{here}: expected a list of names `{key}`, found {row.get(key)!r:.80}")
    cost = row.get("cost")
    if not isinstance(cost, int):
        raise RewriteError(f"{here}: expected whole picoseconds `cost`, found {cost!r:.80}")
    texts: dict[str, Any] = {key: row[key] for key in _TEXTS}
    lists: dict[str, Any] = {key: tuple(row[key]) for key in _LISTS}
    return Row(**texts, **lists, cost=cost, rewritten=bool(row.get("rewrites")))
