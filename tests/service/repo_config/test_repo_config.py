"""The repository's configuration: what it says, and where it is wrong."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.commands.command import GivenOptions
from service.repo_config import (
    KEYS,
    LimitsConfig,
    NightlyConfig,
    RepoConfig,
    RepoConfigError,
    configuration_table,
    job_options,
    parse_repo_config,
)
from workers.contracts import AuthorName, JobOptions

PAGE = Path(__file__).parents[3] / "docs" / "configuration.md"
WHOLE = """# comment
layout = "liger"
author = "compiler"
allow = ["octocat", "hubot-2", "mona_octo"]
base_branch = "release/1.x"
gpu = "H100"
ban = ["hubot"]
conventional_commits = true

[limits]
jobs_per_day_per_person = 3
gpu_minutes_per_day = 0
gpu_minutes_per_day_per_person = 7

[nightly]
at = "02:17"
issue = 12
gpus = ["h100", "sm_100"]
"""


def wrong(source: str | bytes) -> tuple[str, int | None, str]:
    with pytest.raises(RepoConfigError) as caught:
        parse_repo_config(source)
    return caught.value.message, caught.value.line, caught.value.fix


def test_every_key_is_read() -> None:
    assert parse_repo_config(WHOLE) == RepoConfig(
        layout="liger",
        author=AuthorName.compiler,
        allow=("octocat", "hubot-2", "mona_octo"),
        ban=("hubot",),
        base_branch="release/1.x",
        conventional_commits=True,
        gpu="sm_90",
        limits=LimitsConfig(3, 0, 7),
        nightly=NightlyConfig("02:17", 12, ("sm_90", "sm_100")),
    )
    assert parse_repo_config(WHOLE.encode("utf-8-sig").replace(b"\n", b"\r\n")) == parse_repo_config(WHOLE)


def test_an_empty_file_gives_the_defaults() -> None:
    assert parse_repo_config("") == RepoConfig()
    assert parse_repo_config("[limits]\n") == RepoConfig()


@pytest.mark.parametrize(
    ("source", "message", "line", "fix"),
    [
        ('\nlayuot = "liger"', "unknown key `layuot`", 2, "Did you mean `layout`?"),
        ("a = 1\n'layout' = 1", "unknown key `a`", 1, "Known keys: "),
        (
            "[limits]\n\ngpu_minutes = 1",
            "unknown key `limits.gpu_minutes`",
            3,
            "Did you mean `limits.gpu_minutes_per_day`?",
        ),
        (
            "gpu_minutes_per_day = 1",
            "unknown key `gpu_minutes_per_day`",
            1,
            "Did you mean `limits.gpu_minutes_per_day`?",
        ),
        ('[limits]\nlayout = "liger"', "unknown key `limits.layout`", 2, "Did you mean `layout`?"),
        ("x = 1\n[limit]\na = 1", "unknown key `x`", 1, "Known keys: "),
        ("\n[limit]\na = 1", "unknown key `limit`", 2, "Did you mean `limits`?"),
        ("limits.jobs = 1", "unknown key `limits.jobs`", 1, "Did you mean `limits."),
        (
            "limits = { gpu_minutes_per_day = -1 }",
            "`limits.gpu_minutes_per_day` cannot be -1",
            1,
            "It is a whole number from 0.",
        ),
        ("limits = 3", "`limits` cannot be 3", 1, "It is a table: `[limits]`."),
        ('layout = "ligr"', "`layout` cannot be 'ligr'", 1, 'It is "liger" or "plain" or "versioned" or "fla".'),
        ("layout = 3", "`layout` cannot be 3", 1, 'It is "liger" or "plain" or "versioned" or "fla".'),
        ('author = "model"', "`author` cannot be 'model'", 1, 'It is "auto" or "compiler" or "llm".'),
        ('allow = "octocat"', "`allow` cannot be 'octocat'", 1, "It is a list of logins"),
        ('allow = [\n"a/team"]', "`allow` cannot be ['a/team']", 1, "It is a list of logins"),
        ('base_branch = "../main"', "`base_branch` cannot be '../main'", 1, "It is the name of a branch."),
        ('base_branch = "-x"', "`base_branch` cannot be '-x'", 1, "It is the name of a branch."),
        ('gpu = "potato"', "`gpu` cannot be 'potato'", 1, "It is an architecture"),
        (
            "[limits]\njobs_per_day_per_person = true",
            "`limits.jobs_per_day_per_person` cannot be True",
            2,
            "It is a whole",
        ),
        (
            "[limits]\njobs_per_day_per_person = 1.5",
            "`limits.jobs_per_day_per_person` cannot be 1.5",
            2,
            "It is a whole",
        ),
        ("layout = ", "not TOML: Invalid value", 1, "Correct the line."),
        ("a = 1\na = 2", "not TOML: Cannot overwrite a value", 2, "Correct the line."),
        (b"a = 1\n\xff", "not UTF-8 text", 2, "Save the file as UTF-8."),
        ("#" * 70_000, "larger than 64 KiB", None, "Keep only"),
        (f"layout = {'1' * 5000}", "cannot be read: a number has too many digits", None, "Keep only"),
        (f"layout = 0x{'f' * 5000}", "`layout` cannot be a number with so many digits", 1, "It is"),
        (f"limits = [0x{'f' * 5000}]", "`limits` cannot be a number with so many digits", 1, "It is a table"),
        (f"layout = {'[' * 5000}", "cannot be read: it is nested too deeply", None, "Keep only"),
        (
            "[ limits ] # of a day\njobs_per_day_per_person = -1",
            "`limits.jobs_per_day_per_person` cannot be -1",
            2,
            "It is",
        ),
        ("limits = {gpu_minutes_per_day = -1}", "`limits.gpu_minutes_per_day` cannot be -1", 1, "It is"),
        ('"limits" . gpu_minutes_per_day = -1', "`limits.gpu_minutes_per_day` cannot be -1", 1, "It is"),
    ],
)
def test_what_is_wrong_is_said_with_its_line_and_the_fix(
    source: str | bytes, message: str, line: int | None, fix: str
) -> None:
    told = wrong(source)
    assert told[0].startswith(message)
    assert told[1] == line
    assert told[2].startswith(fix)


@pytest.mark.parametrize(
    "source",
    ["author = '{}'", "allow = ['{}']", "limits = '{}'", "'key{}' = 1", "a = 1\nauthor = '" + "x" * 60 + "{}'"],
)
def test_no_part_of_a_secret_is_repeated(source: str) -> None:
    token = "ghp_" + "A1b2C3d4" * 5
    message, _, _ = wrong(source.format(token))
    assert token[:12] not in message


@given(st.text(max_size=200))
def test_any_text_is_a_configuration_or_an_error_of_ours(text: str) -> None:
    try:
        assert isinstance(parse_repo_config(text), RepoConfig)
    except RepoConfigError as error:
        assert error.fix


@given(st.sampled_from(["layout", "allow", "limits", "gpu", "x"]), st.text(max_size=30))
def test_any_value_is_read_or_refused(key: str, value: str) -> None:
    try:
        parse_repo_config(f"{key} = {value}")
    except RepoConfigError as error:
        assert error.message


@pytest.mark.parametrize(
    "text",
    [
        "[" * 30_000 + " " * 30_000,
        "\n".join(["[" + " " * 6_000 + "x"] * 10),
        "x" + " " * 60_000 + "= 1",
        ".".join("a" * 30_000) + " = 1",
        "\n".join(f"[{'a.' * 50}b{number}]" for number in range(500)),
        "allow = [" + "[]," * 20_000 + "]",
        'gpu = "' + "\\u0041" * 10_000 + '"',
    ],
)
def test_no_text_of_its_size_takes_long(text: str) -> None:
    began = time.process_time()
    assert wrong(text)[2]
    assert time.process_time() - began < 5.0  # a tenth of a second alone


def test_a_command_goes_before_the_configuration() -> None:
    config = parse_repo_config(WHOLE)
    assert job_options(GivenOptions(), config) == JobOptions(
        AuthorName.compiler, "liger", False, "sm_90", conventional_commits=True
    )
    given = GivenOptions(AuthorName.auto, "plain", True, "sm_80")
    assert job_options(given, config) == JobOptions(AuthorName.auto, "plain", True, "sm_80", conventional_commits=True)


def test_the_docs_have_the_table() -> None:
    assert configuration_table() in PAGE.read_text(encoding="utf-8")
    assert all(f"`{key.name}`" in configuration_table() for key in KEYS)


@pytest.mark.parametrize(
    "line",
    [
        'at = "2:17"',
        'at = "24:00"',
        "at = 217",
        "issue = 0",
        "issue = true",
        "gpus = []",
        'gpus = ["sm_90", "toaster"]',
    ],
)
def test_a_night_that_cannot_be_is_refused_on_its_line(line: str) -> None:
    message, number, _ = wrong(f"[nightly]\n{line}\n")
    assert (message.startswith(f"`nightly.{line.split(maxsplit=1)[0]}` cannot be"), number) == (True, 2)
