"""The library of a bundle: compiled from its C by the host's compiler, and whether it fits the machine at hand.

In: C text and a compiler. Out: a `StoredLibrary`: the file with the facts of its making, as library.json states them.
"""

from __future__ import annotations

import hashlib
import json
import platform
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from rewrite_engine.backend.c_kernels import KERNELS_C, CKernels
from rewrite_engine.diagnostics import RewriteError
from rewrite_engine.loops.compiler import Compiler, NoCompiler, build_text, choose, features_here, this_processor

ENGINES = ("auto", "c", "numpy")
"""How kernels without a code generator run: in C where there is a compiler, in C or not at all, in NumPy."""
FOLDER = "lib/"
LIBRARY = "lib/kernels.so"
LIBRARY_JSON = "lib/library.json"
LIBRARY_SCHEMA = "rewrite_engine/library/1"
_FACTS = ("compiler", "version", "flags", "triple", "cpu", "processor", "features", "source")


@dataclass(frozen=True, slots=True)
class StoredLibrary:
    """A library file. `processor` is the digest of what it was tuned for ("native" alone), `features` what else the
    processor must have, `source` the digest of its C."""

    path: Path
    compiler: str
    version: str
    flags: tuple[str, ...]
    triple: str
    cpu: str
    processor: str
    features: tuple[str, ...]
    source: str
    content: bytes = field(repr=False)

    def to_json(self) -> dict[str, object]:
        """The content of library.json."""
        facts = {name: getattr(self, name) for name in _FACTS}
        facts.update(flags=list(self.flags), features=list(self.features))
        return {"schema": LIBRARY_SCHEMA, "sha256": hashlib.sha256(self.content).hexdigest(), **facts}

    @property
    def unfit(self) -> str:
        """Why this machine cannot run it; "" where it can."""
        machine = self.triple.split("-")[0]
        if machine != platform.machine():
            return f"the library is for {self.triple}, this machine is {platform.machine()}"
        if self.cpu == "native" and self.processor != _digest(this_processor()):
            return "the library was made for another processor"
        missing = sorted(set(self.features) - features_here()) if self.cpu != "native" else []
        return f"the library needs a processor with {', '.join(missing)}" if missing else ""


def check_engine(engine: str) -> None:
    """Raises RewriteError for an unknown engine."""
    if engine not in ENGINES:
        raise RewriteError(f"engine: expected one of {', '.join(ENGINES)}, found `{engine}`")


def host_compiler(options: Mapping[str, str], engine: str) -> Compiler | None:
    """The compiler that the host's options ask for; None where there is none and none was asked for.

    Raises RewriteError for an unknown engine, NoCompiler where one is needed.
    """
    check_engine(engine)
    if engine == "numpy":
        return None
    try:
        return choose(options.get("cc"), options.get("cpu"), options.get("triple"))
    except NoCompiler:
        if engine == "c" or options:
            raise
        return None


def build_library(kernels: CKernels, compiler: Compiler) -> StoredLibrary:
    """The library of a bundle's C, from the cache where it is there. Raises CompilerFailed."""
    built = build_text(kernels.text, compiler)
    return StoredLibrary(
        path=built.path,
        compiler=shlex.join(compiler.command),
        version=compiler.version,
        flags=compiler.all_flags("library"),
        triple=compiler.triple,
        cpu=compiler.cpu,
        processor=_digest(compiler.processor),
        features=compiler.features,
        source=kernels.sha256,
        content=built.path.read_bytes(),
    )


def read_library(root: Path, contents: Mapping[str, bytes], kernels: CKernels | None) -> StoredLibrary | None:
    """The library of a stored bundle, if it has one. Raises RewriteError where it is not that of the bundle's C."""
    if LIBRARY not in contents or kernels is None:
        return None
    path, content = root / LIBRARY_JSON, contents[LIBRARY]
    try:
        facts = json.loads(contents[LIBRARY_JSON])
        if facts["schema"] != LIBRARY_SCHEMA:
            raise ValueError(f"found schema {facts['schema']}")
        lists = {name: tuple(map(str, facts[name])) for name in ("flags", "features")}
        texts = {name: str(facts[name]) for name in _FACTS if name not in lists}
        digest = facts["sha256"]
    except (KeyError, TypeError, ValueError) as error:
        raise RewriteError(f"{path}: expected the facts of {LIBRARY}, schema `{LIBRARY_SCHEMA}`: {error!r}") from error
    if digest != hashlib.sha256(content).hexdigest() or texts["source"] != kernels.sha256:
        raise RewriteError(f"{path}: expected the library of {KERNELS_C}, found that of other kernels")
    return StoredLibrary(path=root / LIBRARY, content=content, **lists, **texts)  # type: ignore[arg-type]


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
