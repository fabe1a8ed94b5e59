"""Code generators: a target's own way to make kernels, in place of loop nests.

In: a placed graph and a code generator for some of its targets. Out: an artifact per kernel, which the bundle stores
and the generator loads again at run time. A generator is found by its name: given in Python, or an entry point.
"""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np

from rewrite_engine import plugins
from rewrite_engine.backend.functions import Function
from rewrite_engine.backend.runtime import Kernel
from rewrite_engine.diagnostics import RewriteError, did_you_mean
from rewrite_engine.graph.placed import KernelCall, PlacedGraph
from rewrite_engine.operators.types import TensorType

HOST = "host"
HOST_OPTIONS = ("cc", "cpu", "triple")
"""What the host's C compiler may be told: the command, the processor and the platform that it makes code for."""


@runtime_checkable
class CodeGenerator(Protocol):
    """Makes the kernels of a target. `name` and `version` are stored in the bundle; `name` leads back to the generator.

    `generate` gets one kernel (its body, its attributes from `with`), the types of its operands and results by value
    name, and the elements of those operands that are parameters. It returns the artifact, which depends on these
    alone; None leaves the kernel to the loop nests. `load` turns an artifact into a callable that reads the arrays of
    the kernel's inputs and fills those of its outputs, in the order of the call.
    """

    @property
    def name(self) -> str: ...

    @property
    def version(self) -> str: ...

    def generate(
        self, call: KernelCall, types: Mapping[str, TensorType], parameters: Mapping[str, np.ndarray]
    ) -> bytes | None: ...

    def load(self, artifact: bytes) -> Kernel: ...


@dataclass(frozen=True, slots=True)
class Artifact:
    """A kernel as its generator made it; the bundle keeps it as a file under kernels/."""

    generator: str
    version: str
    content: bytes

    @property
    def hash(self) -> str:
        """The sha256 of the content, in hexadecimal."""
        return hashlib.sha256(self.content).hexdigest()


@dataclass(frozen=True, slots=True, eq=False)
class Targets:
    """`rw.compile(targets=…)`, checked: code generators by target, and what the host's compiler is told."""

    generators: Mapping[str, CodeGenerator]
    host: Mapping[str, str]


def read_targets(given: Mapping[str, object], targets: Sequence[str]) -> Targets:
    """A generator, or the name of an installed one, by target; for the host also its options.

    Raises RewriteError for an unknown target, generator or option.
    """
    generators: dict[str, CodeGenerator] = {}
    host: dict[str, str] = {}
    for target, value in given.items():
        if target not in targets:
            hint = did_you_mean(str(target), targets)
            message = f"targets: no target is called `{target}`; there are {', '.join(targets)}"
            raise RewriteError(message + (f"; {hint}" if hint else ""))
        if isinstance(value, Mapping):
            if target != HOST:
                raise RewriteError(f"targets: `{target}`: expected a code generator or its name, found options")
            host = _host_options(value)
        else:
            generators[target] = _generator(value, target)
    return Targets(generators, host)


def _host_options(given: Mapping[object, object]) -> dict[str, str]:
    for option, value in given.items():
        if option not in HOST_OPTIONS:
            hint = did_you_mean(str(option), HOST_OPTIONS)
            message = f"targets: the host has no option `{option}`; there are {', '.join(HOST_OPTIONS)}"
            raise RewriteError(message + (f"; {hint}" if hint else ""))
        if not isinstance(value, str) or not value:
            raise RewriteError(f"targets: host option `{option}`: expected a text, found {value!r}")
    return {str(option): str(given[option]) for option in sorted(map(str, given))}


def _generator(value: object, target: str) -> CodeGenerator:
    if isinstance(value, str):
        return installed(value)
    if not isinstance(value, CodeGenerator) or isinstance(value, type):
        what = f"the class {value.__name__}; make an object of it" if isinstance(value, type) else repr(value)
        raise RewriteError(
            f"targets: `{target}`: expected a code generator (name, version, generate, load) or the name of one, "
            f"found {what}"
        )
    return value


