"""An experiment: models × rule files × settings × strategies × objectives, read from a TOML file.

In: the file. Out: its instances in a fixed order. Problems are RewriteErrors that name the key and what is expected.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import math
import random
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rewrite_engine.diagnostics import RewriteError, did_you_mean

KEYS = ("models", "rules", "strategies", "objectives", "set", "random", "seed", "time_limit", "gap", "allow", "targets")
MODEL_KEYS = {"path", "dims", "values"}
_QUANTITY = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)\s*([A-Za-z]*)\s*")


@dataclass(frozen=True, slots=True)
class Model:
    """A model's file, the sizes of its dimensions and inputs with one value for good, as JSON."""

    path: str
    dims: tuple[tuple[str, int], ...] = ()
    values: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Instance:
    """One placement to make; `settings` as of `--set`, sorted."""

    model: Model
    rules: tuple[str, ...]
    settings: tuple[tuple[str, str], ...]
    strategy: str
    objective: str
    targets: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """What a worker is told, and what the database says of it."""
        return {
            "model": self.model.path, "dims": dict(self.model.dims),
            "values": {name: json.loads(text) for name, text in self.model.values}, "rules": list(self.rules),
            "settings": dict(self.settings), "strategy": self.strategy, "objective": self.objective,
            "targets": list(self.targets),
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class Experiment:
    """The instances in order, and what all share: `limits` are time_limit, gap, allow and seed of `place`."""

    instances: tuple[Instance, ...]
    limits: Mapping[str, Any]


def read_experiment(path: Path) -> Experiment:
    """The experiment in a file; paths in it are relative to its folder. Raises RewriteError."""
    try:
        with path.open("rb") as file:
            table = tomllib.load(file)
    except OSError as error:
        raise RewriteError(f"cannot read {path}: {error.strerror or error}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise RewriteError(f"{path}: {error}; an experiment is a TOML file") from error
    try:
        return _experiment(table, path.parent)
    except RewriteError as error:
        raise RewriteError(f"{path}: {error}") from None


def key_of(instance: Instance, limits: Mapping[str, Any], contents: Mapping[str, str], version: str) -> str:
    """What a result is filed under: a digest of everything it depends on, file contents by their own digests."""
    told = instance.to_json()
    told["model"] = contents[instance.model.path]
    if not told["values"]:  # as results are filed that are older than this key
        del told["values"]
    told["rules"] = [contents[rule] for rule in instance.rules]
    said = json.dumps([told, dict(limits), version], sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(said.encode()).hexdigest()


def _experiment(table: Mapping[str, Any], folder: Path) -> Experiment:
    for key in table:
        if key not in KEYS:
            hint = did_you_mean(key, KEYS)
            raise RewriteError(f"unknown key `{key}`; known are {', '.join(KEYS)}" + (f"; {hint}" if hint else ""))
    models = [_model(entry, folder) for entry in _list(table, "models", None)]
    rules = [_rules(entry, folder) for entry in _list(table, "rules", None)]
    strategies = _strings(table, "strategies", ["optimal"])
    objectives = _strings(table, "objectives", ["latency"])
    seed = table.get("seed", 0)
    if not isinstance(seed, int) or isinstance(seed, bool) or seed < 0:
        raise RewriteError(f"`seed`: expected a whole number of at least 0, found {seed!r}")
    targets = [tuple(t) if isinstance(t, list) else (t,) for t in _list(table, "targets", [[]])]
    settings = _settings(table, seed)
    limits = {"seed": seed, "allow": _strings(table, "allow", ["exact", "reassociates"])}
    for key, most in (("time_limit", math.inf), ("gap", 1.0)):
        value = table.get(key)
        if value is not None and (
            isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < most
        ):
            raise RewriteError(f"`{key}`: expected a number of at least 0, found {value!r}")
        limits[key] = value if key == "time_limit" else value or 0.0
    instances = [
        Instance(model, files, chosen, strategy, objective, only)
        for model, files, chosen, only, objective, strategy in itertools.product(
            models, rules, settings, targets, objectives, strategies
        )
    ]
    return Experiment(tuple(dict.fromkeys(instances)), limits)


def _list(table: Mapping[str, Any], key: str, default: list[Any] | None) -> list[Any]:
    value = table.get(key, default)
    if not isinstance(value, list) or not value:
        raise RewriteError(f"`{key}`: expected a list with at least one entry, found {value!r}")
    return value


def _strings(table: Mapping[str, Any], key: str, default: list[str]) -> list[str]:
    found = _list(table, key, default)
    if not all(isinstance(entry, str) for entry in found):
        raise RewriteError(f"`{key}`: expected strings, found {found!r}")
    return found


def _model(entry: Any, folder: Path) -> Model:
    if isinstance(entry, str):
        entry = {"path": entry}
    if not isinstance(entry, dict) or not isinstance(entry.get("path"), str) or set(entry) - MODEL_KEYS:
        raise RewriteError(
            f'`models`: expected a path or {{path = "…", dims = {{NAME = SIZE}}, values = {{INPUT = VALUE}}}}, '
            f"found {entry!r}"
        )
    dims = entry.get("dims", {})
    if not isinstance(dims, dict) or not all(isinstance(size, int) and size >= 1 for size in dims.values()):
        raise RewriteError(f"`models`: `dims` of {entry['path']}: expected sizes of at least 1, found {dims!r}")
    values = entry.get("values", {})
    if not isinstance(values, dict) or not all(map(_is_value, values.values())):
        raise RewriteError(
            f"`models`: `values` of {entry['path']}: expected numbers, true, false or lists of them, found {values!r}"
        )
    told = tuple(sorted((name, json.dumps(value)) for name, value in values.items()))
    return Model(str(folder / entry["path"]), tuple(sorted(dims.items())), told)


def _is_value(value: Any) -> bool:
    return all(map(_is_value, value)) if isinstance(value, list) else isinstance(value, bool | int | float)


def _rules(entry: Any, folder: Path) -> tuple[str, ...]:
    files = [entry] if isinstance(entry, str) else entry
    if not isinstance(files, list) or not files or not all(isinstance(file, str) for file in files):
        raise RewriteError(f"`rules`: expected a rule file or a list of rule files, found {entry!r}")
    return tuple(str(folder / file) if (folder / file).exists() else file for file in files)


def _settings(table: Mapping[str, Any], seed: int) -> list[tuple[tuple[str, str], ...]]:
    """Every combination of the values in `set`, each with every draw of `random`."""
    given = table.get("set", {})
    if not isinstance(given, dict):
        raise RewriteError(f"`set`: expected a table of paths, found {given!r}")
    axes = [[(path, value) for value in _values(path, entry)] for path, entry in sorted(given.items())]
    fixed = list(itertools.product(*axes))
    draws = list(_draws(table.get("random"), seed))
    return [tuple(sorted({**dict(chosen), **draw}.items())) for chosen in fixed for draw in draws]


def _values(path: str, entry: Any) -> list[str]:
    if isinstance(entry, dict):
        low, high, unit, log = _range(path, entry, {"steps"})
        steps = entry.get("steps")
        if not isinstance(steps, int) or steps < 2:
            raise RewriteError(f"`set`: `{path}`: expected at least 2 `steps`, found {steps!r}")
        return [_between(low, high, unit, log, step / (steps - 1)) for step in range(steps)]
    return [str(value) for value in (entry if isinstance(entry, list) else [entry])]


def _draws(entry: Any, seed: int) -> Iterator[dict[str, str]]:
    """`count` draws, each with a value for every path, the same for the same seed."""
    if entry is None:
        yield {}
        return
    if not isinstance(entry, dict) or not isinstance(entry.get("count"), int) or entry["count"] < 1:
        raise RewriteError(f"`random`: expected a table with a `count` of at least 1, found {entry!r}")
    paths = {path: value for path, value in sorted(entry.items()) if path != "count"}
    for path, value in paths.items():
        if isinstance(value, dict):
            _range(path, value, set())
        elif not isinstance(value, list) or not value:
            raise RewriteError(f"`random`: `{path}`: expected a list or {{from = …, to = …}}, found {value!r}")
    for number in range(entry["count"]):
        draw = {}
        for path, value in paths.items():
            rng = random.Random(f"{seed}/{number}/{path}")
            if isinstance(value, dict):
                draw[path] = _between(*_range(path, value, set()), rng.random())
            else:
                draw[path] = str(rng.choice(value))
        yield draw


def _range(path: str, entry: Mapping[str, Any], more: set[str]) -> tuple[float, float, str, bool]:
    """(from, to, unit, logarithmic)."""
    if set(entry) - {"from", "to", "scale"} - more or "from" not in entry or "to" not in entry:
        keys = ", ".join(["from", "to", "scale", *sorted(more)])
        raise RewriteError(f"`{path}`: expected a range of {keys}, found {dict(entry)!r}")
    low, high = (_QUANTITY.fullmatch(str(entry[end])) for end in ("from", "to"))
    if low is None or high is None or low[2] != high[2] or float(low[1]) > float(high[1]):
        raise RewriteError(f"`{path}`: expected `from` at most `to` in one unit, found {entry['from']}, {entry['to']}")
    scale = entry.get("scale", "log" if float(low[1]) > 0 else "linear")
    if scale not in ("log", "linear") or (scale == "log" and float(low[1]) <= 0):
        raise RewriteError(f"`{path}`: expected a `scale` of log (above 0) or linear, found {scale!r}")
    return float(low[1]), float(high[1]), low[2], scale == "log"


def _between(low: float, high: float, unit: str, log: bool, part: float) -> str:
    value = low * (high / low) ** part if log else low + (high - low) * part
    whole = unit in ("", "B") and low == int(low) and high == int(high)
    text = str(round(value)) if whole else f"{value:.6f}".rstrip("0").rstrip(".")
    return text + unit


def axes_of(instances: Sequence[Instance]) -> list[str]:
    """Every path that some instance sets, sorted."""
    return sorted({path for instance in instances for path, _ in instance.settings})
