"""What people and bots write becomes HTML that can do no harm."""

from __future__ import annotations

from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deploy.localhub.markdown import render, render_document

ROOT = "http://127.0.0.1:8900"


def test_details_fold_and_hold_markdown() -> None:
    html = render("<details><summary>Log</summary>\n\n| a | b |\n|---|--:|\n| 1 | 2 |\n\n</details>\n\nafter", ROOT)
    assert "<details><summary>Log</summary>" in html
    assert '<td style="text-align:right">2</td>' in html
    assert html.index("</details>") < html.index("after")


def test_a_task_list_has_boxes_that_nobody_can_click() -> None:
    html = render("- [x] analyze\n- [ ] generate", ROOT)
    assert html.count('<input type="checkbox" disabled="') == 2
    assert html.count("checked") == 1
    assert "[x]" not in html


def test_a_comment_keeps_its_line_breaks_and_a_document_does_not() -> None:
    assert "<br>" in render("one\ntwo", ROOT)
    assert "<br>" not in render_document("one\ntwo", ROOT)


def test_details_that_were_not_closed_end_with_the_comment() -> None:
    assert render("<details><summary>x</summary>\n\ntext", ROOT).endswith("</details>")
    assert "</details>" not in render("</details>\n\n</div></article>", ROOT)


@pytest.mark.parametrize(
    "text",
    [
        "<script>alert(1)</script>",
        "<ScRiPt src=//evil.example></sCrIpT>",
        "<img src=x onerror=alert(1)>",
        "<details ontoggle=alert(1) open>x</details>",
        "[x](javascript:alert(1))",
        "[x](  java\tscript:alert(1))",
        "<a href='jav&#x61;script:alert(1)'>x</a>",
        "<a href='//evil.example'>x</a>",
        "<iframe src=https://evil.example></iframe>",
        "<svg><script>alert(1)</script></svg>",
        "<style>*{display:none}</style>",
        "<p style='position:fixed'>x</p>",
        "<form action=//evil.example><button>x</button></form>",
        "<input type=text name=by>",
        "<!-- hidden --><div id=main class=top>x</div>",
        "![x](https://evil.example/x.png)",
        "![x](//evil.example/x.png)",
        "<base href=https://evil.example>",
        "<meta http-equiv=refresh content=0>",
    ],
)
def test_nothing_dangerous_reaches_the_page(text: str) -> None:
    html = render(text, ROOT).lower()
    for word in ("<script", "onerror=", "ontoggle=", 'href="java', "<iframe", "<svg", "<style", "position:", "<form"):
        assert word not in html
    for word in ("<button", 'type="text"', "<!--", "id=", "<base", "<meta", 'href="//', "<img"):
        assert word not in html


def test_an_image_of_this_host_is_shown() -> None:
    html = render(f"![plot]({ROOT}/raw/a/b/c/plot.png) ![two](/raw/a/b/c/two.png)", ROOT)
    assert f'<img src="{ROOT}/raw/a/b/c/plot.png" alt="plot">' in html
    assert '<img src="/raw/a/b/c/two.png" alt="two">' in html
    assert "<img" not in render(f"![x]({ROOT}.evil.example/x.png)", ROOT)


class _Balance(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.add(tag)
        assert not any(name.startswith("on") or name in ("id", "name", "srcdoc") for name, _ in attrs)
        if tag not in ("br", "hr", "img", "input"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


_TAGS = ["<details>", "</details>", "<summary>", "<b", ">", "<script>", "</script>", "<!--", "-->", "<p onclick=x>"]
_TABLES = ["</table>", "<td>", "| a |\n|---|\n"]
_TEXTS = ["&lt;", "&#60;", "`", "```\n", "\n\n", "- [ ] ", '"', "'", "[a](b)", "word", " "]
_PIECES = st.sampled_from([*_TAGS, *_TABLES, *_TEXTS])


@given(st.lists(_PIECES, max_size=14).map("".join))
def test_whatever_is_written_the_html_is_balanced_and_allowed(text: str) -> None:
    parser = _Balance()
    parser.feed(render(text, ROOT))
    parser.close()
    assert parser.open == []
    assert not parser.seen & {"script", "style", "iframe", "form", "button", "svg"}
