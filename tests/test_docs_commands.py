"""The page of commands and the parser agree: every option of every verb is there, and nothing else."""

from __future__ import annotations

import argparse
import re
from pathlib import Path

import pytest

from rewrite_engine.cli.parser import build_parser

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "commands.md").read_text(encoding="utf-8")
README = (ROOT / "README.md").read_text(encoding="utf-8")
VERBS: dict[str, argparse.ArgumentParser] = next(
    action.choices for action in build_parser()._actions if isinstance(action, argparse._SubParsersAction)
)


def options(verb: str) -> set[str]:
    return {o for action in VERBS[verb]._actions for o in action.option_strings} - {"-h", "--help"}


def documented(verb: str) -> set[str]:
    """The options in the first cells of the sections about a verb."""
    found: set[str] = set()
    for section in PAGE.split("\n## ")[1:]:
        title, _, text = section.partition("\n")
        if title == "Every verb" or verb in title.split(", "):
            cells = re.findall(r"^\| (`-.*?`) \| ", text, re.MULTILINE)
            found |= {option for cell in cells for option in re.findall(r"`(-[-a-z]+)", cell)}
    return found


@pytest.mark.parametrize("verb", VERBS)
def test_the_page_has_the_options_of_the_verb(verb):
    assert documented(verb) == options(verb)


def test_sections_are_about_verbs():
    titles = [section.partition("\n")[0] for section in PAGE.split("\n## ")[1:]]
    assert {verb for title in titles[1:] for verb in title.split(", ")} <= set(VERBS)


def test_the_readme_has_every_verb_and_no_other():
    assert set(re.findall(r"^\| `([a-z]+)", README, re.MULTILINE)) == set(VERBS)


@pytest.mark.parametrize("path", [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))], ids=lambda p: p.stem)
def test_commands_in_examples_exist_with_their_options(path):
    text = path.read_text(encoding="utf-8").replace("\\\n", " ")
    for verb, rest in re.findall(r"^(?:\$ )?rewrite-engine ([a-z]+)(.*)$", text, re.MULTILINE):
        assert verb in VERBS, f"{path.name}: {verb}"
        asked = set(re.findall(r"(?<![\w-])(--[a-z][a-z-]*)", rest))
        assert asked <= options(verb) | {"--help"}, f"{path.name}: {verb}{rest}"
