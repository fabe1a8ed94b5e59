"""Whether a command still fails on a model: by its exit status, or by an expression that its output matches."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import signal
import subprocess
from dataclasses import dataclass
from pathlib import Path

from rewrite_engine.diagnostics import RewriteError


def _end(process: subprocess.Popen[str]) -> None:
    """Ends what is left of a command's session."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    if process.stdout is not None:
        process.stdout.close()


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a command did: its exit status (None: stopped at the time limit) and what it printed."""

    status: int | None
    output: str


@dataclass(frozen=True, slots=True)
class Check:
    """A command; `{}` in it stands for the model's path, which is its last argument where there is none.

    `pattern` is an expression that the output of a failing command holds; without it a command fails by its exit
    status. `timeout` in seconds: a command that takes longer does not fail.
    """

    command: str
    pattern: str | None = None
    timeout: float = 300.0

    def run(self, model: Path) -> Outcome:
        """Runs the command on a model. Raises `RewriteError` where there is no such command."""
        words = self._words()
        words = [word.replace("{}", str(model)) for word in words] if "{}" in self.command else [*words, str(model)]
        try:
            process = subprocess.Popen(
                words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, errors="replace",
                start_new_session=True,
            )  # fmt: skip
        except OSError as error:
            raise RewriteError(f"--check: cannot run {words[0]}: {error.strerror}") from None
        try:
            output, _ = process.communicate(timeout=self.timeout)
        except subprocess.TimeoutExpired:
            return Outcome(None, "")
        finally:  # also at an interrupt: nothing that the command started goes on
            _end(process)
        return Outcome(process.returncode, output)

    def fails(self, outcome: Outcome, first: Outcome | None = None) -> bool:
        """Whether that is the failure that was looked for; `first` is what the command did on the whole model."""
        if outcome.status is None:
            return False
        if self.pattern is not None:
            return re.search(self.pattern, outcome.output, re.MULTILINE) is not None
        return outcome.status != 0 and (first is None or outcome.status == first.status)

    def _words(self) -> list[str]:
        try:
            words = shlex.split(self.command)
        except ValueError as error:
            raise RewriteError(f"--check: {error}: {self.command}") from None
        if not words:
            raise RewriteError("--check: expected a command")
        return words

    def validate(self) -> None:
        """Raises `RewriteError` for a command or an expression that cannot be read."""
        self._words()
        try:
            re.compile(self.pattern or "")
        except re.error as error:
            raise RewriteError(f"--pattern: {error}: {self.pattern}") from None
