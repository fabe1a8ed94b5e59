"""Lowering: which variants a declaration has, and what each asks for."""

from __future__ import annotations

from pathlib import Path

import pytest
from lowering import lowered, rule_of

from rewrite_engine.diagnostics import PatError
from rewrite_engine.language import check_files, load
from rewrite_engine.language.core import ABSENT, CoreRule, Variant
from rewrite_engine.language.forks import Choices
from rewrite_engine.language.lower import expand_rest


def shown(variant: Variant) -> str:
    """A variant as text: each operator with the names of its slots, `!` constant, `#` read by value."""

    def name(slot: int) -> str:
        if slot == ABSENT:
            return "-"
        found = variant.slots[slot]
        return found.name + "!" * found.constant + "#" * found.reads_value

    return "; ".join(
        f"{','.join(map(name, node.outputs))}={node.op}({','.join(map(name, node.inputs))}"
        f"{'*' + node.rest if node.rest else ''})"
        for node in variant.nodes
    )


def variants(text: str, name: str = "r") -> list[str]:
    return [shown(variant) for variant in rule_of(text, name).variants]


def target(items: str) -> str:
    return f"target t on host {{ {items} }}"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("rule r: Relu(Relu(x)) => Relu(x)", ["$Relu=Relu(x); $Relu.2=Relu($Relu)"]),
        ("rule r: Relu(x) | Elu(x) => x", ["$Relu=Relu(x)", "$Elu=Elu(x)"]),
        ("rule r: {Relu, Elu}(x) as y => x", ["y=Relu(x)", "y=Elu(x)"]),
        ("rule r: Conv(x, w, b?) => Conv(x, w, b)", ["$Conv=Conv(x,w,b)", "$Conv=Conv(x,w)"]),
        ("rule r: Relu(Sigmoid?(x)) => x", ["$Sigmoid=Sigmoid(x); $Relu=Relu($Sigmoid)", "$Relu=Relu(x)"]),
        ("rule r: Clip(x, none, const m) => x", ["$Clip=Clip(x,-,m!)"]),
        ("rule r: Conv(x, w, _) => x", ["$Conv=Conv(x,w,$_)", "$Conv=Conv(x,w)"]),
        ("rule r: Mul(x, 0.5) => x", ["$Mul=Mul(x,$literal!#)"]),
        ("rule r: ReduceMean(x, axes=[-1]) => x", ["$ReduceMean=ReduceMean(x,$literal!#)"]),
        ("rule r: Mul(d, d) => d where d = Relu(x)", ["d=Relu(x); $Mul=Mul(d,d)"]),
        ("rule r: Add(a, b) => a where a, b = Split(x)", ["a,b=Split(x); $Add=Add(a,b)"]),
        ("rule r: Relu(Split(x)[1]) => x", ["-,$Split=Split(x); $Relu=Relu($Split)"]),
        ("rule r: Add(y, Relu(x) as y) => x", ["y=Relu(x); $Add=Add(y,y)"]),
        ("rule r: Concat(*xs) => Concat(*xs, axis=0)", ["$Concat=Concat(*xs)"]),
        ("rule r: Mul(x, const c) => x if all(c == 1)", ["$Mul=Mul(x,c!#)"]),
        ("rule r: com.x::Op(x) => Relu(x)", ["$com.x::Op=com.x::Op(x)"]),
        # commutativity is not expanded
        ("rule r: Add(Add(Add(a, b), c), d) => a", ["$Add=Add(a,b); $Add.2=Add($Add,c); $Add.3=Add($Add.2,d)"]),
        # identical ways are one variant
        ("rule r: Relu(x) | Relu(x) => x", ["$Relu=Relu(x)"]),
        ("rule r: Softmax(x, axis=a?) => x", ["$Softmax=Softmax(x)", "$Softmax=Softmax(x)"]),
    ],
)
def test_variants(text: str, expected: list[str]) -> None:
    assert variants(text) == expected


def test_the_same_name_absent_in_one_place_is_absent_in_all() -> None:
    found = variants("rule r: Add(Conv(x, w, b?), Conv(v, w, b?)) => x")
    assert found == [
        "$Conv=Conv(x,w,b); $Conv.2=Conv(v,w,b); $Add=Add($Conv,$Conv.2)",
        "$Conv=Conv(x,w); $Conv.2=Conv(v,w); $Add=Add($Conv,$Conv.2)",
    ]
    assert len(variants("rule r: Add(Conv(x, w, b?), Relu(b)) => x")) == 1  # read where it must be there
    assert len(variants("rule r: Softmax(LogSoftmax(x, axis=a?), axis=a) => x")) == 1
    assert len(variants("rule r: LogSoftmax(Softmax(x, axis=a?), axis=a?) => x")) == 2


