"""Every command line that a page names is one that the program takes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.main import get_command

from service.cli import app
from service.commands.command import ErrorCode
from service.commands.parser import parse_comment

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
COMMANDS = get_command(app).commands  # type: ignore[attr-defined]
OPTIONS = {
    name: {spelling for parameter in command.params for spelling in (*parameter.opts, *parameter.secondary_opts)}
    for name, command in COMMANDS.items()
}
TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
WHERE = r"(?:\S*/)?"  # such as .venv/bin/


def in_code(page: Path) -> list[str]:
    text = page.read_text()
    blocks = re.findall(r"```.*?\n(.*?)```", text, re.DOTALL)
    blocks += re.findall(r"^ {4}\S.*$", text, re.MULTILINE)
    lines = [line for block in blocks for line in block.replace("\\\n", " ").splitlines()]
    return lines + re.findall(r"`([^`]+)`", re.sub(r"```.*?```", "", text, flags=re.DOTALL))


def named(page: Path, program: str) -> Iterator[str]:
    """What follows a program's name in code, to the end of the command."""
    for line in in_code(page):
        found = re.match(rf"\s*(?:[A-Z_]+=\S+ )*{WHERE}{program} (.*)", re.split(r"\s#\s|[|;&]", line)[0], re.DOTALL)
        if found is not None:
            yield found[1]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_command_and_option_is_there(page: Path) -> None:
    unknown = []
    for line in named(page, "kernelsmith"):
        if line.split() == ["--version"]:
            continue
        command, *words = line.partition(" -- ")[0].split()  # what follows is another program's
        spelt = [word.strip("[]").partition("=")[0] for word in words if word.startswith(("--", "[--"))]
        missing = [word for word in spelt if word not in OPTIONS.get(command, set()) | {"--help"}]
        if command not in OPTIONS or missing:
            unknown.append(line)
    assert unknown == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_make_target_is_there(page: Path) -> None:
    assert [line for line in named(page, "make") if line.split()[0] not in TARGETS] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_comment_is_one_that_the_bot_understands(page: Path) -> None:
    wrong = []
    for line in map(str.strip, in_code(page)):
        if not re.match(r"/kernel(?:\s|$)", line):
            continue
        outcome = parse_comment(line.split("  #")[0])
        # A verb alone is named, and a form with places for words is shown, where a sentence is about them.
        is_form = re.search(r"[\[|]|\.\.\.|(?<![\w=])[A-Z]{3,}(?!\w)", line) or len(line.split()) == 2
        unknown = [error for error in outcome.errors if error.code is ErrorCode.unknown_verb or not is_form]
        wrong += [line] if unknown else []
    assert [line for line in wrong if "[VERB]" not in line] == []


def test_pages_name_commands_at_all() -> None:
    lines = [line for page in PAGES for line in named(page, "kernelsmith")]
    assert {line.split()[0] for line in lines} >= {"--version", *OPTIONS} - {"demo"}
    assert [line for page in PAGES for line in named(page, "make")]
