"""How many unsound variants of the bundled rules verification refutes, and how many sound rules it wrongly refutes.

    python benchmarks/mutants.py [--examples 400] [--seeds 20] [--only STEM] [--sound] [--list]

Mutants come from `mutation_operators.py`; those that do not load are no mutants, and those listed in
`equivalent_mutants.txt` are sound after all, each for the reason written there. Prints a line per survivor and per
file, the table, and the times per rule. `--sound` leaves the mutants out, `--seeds 0` the sound rules.

The kinds of mutations were written down before the first run, which was over `algebra.pat`, and extended after it;
since then they are fixed. Survivors of later runs changed the samplers, rules and the list of equivalents, never what
is mutated.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections import Counter
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from mutation_operators import Mutation, edited, mutations

from rewrite_engine.diagnostics import RewriteError
from rewrite_engine.language import load, load_text, syntax
from rewrite_engine.language.core import RuleSet
from rewrite_engine.language.parsing import parse
from rewrite_engine.resources import patterns_root
from rewrite_engine.testing.in_file import own_rules
from rewrite_engine.testing.verify import Options, RuleReport, verify, verify_rule
from rewrite_engine.testing.verify.witness import witnesses

EQUIVALENT = Path(__file__).parent / "equivalent_mutants.txt"


@dataclass(frozen=True, slots=True)
class Mutant:
    """A rule of a file with one mutation; `text` is the file without its tests and its other rules."""

    file: Path
    rule: str
    mutation: Mutation
    text: str
    occurrence: int = 1  # of the same change in the rule

    @property
    def name(self) -> str:
        number = f" ({self.occurrence})" if self.occurrence > 1 else ""
        return f"{self.file.stem}.{self.rule}: {self.mutation.kind}: {self.mutation.what}{number}"


def rule_files() -> list[Path]:
    """The bundled files that hold rules."""
    return sorted((patterns_root() / "std").glob("*.pat"))


def mutants(path: Path) -> list[Mutant]:
    """Every mutant of the rules of a file."""
    source = path.read_text()
    tree, _ = parse(source, str(path))
    dropped = [item for item in tree.items if isinstance(item, syntax.RuleDecl | syntax.TestDecl)]
    found = []
    for rule in dropped:
        if not isinstance(rule, syntax.RuleDecl):
            continue
        others = tuple((item.span, "") for item in dropped if item is not rule)
        seen = Counter[str]()
        for mutation in mutations(rule, source):
            what = f"{mutation.kind}: {mutation.what}"
            seen[what] += 1
            text = edited(source, (*others, *mutation.edits))
            found.append(Mutant(path, rule.name, mutation, text, seen[what]))
    return found


def rules_of(mutant: Mutant) -> RuleSet | None:
    """The mutant loaded, or None where it is no rule file."""
    try:
        return load_text(mutant.text, path=str(mutant.file))
    except RewriteError:
        return None


def equivalents() -> dict[str, str]:
    """The mutants that are sound after all, and why."""
    found = {}
    for line in EQUIVALENT.read_text().splitlines():
        if line and not line.startswith("#"):
            name, _, reason = line.partition(" -- ")
            found[name.strip()] = reason.strip()
    return found


UNMATCHED = ("unmatched", "unsatisfiable")


def judged(rules: RuleSet, mutant: Mutant, examples: int) -> list[RuleReport]:
    """The reports on a mutant: with few examples, and with all of them where these refute nothing."""
    for count in sorted({min(48, examples), examples}):
        report = verify(rules, Options(examples=count, shrink=False))
        ours = [r for r in report.rules if r.name.partition("[")[0].removesuffix("<=") == mutant.rule]
        if any(r.status == "refuted" for r in ours) or all(r.status in UNMATCHED for r in ours):
            break
    return ours


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--examples", type=int, default=400)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--only", default="", help="a file's stem")
    parser.add_argument("--sound", action="store_true", help="verify the sound rules only")
    parser.add_argument("--list", action="store_true", help="print every mutant")
    options = parser.parse_args()
    survived = 0 if options.sound else _mutants(options.examples, options.only, options.list)
    wrong = _sound(options.seeds, options.only)
    return 1 if survived or wrong else 0


def _mutants(examples: int, only: str, listed: bool) -> int:
    """Verifies every mutant, prints the table; how many survive."""
    sound = equivalents()
    made, refuted, equal, inert, broken = Counter[str](), Counter[str](), Counter[str](), Counter[str](), 0
    survivors: list[str] = []
    begun = time.perf_counter()
    for path in rule_files():
        if only and path.stem != only:
            continue
        for mutant in mutants(path):
            rules = rules_of(mutant)
            if rules is None:
                broken += 1
                continue
            kind = mutant.mutation.kind
            if mutant.name in sound:
                equal[kind] += 1
                continue
            ours = judged(rules, mutant, examples)
            if all(r.status in UNMATCHED for r in ours):
                inert[kind] += 1
                continue
            made[kind] += 1
            if any(r.status == "refuted" for r in ours):
                refuted[kind] += 1
            else:
                survivors.append(f"{mutant.name}  [{', '.join(r.status for r in ours)}]")
                print(f"SURVIVES: {survivors[-1]}", flush=True)
            if listed:
                print(mutant.name)
        print(f"{path.stem}: {sum(refuted.values())} of {sum(made.values())} refuted so far", flush=True)
    print(f"{sum(made.values())} mutants; left out: {sum(equal.values())} equivalent, {sum(inert.values())} that match "
          f"nothing (reported as such), {broken} that do not load; "
          f"{time.perf_counter() - begun:.0f} s")  # fmt: skip
    for kind in sorted(made):
        print(f"  {kind:14} {refuted[kind]:4} of {made[kind]:4} refuted")
    share = 100 * sum(refuted.values()) / max(sum(made.values()), 1)
    print(f"  {'all':14} {sum(refuted.values()):4} of {sum(made.values()):4} refuted ({share:.1f} %)")
    return len(survivors)


def _sound(seeds: int, only: str) -> int:
    """Bundled rules that are refuted by some seed, those without a match by some seed, and the processor's time."""
    seconds: list[float] = []
    wrong: list[str] = []
    without = Counter[str]()
    files = [path for path in sorted(patterns_root().rglob("*.pat")) if not only or path.stem == only]
    for path in files:
        rules = load([path])
        known = cache(partial(witnesses, rules))
        for seed in range(seeds):
            for rule in own_rules(rules):
                started = time.process_time()
                found = verify_rule(rules, rule, Options(seed=seed, shrink=False), known)
                seconds.append(time.process_time() - started)
                if found.status == "refuted":
                    wrong.append(f"{path.stem}.{found.name} by seed {seed}")
                    print(f"WRONGLY REFUTED: {wrong[-1]}", flush=True)
                without[f"{path.stem}.{found.name}"] += found.status in UNMATCHED
        if seeds:
            print(f"{path.stem}: {len(seconds)} verifications so far, {len(wrong)} refuted", flush=True)
    if seconds:
        print(f"{len(seconds)} verifications of sound rules over {seeds} seeds: {len(wrong)} refuted; median "
              f"{statistics.median(seconds):.2f} s of the processor, longest {max(seconds):.1f} s")  # fmt: skip
        for name, count in without.most_common():
            if count:
                print(f"  without a match by {count} of {seeds} seeds: {name}")
    return len(wrong)


if __name__ == "__main__":
    sys.exit(main())
