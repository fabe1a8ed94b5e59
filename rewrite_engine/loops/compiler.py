"""C compilers: which one, what it is told, and a cache of what it made.

In: C text. Out: the file of a shared library or of a program. It is found again by the hash of its text, the compiler's
version, the flags and the processor; it ends with the hash of its own bytes and is installed by an atomic rename.
"""

from __future__ import annotations

import functools
import hashlib
import os
import platform
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rewrite_engine.diagnostics import RewriteError
from rewrite_engine.files import abandoned, own_name

FLAGS = (
    "-std=gnu11", "-O2", "-ffp-contract=fast", "-fno-math-errno", "-fno-trapping-math", "-fwrapv",
    "-fno-strict-aliasing", "-pthread", "-w", "-Werror=implicit-function-declaration",
)  # fmt: skip
"""What every compilation is told, beside the processor and the kind of file."""

KINDS = {"library": ("-fvisibility=hidden", "-fPIC", "-shared"), "program": ()}
"""Flags by what is made; a program has a `main`."""

_SPELLED = {
    "sse3": "pni", "bmi": "bmi1", "lzcnt": "abm", "lahf_sahf": "lahf_lm", "prfchw": "3dnowprefetch", "rdrnd": "rdrand",
    "pclmul": "pclmulqdq", "sha": "sha_ni", "crc32": "sse4_2", "shstk": "fpu",  # the last runs anywhere
}  # fmt: skip
"""Features that compilers and /proc/cpuinfo spell differently."""

SANITIZERS = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-fno-omit-frame-pointer", "-g")
"""Flags of a library that stops at the first wrong access or undefined operation (load it with libasan first)."""


class NoCompiler(RewriteError):
    """There is no C compiler. The message says what was looked for; kernels run in NumPy instead."""


class CompilerFailed(RewriteError):
    """The C compiler did not make a library. The message holds what it said; kernels run in NumPy instead."""


@dataclass(frozen=True, slots=True)
class Compiler:
    """A compiler command with its version line; `triple` is the platform that it makes code for ("x86_64-linux-gnu"),
    `cpu` the processor, "native" for this one and "" for the platform's least."""

    command: tuple[str, ...]
    version: str
    triple: str
    cpu: str

    @property
    def machine(self) -> str:
        """The architecture that it makes code for, as `platform.machine()` spells it."""
        return self.triple.split("-")[0]

    @property
    def flags(self) -> tuple[str, ...]:
        """The flags that choose the processor."""
        if not self.cpu:
            return ()
        return (f"-mcpu={self.cpu}",) if self.machine.startswith(("aarch64", "arm")) else (f"-march={self.cpu}",)

    @property
    def lanes(self) -> int:
        """float32 in a vector register of its processor, for `emit`: what the compiler says of it."""
        command = [*self.command, *self.flags, "-dM", "-E", "-x", "c", os.devnull]
        said = subprocess.run(command, capture_output=True, text=True, check=False).stdout
        return 16 if "__AVX512F__" in said else 8 if "__AVX__" in said else 4

    def all_flags(self, kind: str) -> tuple[str, ...]:
        """Every flag of a compilation that makes one of `KINDS`."""
        return (*FLAGS, *KINDS[kind], *self.flags)

    @property
    def features(self) -> tuple[str, ...]:
        """Features that its processor has and the platform's least has not, as /proc/cpuinfo spells them (x86 only)."""
        return tuple(sorted(_macros(self.command, self.flags) - _macros(self.command, ())))

    @property
    def processor(self) -> str:
        """What its code depends on beside its flags: this processor, where it was told "native"."""
        return this_processor() if self.cpu == "native" else f"{self.machine} {self.cpu}"


@dataclass(frozen=True, slots=True)
class Built:
    """A file that a compiler made; `cached` says whether it was there already."""

    path: Path
    cached: bool


def choose(cc: str | None = None, cpu: str | None = None, triple: str | None = None) -> Compiler:
    """The compiler `cc` (default: $CC, gcc, clang; for another platform TRIPLE-gcc or clang) for a processor (default:
    this one, or the least of another platform) and a platform (default: the compiler's own).

    Raises NoCompiler where there is none, or where it makes code for another platform, and CompilerFailed where it does
    not run.
    """
    if triple and not cc and not os.environ.get("CC") and _machine(triple) != platform.machine():
        command = _cross_compiler(triple)
    else:
        command = find_compiler(cc)
    version = compiler_version(command)
    if triple and "clang" in version:
        command = (*command, f"--target={triple}")
    made_for = _said(command, "-dumpmachine") or f"{platform.machine()}-unknown"
    if triple and _machine(triple) != _machine(made_for):
        message = f"{shlex.join(command)} makes code for {made_for}, expected {triple}"
        raise NoCompiler(f"{message}; name a compiler for that platform as cc, such as {triple}-gcc")
    native = _machine(made_for) == platform.machine()
    return Compiler(command, version, made_for, cpu or ("native" if native else ""))


