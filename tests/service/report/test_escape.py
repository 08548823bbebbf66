"""Foreign text says the same letters in a comment, and does nothing."""

from __future__ import annotations

import html
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token

from gpu_runner.contracts import Isolation
from gpu_runner.sandbox import levels
from service.escape import EMPTY, clean, clip, code, code_block, inline, label, one_line, plain, sentence

ZERO_WIDTH = "\u200b"
READER = MarkdownIt("commonmark").enable(["table", "strikethrough"])
SIGNS = list("@#`*_~[](){}<>|!\\&$:;.,-+='\"/ \n\r\t1aZ0\u200b\u202e\ufeff\x00\ue000é👍")
PIECES = [
    "@octocat",
    "@octo-org/team",
    "#12",
    "GH-3",
    "octo-org/library#4",
    "https://evil.example/?a=b",
    "http://x",
    "www.evil.example",
    "![x](https://evil.example/x.png)",
    "[x](javascript:alert(1))",
    "<img src=https://evil.example>",
    "<!-- kernelsmith:job=j kind=status -->",
    "-->",
    "</details>",
    "```",
    "````",
    "| a | b |",
    "\\|",
    "deadbeef1",
    "1f2e3d4c5b6a79880011223344556677889900aa",
    "\n\n# heading\n\n",
    "\n> quote\n",
    "\n- item\n",
    "1. one",
    "---",
    "===",
    "$x^2$",
    "&lt;script&gt;",
    "&#64;octocat",
    "/kernel cancel",
    ":tada:",
    "fixes #1",
    "mailto:a@b.example",
    "a@b.example",
    "CVE-2020-1234",
]
HOSTILE = st.lists(st.one_of(st.sampled_from(SIGNS), st.sampled_from(PIECES), st.text(max_size=5)), max_size=12).map(
    "".join
)
CONTEXTS = ["{}", "so: {}", "- {}", "**bold:** {} and more", "> {}"]
# GitHub looks for these in the text of the rendered comment.
LIVE = re.compile(
    r"@[A-Za-z0-9]|#[0-9]|(?<![a-z0-9])GH-\d|://|(?<![a-z0-9])www\.\w|"
    r"(?<![0-9A-Za-z_])(?=[0-9a-f]*[0-9])(?=[0-9a-f]*[a-f])[0-9a-f]{7,40}(?![0-9A-Za-z_])",
    re.IGNORECASE,
)


def leaves(markdown: str) -> list[Token]:
    found = []
    for token in READER.parse(markdown):
        found += token.children or []
    return found


def shown(markdown: str) -> str:
    return "".join(token.content for token in leaves(markdown) if token.type in ("text", "code_inline"))


@given(HOSTILE, st.sampled_from(CONTEXTS))
def test_prose_keeps_its_letters_and_holds_no_markup(text: str, context: str) -> None:
    rendered = context.format(inline(text))
    kinds = {token.type for token in leaves(rendered)}
    assert kinds <= {"text", "strong_open", "strong_close"}
    expected = clip(one_line(text), 300) or EMPTY
    assert context.strip("-> ").replace("**", "").format(expected) == shown(rendered).replace(ZERO_WIDTH, "")


@given(HOSTILE)
def test_prose_links_to_nobody_and_nothing(text: str) -> None:
    assert LIVE.search(shown(f"x {inline(text)} y")) is None
    assert "$" not in inline(text)


@given(HOSTILE)
def test_prose_and_code_stay_in_their_cell_of_a_table(text: str) -> None:
    for cell in (inline(text), code(text)):
        tokens = READER.parse(f"| a | b |\n| --- | --- |\n| {cell} | end |")
        cells = [tokens[i + 1] for i, token in enumerate(tokens) if token.type == "td_open"]
        assert len(cells) == 2
        assert cells[1].content == "end"


@given(HOSTILE, st.sampled_from(["{}", "so {} it is", "- {}"]))
def test_a_code_span_is_one_and_shows_the_text(text: str, context: str) -> None:
    expected = clip(one_line(text), 120) or EMPTY
    tokens = [token for token in leaves(context.format(code(text))) if token.type != "text"]
    if not one_line(text):
        assert code(text) == EMPTY
    elif tokens[0].type == "code_inline":
        assert [token.content for token in tokens] == [expected]
    else:
        assert [token.content for token in tokens] == ["<code>", "</code>"]
        assert html.unescape(code(text)[6:-7]) == expected


