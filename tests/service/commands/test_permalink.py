"""Which links are followed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.commands.command import LinkFault, Permalink, parse_permalink
from service.commands.parser import parse_comment

ROOT = "https://github.com/octo-org/lib.py/blob/1f2e3d4c5b6a"


def test_lines_of_a_file_are_read() -> None:
    assert parse_permalink(f"{ROOT}/src/a%20b.py#L3-L20", "github.com") == Permalink(
        "github.com", "octo-org/lib.py", "1f2e3d4c5b6a", "src/a b.py", 3, 20
    )
    assert parse_permalink(f"{ROOT}/a.py#L7", "GitHub.com") == Permalink(
        "github.com", "octo-org/lib.py", "1f2e3d4c5b6a", "a.py", 7, 7
    )


def test_lines_the_wrong_way_round_are_put_right() -> None:
    link = parse_permalink(f"{ROOT}/a.py#L20C3-L4C1", "github.com")
    assert isinstance(link, Permalink)
    assert (link.first_line, link.last_line) == (4, 20)


def test_a_whole_file_has_no_lines() -> None:
    link = parse_permalink(f"{ROOT}/a.py?plain=1", "github.com")
    assert isinstance(link, Permalink)
    assert (link.first_line, link.last_line) == (None, None)


@pytest.mark.parametrize(
    "authority",
    ["evil.example", "github.com.evil.example", "github.com@evil.example", "user:x@github.com", "github.com:8443", ""],
)
def test_another_host_is_refused(authority: str) -> None:
    assert parse_permalink(f"https://{authority}/a/b/blob/c/d.py", "github.com") is LinkFault.wrong_host


def test_a_host_with_its_port_is_followed() -> None:
    link = parse_permalink("http://127.0.0.1:8000/a/b/blob/c/d.py", "127.0.0.1:8000")
    assert isinstance(link, Permalink)


@pytest.mark.parametrize(
    "tail",
    [
        "",
        "a/b",
        "a/b/tree/c/d",
        "a/b/blob/c",
        "a/b/blob/c/",
        "a/b/blob/c/../../d",
        "a/b/blob/c/%2e%2e/d",
        "a/b/blob/c/x%2f..%2fd",
        "a/b/blob/-c/d",
        "a/b/blob/c/-d",
        "a/b/blob/a..b/d",
        "../b/blob/c/d",
        "a/../blob/c/d",
        "a/b/blob/c/.git/config",
        "a/b/blob/c/d%00e",
        "a/b/blob/c/d%0ae",
        "a/b/blob/c/d#L0",
        "a/b/blob/c/d#discussion",
    ],
)
def test_what_is_no_file_inside_of_a_repository_is_refused(tail: str) -> None:
    assert parse_permalink(f"https://github.com/{tail}", "github.com") is LinkFault.not_a_file


RAW = "https://raw.githubusercontent.com/octo-org/lib.py"


@pytest.mark.parametrize(
    "url",
    [
        f"{RAW}/main/src/a.py",
        f"{RAW}/refs/heads/main/src/a.py?token=x",
        "https://github.com/octo-org/lib.py/raw/refs/heads/main/src/a.py",
        "https://github.com/octo-org/lib.py/raw/main/src/a.py",
    ],
)
def test_a_link_to_the_raw_file_is_one_to_the_file(url: str) -> None:
    assert parse_permalink(url, "github.com") == Permalink("github.com", "octo-org/lib.py", "main", "src/a.py")


def test_raw_files_of_another_installation_and_gists_are_on_another_host() -> None:
    assert parse_permalink(f"{RAW}/main/a.py", "github.example") is LinkFault.wrong_host
    for host in ("gist.github.com", "gist.githubusercontent.com"):
        assert parse_permalink(f"https://{host}/octocat/1f2e3d/raw/a.py", "github.com") is LinkFault.wrong_host


@pytest.mark.parametrize("form", ["{}", "{}.", "<{}>", "[this file]({})", "[x]({})"])
def test_a_link_is_read_in_each_form_of_markdown(form: str) -> None:
    url = f"{ROOT}/a.py#L3-L20"
    parsed = parse_comment(f"/kernel create x from {form.format(url)}".replace("this file", "this-file"))
    (command,) = parsed.commands
    assert command.problem.url == url
    assert command.permalink is not None
    assert command.permalink.path == "a.py"


@given(st.text(max_size=120))
def test_no_link_makes_it_raise(text: str) -> None:
    for url in (text, f"https://github.com/{text}", f"https://{text}"):
        link = parse_permalink(url, "github.com")
        assert isinstance(link, LinkFault) or ".." not in link.path.split("/")
