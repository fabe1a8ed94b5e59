"""The one place that talks to egglog: running programs, loading facts in bulk, reading questions, freezing.

Works alike on egglog 13 and 14. Facts go in as tab-separated files, the only fast way on both.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from importlib import import_module
from importlib.machinery import PathFinder
from importlib.util import find_spec, module_from_spec
from types import TracebackType
from typing import Any

ROW_LIMIT = 1 << 30


@cache
def _bindings() -> Any:
    """egglog's engine without its Python front end, which costs more to import than a placement takes to find."""
    if "egglog" in sys.modules:
        return import_module("egglog.bindings")
    package = find_spec("egglog")
    spec = package and PathFinder.find_spec("egglog.bindings", package.submodule_search_locations)
    if spec is None or spec.loader is None:
        return import_module("egglog.bindings")
    bindings = module_from_spec(spec)
    sys.modules[spec.name] = bindings  # the front end, if it is imported later, uses the same engine
    try:
        spec.loader.exec_module(bindings)
    except BaseException:
        del sys.modules[spec.name]
        raise
    return bindings


def _commands(program: str) -> Iterator[str]:
    """The commands of a program in which each begins on a line of its own, or several share one.

    Each is run alone: what egglog takes for a program grows with the square of its length.
    """
    command, depth = "", 0
    for line in program.splitlines():
        text = line.partition(";")[0].strip()
        depth += text.count("(") - text.count(")")
        command = f"{command} {text}" if command else text
        if not depth and command:
            yield command
            command = ""
    assert not command, f"a command is not closed: {command}"


class Session:
    """An e-graph with a folder for its facts; a context manager that removes the folder."""

    def __init__(self) -> None:
        memory = "/dev/shm"
        self._folder = tempfile.mkdtemp(prefix="egraph-", dir=memory if os.access(memory, os.W_OK) else None)
        self._egraph = _bindings().EGraph(fact_directory=self._folder)
        self._files = 0

    def __enter__(self) -> Session:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)

    def run(self, program: str) -> list[Any]:
        """Runs a program and returns egglog's outputs."""
        outputs: list[Any] = []
        for command in _commands(program):
            outputs += self._egraph.run_program(*self._egraph.parse_program(command))
        return outputs

    def run_once(self, ruleset: str) -> bool:
        """One iteration of a ruleset; whether it changed anything."""
        return bool(self.run(f"(run {ruleset} 1)")[0].report.updated)

    def saturate(self, ruleset: str) -> None:
        self.run(f"(run-schedule (saturate (run {ruleset})))")

    def facts(self, relation: str, rows: Iterable[Sequence[int]]) -> None:
        """Adds rows of integers to a relation."""
        text = "".join("\t".join(map(str, row)) + "\n" for row in rows)
        if not text:
            return
        self._files += 1
        name = f"{self._files}.tsv"
        with open(os.path.join(self._folder, name), "w") as file:
            file.write(text)
        self.run(f'(input {relation} "{name}")')

    def rows(self, relation: str) -> list[tuple[int, ...]]:
        """All rows of a relation over integers, sorted: the order in which they were found must not matter."""
        text = str(self.run(f"(print-function {relation} {ROW_LIMIT})")[0])
        lines = (line.split("->")[0].strip() for line in text.splitlines() if "->" in line)
        return sorted(tuple(int(column) for column in line[1:-1].split()[1:]) for line in lines)

    def sizes(self) -> dict[str, int]:
        """Rows per function and relation, by name."""
        text = str(self.run("(print-size)")[0])
        pairs = (line.strip(" ()").split() for line in text.splitlines())
        return {name: int(count) for name, count in pairs}

    def freeze(self) -> Mapping[str, Any]:
        """Every function of the e-graph with its rows (`inputs`, `output`) and sorts, by name."""
        functions: Mapping[str, Any] = self._egraph.freeze().functions
        return functions

    def integer(self, value: Any) -> int:
        """The integer that an i64 column of a frozen row holds."""
        number: int = self._egraph.value_to_i64(value)
        return number
