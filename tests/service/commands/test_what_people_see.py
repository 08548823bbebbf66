"""A command counts only where a person who reads the rendered comment sees it as plain text."""

from __future__ import annotations

from html.parser import HTMLParser

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from service.commands.parser import parse_comment

RENDERER = MarkdownIt("commonmark").enable(["table", "strikethrough"])
HIDING = (
    "code",
    "pre",
    "blockquote",
    "a",
    "s",
    "del",
    "details",
    "textarea",
    "script",
    "style",
    "title",
    "template",
    "kbd",
)
COMMAND = "/kernel status job{}"
PIECES = st.sampled_from(
    [
        COMMAND,
        COMMAND,
        f"  {COMMAND}",
        f"    {COMMAND}",
        f"> {COMMAND}",
        f"- {COMMAND}",
        f"see `{COMMAND}`",
        f"[{COMMAND}](https://a.example)",
        f"<!-- {COMMAND} -->",
        "",
        "",
        "text",
        "```",
        "````python",
        "~~~",
        "`",
        "``",
        "> quote",
        ">",
        "- item",
        "  more of it",
        "1. one",
        "---",
        "===",
        "# head",
        "[link",
        "](https://a.example)",
        "![image",
        "<!--",
        "-->",
        "<pre>",
        "</pre>",
        "<details>",
        "</details>",
        "<blockquote>",
        "</blockquote>",
        "text <code>",
        "</code>",
        "<div>",
        "</div>",
        "<b>",
        "text <a href='https://a.example'>",
        "</a>",
        "~~gone",
        "gone~~",
        "*soft",
        "soft*",
        "| a | b |",
        "| --- | --- |",
        "[name]: https://a.example 'title",
        "'",
        "\\",
    ]
)


class Seen(HTMLParser):
    """Collects the text that stands outside of every element that hides commands."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: object) -> None:
        if tag in HIDING:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag in self.open:
            del self.open[len(self.open) - 1 - self.open[::-1].index(tag) :]

    def handle_data(self, data: str) -> None:
        if not self.open:
            self.text += data


@settings(max_examples=300)
@given(st.lists(PIECES, min_size=1, max_size=14))
def test_every_command_that_is_found_can_be_seen(pieces: list[str]) -> None:
    lines = [piece.replace("{}", str(number)) for number, piece in enumerate(pieces)]
    seen = Seen()
    seen.feed(RENDERER.render("\n".join(lines)))
    seen.close()
    visible = {line.strip() for line in seen.text.split("\n")}
    for command in parse_comment("\n".join(lines)).commands:
        assert f"/kernel status {command.job}" in visible


@pytest.mark.parametrize(
    "html", ["<!-->", "<!--->", "<!-- a <!-->", "<br/>", "<p>a &amp", "<script>a</script>", "<?x?>"]
)
def test_a_command_below_html_that_is_whole_is_seen(html: str) -> None:
    assert len(parse_comment(f"{html}\n\n/kernel help").commands) == 1


@pytest.mark.parametrize("html", ["<!-- a", "<details>", "<details/>", "<script>", "<div ", "</p", "<!-- a <!--"])
def test_a_command_below_html_that_is_open_is_not(html: str) -> None:
    assert parse_comment(f"{html}\n\n/kernel help").commands == ()
