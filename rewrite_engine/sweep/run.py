"""Runs an experiment with local processes: what has a result already is left alone, every new one is kept at once.

In: an experiment and a folder. Out: the database and results.csv in it. Each process is told one instance at a time by
a thread of this one and ends with it; one that dies makes an error of its instance, and another takes its place.
"""

from __future__ import annotations

import hashlib
import json
import queue
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from rewrite_engine.diagnostics import RewriteError
from rewrite_engine.files import check_writable, write_file
from rewrite_engine.language import load as load_rules
from rewrite_engine.sweep.experiment import Experiment, Instance, key_of
from rewrite_engine.sweep.store import Store, to_csv

DATABASE, TABLE = "results.sqlite", "results.csv"
Told = Callable[[int, int, Instance, Mapping[str, Any]], None]
"""(done, of, instance, result), after each result."""


@dataclass(frozen=True, slots=True)
class Summary:
    """How many instances there are, were run now, and how many of all results are errors."""

    instances: int
    run: int
    errors: int


def run_experiment(experiment: Experiment, folder: Path, jobs: int, told: Told) -> Summary:
    """Runs what has no result yet. Raises RewriteError where files cannot be read or written."""
    check_writable(folder)
    folder.mkdir(parents=True, exist_ok=True)
    keys = _keys(experiment)
    with Store(folder / DATABASE) as store:
        known = store.known()
        left = [(key, i) for key, i in zip(keys, experiment.instances, strict=True) if key not in known]
        try:
            _run(left, experiment.limits, jobs, store, told)
        finally:
            results = store.results(keys)
            write_file(folder / TABLE, to_csv(experiment.instances, results).encode())
    errors = sum(result is not None and "error" in result for result in results)
    return Summary(len(keys), len(left), errors)


def _keys(experiment: Experiment) -> list[str]:
    contents: dict[str, str] = {}
    for instance in experiment.instances:
        path = instance.model.path
        if path not in contents:
            try:
                contents[path] = hashlib.sha256(Path(path).read_bytes()).hexdigest()
            except OSError as error:
                raise RewriteError(f"cannot read the model {path}: {error.strerror or error}") from error
        for rule in instance.rules:
            if rule not in contents:  # with all that it includes
                digests = [digest for _, (_, digest) in sorted(load_rules([rule]).sources.items())]
                contents[rule] = hashlib.sha256("".join(digests).encode()).hexdigest()
    versions = " ".join(version(name) for name in ("rewrite-engine", "egglog", "onnx"))
    return [key_of(instance, experiment.limits, contents, versions) for instance in experiment.instances]


def _run(left: Sequence[tuple[str, Instance]], limits: Mapping[str, Any], jobs: int, store: Store, told: Told) -> None:
    waiting: queue.SimpleQueue[tuple[str, Instance]] = queue.SimpleQueue()
    for item in left:
        waiting.put(item)
    done: queue.SimpleQueue[tuple[str, Instance, dict[str, Any]]] = queue.SimpleQueue()
    workers = [_Worker(waiting, done, limits) for _ in range(min(jobs, len(left)))]
    try:
        for worker in workers:
            worker.start()
        for number in range(len(left)):
            while True:  # a wait without an end would keep an interrupt waiting, too
                try:
                    key, instance, result = done.get(timeout=0.5)
                    break
                except queue.Empty:
                    continue
            store.add(key, instance, result)
            told(number + 1, len(left), instance, result)
    finally:
        for worker in workers:
            worker.stop()


class _Worker(threading.Thread):
    """A thread with a process of its own."""

    def __init__(
        self,
        waiting: queue.SimpleQueue[tuple[str, Instance]],
        done: queue.SimpleQueue[tuple[str, Instance, dict[str, Any]]],
        limits: Mapping[str, Any],
    ) -> None:
        super().__init__(daemon=True)
        self._waiting, self._done, self._limits = waiting, done, limits
        self._process: subprocess.Popen[str] | None = None
        self._stopped = False

    def run(self) -> None:
        while not self._stopped:
            try:
                key, instance = self._waiting.get_nowait()
            except queue.Empty:
                break
            self._done.put((key, instance, self._place(instance)))
        self.stop()

    def stop(self) -> None:
        self._stopped = True
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait()

    def _place(self, instance: Instance) -> dict[str, Any]:
        if self._process is None or self._process.poll() is not None:
            command = [sys.executable, "-m", "rewrite_engine.sweep.worker"]
            self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        process = self._process
        assert process.stdin is not None and process.stdout is not None
        try:
            process.stdin.write(json.dumps({"instance": instance.to_json(), "limits": dict(self._limits)}) + "\n")
            process.stdin.flush()
            answer = process.stdout.readline()
        except OSError:
            answer = ""
        if not answer:
            process.wait()
            return {"error": f"the process that placed it ended with status {process.returncode}"}
        result: dict[str, Any] = json.loads(answer)
        return result