def installed(name: str) -> CodeGenerator:
    """The code generator of that name among the entry points; a class there is made into an object.

    Raises RewriteError where there is none, or what is there is none.
    """
    found = plugins.load(plugins.CODEGENS, name)
    if found is None:
        raise plugins.unknown(plugins.CODEGENS, name)
    generator = found() if isinstance(found, type) else found
    if not isinstance(generator, CodeGenerator):
        plugin = plugins.find(plugins.CODEGENS, name)
        raise RewriteError(f"the {plugin}: expected name, version, generate and load, found {generator!r}")
    return generator


def generate(placed: PlacedGraph, generators: Mapping[str, CodeGenerator]) -> dict[str, Artifact]:
    """Artifacts by kernel name, for the kernels of the targets that have a generator; those it declines are left out.

    Raises RewriteError, naming the kernel, where a generator fails.
    """
    found: dict[str, Artifact] = {}
    for call in placed.steps:
        generator = generators.get(call.target) if isinstance(call, KernelCall) else None
        if generator is None or not isinstance(call, KernelCall):
            continue
        types = {name: placed.types[name] for name in (*call.inputs, *call.outputs)}
        parameters = {name: placed.parameters[name] for name in call.inputs if name in placed.parameters}
        where = f"code generator `{generator.name}`, kernel `{call.name}` ({call.rule})"
        try:
            content = generator.generate(call, types, parameters)
        except Exception as error:
            raise RewriteError(f"{where}: {type(error).__name__}: {error}") from error
        if content is None:
            continue
        if not isinstance(content, bytes):
            raise RewriteError(f"{where}: expected bytes or None, found {type(content).__name__}")
        found[call.name] = Artifact(generator.name, generator.version, content)
    return found


def loaded(
    functions: Mapping[str, Function], artifacts: Mapping[str, Artifact], given: Iterable[CodeGenerator]
) -> dict[str, Kernel]:
    """A callable for every symbol with an artifact. Generators are looked for among those `given`, then installed.

    Raises RewriteError where a generator is missing or refuses its artifact.
    """
    generators = {generator.name: generator for generator in given}
    kernels: dict[str, Kernel] = {}
    by_content: dict[tuple[str, bytes], Kernel] = {}
    for symbol, artifact in artifacts.items():
        name = artifact.generator
        if name not in generators:
            generators[name] = _at_run_time(name, functions[symbol])
        _compare_versions(generators[name], artifact, functions[symbol])
        key = (name, artifact.content)
        if key not in by_content:
            by_content[key] = _load(generators[name], artifact, symbol)
        kernels[symbol] = by_content[key]
    return kernels


def _at_run_time(name: str, function: Function) -> CodeGenerator:
    if plugins.find(plugins.CODEGENS, name) is None:
        raise RewriteError(
            f"kernel `{function.symbol}` of target `{function.target}` was made by the code generator `{name}`, which "
            f"is not installed; install the package that offers it, or pass it to Bundle.open(…, generators=[…])"
        )
    return installed(name)


def _compare_versions(generator: CodeGenerator, artifact: Artifact, function: Function) -> None:
    if generator.version != artifact.version:
        warnings.warn(
            f"kernels of target `{function.target}` were made by {artifact.generator} {artifact.version}; "
            f"{generator.version} is installed and loads them",
            RuntimeWarning,
            stacklevel=2,
        )


def _load(generator: CodeGenerator, artifact: Artifact, symbol: str) -> Kernel:
    where = f"code generator `{generator.name}`, kernel `{symbol}`"
    try:
        kernel = generator.load(artifact.content)
    except Exception as error:
        raise RewriteError(f"{where}: the artifact cannot be loaded: {type(error).__name__}: {error}") from error
    if not callable(kernel):
        raise RewriteError(f"{where}: expected a callable of the inputs and the outputs, found {kernel!r}")

    def run(inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray]) -> None:
        try:
            kernel(inputs, outputs)
        except Exception as error:
            raise RewriteError(f"{where} failed: {type(error).__name__}: {error}") from error

    return run
