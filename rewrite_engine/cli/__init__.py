"""The command line: `rewrite-engine VERB …`. Results on stdout, progress and warnings on stderr.

Exit status: 0 done; 1 done and something was found wrong; 2 bad input or usage; 3 a limit stopped it before any answer;
130 interrupted.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

INTERRUPTED = 130
"""Nothing but what Python has loaded is imported up here: an interrupt of an import is one that `main` handles."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit status."""
    try:
        return _run(arguments)
    except BrokenPipeError:  # the reader of our output has gone
        _mute()
        return 0
    except OSError as error:  # what is read and written by name has messages of its own: this is our output
        _mute()
        print(f"rewrite-engine: error: cannot write the output: {error.strerror or error}", file=sys.stderr)
        return 2
    except BaseException as error:
        if not _interrupted(error):
            raise
        print("rewrite-engine: interrupted", file=sys.stderr)
        return INTERRUPTED


def _mute() -> None:
    """What is still to be printed goes nowhere."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _run(arguments: Sequence[str] | None) -> int:
    from rewrite_engine.cli.parser import build_parser
    from rewrite_engine.cli.text import paint
    from rewrite_engine.diagnostics import LimitReached, PatError, RewriteError

    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by who started us
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115 (open to the end)
    options = build_parser().parse_args(arguments)
    try:
        status: int = options.run(options)
        sys.stdout.flush()
        return status
    except RewriteError as error:
        text = str(error)
        if isinstance(error, PatError):
            count = len(error.problems)
            text += f"\nrewrite-engine: error: {count} error{'s' if count > 1 else ''} in the rule files"
        else:
            text = f"rewrite-engine: error: {text}"
        print(paint(text, options.color, sys.stderr), file=sys.stderr)
        return error.status
    except MemoryError:
        print("rewrite-engine: error: there is not enough memory", file=sys.stderr)
        return LimitReached.status


def entry() -> None:
    """The command: `main`, then the end of the process.

    An interrupt that hits `exec` inside an import makes CPython end by the signal even where it was handled; everything
    is unwound by then, so the process ends at once.
    """
    status = main()
    sys.stderr.flush()
    if status == INTERRUPTED:
        os._exit(status)
    sys.exit(status)


def _interrupted(error: BaseException | None) -> bool:
    """Whether an interrupt is behind an error: what it hits may turn it into an error of its own."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__cause__ or error.__context__
    return error is not None
