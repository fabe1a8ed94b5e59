"""`doctor`: what is installed, what is missing and how to get it."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
from importlib.metadata import PackageNotFoundError, version

NEEDED = ("egglog", "hypothesis", "lark", "ml_dtypes", "numpy", "onnx", "onnx-ir")
OPTIONAL = {
    "onnxruntime": "compares bundles in `run --check`: pip install 'rewrite-engine[check]'",
    "z3-solver": "proves rules in `test --tier 4`: pip install 'rewrite-engine[prove]'",
}
COMPILERS = ("gcc", "clang")


def doctor(options: argparse.Namespace) -> int:
    """Prints what was found; status 1 where something needed is missing."""
    packages = {name: _version(name) for name in (*NEEDED, *OPTIONAL)}
    compilers = {name: shutil.which(name) for name in dict.fromkeys([os.environ.get("CC") or "cc", *COMPILERS])}
    missing = [name for name in NEEDED if packages[name] is None]
    if options.json:
        found = {"python": sys.version.split()[0], "packages": packages, "compilers": compilers, "missing": missing}
        print(json.dumps(found, indent=1, sort_keys=True))
        return 1 if missing else 0
    print(f"python       {sys.version.split()[0]}")
    for name, found_version in packages.items():
        note = OPTIONAL.get(name, "needed: pip install rewrite-engine") if found_version is None else ""
        print(f"{name:<12} {found_version or 'missing'}{f'   {note}' if note else ''}")
    for name, path in compilers.items():
        print(f"{name:<12} {path or 'not found'}")
    engine = "C" if any(compilers.values()) else "NumPy (a C compiler makes them faster: install gcc or clang)"
    print(f"kernels run in {engine}; every target is executed and checked on this machine")
    return 1 if missing else 0


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