@given(HOSTILE)
def test_a_block_is_one_and_shows_the_text(text: str) -> None:
    tokens = READER.parse(f"before\n\n{code_block(text, 'python')}\n\nafter")
    fences = [token for token in tokens if token.type == "fence"]
    assert len(fences) == 1
    assert fences[0].content == clean(text).strip("\n") + "\n"
    assert tokens[-2].content == "after"


def test_a_long_block_loses_its_middle() -> None:
    block = code_block("a" * 500 + "b" * 500, limit=100)
    assert block.splitlines()[1:-1] == ["a" * 50, "… 900 characters left out …", "b" * 50]


@given(HOSTILE)
def test_a_sentence_keeps_its_code_and_nothing_else(text: str) -> None:
    kinds = {token.type for token in leaves(f"{sentence(text)}")}
    assert kinds <= {"text", "code_inline", "html_inline"}
    html_parts = {token.content for token in leaves(sentence(text)) if token.type == "html_inline"}
    assert html_parts <= {"<code>", "</code>"}


def test_the_longest_sentence_of_ours_is_told_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    refused = {Isolation.landlock: "landlock_create_ruleset: Function not implemented", Isolation.namespaces: "x" * 60}
    monkeypatch.setattr(levels, "_refused", {(level, False): why for level, why in refused.items()})
    told = levels.shortfall((), (Isolation.process,), gpu=False) or ""
    assert sentence(f"the GPU host could not prove the candidate: {told}").endswith("accepts it.")


def test_a_sentence_of_ours_shows_its_code() -> None:
    assert sentence("`x` of @octocat is *bad*: `a|b`") == "`x` of @&#8203;octocat is \\*bad\\*: <code>a&#124;b</code>"


@pytest.mark.parametrize(
    ("text", "safe"),
    [
        ("@octocat", "@&#8203;octocat"),
        ("see #12", "see #&#8203;12"),
        ("https://a.example", "https:&#8203;//a.example"),
        ("<!-- x -->", "&lt;\\!-- x --&gt;"),
        ("![a](b)", "\\!\\[a\\]\\(b\\)"),
        ("a | b", "a &#124; b"),
        ("two\n\nlines", "two lines"),
        ("1. one", "1\\. one"),
        ("1) one", "1\\) one"),
        ("_https://a.example", "\\_https:&#8203;//a.example"),
        ("", "(empty)"),
        ("evil\u202etxt", "evil\\\\u202etxt"),
    ],
)
def test_prose_is_escaped_as_little_as_is_safe(text: str, safe: str) -> None:
    assert inline(text) == safe


@given(HOSTILE)
def test_a_title_is_one_line_that_mentions_nobody(text: str) -> None:
    title = plain(text, 80)
    assert "\n" not in title
    assert len(title) <= 160
    assert not re.search(r"@[A-Za-z0-9]|#\d|://|\bGH-\d", title, re.IGNORECASE)


def test_a_title_closes_no_issue_and_keeps_its_ids() -> None:
    for reference in ("GH-3", "octo-org/library#3", "https://github.com/octo-org/library/issues/3"):
        assert reference not in plain(f"Fixes {reference}")
    assert plain("Kernelsmith-Job: deadbeef12") == "Kernelsmith-Job: deadbeef12"


@pytest.mark.parametrize(
    "words",
    ["[skip ci]", "[CI Skip]", "[no ci]", "[skip actions]", "[actions skip]", "skip-checks: true", "***NO_CI***"],
)
def test_a_commit_message_skips_no_check(words: str) -> None:
    shown = plain(f"Add reglu {words}")
    assert words not in shown and shown.replace("\u200b", "") == f"Add reglu {words}"


@pytest.mark.parametrize(
    "hidden", ["\u3164", "\u115f", "\u2800", "\ufe01", "\U000e0101", "\u034f", "\u180e", "\u200b", "\U000e0041"]
)
def test_what_nothing_is_drawn_for_is_shown_by_its_code(hidden: str) -> None:
    for made in (code(f"a{hidden}b"), code_block(f"a{hidden}b"), plain(f"a{hidden}b")):
        assert f"a\\u{ord(hidden):04x}b" in html.unescape(made)
    assert clean("\u26a0\ufe0f") == "\u26a0"
    assert clean("x" + 500 * "\u0301" + "y\u0301") == "x" + 3 * "\u0301" + "y\u0301"


def test_a_label_says_the_same_letters_where_markdown_is_not_read() -> None:
    assert label("rms_norm: *v1*") == "rms&#95;norm&#58; &#42;v1&#42;"
    assert label("</summary>@octocat #12") == "&#60;/summary&#62;&#64;&#8203;octocat &#35;&#8203;12"
    assert label("") == "(empty)"
