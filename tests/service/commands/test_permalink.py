"""Which links are followed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.commands.command import GistLink, LinkFault, Permalink, parse_permalink
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


GIST, SHA = "6cad326836d38bd3a7ae3c1b2f0e9d8c", "db9c55113504e46fa076e7df3a04ce592e2e86d8"


def test_raw_files_and_gists_of_another_installation_are_on_another_host() -> None:
    for url in (f"{RAW}/main/a.py", f"https://gist.github.com/octocat/{GIST}"):
        assert parse_permalink(url, "github.example") is LinkFault.wrong_host


@pytest.mark.parametrize(
    ("tail", "link"),
    [
        ("", GistLink("github.com", GIST)),
        ("/", GistLink("github.com", GIST)),
        (f"/{SHA}", GistLink("github.com", GIST, SHA)),
        ("#file-reglu_v2-py", GistLink("github.com", GIST, anchor="reglu_v2-py")),
        ("#file-reglu-py-L9-L3", GistLink("github.com", GIST, None, "", "reglu-py", 3, 9)),
        (f"/{SHA}#file-reglu-py-L4", GistLink("github.com", GIST, SHA, "", "reglu-py", 4, 4)),
        ("/raw", GistLink("github.com", GIST)),
        ("/raw/re%20glu.py", GistLink("github.com", GIST, None, "re glu.py")),
        (f"/raw/{SHA}/reglu.py", GistLink("github.com", GIST, SHA, "reglu.py")),
    ],
)
@pytest.mark.parametrize("root", ["https://gist.github.com/octocat/", "https://gist.github.com/"])
def test_each_form_of_a_gist_is_read(root: str, tail: str, link: GistLink) -> None:
    assert parse_permalink(f"{root}{GIST}{tail}", "github.com") == link
    assert parse_permalink(f"{root.replace('github.com', 'GitHubUserContent.com')}{GIST}{tail}", "github.com") == link


def test_gists_of_an_enterprise_lie_below_its_host() -> None:
    link = parse_permalink(f"https://github.example/gist/octocat/{GIST}", "github.example")
    assert link == GistLink("github.example", GIST)
    assert parse_permalink(f"https://github.com/gist/octocat/{GIST}", "github.com") is LinkFault.not_a_file


@pytest.mark.parametrize(
    "tail",
    [
        "",
        "octocat",
        "octocat/",
        "../user",
        "octocat/../user",
        f"octocat/{GIST[:-1]}",
        f"octocat/{GIST}/main",
        f"octocat/{GIST}/raw/..",
        f"octocat/{GIST}/raw/a%2f..%2fb",
        f"octocat/{GIST}/raw/{SHA}/a/b.py",
        f"octocat/{GIST}/{SHA}/a.py",
        f"octocat/{GIST}#L3",
        f"octocat/{GIST}#file-a-py-L0",
        f"octocat/{GIST}#comments",
        f"octocat/{GIST}/raw/a.py#file-a-py",
        f"octocat/{GIST}%0a",
    ],
)
def test_what_is_no_file_of_a_gist_is_refused(tail: str) -> None:
    assert parse_permalink(f"https://gist.github.com/{tail}", "github.com") is LinkFault.not_a_file


def test_a_gist_without_a_path_or_by_another_scheme_is_refused() -> None:
    for url in (
        "https://gist.github.com",
        f"ftp://gist.github.com/octocat/{GIST}",
        f"//gist.github.com/octocat/{GIST}",
    ):
        assert parse_permalink(url, "github.com") is LinkFault.not_a_file
    assert parse_permalink(f"https://gist.github.com:8443/octocat/{GIST}", "github.com") is LinkFault.wrong_host


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
    for url in (text, f"https://github.com/{text}", f"https://{text}", f"https://gist.github.com/{text}"):
        link = parse_permalink(url, "github.com")
        assert isinstance(link, LinkFault) or ".." not in link.path.split("/")