def test_named_patterns_hide_their_inner_names_and_share_arguments() -> None:
    text = "pattern twice(v) = Mul(n, n) where n = Relu(v)\nrule r: Add(twice(n), twice(n)) => n"
    assert variants(text) == ["$n=Relu(n); $Mul=Mul($n,$n); $n.2=Relu(n); $Mul.2=Mul($n.2,$n.2); $Add=Add($Mul,$Mul.2)"]


def test_optional_parts_of_a_named_pattern() -> None:
    text = "pattern dq(v, s, z) = DequantizeLinear(v, const s, const z?)\nrule r: Conv(x, w, dq(b, s, z)?) => x"
    assert variants(text) == [
        "$DequantizeLinear=DequantizeLinear(b,s!,z!); $Conv=Conv(x,w,$DequantizeLinear)",
        "$DequantizeLinear=DequantizeLinear(b,s!); $Conv=Conv(x,w,$DequantizeLinear)",
        "$Conv=Conv(x,w)",
    ]
    text = "pattern act(v) = Relu(v) | Clip(v, 0, 6)\nrule r: Neg(act?(Conv(x, w) as c)) => x"
    assert variants(text) == [
        "c=Conv(x,w); $Relu=Relu(c); $Neg=Neg($Relu)",
        "c=Conv(x,w); $Clip=Clip(c,$literal!#,$literal.2!#); $Neg=Neg($Clip)",
        "c=Conv(x,w); $Neg=Neg(c)",
    ]


def test_a_pattern_with_several_results() -> None:
    text = "pattern both(v) = (Relu(v), Neg(v))\nrule r: Add(p, q) => p where p, q = both(x)"
    assert variants(text) == ["p=Relu(x); q=Neg(x); $Add=Add(p,q)"]
    text = target("composite c(x) = (norm, total) where total = Relu(x); norm = Neg(total)")
    found = rule_of(text, "t.c").variants
    assert [shown(found[0]), found[0].roots] == ["total=Relu(x); norm=Neg(total)", (2, 1)]


def test_a_name_that_only_the_template_mentions_still_matches() -> None:
    assert variants("rule r: Relu(x) => Neg(y) where y = Elu(x)") == ["$Relu=Relu(x); y=Elu(x)"]


def test_kernel_inputs_are_parameters_then_constants() -> None:
    text = target("composite c(b?, x, *xs) = Relu(Concat(Mul(Conv(x, const w, b), 0.5), _, *xs))")
    rule = rule_of(text, "t.c")
    expanded = [expand_rest(variant, {2: 2}) for variant in rule.variants]
    assert [[variant.slots[slot].name for slot in variant.inputs] for variant in expanded] == [
        ["b", "x", "xs[0]", "xs[1]", "w", "$literal", "$_"],
        ["x", "xs[0]", "xs[1]", "w", "$literal", "$_"],
    ]
    assert expanded[0].slots[expanded[0].inputs[-1]].constant  # `_` is embedded
    variant = rule_of(target("composite c(x) = Relu(Conv(_, const w, x))"), "t.c").variants[0]
    assert [variant.slots[slot].name for slot in variant.inputs] == ["x", "w", "$_"]


def test_bare_capabilities_take_any_inputs() -> None:
    rule = rule_of(target("supports Relu, Concat(*xs) as y if len(xs) <= 2"), "t.supports.0")
    bare, listed = rule.variants
    assert (bare.nodes[0].rest, listed.nodes[0].rest) == ("*", "xs")
    whole = expand_rest(bare, {0: [True, False, True]})
    assert shown(whole) == "$Relu=Relu(input[0],-,input[2])" and whole.inputs == (1, 2)
    assert expand_rest(listed, {0: 2}).lists == {"xs": (1, 2)}


def test_rest_in_a_template() -> None:
    variant = rule_of("rule r: Concat(Relu(x), *xs, axis=1) => Concat(x, *xs, axis=1)").variants[0]
    assert variant.template is not None and ("rest", "xs") in variant.template.nodes[0].inputs
    whole = expand_rest(variant, {1: 2})
    assert whole.template is not None
    assert whole.template.nodes[0].inputs == (("slot", 0), ("slot", 3), ("slot", 4))


