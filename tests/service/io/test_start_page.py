"""The form for a job: what it puts together is the command that was meant, and GitHub opens the issue."""

from __future__ import annotations

import re
from html import escape, unescape
from html.parser import HTMLParser
from urllib.parse import parse_qs, urlsplit

import pytest

from service.commands.grammar import rule_of
from service.commands.parser import parse_comment
from service.pages.start import LONGEST_LINK, STARTING, drafted
from tests.service.io.test_pages import EVIL, pages
from workers.contracts import AuthorName, ProblemKind, Verb

PROBLEM = (
    "import torch\n\n\ndef reference(x):\n    return x * 2\n\n\nINPUTS = {'x': 'T H'}\nWORKLOADS = [{'T': 8, 'H': 64}]"
)


class Links(HTMLParser):
    """The addresses of a page that lead to GitHub."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.to_github: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        address = dict(attrs).get("href") or ""
        if tag == "a" and address.startswith("https://github.example"):
            self.to_github.append(address)


def sent(**fields: str) -> str:
    with pages() as client:
        answer = client.post("/start", data={"repository": "acme/lib"} | fields)
        assert answer.status_code == 200
        return answer.text


@pytest.mark.parametrize("verb", STARTING)
def test_every_command_has_a_form_with_all_that_it_takes(verb: Verb) -> None:
    with pages() as client:
        text = client.get("/start", params={"verb": verb.value, "repository": "acme/lib"}).text
    assert 'value="acme/lib"' in text
    rule = rule_of(verb)
    for option in rule.options:
        assert f'name="{option.name}"' in text
    assert text.count('name="argument-') == len(rule.arguments)


@pytest.mark.parametrize("verb", STARTING)
def test_the_example_of_each_command_is_what_the_form_makes_of_it(verb: Verb) -> None:
    rule = rule_of(verb)
    wanted = parse_comment(rule.example).commands[0]
    name, text = wanted.name or " ".join(wanted.names), wanted.text
    fields = {"repository": "acme/lib", "argument-0": name, "argument-1": text}
    if wanted.commits:
        fields["argument-1"] = "..".join(wanted.commits)
    if verb is Verb.fuse:
        fields["argument-0"] = "src/model.py:Block"
    for option in rule.options:
        value = getattr(wanted.options, option.name.replace("-", "_"), None)
        fields[option.name] = {True: "yes", None: "", False: ""}.get(value, value)
    draft = drafted(verb, {key: str(value) for key, value in fields.items() if value}, "github.com")
    assert draft.errors == ()
    assert parse_comment(draft.body).commands == (wanted,)


def test_a_problem_and_options_become_an_issue_that_github_opens() -> None:
    text = sent(verb="create", **{"argument-0": "doubled", "problem": PROBLEM, "author": "compiler", "auto": "yes"})
    (address,) = Links(text).to_github
    parts = urlsplit(address)
    given = parse_qs(parts.query)
    assert (parts.netloc, parts.path) == ("github.example", "/acme/lib/issues/new")
    (command,) = parse_comment(given["body"][0]).commands
    assert (command.verb, command.name) == (Verb.create, "doubled")
    assert command.options.author is AuthorName.compiler and command.options.auto
    assert (command.problem.kind, command.problem.text.strip()) == (ProblemKind.block, PROBLEM)
    assert given["title"] == ["Create doubled"]


def test_code_with_fences_of_its_own_stays_one_block() -> None:
    code = f'"""Doubles.\n\n```\n/kernel cancel\n```\n"""\n{PROBLEM}'
    draft = drafted(Verb.create, {"repository": "acme/lib", "argument-0": "doubled", "problem": code}, "github.com")
    (command,) = parse_comment(draft.body).commands
    assert command.problem.text.strip() == code


def test_words_of_a_change_come_last_and_may_have_lines() -> None:
    fields = {"repository": "a/b", "argument-0": "geglu", "argument-1": "let the slope\nbe chosen", "author": "llm"}
    draft = drafted(Verb.modify, fields, "github.com")
    (command,) = parse_comment(draft.body).commands
    assert (command.name, command.text.split()) == ("geglu", ["let", "the", "slope", "be", "chosen"])
    assert command.options.author is AuthorName.llm


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"repository": "nowhere"}, "owner/name"),
        ({"repository": "../../evil"}, "owner/name"),
        ({"argument-0": ""}, "NAME"),
        ({"argument-0": "2x!"}, "letter"),
        ({"argument-1": "https://elsewhere.example/x.py"}, "elsewhere.example"),
        ({"gpu": "abacus"}, "abacus"),
        ({"candidates": "99"}, "99"),
        ({"argument-1": "src/x.py", "problem": PROBLEM}, "src/x.py"),
        ({"verb": "modify", "argument-1": "this\n/kernel cancel"}, "several commands"),
    ],
)
def test_what_the_bot_would_refuse_is_said_before_an_issue_is_opened(fields: dict[str, str], words: str) -> None:
    text = sent(**({"verb": "create", "argument-0": "doubled"} | fields))
    assert words in unescape(text)
    assert Links(text).to_github == []


def test_a_long_problem_is_copied_by_hand() -> None:
    code = PROBLEM + "\n" + "# a line that makes the problem long\n" * (LONGEST_LINK // 30)
    text = sent(verb="create", **{"argument-0": "doubled", "problem": code})
    (address,) = Links(text).to_github
    assert "body" not in parse_qs(urlsplit(address).query)
    assert "too long for a link" in text


def test_a_form_that_is_too_large_is_refused() -> None:
    with pages() as client:
        assert client.post("/start", data={"problem": "x" * 300_000}).status_code == 413


def test_what_was_typed_is_escaped_and_kept() -> None:
    text = sent(verb="modify", **{"argument-0": EVIL, "argument-1": EVIL, "problem": EVIL})
    assert "<script>alert" not in text and "<img" not in text
    assert unescape(text).count(EVIL) >= 3


def test_what_an_error_names_is_shown_as_code_and_is_no_markup() -> None:
    name = "a|b<b onclick=x>_[c](https://evil.example)"
    text = sent(verb="create", **{"argument-0": name})
    (shown,) = re.findall(r'<div class="failure"><p>(.*?)</p>', text)
    assert f"<code>/kernel create {escape(name)}</code>" in shown
    assert set(re.findall(r"<[^>]*>", shown)) == {"<code>", "</code>"}


def test_a_command_that_begins_nothing_has_no_form() -> None:
    with pages() as client:
        assert "Write, prove and measure" in client.get("/start", params={"verb": "cancel"}).text
        assert client.get("/start", params={"verb": "nothing"}).status_code == 422


def test_the_form_needs_the_password() -> None:
    with pages(password="secret") as client:
        assert client.get("/start").status_code == 401
        assert client.post("/start", data={"verb": "create"}).status_code == 401
