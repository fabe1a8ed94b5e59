"""Values of options: `NAME=VALUE` pairs, and the sizes that `--dim` gives."""

from __future__ import annotations

import json
from collections.abc import Sequence

from rewrite_engine.diagnostics import RewriteError


def pairs(option: str, texts: Sequence[str]) -> dict[str, str]:
    """`NAME=VALUE` texts by name. Raises RewriteError for what is none, and for a name with two values."""
    found: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.rpartition("=")
        if not equals or not name or not value:
            raise RewriteError(f"{option}: expected NAME=VALUE, found `{text}`")
        name, value = name.strip(), value.strip()
        if found.setdefault(name, value) != value:
            raise RewriteError(f"{option}: `{name}` is given twice: `{found[name]}` and `{value}`; leave one out")
    return found


def input_values(texts: Sequence[str]) -> dict[str, object]:
    """`sr=16000`, `mask=[true, false]`: values of inputs. Raises RewriteError for what is no number, truth or list."""
    found = {}
    for name, text in pairs("--value", texts).items():
        try:
            found[name] = json.loads(text)
        except ValueError:
            found[name] = text
        if isinstance(found[name], str | dict | None):
            raise RewriteError(
                f"--value: expected a number, true, false or a list of them for `{name}`, found `{text}`"
            )
    return found


def single_sizes(texts: Sequence[str]) -> dict[str, int]:
    """`batch=4`: one size for each dimension. Raises RewriteError for what is no size, and for several."""
    sizes = {}
    for name, several in dim_sizes(texts).items():
        if len(several) > 1:
            text = ",".join(map(str, several))
            raise RewriteError(f"--dim: expected one size for `{name}`, found `{text}`; `compile` takes several")
        sizes[name] = several[0]
    return sizes


def dim_sizes(texts: Sequence[str]) -> dict[str, tuple[int, ...]]:
    """`batch=1,4`: the sizes of each dimension. Raises RewriteError for what is no size."""
    sizes = {}
    for name, value in pairs("--dim", texts).items():
        several = [text.strip() for text in value.split(",")]
        for text in several:
            if not text.isdecimal() or int(text) < 1:
                raise RewriteError(f"--dim: expected a size of at least 1 for `{name}`, found `{text}`")
        sizes[name] = tuple(map(int, several))
    return sizes
