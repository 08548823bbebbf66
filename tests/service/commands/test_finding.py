"""Where a command may stand in a comment, and where it is only text."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.commands.command import ErrorCode
from service.commands.parser import parse_comment
from workers.contracts import Verb


@pytest.mark.parametrize(
    "body",
    [
        "/kernel help",
        "   /kernel help",
        "Thanks!\n/kernel help\nbye",
        "Thanks!\r\n\r\n/kernel help\r\n",
        "/Kernel HELP",
        "/kernel\u00a0help",
        "\ufeff/kernel help",
        "text\n \u200b\u200e/kernel help",
        *(f"text\n{mark}/kernel help" for mark in "\u00ad\u2800\u3164\u061c\ufe0f\u2066\U000e0020\u00a0\u3000\u2009"),
        "/kernel\u200bhelp",
        "/kernel\u2060 help",
        "\uff0fkernel help",
        " \u3000\uff0fkernel\u3000help",
        "/kernel help\n---\nunder a line",
        "- a list\n\n  /kernel help",
        "<details>\n<summary>x</summary>\n</details>\n\n/kernel help",
        "a Tensor<float> and a <br>\n/kernel help",
        "/kernel help <!-- a note -->",
        "<!--> <!---> <!-- <details> -->\n\n/kernel help",
        "<div>\n<!--\n\nhidden\n\n<p> --> </p>\n\n/kernel help",
        '<img alt="a > b"\n  src=x>\n\n/kernel help',
        "> quoted\n\n/kernel help",
        "```\nunrelated\n```\n/kernel help",
    ],
)
def test_a_line_that_starts_with_the_prefix_is_a_command(body: str) -> None:
    parsed = parse_comment(body)
    assert [command.verb for command in parsed.commands] == [Verb.help]
    assert parsed.errors == ()


@pytest.mark.parametrize(
    "body",
    [
        "",
        "please /kernel help",
        "/kernels help",
        "/kernel/help.md",
        "\\/kernel help",
        "    /kernel help",
        "\t/kernel help",
        "```\n/kernel help\n```",
        "````md\n```\n/kernel help\n```\n````",
        "~~~\n/kernel help",
        "text `code\n/kernel help\nmore` text",
        "> /kernel help",
        "> > /kernel help",
        "- > /kernel help",
        "[a link\n/kernel help](https://example.org)",
        "![an image\n/kernel help](https://example.org)",
        "[a]:\n/kernel",
        '[a]: https://example.org "title\n/kernel help"',
        "<!-- hidden\n\n/kernel help\n\n-->",
        "<pre>\n\n/kernel help\n\n</pre>",
        "<blockquote>\n\n/kernel help\n\n</blockquote>",
        "<div>\n/kernel help\n</div>",
        "text <code>\n/kernel help\n</code>",
        "text <!--\n/kernel help\n-->",
        "text <a title='\n/kernel help\n'>x</a>",
        "~~no\n/kernel help~~",
        "</pre>\n<!--\n\n/kernel help",
        "<div>\n<!-- <details>\n\n/kernel help\n\n<p> --> </p>",
        '<div title="\n\n/kernel help\n\n">',
        "<details\n\n/kernel help",
        "# /kernel help",
        "- /kernel help",
        "| /kernel help |\n| --- |",
        "/kernel help | b\n--- | ---\nx | y",
    ],
)
def test_code_quotes_html_and_links_hold_no_command(body: str) -> None:
    parsed = parse_comment(body)
    assert parsed.commands == ()
    assert parsed.errors == ()


def test_a_command_right_below_a_quote_is_answered_and_not_carried_out() -> None:
    parsed = parse_comment("> as you said\n/kernel cancel")
    assert parsed.commands == ()
    assert [error.code for error in parsed.errors] == [ErrorCode.in_quote]


def test_five_commands_are_carried_out_and_six_are_refused_together() -> None:
    assert len(parse_comment("\n".join(["/kernel help"] * 5)).commands) == 5
    refused = parse_comment("\n".join(["/kernel help"] * 10))
    assert refused.commands == ()
    assert [(error.code, error.word) for error in refused.errors] == [(ErrorCode.too_many, "10")]


def test_commands_stand_in_the_order_of_the_comment_with_their_lines() -> None:
    parsed = parse_comment("/kernel status\n\ntext\n/kernel oops\n/kernel help")
    assert [(command.verb, command.line) for command in parsed.commands] == [(Verb.status, 1), (Verb.help, 5)]
    assert [(error.line, error.raw) for error in parsed.errors] == [(4, "/kernel oops")]


def test_an_edit_counts_only_lines_that_were_not_there() -> None:
    before = "/kernel status\nold text"
    assert parse_comment(before, before).commands == ()
    assert parse_comment(before + "\nmore text", before).commands == ()
    assert parse_comment("/kernel status\r\nold text", before).commands == ()
    after = parse_comment("/kernel status\n/kernel cancel", before)
    assert [command.verb for command in after.commands] == [Verb.cancel]
    twice = parse_comment("/kernel status\n/kernel status", before)
    assert len(twice.commands) == 1


def test_an_edit_that_makes_an_indented_example_a_command_counts() -> None:
    assert len(parse_comment("/kernel status", "    /kernel status").commands) == 1


def test_an_edit_of_the_text_around_a_wrong_command_repeats_no_error() -> None:
    assert parse_comment("/kernel oops\n\nand more", "/kernel oops").errors == ()


FENCES = st.sampled_from(["```", "````", "~~~", "~~~~~"])
LINES = st.sampled_from(
    ["/kernel help", "/kernel create x", "text", "", "> quote", "- item", "    code", "<b>", "`a", "*b*", "|a|"]
)


@given(FENCES, st.lists(LINES, max_size=6))
def test_no_command_is_ever_found_in_a_fenced_block(fence: str, lines: list[str]) -> None:
    body = "\n".join([fence, *lines, fence])
    assert parse_comment(body).commands == ()


@given(st.lists(LINES, max_size=6))
def test_no_command_is_ever_found_in_a_quote_or_in_indented_code(lines: list[str]) -> None:
    assert parse_comment("\n".join(f"> {line}" for line in lines)).commands == ()
    assert parse_comment("\n".join(f"    {line}" for line in lines)).commands == ()


MARKUP = ["`", "```", "<!--", "-->", "[", "](", ")", ">", "|", "\n", "\r\n", "\t", "\x00", "\ue0000\ue001", "\u2028"]
WORDS = [
    "/kernel",
    " ",
    "create",
    "x",
    "--",
    "—",
    '"',
    "“",
    "’",
    "=",
    "from",
    "auto",
    "author",
    "https://github.com/a/b/blob/c/d",
]
PIECES = st.sampled_from(MARKUP + WORDS)


@given(st.lists(PIECES, max_size=40).map("".join), st.one_of(st.none(), st.lists(PIECES, max_size=10).map("".join)))
def test_nothing_that_people_write_makes_the_parser_raise(body: str, previous: str | None) -> None:
    parsed = parse_comment(body, previous)
    assert len(parsed.commands) <= 5


@given(st.text(st.characters(exclude_categories=[]), max_size=300))  # halves of surrogate pairs too
def test_any_text_after_the_prefix_is_answered(text: str) -> None:
    parsed = parse_comment(f"/kernel {text}")
    mentioned = len(parsed.commands) + len(parsed.errors)
    table_or_hidden = "|" in text or "<" in text or "`" in text or "[" in text or "~" in text
    assert mentioned >= 1 or table_or_hidden


def test_a_forged_mark_of_the_reader_finds_no_other_line() -> None:
    assert parse_comment("/kernel\ue0007\ue001 help\n```\n/kernel cancel\n```").commands == ()
    parsed = parse_comment("/kernel\ue0002\ue001 cancel\n/kernel help")
    assert [command.verb for command in parsed.commands] == [Verb.help]


@pytest.mark.parametrize("piece", ["[", "![", "<", ">", "`a", "*a ", "_a", "<b>\n", "[a](", "|a", "~~a "])
def test_a_long_hostile_comment_is_read_in_seconds(piece: str) -> None:
    body = (piece * 65_536)[:20_000] + "\n\n/kernel revise x"
    assert len(parse_comment(body, body[:10_000]).commands) <= 1


@pytest.mark.parametrize("piece", ["[", "![", "*a_", "**a *b ", "~~a"])
def test_no_comment_takes_seconds_to_read(piece: str) -> None:
    body = piece * (64_000 // len(piece)) + "\n\n/kernel create reglu"
    start_s = time.process_time()
    assert [command.name for command in parse_comment(body).commands] == ["reglu"]
    assert time.process_time() - start_s < 0.45
