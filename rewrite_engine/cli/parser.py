"""The options of every verb. Imports nothing that is slow: a verb's work is imported when it runs."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from importlib import import_module
from typing import Any

from rewrite_engine.pause import collector_paused

Run = Callable[[argparse.Namespace], int]


def _lazily(module: str, function: str) -> Run:
    def run(options: argparse.Namespace) -> int:
        with collector_paused():
            verb: Run = getattr(import_module(f"rewrite_engine.cli.{module}"), function)
        return verb(options)

    return run


class _Parser(argparse.ArgumentParser):
    """Arguments that take a value take no empty one."""

    def add_argument(self, *names: Any, **given: Any) -> argparse.Action:
        if given.get("action") in (None, "append") and not {"type", "choices"} & given.keys():
            given["type"] = _text
        return super().add_argument(*names, **given)


def build_parser() -> argparse.ArgumentParser:
    """The parser; `options.run(options)` runs the verb."""
    from rewrite_engine import __version__

    parser = _Parser(
        prog="rewrite-engine",
        description="Places ONNX models on machines with several targets, by the rules of .pat files.",
        epilog="Exit status: 0 done; 1 something was found wrong; 2 bad input or usage; "
        "3 a limit was hit; 130 interrupted.",
    )
    parser.add_argument("--version", action="version", version=f"rewrite-engine {__version__}")
    verbs = parser.add_subparsers(metavar="VERB", required=True)

    def verb(name: str, help_: str, module: str, function: str) -> argparse.ArgumentParser:
        sub = verbs.add_parser(name, help=help_, description=help_[0].upper() + help_[1:] + ".")
        sub.set_defaults(run=_lazily(module, function))
        sub.add_argument("--json", action="store_true", help="print the machine's form of the result")
        sub.add_argument("-v", "--verbose", action="store_true", help="say more on stderr")
        sub.add_argument("-q", "--quiet", action="store_true", help="say nothing on stderr but errors")
        sub.add_argument("--color", choices=["auto", "always", "never"], default="auto", help="colour the output")
        sub.add_argument("--seed", type=_natural, default=0, metavar="N", help="seed of everything random (default 0)")
        return sub

    demo = verb("demo", "run the main job on a bundled model, start to end", "demo", "demo")
    demo.add_argument(
        "-o", "--output", default="out/demo", metavar="DIR", help="the bundle's folder (default out/demo)"
    )

    check = verb("check", "report every problem in rule files", "rules", "check")
    check.add_argument("files", nargs="+", metavar="FILE.pat")

    fmt = verb("fmt", "format rule files: spaces, indentation, blank lines", "fmt", "fmt")
    fmt.add_argument("files", nargs="+", metavar="FILE.pat")
    fmt.add_argument("--check", action="store_true", help="change nothing; status 1 where a file is not in the format")

    init = verb("init", "print a rule file to start from", "init", "init")
    init.add_argument("target", metavar="TARGET", help="the name of the target that it describes")
    init.add_argument("-o", "--output", metavar="FILE", help="write it there, where there is no file yet")

    test = verb("test", "run the tests in rule files, and verify their rules and composites", "rules", "test")
    test.add_argument("files", nargs="+", metavar="FILE.pat")
    test.add_argument("--write", action="store_true",
                      help="append tests for what no test makes match (with --json: print them)")  # fmt: skip
    test.add_argument("--no-verify", action="store_true", help="run the tests only")
    test.add_argument("--tier", type=int, choices=[1, 2, 3, 4], default=3,
                      help="verify shapes and dtypes (1), in exact algebra too (2), "
                      "in floats too (3, the default), with Z3 too (4)")  # fmt: skip
    test.add_argument("--examples", type=_positive, default=24, metavar="N",
                      help="matches that are judged for each rule (default 24)")  # fmt: skip
    test.add_argument(
        "--coverage", action="store_true", help="list the alternatives and guard clauses that no test reaches"
    )

    match = verb("match", "list every match of every rule in a model", "explain", "match")
    _model_options(match)

    explain = verb("explain", "say why operators run where they do, and not elsewhere", "explain", "explain")
    explain.add_argument("--node", metavar="NAME", help="explain the operator that computes this value, in depth")
    _model_options(explain)

    place = verb("place", "choose where every operator of a model runs", "place", "place")
    place.add_argument("-o", "--output", metavar="DIR", help="write placement.json, search.json and model.onnx there")
    place.add_argument("--compare", metavar="OLD.json", help="print what changed since another placement of the model")
    _reused(place)
    place.add_argument("--what-if", action="store_true",
                       help="print what faster links, smaller launches and more memory would save")  # fmt: skip
    place.add_argument("--problem", metavar="FILE", help="write the placement problem for other solvers: .json or .mps")
    _model_options(place)

    compile_ = verb("compile", "place, lower and write a bundle that runs", "place", "compile_")
    compile_.add_argument("-o", "--output", required=True, metavar="DIR", help="the bundle's folder")
    _engine(compile_)
    compile_.add_argument("--abi", choices=["ffi", "packed"], default="ffi",
                          help="how others call kernels: apache-tvm-ffi, TVM's packed functions")  # fmt: skip
    compile_.add_argument("--standalone", action="store_true", help="add a C program that runs the whole model")
    compile_.add_argument("--host", metavar="cc=…,cpu=…,triple=…",
                          help="the C compiler, the processor and the platform of the host's kernels")  # fmt: skip
    _reused(compile_)
    _model_options(compile_, "NAME=SIZE[,SIZE…]", "bind a dimension; several sizes: a bundle for each (repeatable)")

    run = verb("run", "run a bundle", "run", "run")
    run.add_argument("bundle", metavar="BUNDLE")
    run.add_argument("--input", metavar="F.npz", help="inputs by name (default: seeded random ones)")
    run.add_argument("--dim", action="append", default=[], metavar="NAME=SIZE",
                     help="of a bundle with several bindings, the one to run (default: that of the inputs, else the "
                     "first)")  # fmt: skip
    run.add_argument("--output", metavar="F.npz", help="write the outputs there")
    run.add_argument("--check", action="store_true", help="compare with ONNX Runtime on two seeds")
    run.add_argument("--tolerance", type=_tolerance, metavar="E",
                     help="with --check: the error allowed, relative to an output's largest magnitude "
                     "(default: what the model's rounding explains)")  # fmt: skip
    run.add_argument("--each", action="store_true", help="with --check: name the first kernel that differs")
    _engine(run)
    run.add_argument("--repeat", type=_positive, default=1, metavar="N", help="run N times (default 1)")

    sweep = verb("sweep", "run an experiment: many placements, kept in a database", "sweep", "sweep")
    sweep.add_argument("experiment", metavar="EXPERIMENT.toml")
    sweep.add_argument("-o", "--output", metavar="DIR", help="the folder of the results (default: named as the file)")
    sweep.add_argument("--jobs", type=_positive, metavar="N", help="processes (default: one less than there are cores)")

    reduce = verb("reduce", "find the smallest model on which a command still fails", "reduce", "reduce")
    reduce.add_argument("model", metavar="MODEL.onnx")
    reduce.add_argument("--check", metavar="CMD", help="the command; {} in it is the model's path (default: at its "
                        "end). It fails by its exit status, the same one as on the whole model")  # fmt: skip
    reduce.add_argument("--pattern", metavar="REGEX", help="it fails where its output matches, whatever its status")
    reduce.add_argument("-o", "--output", default="reduced.onnx", metavar="FILE", help="(default reduced.onnx)")
    reduce.add_argument("--timeout", type=_seconds, default=300.0, metavar="S",
                        help="a command that takes longer does not fail (default 300)")  # fmt: skip
    reduce.add_argument("--replay", metavar="STEPS.json", help="do the steps that --json printed, running nothing")

    verb("doctor", "say what is installed, what is missing and how to get it", "doctor", "doctor")
    return parser


def _model_options(
    sub: argparse.ArgumentParser, dim: str = "NAME=SIZE", dim_help: str = "bind a dimension (repeatable)"
) -> None:
    """What `match`, `explain`, `place` and `compile` share."""
    sub.add_argument("model", metavar="MODEL.onnx")
    sub.add_argument(
        "-p", "--patterns", action="append", required=True, metavar="FILE", help="a rule file (repeatable)"
    )
    sub.add_argument("--strategy", default="optimal", metavar="NAME",
                     help="optimal, priority, largest, dp, op-map or single:TARGET (default optimal)")  # fmt: skip
    sub.add_argument("--objective", default="latency", metavar="NAME",
                     help="latency, makespan, throughput or energy (default latency)")  # fmt: skip
    sub.add_argument(
        "--targets", type=_list, metavar="A,B", help="only these targets; their order is that of `priority`"
    )
    sub.add_argument("--map", action="append", default=[], metavar="OP=PLACE", help="for op-map (repeatable)")
    sub.add_argument("--fallback", default="host", metavar="TARGET", help="for op-map (default host)")
    sub.add_argument("--pin", action="append", default=[], metavar="VALUE=PLACE",
                     help="compute a value on a target or device (repeatable)")  # fmt: skip
    sub.add_argument("--dim", action="append", default=[], metavar=dim, help=dim_help)
    sub.add_argument(
        "--value", action="append", default=[], metavar="INPUT=VALUE",
        help="give an input one value for good, as where it decides between branches (repeatable)",
    )  # fmt: skip
    sub.add_argument("--allow", type=_list, default="exact,reassociates", metavar="KINDS",
                     help="kinds of rewrites: exact, reassociates, approximates (default the first two)")  # fmt: skip
    sub.add_argument("--time-limit", type=_seconds, metavar="S", help="seconds for the search")
    sub.add_argument(
        "--gap", type=_fraction, default=0.0, metavar="G", help="accept a placement proven within this gap"
    )
    sub.add_argument("--costs", metavar="FILE", help='measured costs, for capabilities that cost profile("key")')
    sub.add_argument("--set", action="append", default=[], metavar="PATH=VALUE",
                     help="a number or option of the rule files, such as npu0.memory=32MiB (repeatable)")  # fmt: skip


def _reused(sub: argparse.ArgumentParser) -> None:
    sub.add_argument("--placement", metavar="FILE", help="follow a placement.json, edited or not, in place of a search")


def _engine(sub: argparse.ArgumentParser) -> None:
    sub.add_argument("--engine", choices=["auto", "c", "numpy"], default="auto",
                     help="how loop nests run: in C where there is a compiler (auto), in C, in NumPy")  # fmt: skip


def _text(text: str) -> str:
    if not text.strip():
        raise argparse.ArgumentTypeError("expected a value, found an empty one; an option may be left out")
    return text


def _list(text: str) -> str:
    if not text.strip(", "):
        raise argparse.ArgumentTypeError(
            f"expected names with commas between them, found `{text}`; leave the option out"
        )
    return text


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected a whole number of at least 1, found {text}")
    return int(text)


def _natural(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"expected a whole number of at least 0, found {text}")
    return int(text)


def _seconds(text: str) -> float:
    return _number(text, math.inf, "seconds, at least 0")


def _tolerance(text: str) -> float:
    return _number(text, math.inf, "an error of at least 0, such as 1e-3")


def _fraction(text: str) -> float:
    return _number(text, 1.0, "a number of at least 0 and less than 1, such as 0.01")


def _number(text: str, end: float, expected: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0 <= number < end:
        raise argparse.ArgumentTypeError(f"expected {expected}, found {text}")
    return number