def test_templates() -> None:
    rule = rule_of("rule r: Mul(Conv(x, const w, const b?) as c, const k) => Conv(x, w * k, default(b, 0) * k, like c)")
    template = rule.variants[1].template
    assert template is not None
    assert template.nodes[0].inputs == (("slot", 0), ("constant", 0), ("constant", 1))
    assert [slot.reads_value for slot in rule.variants[1].slots] == [False, True, False, True, False]
    template = rule_of("rule r: Conv(x, w, b?) as c => Neg(Conv(x, w, b, like c))").variants[1].template
    assert template is not None and template.nodes[0].inputs == (("slot", 0), ("slot", 1))


@pytest.mark.parametrize(
    ("right", "nodes", "roots"),
    [
        ("Split(x, num_outputs=2)", [("Split", 2)], [(0, 0), (0, 1)]),
        ("(Split(x, num_outputs=2)[0], Split(x, num_outputs=2)[1])", [("Split", 2)], [(0, 0), (0, 1)]),
        ("(Split(x, num_outputs=3)[2], Split(x, num_outputs=3)[0])", [("Split", 3)], [(0, 2), (0, 0)]),
        ("(Split(x, [1, 2])[1], Split(x, [2, 1])[1])", [("Split", 2), ("Split", 2)], [(0, 1), (1, 1)]),
        ("(Split(x, axis=0)[0], Split(x, axis=1)[0])", [("Split", 1), ("Split", 1)], [(0, 0), (1, 0)]),
        ("(Relu(x), Neg(Relu(x)))", [("Relu", 1), ("Neg", 1)], [(0, 0), (1, 0)]),
        ("(Split(Relu(x))[1], Relu(x))", [("Relu", 1), ("Split", 2)], [(1, 1), (0, 0)]),
        ("(Neg(Split(x)[0]), Abs(Split(x)[1]))", [("Split", 2), ("Neg", 1), ("Abs", 1)], [(1, 0), (2, 0)]),
    ],
)
def test_what_a_template_writes_twice_is_built_once(right: str, nodes: list[object], roots: list[object]) -> None:
    for left in ("(Exp(x), Log(x))", "two(x)", "(a, b)"):
        where = " where a, b = two(x)" if left == "(a, b)" else ""
        text = f"pattern two(v) = (Exp(v), Log(v))\nrule r: {left} => {right}{where}"
        template = rule_of(text).variants[0].template
        assert template is not None
        assert [(node.op, node.outputs) for node in template.nodes] == nodes
        assert [reference[1:] for reference in template.roots] == roots


def test_both_ways_with_several_results() -> None:
    rules, problems, _ = lowered("rule r: (Abs(x), Neg(x)) <=> Split(x, num_outputs=2)")
    back = rules["r<="].variants[0]
    assert not problems and shown(back) == "$y0,$y1=Split(x)" and back.roots == (1, 2)
    rules, problems, _ = lowered("rule r: (Abs(x), Neg(x)) <=> (Relu(x), Exp(x))")
    assert not problems and shown(rules["r<="].variants[0]) == "$Relu=Relu(x); $Exp=Exp(x)"


def test_both_ways() -> None:
    rules, problems, _ = lowered("rule r: MatMul(a, MatMul(b, const c)) <=> MatMul(MatMul(a, b), c) if a.rank == 2")
    assert not problems
    back = rules["r<="].variants[0]
    assert shown(back) == "$MatMul=MatMul(a,b); $MatMul.2=MatMul($MatMul,c!)"


@pytest.mark.parametrize(
    ("guard", "flag"),
    [("is_const(x)", "asks_constant"), ("readers(x) == 1", "asks_readers"), ("item(x) == 1", "reads_value"),
     ("is_graph_output(x)", "asks_readers"), ("x.rank == 2", "")],
)  # fmt: skip
def test_what_guards_ask_for(guard: str, flag: str) -> None:
    slot = rule_of(f"rule r: Relu(x) => x if {guard}").variants[0].slots[0]
    assert [f for f in ("reads_value", "asks_constant", "asks_readers") if getattr(slot, f)] == ([flag] if flag else [])


def test_composites_ask_what_supports_would() -> None:
    text = target("supports Mul(a, b) if all(b == 1) composite c(x, k) = Relu(Mul(x, k) as m) if supported(m)")
    assert [slot.reads_value for slot in rule_of(text, "t.c").variants[0].slots[:2]] == [False, True]


