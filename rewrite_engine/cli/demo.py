"""`demo`: the main job on the bundled model, start to end."""

from __future__ import annotations

import argparse
import json

from rewrite_engine import api
from rewrite_engine.backend.bundle import Bundle
from rewrite_engine.cli.run import check, check_lines
from rewrite_engine.cli.summary import summary
from rewrite_engine.files import check_writable
from rewrite_engine.graph import bundled_model

RULES = ("board.pat",)


def demo(options: argparse.Namespace) -> int:
    """Places the bundled model on a host, a library and an accelerator, writes the bundle, reloads it and checks it."""
    check_writable(options.output)
    model = bundled_model()
    rules = api.load_rules(*RULES)
    module = api.load(model)
    placement = api.place(module, rules)
    api.compile(module, rules, placement=placement).save(options.output)
    bundle = Bundle.open(options.output)
    assert isinstance(bundle, Bundle), "a model with one binding"
    if not options.json:  # before the check, which needs more to be installed
        print(f"$ rewrite-engine compile {model} -p {' -p '.join(RULES)} -o {options.output}")
        print(summary(placement))
        print(f"bundle     {options.output}")
        print(f"$ rewrite-engine run {options.output} --check", flush=True)
    report = check(bundle, options.seed)
    if options.json:
        found = {"bundle": options.output, "cost": placement.costs.total, "bound": placement.bound,
                 "status": placement.status, "largest_error": report.largest_error, "ok": report.ok}  # fmt: skip
        print(json.dumps(found, indent=1, sort_keys=True))
    else:
        print("\n".join(check_lines(report)))
    return 0 if report.ok else 1
