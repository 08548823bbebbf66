"""`--dry-run` of every command that starts a job: what would be done, and everything that is not there, with its fix."""

# ruff: noqa: E501 (messages stand here as they are sent)

from __future__ import annotations

from dataclasses import replace

import pytest
from inline_snapshot import snapshot

from gpu_runner.contracts import to_json
from tests.conversations.conftest import Open
from tests.conversations.modifying import LIGER, WORDS, speaks
from tests.conversations.talk import REPOSITORY, Talk
from tests.conversations.test_nightly import GEGLU, HOST
from tests.service.io.samples import PROBLEM
from workers import inbox

NO_MODEL = "- No language model is configured on this bot"
NO_HOST = "- No GPU host has taken a request"
OWN = f"\n\n```python\n{PROBLEM}```\n"


def dry(talk: Talk, command: str, number: int | None = None) -> str:
    number = talk.issue() if number is None else number
    jobs = inbox.find_jobs(REPOSITORY)
    first, _, below = command.partition("\n")
    talk.say(number, f"{first} --dry-run\n{below}" if below else f"{first} --dry-run")
    talk.settle()
    (told,) = talk.heard(number)
    assert inbox.find_jobs(REPOSITORY) == jobs
    return told


def test_a_dry_run_of_modify_says_which_model_and_host_are_missing(open_talk: Open) -> None:
    talk = open_talk(LIGER)
    assert dry(talk, f"/kernel modify geglu {WORDS}") == snapshot("""\
**Nothing was started.** `/kernel modify` would take `geglu` at commit `COMMIT1`.

- Result: a pull request onto `main`.
- GPU: at most 2 GPU minutes of timing, besides proofs, tests and the library's benchmark script.
- Language models: none is used.

**Missing:**

- No language model is configured on this bot, and `/kernel modify` needs one. An operator configures one, with a key, a model's name and a budget \\(docs/models.md\\).
- No GPU host has taken a request in the last 7 days, so that the job may wait for one. An operator starts `kernelsmith work --only gpu` on a host, unless one is at work that had nothing to do.

**Next:** do what is missing, then give the command without `--dry-run`.\
""")
    speaks()
    assert NO_MODEL not in dry(talk, f"/kernel modify geglu {WORDS}")


@pytest.mark.parametrize(
    ("command", "asked"),
    [
        (f"/kernel create reglu --author llm{OWN}", "`/kernel create --author llm` needs one"),
        ("/kernel optimize geglu --author llm", "`/kernel optimize --author llm` needs one"),
        (f"/kernel create reglu{OWN}", None),
        ("/kernel optimize geglu", None),
        ("/kernel tune geglu", None),
        ("/kernel profile geglu", None),
        ("/kernel nightly", None),
    ],
)
def test_only_what_needs_a_model_misses_one_and_every_job_misses_a_host(
    open_talk: Open, command: str, asked: str | None
) -> None:
    told = dry(open_talk(LIGER), command)
    assert ((NO_MODEL in told) and (asked or "") in told) if asked else NO_MODEL not in told
    assert NO_HOST in told
    assert "**Next:** do what is missing, then give the command without `--dry-run`." in told


def test_a_dry_run_of_a_port_names_what_the_repository_lacks(open_talk: Open) -> None:
    assert "has no `src/liger_kernel/ops/backends/_ascend/ub_manager.py`" in dry(
        open_talk(LIGER), "/kernel port rms_norm"
    )


def test_a_dry_run_of_a_night_names_its_budget_and_kernels_that_are_not_there(open_talk: Open) -> None:
    talk = open_talk(LIGER)
    assert dry(talk, "/kernel nightly geglu no_such_kernel") == snapshot("""\
**Nothing was started.** `/kernel nightly` would take `geglu`, `no_such_kernel` at commit `COMMIT1`.

- Result: nothing is pushed.
- GPU: no kernel is started after 120 GPU minutes in total.
- Language models: none is used.

**Missing:**

- There is no kernel `no_such_kernel` in the repository. The kernels there: `dyt`, `geglu`, `rms_norm`, `softmax`.
- No GPU host has taken a request in the last 7 days, so that the job may wait for one. An operator starts `kernelsmith work --only gpu` on a host, unless one is at work that had nothing to do.

**Next:** do what is missing, then give the command without `--dry-run`.\
""")


def test_a_dry_run_of_a_bisect_counts_its_commits_and_fetches_none_but_the_newest(open_talk: Open) -> None:
    talk = open_talk(LIGER)
    good = talk.hub.branches(REPOSITORY)["main"]
    for line in ("one", "two", "three"):
        talk.hub.push(REPOSITORY, "main", "maintainer", {GEGLU: LIGER[GEGLU] + f"# {line}\n".encode()}, f"Say {line}")
    assert dry(talk, f"/kernel bisect geglu {good[:12]}..main --gpu h100") == snapshot("""\
**Nothing was started.** `/kernel bisect` would take `geglu` at the 3 commits after `COMMIT1`.

- Result: nothing is pushed.
- GPU: at most 4 GPU minutes of timing for each commit that it finds, where all commits build.
- Language models: none is used.

**Missing:**

- No GPU host has taken a request for `sm_90` in the last 7 days, so that the job may wait for one. An operator starts `kernelsmith work --only gpu` on a host of `sm_90`, unless one is at work that had nothing to do.

**Next:** do what is missing, then give the command without `--dry-run`.\
""")
    assert "`swiglu`" in dry(talk, f"/kernel bisect swiglu {good[:12]}..main")


def test_a_dry_run_of_a_comparison_names_kernels_that_are_not_there(open_talk: Open) -> None:
    talk = open_talk(LIGER)
    talk.hub.push(REPOSITORY, "topic", "maintainer", {GEGLU: LIGER[GEGLU] + b"# another\n"})
    pull = talk.hub.open_pull(REPOSITORY, "maintainer", "topic", "Another way").number
    for verb in ("bench", "verify"):
        told = dry(talk, f"/kernel {verb} no_such_kernel", pull)
        assert "no_such_kernel" in told and "**Missing:**" in told


def test_a_host_that_answered_is_there_and_without_a_gpu_nothing_is_promised_to_be_timed(open_talk: Open) -> None:
    talk = open_talk(LIGER)
    number = talk.issue()
    talk.answer("doctor", to_json(replace(HOST, gpu=None)))
    talk.say(number, "/kernel nightly")
    talk.settle()
    talk.skip(number)
    talk.logged("gpu")
    told = dry(talk, "/kernel nightly")
    assert NO_HOST not in told
    assert "- No GPU host that answered in the last 7 days has a GPU" in told
    told = dry(talk, "/kernel optimize geglu")
    assert "**Missing:**" not in told
    assert "kernels run in Triton's interpreter and nothing is timed" in told
    assert f"{NO_HOST} for `sm_90`" in dry(talk, "/kernel optimize geglu --gpu h100")