def test_rule_names_kinds_and_order() -> None:
    text = "pattern p(v) = Relu(v)\nrule q: Relu(x) => x\n" + target("composite c(x) = Relu(x) supports Neg")
    rules, _, _ = lowered(text)
    assert [(rule.name, rule.kind, rule.target) for rule in rules.values()] == [
        ("q", "rule", None), ("t.supports.0", "supports", "t"), ("t.c", "composite", "t"), ("p", "pattern", None),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "message", "column"),
    [
        ("rule r: Relu(d) => x where d = Relu(d)", "`d` is defined by itself", 37),
        ("rule r: Relu(y) as y => y", "reads its own result", 9),
        ("rule r: Add(Relu(x) as y, Neg(x) as y) => y", "`y` names two different operators", 27),
        ("rule r: Relu(x) => Mul(x, k) with k = j + 1, j = k", "is computed from itself", None),
        ("rule r: Conv(x, const w, const b?) => Conv(x, w, b * 2)", "write default", None),
        ("rule r: Conv(x, w, b?) => x if b.rank == 1 or x.rank == 4", "may be absent here", None),
        ("target t on host { composite c(x, b?) = Conv(x, const w, b) cost b.bytes / 8GBps }", "may be absent", None),
        ("rule r: Relu(x | Neg(x)) <=> Neg(x)", "`<=>` needs operators", None),
        ("pattern p(v) = p(v)\nrule r: Relu(p(x)) => x", "built from itself", None),
    ],
)
def test_problems(text: str, message: str, column: int | None) -> None:
    _, problems, _ = lowered(text)
    assert problems
    problem = problems[0]
    assert message in f"{problem.message} {problem.hint}"
    assert column is None or problem.span.column == column


def test_too_many_combinations_are_refused() -> None:
    forks = ", ".join(f"Relu?(x{i})" for i in range(13))
    _, problems, _ = lowered(f"rule r: Concat({forks}) => x0\nrule s: Relu(x) => x")
    assert [p.message for p in problems] == ["`r` expands into more than 4096 combinations of alternatives"]
    assert len(rule_of(f"rule r: Concat({', '.join(f'Relu?(x{i})' for i in range(6))}) => x0").variants) == 64


def test_deep_patterns_are_lowered_or_refused() -> None:
    for depth, fine in ((100, True), (122, False)):
        rules, problems, _ = lowered(f"rule r: {'Relu(' * depth}x{')' * depth} => x")
        if fine:
            assert not problems and len(rules["r"].variants[0].nodes) == depth
        else:
            assert "nests deeper" in problems[0].message


def test_choices_take_every_path_once() -> None:
    choices, seen = Choices(), []
    while True:
        first = choices.choose(2)
        seen.append((first, choices.choose(3) if first else -1))
        if not choices.advance():
            break
    assert seen == [(0, -1), (1, 0), (1, 1), (1, 2)]


def test_lowering_is_deterministic() -> None:
    text = "pattern act(v) = Relu(v) | Mul(v, Sigmoid(v))\nrule r: act?(Conv(x, w, b?)) | {Elu, Selu}(x) => x"

    def whole(rule: CoreRule) -> list[str]:
        return [shown(variant) for variant in rule.variants]

    assert whole(rule_of(text)) == whole(rule_of(text)) and len(rule_of(text).variants) == 8


def test_what_is_only_included_is_lowered_when_it_is_asked_for(tmp_path: Path) -> None:
    """Its named patterns, that is, and its tests are passed over; what `check` looks at is everything."""
    inner, outer = tmp_path / "inner.pat", tmp_path / "outer.pat"
    choice = " | ".join(f"Mul(x, {k})" for k in range(9))
    text = f'pattern p(x) = Relu(x)\npattern some(x) = {choice}\ntest "inner": Relu(x: float32[2]) is p\n'
    inner.write_text(text)
    outer.write_text(
        'include "inner.pat"\npattern q(x) = p(Abs(x))\nrule r: p(p(x)) => Relu(x)\n'
        'test "outer": Relu(Abs(x: float32[2])) is q\n'
    )
    rules = load([outer])
    assert [rule.name for rule in rules.without_patterns()] == ["r"]
    assert [case.title for case in rules.tests] == ["outer"]
    assert [rule.name for rule in rules.rules] == ["r", "p", "some", "q"] and len(rules.rules) == 4
    assert rules.rules[1].name == "p" and [rule.name for rule in rules.rules[2:]] == ["some", "q"]
    assert [case.title for case in load([outer, inner]).tests] == ["inner", "outer"]

    inner.write_text(text + "pattern many(a, b, c, d) = Sum(some(a), some(b), some(c), some(d))\n")
    message = "`many` expands into more than 4096 combinations of alternatives"
    assert [problem.message for problem in check_files([outer])[0]] == [message]
    assert [rule.name for rule in load([outer]).without_patterns()] == ["r"]
    with pytest.raises(PatError, match=message):
        len(load([outer]).rules)
    with pytest.raises(PatError, match=message):
        load([inner])
