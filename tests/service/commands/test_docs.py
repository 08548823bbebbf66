"""The grammar and its page."""

from __future__ import annotations

from pathlib import Path

import pytest

from service.commands.docs import commands_page
from service.commands.grammar import GRAMMAR, Rule
from service.commands.parser import parse_comment
from workers.contracts import Verb

PAGE = Path(__file__).parents[3] / "docs" / "commands.md"


def test_docs_commands_is_what_the_grammar_gives() -> None:
    assert PAGE.read_text(encoding="utf-8") == commands_page(), "run: python -m service.commands > docs/commands.md"


def test_every_verb_has_one_rule() -> None:
    assert [rule.verb for rule in GRAMMAR] == list(Verb)


@pytest.mark.parametrize("rule", GRAMMAR, ids=lambda rule: rule.verb.value)
def test_every_example_is_a_command(rule: Rule) -> None:
    parsed = parse_comment(rule.example)
    assert parsed.errors == ()
    assert [command.verb for command in parsed.commands] == [rule.verb]
