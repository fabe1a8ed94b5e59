"""`match` and `explain`."""

from __future__ import annotations

import argparse
import sys

from rewrite_engine import api
from rewrite_engine.cli.place import load_model, load_rules, place_options
from rewrite_engine.cli.text import paint, say
from rewrite_engine.placement.explain_json import explain_json, match_json
from rewrite_engine.placement.report import dump


def match(options: argparse.Namespace) -> int:
    """Prints every match of every rule, and the nearest miss of those without any."""
    rules = load_rules(options)
    matches = api.match(load_model(options), rules, **place_options(options))
    _show(options, str(matches), match_json(matches) if options.json else None)
    return 0


def explain(options: argparse.Namespace) -> int:
    """Prints why operators run where they do."""
    rules = load_rules(options)
    explanation = api.explain(load_model(options), rules, node=options.node, **place_options(options))
    for warning in explanation.placement.warnings if explanation.placement is not None else ():
        say(options, f"warning: {warning}")
    _show(options, str(explanation), explain_json(explanation) if options.json else None)
    return 0


def _show(options: argparse.Namespace, text: str, value: object) -> None:
    if options.json:
        sys.stdout.write(dump(value).decode())
    else:
        print(paint(text, options.color, sys.stdout))
