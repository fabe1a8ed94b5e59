"""`fmt`: rule files in the one format."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

from rewrite_engine.cli.text import say
from rewrite_engine.diagnostics import PatError, Problem
from rewrite_engine.files import write_file
from rewrite_engine.language.format import formatted
from rewrite_engine.language.parsing import normalise
from rewrite_engine.language.sources import text_of


def fmt(options: argparse.Namespace) -> int:
    """Formats the named files in place, all or none; with --check, status 1 where one is not in the format."""
    changed = {path: after for path, before, after in _formatted(options.files) if before != after}
    if not options.check:
        for path, text in changed.items():
            place = Path(path).resolve()  # a link stays a link
            mode = place.stat().st_mode
            write_file(place, text.encode())
            place.chmod(mode)
    if options.json:
        rows = [{"file": path, "changed": path in changed} for path in dict.fromkeys(options.files)]
        print(json.dumps(rows, indent=1, sort_keys=True))
    else:
        for path in changed:
            print(f"{path}: {'is not in the format' if options.check else 'formatted'}")
    count = len(dict.fromkeys(options.files))
    say(options, f"{count} file{'s' * (count != 1)}: {len(changed)} {'to format' if options.check else 'formatted'}")
    return 1 if options.check and changed else 0


def _formatted(paths: Sequence[str]) -> list[tuple[str, str, str]]:
    """Each file with its text before and after. Raises PatError with the syntax errors of all of them."""
    found: list[tuple[str, str, str]] = []
    problems: list[Problem] = []
    sources: dict[str, str] = {}
    for path in dict.fromkeys(paths):
        text = text_of(path)
        try:
            found.append((path, text, formatted(text, path)))
        except PatError as error:
            problems += error.problems
            sources[path] = normalise(text)
    if problems:
        raise PatError(problems, sources)
    return found
