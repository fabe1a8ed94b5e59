"""`place --what-if`."""

from __future__ import annotations

import argparse
import json

from rewrite_engine.cli.place import load_model, load_rules, place_options
from rewrite_engine.cli.summary import summary
from rewrite_engine.cli.text import say
from rewrite_engine.diagnostics import RewriteError
from rewrite_engine.graph import to_terms
from rewrite_engine.placement.what_if import what_if


def place_what_if(options: argparse.Namespace) -> int:
    """Places a model and prints what changes of the machine would save, the most first."""
    others = {"-o": options.output, "--compare": options.compare, "--placement": options.placement,
              "--problem": options.problem}  # fmt: skip
    given = [name for name, value in others.items() if value]
    if given:
        raise RewriteError(f"--what-if prints a table and writes nothing: leave out {', '.join(given)}")
    rules = load_rules(options)
    module = load_model(options)
    placement, table = what_if(to_terms(module), rules, name=module.source.name, **place_options(options))
    for warning in placement.warnings:
        say(options, f"warning: {warning}")
    if options.json:
        print(json.dumps(table.to_json(), indent=1, sort_keys=True, ensure_ascii=False))
    else:
        print(f"{summary(placement)}\n\n{table}")
    return 0
