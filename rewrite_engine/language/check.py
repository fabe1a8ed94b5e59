"""Everything that can be wrong in rule files before any model is seen, as problems with positions.

In: a `Scope` and the files that the user named. Out: errors, and warnings for what is legal but likely wrong. Needs no
onnx, no e-graph and no solver.
"""

from __future__ import annotations

from collections.abc import Sequence

from rewrite_engine.diagnostics import Problem, Span, did_you_mean
from rewrite_engine.language import declared, functions, locate, syntax
from rewrite_engine.language.bindings import ATTRIBUTE, NODE, VALUE, bind, is_capture
from rewrite_engine.language.check_expressions import Reader, read
from rewrite_engine.language.check_lets import check_let
from rewrite_engine.language.check_patterns import bare, check_patterns
from rewrite_engine.language.check_targets import check_machine, check_target, covered
from rewrite_engine.language.check_tests import check_test
from rewrite_engine.language.check_unused import unused_declarations, unused_names
from rewrite_engine.language.overlap import overlaps
from rewrite_engine.language.results import counts_differ, result_count, template_count
from rewrite_engine.language.scope import Scope
from rewrite_engine.language.walk import walk
from rewrite_engine.operators.types import ITEM_BITS
from rewrite_engine.pause import collector_paused


@collector_paused()
def check(scope: Scope, named: frozenset[str]) -> list[Problem]:
    """The problems of a scope; `named` are the files in which unused declarations are worth a warning."""
    problems: list[Problem] = []
    used: set[tuple[str, str]] = set()
    sources = scope.texts()
    _names(scope, sources, problems)
    looping = _recursive(scope, sources, problems)
    for file in scope.files:
        for item in file.items:
            match item:
                case syntax.Let() if (file.path, item.name) not in looping:
                    check_let(item, scope, problems, used)
                case syntax.PatternDecl() if (file.path, item.name) not in looping:
                    _pattern(item, scope, problems, used)
                case syntax.RuleDecl():
                    _rule(item, scope, problems, used)
                case syntax.OperatorDecl():
                    _operator(item, scope, sources, problems, used)
                case syntax.TestDecl():
                    check_test(item, scope, problems, used)
    check_machine(scope, sources, problems, used)
    for target in scope.targets.values():
        check_target(target, scope, sources, problems, used)
    problems += covered(scope)
    problems += overlaps(scope, sources)
    problems += [
        Problem(Span(file.path, 1, 1, 1, 1), "the file declares nothing", severity="warning")
        for file in scope.files
        if file.path in named and not file.items and not file.broken
    ]
    problems += unused_declarations(scope, named, used, sources)
    return problems


def _names(scope: Scope, sources: dict[str, str], problems: list[Problem]) -> None:
    """Names that mean something already."""
    for file in scope.files:
        for item in file.items:
            if isinstance(item, syntax.Let | syntax.PatternDecl):
                taken = "a function" if functions.find(item.name) else "a dtype" if item.name in ITEM_BITS else ""
                if item.name in ("inf", "true", "false", "chain"):
                    taken = "a word of the language"
                if taken:
                    span = locate.word(sources, item.span, item.name)
                    problems.append(Problem(span, f"`{item.name}` is {taken} already", "choose another name"))


def _recursive(scope: Scope, sources: dict[str, str], problems: list[Problem]) -> set[tuple[str, str]]:
    """`let`s and patterns that are built from themselves, each reported once."""
    found: set[tuple[str, str]] = set()
    finished: set[tuple[str, str]] = set()
    for file in scope.files:
        for start in (item for item in file.items if isinstance(item, syntax.Let | syntax.PatternDecl)):
            trail: list[tuple[syntax.Let | syntax.PatternDecl, list[syntax.Let | syntax.PatternDecl]]] = []
            trail.append((start, _reads(scope, start)))
            while trail:
                here, left = trail[-1]
                key = (here.span.file, here.name)
                if not left or key in finished:
                    finished.add(key)
                    trail.pop()
                    continue
                following = left.pop()
                if any(following is item for item, _ in trail):
                    kind = "let" if isinstance(following, syntax.Let) else "pattern"
                    span = locate.word(sources, following.span, following.name)
                    if (following.span.file, following.name) not in found:
                        problems.append(Problem(span, f"{kind} `{following.name}` is built from itself"))
                    found.add((following.span.file, following.name))
                elif (following.span.file, following.name) not in finished:
                    trail.append((following, _reads(scope, following)))
    return found


def _reads(scope: Scope, item: syntax.Let | syntax.PatternDecl) -> list[syntax.Let | syntax.PatternDecl]:
    """The declarations that a `let` or pattern is built from."""
    found: dict[str, syntax.Let | syntax.PatternDecl] = {}
    lets, patterns = scope.lets_in(item.span.file), scope.patterns_in(item.span.file)
    if isinstance(item, syntax.Let):
        hidden = set(item.parameters or ())
        for node in walk((item.value,)):
            if isinstance(node, syntax.Name) and node.name in lets and node.name not in hidden:
                found[node.name] = lets[node.name]
    else:
        for node in walk((item.pattern, item.tail)):
            if isinstance(node, syntax.CallPattern) and node.names[0] in patterns:
                found[node.names[0]] = patterns[node.names[0]]
    return list(reversed(found.values()))


def _tail(tail: syntax.Tail, reader: Reader) -> None:
    if tail.guard is not None:
        read(tail.guard, reader)
    for give in tail.give:
        read(give.value, reader)