def build_text(
    text: str, compiler: Compiler, *, kind: str = "library", cache: str | Path | None = None, flags: Sequence[str] = ()
) -> Built:
    """The file that the compiler makes of C text, unless the cache (default: the user's) has it.

    `kind` is one of `KINDS`. Raises CompilerFailed, and RewriteError where the cache cannot be written.
    """
    options = (*compiler.all_flags(kind), *flags)
    folder = Path(cache) if cache is not None else cache_folder()
    key = "\0".join((text, compiler.version, compiler.triple, *options, compiler.processor))
    suffix = ".so" if kind == "library" else ".bin"
    path = folder / f"{hashlib.sha256(key.encode()).hexdigest()[:32]}{suffix}"
    if is_whole(path):  # one that is cut short would crash the process that loads it
        return Built(path, True)
    _compile(compiler.command, options, text, path)
    return Built(path, False)


def find_compiler(cc: str | None = None) -> tuple[str, ...]:
    """The command of the C compiler: `cc`, else $CC, gcc or clang. Raises NoCompiler."""
    return _first([cc] if cc else [os.environ["CC"]] if os.environ.get("CC") else ["gcc", "clang"])


def machine_lanes(cc: str | None = None, cpu: str | None = None) -> int:
    """float32 in a vector register of the processor, for `emit`. Raises NoCompiler."""
    return choose(cc, cpu).lanes


def cache_folder() -> Path:
    """Where libraries are kept: REWRITE_ENGINE_CACHE, else the user's cache folder."""
    given = os.environ.get("REWRITE_ENGINE_CACHE")
    if given:
        return Path(given)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "rewrite_engine" / "kernels"


@functools.cache
def compiler_version(command: tuple[str, ...]) -> str:
    """The first line of what `--version` prints. Raises CompilerFailed where the command does not run."""
    try:
        result = subprocess.run([*command, "--version"], capture_output=True, text=True, check=False)
    except OSError as error:
        raise CompilerFailed(f"{shlex.join(command)} does not run: {error.strerror or error}") from error
    return result.stdout.splitlines()[0] if result.stdout else shlex.join(command)


@functools.cache
def this_processor() -> str:
    """What -march=native depends on: the machine and its processor's model and features."""
    try:
        lines = Path("/proc/cpuinfo").read_text().split("\n\n")[0].splitlines()
    except OSError:
        return f"{platform.machine()} {platform.processor()}"
    wanted = ("model name", "flags", "Features", "CPU part", "CPU implementer")
    return "\n".join([platform.machine(), *(line for line in lines if line.startswith(wanted))])


@functools.cache
def features_here() -> frozenset[str]:
    """Features of this processor, as /proc/cpuinfo spells them."""
    lines = this_processor().splitlines()
    return frozenset(word for line in lines if line.startswith(("flags", "Features")) for word in line.split()[2:])


def is_whole(path: Path) -> bool:
    """Whether a file of the cache is there and ends with the hash of what is before."""
    try:
        content = path.read_bytes()
    except OSError:
        return False
    return hashlib.sha256(content[:-32]).digest() == content[-32:]


def _cross_compiler(triple: str) -> tuple[str, ...]:
    wanted = (f"{triple}-gcc", "clang")
    for command in wanted:
        if shutil.which(command):
            return (command,)
    looked = f"no C compiler for {triple}: looked for {', '.join(wanted)}"
    raise NoCompiler(f"{looked}; install one of them, or name another as cc")


def _first(wanted: Sequence[str]) -> tuple[str, ...]:
    for candidate in wanted:
        command = shlex.split(candidate)
        if command and shutil.which(command[0]):
            return tuple(command)
    raise NoCompiler(f"no C compiler: looked for {', '.join(wanted)}; install gcc or clang, or set CC")


def _machine(triple: str) -> str:
    name = triple.split("-")[0]
    return {"amd64": "x86_64", "arm64": "aarch64"}.get(name, name)


@functools.cache
def _macros(command: tuple[str, ...], flags: tuple[str, ...]) -> frozenset[str]:
    """Processor features that a compiler defines macros for: `#define __BMI2__ 1`."""
    run = [*command, *flags, "-dM", "-E", "-x", "c", os.devnull]
    said = subprocess.run(run, capture_output=True, text=True, check=False).stdout
    names = (name.lower() for name in re.findall(r"#define __([A-Z0-9_]+)__ 1$", said, re.MULTILINE))
    return frozenset(_SPELLED.get(name, name) for name in names)


@functools.cache
def _said(command: tuple[str, ...], option: str) -> str:
    return subprocess.run([*command, option], capture_output=True, text=True, check=False).stdout.strip()


def _compile(command: Sequence[str], options: Sequence[str], text: str, path: Path) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        for left in abandoned(path.parent, ".build"):
            shutil.rmtree(left, ignore_errors=True)
        with tempfile.TemporaryDirectory(prefix=f"{own_name('.build')}.", dir=path.parent) as folder:
            source, made = Path(folder) / "kernels.c", Path(folder) / "kernels.so"
            source.write_text(text)
            result = subprocess.run(
                [*command, *options, str(source), "-o", str(made), "-lm"], capture_output=True, text=True, check=False
            )
            if result.returncode or not made.exists():
                said = "\n".join(result.stderr.strip().splitlines()[:20]) or f"exit status {result.returncode}"
                raise CompilerFailed(f"{shlex.join(command)} failed on the kernels:\n{said}")
            with made.open("ab") as file:  # loaders do not look behind the library
                file.write(hashlib.sha256(made.read_bytes()).digest())
            os.replace(made, path)
    except OSError as error:
        message = f"cannot build kernels in {path.parent}: {error.strerror or error}"
        raise RewriteError(f"{message}; name another folder in REWRITE_ENGINE_CACHE") from error
