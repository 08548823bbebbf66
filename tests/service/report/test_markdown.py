"""Tables, folded parts, markers, links, and messages that would be too long."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from service.escape import code_block
from service.report.layout import (
    GITHUB_LIMIT,
    Marker,
    MessageKind,
    find_marker,
    fit,
    folded,
    image,
    length,
    link,
    marker,
    signed,
    table,
)

READER = MarkdownIt("commonmark").enable("table")
PARTS = st.lists(
    st.one_of(
        st.text(max_size=40).map(code_block),
        st.text(alphabet="`~ab\n", max_size=40).map(code_block),
        st.just(folded("more", "text\n\n```python\nx\n```")),
        st.just(table(("a",), [("b",)] * 5)),
        st.just("<details><summary>all</summary>\n\n" + folded("inner", code_block("a\n" * 20)) + "\n\n</details>"),
        st.just("text 👍 " * 10),
    ),
    min_size=1,
    max_size=12,
)


@given(PARTS, st.integers(600, 1200))
def test_a_message_that_is_too_long_is_closed_and_keeps_its_marker(parts: list[str], limit: int) -> None:
    tail = marker("j7k2", MessageKind.report)
    message = fit("\n\n".join(parts), tail, limit)
    assert length(message) <= limit
    assert find_marker(message) == Marker("j7k2", MessageKind.report)
    last = READER.parse(message)[-1]
    assert (last.type, last.content.strip()) == ("html_block", tail)
    rendered = [token.content for token in READER.parse(message) if token.type == "html_block"]
    assert sum(html.count("<details>") - html.count("</details>") for html in rendered) == 0


def test_a_message_of_githubs_length_stays_whole() -> None:
    tail = marker("j7k2", MessageKind.status)
    body = "a" * (GITHUB_LIMIT - len(tail) - 2)
    assert signed(body, "j7k2", MessageKind.status) == f"{body}\n\n{tail}"
    longer = signed(body + "a", "j7k2", MessageKind.status)
    assert length(longer) <= GITHUB_LIMIT
    assert "Truncated" in longer


def test_signs_beyond_the_basic_plane_count_twice() -> None:
    assert length("a👍") == 3
    assert length(fit("👍" * 40_000)) <= GITHUB_LIMIT


def test_a_marker_is_found_again() -> None:
    assert find_marker(signed("text", "j7k2", MessageKind.checkpoint, "analyze-1")) == Marker(
        "j7k2", MessageKind.checkpoint, "analyze-1"
    )
    assert find_marker("text\r\n\r\n<!-- kernelsmith:job=j7k2 kind=status -->\r\n") == Marker(
        "j7k2", MessageKind.status
    )


@pytest.mark.parametrize(
    "body",
    [
        "",
        "text",
        "<!-- kernelsmith:job=j7k2 kind=status -->\nmore text",
        "```\n<!-- kernelsmith:job=j7k2 kind=status -->\n```",
        "<!-- kernelsmith:job=j7k2 kind=other -->",
        "<!-- kernelsmith:job= kind=status -->",
        "<!-- kernelsmith:job=j kind=status --> x",
        "`<!-- kernelsmith:job=j7k2 kind=status -->`",
    ],
)
def test_only_a_last_line_of_its_own_is_a_marker(body: str) -> None:
    assert find_marker(body) is None


@pytest.mark.parametrize("word", ["", "a b", "a-->", "a--b", "a\nb", "-a", "x" * 101, "é"])
def test_an_id_that_could_end_the_line_is_no_id(word: str) -> None:
    with pytest.raises(ValueError, match="cannot stand in a marker"):
        marker(word, MessageKind.status)
    with pytest.raises(ValueError, match="cannot stand in a marker"):
        marker("j", MessageKind.status, word or "a b")


@pytest.mark.parametrize(
    "url",
    ["", "javascript:alert(1)", "data:text/html,x", "//evil.example", "https://", "ftp://a/b", "http://[", "x" * 3000],
)
def test_an_address_that_is_none_of_the_web_is_no_link(url: str) -> None:
    assert link("here", url) == "here"
    assert image("a plot", url) == "a plot"


def test_an_address_cannot_end_its_link() -> None:
    assert link("here", 'https://a.example/x) "y" <z>[`') == "[here](https://a.example/x%29%20%22y%22%20%3Cz%3E%5B%60)"


@given(st.text(max_size=60))
def test_every_link_is_one_link(text: str) -> None:
    tokens = READER.parse(link("here", f"https://a.example/{text}"))
    assert [child.type for child in tokens[1].children or []] == ["link_open", "text", "link_close"]


def test_a_table_without_rows_is_nothing() -> None:
    assert table(("a",), []) == ""
    assert folded("more", "  \n") == ""