def _pattern(decl: syntax.PatternDecl, scope: Scope, problems: list[Problem], used: set[tuple[str, str]]) -> None:
    found = bind(scope, decl.span.file, decl.parameters, [decl.pattern], decl.tail, problems)
    reader = Reader(scope, decl.span.file, problems, used, found)
    check_patterns([decl.pattern, *decl.tail.where, *_types(decl.parameters)], reader)
    _tail(decl.tail, reader)
    unused_names(reader, "pattern")


def _operator(
    decl: syntax.OperatorDecl,
    scope: Scope,
    sources: dict[str, str],
    problems: list[Problem],
    used: set[tuple[str, str]],
) -> None:
    before = len(problems)
    problems += declared.check(decl, scope.operators, sources)
    if len(problems) > before:
        return
    signature = syntax.CallPattern(decl.span, (decl.name,), (), decl.attributes)
    found = bind(scope, decl.span.file, decl.parameters, [decl.pattern, signature], decl.tail, problems)
    reader = Reader(scope, decl.span.file, problems, used, found)
    check_patterns([decl.pattern, *decl.tail.where, *_types(decl.parameters)], reader, is_meaning=True)
    for keyword in decl.attributes:
        if not (isinstance(keyword.value, syntax.Name) and is_capture(scope, decl.span.file, keyword.value.name)):
            read(keyword.value, reader)
    _tail(decl.tail, reader)
    for bound in found.names.values():  # attributes are read by the body itself
        if bound.kind == ATTRIBUTE:
            reader.read.add(bound.name)
    unused_names(reader, "operator")


def _types(parameters: Sequence[syntax.Parameter]) -> list[syntax.TypePattern]:
    return [parameter.type for parameter in parameters if parameter.type is not None]


def _rule(decl: syntax.RuleDecl, scope: Scope, problems: list[Problem], used: set[tuple[str, str]]) -> None:
    loose = bare(scope, decl.span.file, decl.left, decl.tail)
    if loose is not None:
        message = "the left side of a rule must be the result of an operator: this matches any value"
        problems.append(Problem(loose.span, message))
    parts = decl.right.items if isinstance(decl.right, syntax.TupleExpr) else (decl.right,)
    if decl.both and not all(isinstance(_made(part), syntax.Call) for part in parts):
        problems.append(Problem(decl.right.span, "both sides of `<=>` must be the result of an operator"))
    found = bind(scope, decl.span.file, (), [decl.left], decl.tail, problems)
    reader = Reader(scope, decl.span.file, problems, used, found)
    check_patterns([decl.left, *decl.tail.where], reader)
    _tail(decl.tail, reader)
    reader.builds = "rule"
    _template(decl.right, reader)
    _results(decl, scope, problems)
    _constants(decl, reader)
    unused_names(reader, "rule")


def _made(part: syntax.Expr) -> syntax.Expr:
    """What makes a result: `Split(x)` of `Split(x)[1]`."""
    return part.base if isinstance(part, syntax.Index) else part


def _template(right: syntax.Expr, reader: Reader) -> None:
    for item in right.items if isinstance(right, syntax.TupleExpr) else (right,):
        before = len(reader.problems)
        unknown = [name for name in _inputs(item) if name.name not in reader.known() and not reader.forgiven(name.name)]
        read(item, reader)
        # A name that a template reads is most likely meant as a capture: say so.
        for name in unknown:
            for index in range(before, len(reader.problems)):
                problem = reader.problems[index]
                if problem.span == name.span and problem.message.startswith("unknown name"):
                    message = f"the left side never binds `{name.name}`"
                    reader.problems[index] = Problem(name.span, message, did_you_mean(name.name, reader.bindings.names))


def _inputs(expr: syntax.Expr) -> list[syntax.Name | syntax.Like | syntax.Rest]:
    return [node for node in walk((expr,)) if isinstance(node, syntax.Name | syntax.Like | syntax.Rest)]


def _results(decl: syntax.RuleDecl, scope: Scope, problems: list[Problem]) -> None:
    """Both sides of a rule give as many results."""
    left = result_count(scope, decl.left)
    right = template_count(scope, left, decl.right)
    if left != right:
        problems.append(Problem(decl.right.span, counts_differ(left, right)))


def _constants(decl: syntax.RuleDecl, reader: Reader) -> None:
    """Arithmetic and functions on the right side compute constants, so what they read must be constant."""
    settled = {
        argument.name
        for node in walk((decl.tail.guard,))
        if isinstance(node, syntax.Call) and isinstance(node.function, syntax.Name) and node.function.name == "is_const"
        for argument in node.args
        if isinstance(argument, syntax.Name)
    }
    for node in walk((decl.right,)):
        operands: tuple[object, ...] = ()
        if isinstance(node, syntax.Binary) and node.op not in ("and", "or"):
            operands = (node.left, node.right)
        elif isinstance(node, syntax.Call) and isinstance(node.function, syntax.Name):
            function = functions.find(node.function.name)
            operands = node.args if function is not None and function.elements else ()
        for operand in operands:
            if not isinstance(operand, syntax.Name):
                continue
            bound = reader.bindings.names.get(operand.name)
            if bound is None or bound.constant or bound.name in settled or bound.kind not in (VALUE, NODE):
                continue
            if bound.operators is not None:  # otherwise a named pattern may know better
                message = f"`{bound.name}` is not constant: arithmetic and functions compute constants"
                hint = f"build an operator, such as Mul({bound.name}, …), or match `const {bound.name}`"
                reader.problem(operand.span, message, hint)
