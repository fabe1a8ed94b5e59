"""What verbs print: coloured where a terminal reads it, warnings and progress on stderr."""

from __future__ import annotations

import argparse
import os
import re
import sys
from typing import TextIO

_CODES = {"error": "1;31", "warning": "1;33", "note": "1;36", "FAILED": "1;31", "ok": "32"}
_MARK = re.compile(r"(?<=: )(error|warning|note|FAILED|ok)(?=:)")


def paint(text: str, choice: str, stream: TextIO) -> str:
    """The text with the words of `file:1:1: error: …` coloured; `choice` is that of --color."""
    wanted = choice == "always" or (choice == "auto" and stream.isatty() and "NO_COLOR" not in os.environ)
    return _MARK.sub(lambda found: f"\033[{_CODES[found[0]]}m{found[0]}\033[0m", text) if wanted else text


def say(options: argparse.Namespace, text: str) -> None:
    """Progress or a warning on stderr, unless --quiet."""
    if not options.quiet:
        print(paint(text, options.color, sys.stderr), file=sys.stderr)


def counted(number: int, noun: str) -> str:
    """`1 error`, `2 errors`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
