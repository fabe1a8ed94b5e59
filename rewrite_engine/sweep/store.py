"""Results in SQLite, filed by the content of what they depend on, and their export as CSV.

Every result is one transaction: what is in the database is whole, whatever killed the process.
"""

from __future__ import annotations

import csv
import io
import json
import sqlite3
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from rewrite_engine.diagnostics import RewriteError
from rewrite_engine.sweep.experiment import Instance, axes_of

SCHEMA = 1
NUMBERS = ("cost", "bound", "kernels", "copies", "launches", "regions", "seconds")


class Store:
    """An open database; use it in a `with` statement."""

    def __init__(self, path: Path) -> None:
        """Opens or makes it. Raises RewriteError where the file is no such database, or another version's."""
        try:
            self._base = sqlite3.connect(path, timeout=60)
            version = self._base.execute("PRAGMA user_version").fetchone()[0]
            if version not in (0, SCHEMA):
                raise RewriteError(f"{path}: schema {version} is of another version; choose another folder")
            with self._base:
                self._base.execute("PRAGMA journal_mode = WAL")
                self._base.execute(f"PRAGMA user_version = {SCHEMA}")
                self._base.execute(
                    "CREATE TABLE IF NOT EXISTS results (key TEXT PRIMARY KEY, instance TEXT NOT NULL, "
                    "result TEXT NOT NULL)"
                )
        except sqlite3.Error as error:
            raise RewriteError(f"{path}: {error}; choose another folder for the results") from error

    def __enter__(self) -> Store:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._base.close()

    def known(self) -> set[str]:
        """The keys of all results."""
        return {key for (key,) in self._base.execute("SELECT key FROM results")}

    def add(self, key: str, instance: Instance, result: Mapping[str, Any]) -> None:
        """Keeps a result; one that is there already stays."""
        row = (key, json.dumps(instance.to_json(), sort_keys=True), json.dumps(dict(result), sort_keys=True))
        with self._base:
            self._base.execute("INSERT OR IGNORE INTO results VALUES (?, ?, ?)", row)

    def results(self, keys: Sequence[str]) -> list[dict[str, Any] | None]:
        """The results of these keys; None where there is none."""
        found = {key: json.loads(text) for key, text in self._base.execute("SELECT key, result FROM results")}
        return [found.get(key) for key in keys]


def to_csv(instances: Sequence[Instance], results: Sequence[Mapping[str, Any] | None]) -> str:
    """One row per instance that has a result, in order; settings and baselines have a column each."""
    paths = axes_of(instances)
    baselines = sorted({name for result in results if result for name in result.get("baselines", {})})
    heads = ["model", "rules", "strategy", "objective", "targets", *paths, "status", "saturation", "unit", *NUMBERS]
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([*heads, *(f"baseline {name}" for name in baselines), "error"])
    for instance, result in zip(instances, results, strict=True):
        if result is None:
            continue
        settings = dict(instance.settings)
        row = [Path(instance.model.path).stem, " ".join(Path(rule).name for rule in instance.rules), instance.strategy,
               instance.objective, " ".join(instance.targets), *(settings.get(path, "") for path in paths)]  # fmt: skip
        row += [_cell(result.get(name)) for name in ("status", "saturation", "unit", *NUMBERS)]
        row += [_cell(result.get("baselines", {}).get(name)) for name in baselines]
        writer.writerow([*row, result.get("error", "")])
    return out.getvalue()


def _cell(value: Any) -> str:
    return "" if value is None else str(value)
