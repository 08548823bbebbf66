"""`/kernel nightly`, night after night, with the runner's answers made by hand."""

# ruff: noqa: E501 (messages stand here as they are sent)

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from inline_snapshot import snapshot
from structlog.testing import capture_logs

from gpu_runner.contracts import (
    BenchmarkRequest,
    CandidateSource,
    Comparison,
    HostReport,
    Timing,
    Word,
    to_json,
)
from service.dispatch.schedule import Nights
from service.repo_config import PATH
from tests.conversations.conftest import Open
from tests.conversations.normal import folded
from tests.conversations.talk import REPOSITORY, Talk
from tests.few import few
from tests.recorded.libraries import LIGER
from tests.service.report.facts import VERDICT, WRONG
from tests.workers.stages.answers import benchmark
from workers import embedded, history, inbox, runtime
from workers.contracts import FailureCode, JobState, regression_key
from workers.embedded import reconcile
from workers.stages.nightly import Night
from workers.store import history as store

GEGLU = "src/liger_kernel/ops/geglu.py"
HOST = HostReport("3.12", "2.11.0", "3.6.0", "NVIDIA H200", "sm_90", "580", 1, 4240.0, (), (), (), ())
OLD_US = 200.0


def measured(times_us: float) -> Any:
    """Give a result with the candidate's time, in turns with an original of 200 us."""
    result = benchmark(1.0)(BenchmarkRequest("", CandidateSource(()), original=CandidateSource(())))
    speedup = OLD_US / times_us
    word = Word.slower if speedup < 0.99 else Word.faster if speedup > 1.01 else Word.same
    both = (Timing("candidate", times_us, blocks=12, peak_bytes=2**30), Timing("original", OLD_US, peak_bytes=2**30))
    compared = (Comparison("candidate", "original", speedup, speedup * 0.995, speedup * 1.005, word, 12),)
    return replace(result, rows=tuple(replace(row, timings=both, comparisons=compared) for row in result.rows))


def night(talk: Talk, number: int, times_us: float, line: str = "", **answers: Any) -> str:
    """Push a line where there is one, measure, and give the report down to what is folded."""
    if line:
        talk.hub.push(REPOSITORY, "main", "maintainer", {GEGLU: LIGER[GEGLU] + f"# {line}\n".encode()})
    for action, answer in {"doctor": HOST, "verify": VERDICT, "benchmark": measured(times_us)}.items():
        talk.answer(action, to_json(answers.get(action, answer)), always=True)
    talk.say(number, "/kernel nightly geglu")
    talk.settle()
    said = [folded(body).split("\n\n▸")[0] for body in talk.heard(number)]
    (report,) = [body for body in said if not body.startswith(("**The nightly", "This is already job"))]
    return report


def test_a_regression_is_found_in_its_night_told_once_and_recovers(open_talk: Open) -> None:
    talk = open_talk(LIGER)
    number = talk.issue("The nights are here.")
    branches = dict(talk.hub.branches(REPOSITORY))
    assert night(talk, number, 200.0) == snapshot("""\
**No regression at `COMMIT1`** in 1 kernel.
**Next:** nothing.\
""")
    quiet = [night(talk, number, 200.5, "one"), night(talk, number, 199.5, "two")]
    assert all("**No regression at" in report for report in quiet)
    assert night(talk, number, 220.0, "three") == snapshot("""\
**Confirmed regression in `geglu`** at `COMMIT4`.
**Next:** look at the commits in between: `git log --oneline COMMIT3..COMMIT4`.

| kernel | pass | size | metric | new / old (95% interval) | between | verdict | why it was compared |
| --- | --- | --- | --- | ---: | --- | --- | --- |
| `geglu` | forward | T=4096 I=11008 | time | 1.100 (1.095 to 1.106) | `COMMIT3` to `COMMIT4` | confirmed | outside the series' band |
| `geglu` | backward | T=4096 I=11008 | time | 1.100 (1.095 to 1.106) | `COMMIT3` to `COMMIT4` | confirmed | outside the series' band |
| `geglu` | full | T=4096 I=11008 | time | 1.100 (1.095 to 1.106) | `COMMIT3` to `COMMIT4` | confirmed | outside the series' band |\
""")
    assert night(talk, number, 220.0, "four") == snapshot("""\
**No new regression at `COMMIT5`** in 1 kernel. Still worse: `geglu`.
**Next:** nothing.\
""")
    assert night(talk, number, 200.0, "five") == snapshot("""\
**Recovered at `COMMIT6`:** `geglu`; no new regression.
**Next:** nothing.

| kernel | pass | size | metric | new / old (95% interval) | between | verdict | why it was compared |
| --- | --- | --- | --- | ---: | --- | --- | --- |
| `geglu` | forward | T=4096 I=11008 | time | 1.000 (0.995 to 1.005) | `COMMIT3` to `COMMIT6` | recovered | back near the old level |
| `geglu` | backward | T=4096 I=11008 | time | 1.000 (0.995 to 1.005) | `COMMIT3` to `COMMIT6` | recovered | back near the old level |
| `geglu` | full | T=4096 I=11008 | time | 1.000 (0.995 to 1.005) | `COMMIT3` to `COMMIT6` | recovered | back near the old level |\
""")
    pictures = {"kernelsmith-assets"}  # the plot of the issue; no number is written into the repository
    assert set(talk.hub.branches(REPOSITORY)) == {*branches, *pictures}
    for issue, _, _ in issues(talk, number):
        talk.skip(issue)
    assert {job.state for job in inbox.find_jobs(REPOSITORY)} == {JobState.done}


def test_wrong_values_are_in_the_first_line_and_a_wrong_kernel_is_not_timed(open_talk: Open) -> None:
    talk = open_talk(LIGER)
    number = talk.issue("The nights are here.")
    night(talk, number, 200.0)
    assert "Nothing to do" in night(talk, number, 200.0)
    report = night(talk, number, 300.0, "another", verify=WRONG)
    assert report.startswith("**Wrong values in") and "`geglu`" in report.splitlines()[0]
    assert "benchmark" not in talk.asked()[-3:]


def test_a_host_without_a_gpu_ends_the_night_and_says_what_to_do(open_talk: Open) -> None:
    talk = open_talk(LIGER)
    number = talk.issue("The nights are here.")
    talk.answer("doctor", to_json(replace(HOST, gpu=None)))
    talk.say(number, "/kernel nightly")
    talk.settle()
    (failed,) = [body for body in talk.heard(number) if "no GPU" in body and "Next" in body][-1:]
    assert "kernelsmith work --only gpu" in failed
    job = talk.job()
    assert job.state is JobState.failed
    assert job.failure is not None and job.failure.code is FailureCode.environment
    talk.logged("gpu")


def test_a_second_command_while_a_night_goes_on_names_that_one(open_talk: Open) -> None:
    talk = open_talk(LIGER)
    number = talk.issue("The nights are here.")
    talk.say(number, "/kernel nightly")
    talk.listen()
    talk.say(number, "/kernel nightly geglu")
    talk.listen()
    assert len(inbox.find_jobs(REPOSITORY)) == 1
    assert any("already" in body for body in talk.heard(number))
    for _ in range(2):
        talk.say(number, "/kernel nightly --gpu sm_100")
        talk.listen()
    jobs = inbox.find_jobs(REPOSITORY)
    assert [job.request.options.gpu for job in jobs] == [None, "sm_100"], "another architecture has a night of its own"
    for job in jobs:
        inbox.cancel(job.job_id, "maintainer")
    talk.settle()
    talk.skip(number)


def begun(talk: Talk, schedule: Nights) -> list[tuple[str | None, JobState]]:
    """Look at what is due, let it happen, and give the nights that there were, by architecture."""
    assert schedule.step() is False
    talk.settle()
    return [(job.request.options.gpu, job.state) for job in inbox.find_jobs(REPOSITORY)]


def test_nights_begin_by_themselves_once_a_day_and_not_for_a_commit_that_was_measured(open_talk: Open) -> None:
    talk = open_talk(LIGER)
    number = talk.issue("The nights are here.")
    for action, answer in {"doctor": HOST, "verify": VERDICT, "benchmark": measured(200.0)}.items():
        talk.answer(action, to_json(answer), always=True)
    now = [datetime(2026, 3, 1, 2, 16, tzinfo=UTC)]

    def nights() -> Nights:  # as of a process that has just started
        return Nights(talk.parts.desk, lambda: ((REPOSITORY, None),), lambda: now[0])

    assert begun(talk, nights()) == [], "no configuration names a time"
    config = f'[nightly]\nat = "02:17"\nissue = {number}\n'
    talk.hub.push(REPOSITORY, "main", "maintainer", {PATH: config.encode()})
    assert begun(talk, nights()) == [], "a minute early"
    now[0] += timedelta(minutes=3)
    one = nights()
    assert begun(talk, one) == begun(talk, one) == begun(talk, nights()) == [(None, JobState.done)]
    assert any("**No regression at" in body for body in talk.heard(number))
    now[0] += timedelta(days=1)
    assert len(begun(talk, one)) == 1, "the same commit once more would say nothing"
    config += 'gpus = ["sm_90", "sm_100"]\n'
    talk.hub.push(REPOSITORY, "main", "maintainer", {PATH: config.encode()})
    assert len(begun(talk, one)) == 3
    now[0] += timedelta(hours=12)
    talk.hub.push(REPOSITORY, "main", "maintainer", {GEGLU: LIGER[GEGLU] + b"# later\n"})
    assert len(begun(talk, nights())) == 3, "too late for this night"
    talk.skip(number)


def test_nights_without_a_gpu_host_are_one_job_that_says_so_once(
    open_talk: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embedded, "_gpu_step", lambda *_: False)
    talk = open_talk(LIGER)
    number = talk.issue("The nights are here.")
    config = f'[nightly]\nat = "02:17"\nissue = {number}\ngpus = ["sm_100"]\n'
    talk.hub.push(REPOSITORY, "main", "maintainer", {PATH: config.encode()})
    now = [datetime(2026, 3, 1, 2, 20, tzinfo=UTC)]
    schedule = Nights(talk.parts.desk, lambda: ((REPOSITORY, None),), lambda: now[0])
    for day in ("one", "two"):
        ((gpu, state),) = begun(talk, schedule)
        assert (gpu, state) == ("sm_100", JobState.running)
        talk.clock[0] += 3600
        reconcile()
        talk.settle()
        now[0] += timedelta(days=1)
        talk.hub.push(REPOSITORY, "main", "maintainer", {GEGLU: LIGER[GEGLU] + f"# {day}\n".encode()})
    (said,) = [comment.body for comment in talk.hub.world.repository(REPOSITORY).issues[number].comments]
    assert said.count("no GPU host has taken it since") == 1 and "on a host of `sm_100`" in said
    assert talk.logged("no_gpu_host") == 2, "an operator's log has it for each look"
    inbox.cancel(talk.job().job_id, "maintainer")
    talk.settle()
    talk.skip(number)


def test_a_night_begins_where_the_app_was_only_installed_if_the_configuration_asks_for_it(open_talk: Open) -> None:
    talk = open_talk(LIGER)
    hub = talk.hub
    wanted = b'[nightly]\nat = "02:17"\nissue = 1\n'
    hub.create_repository("octo", "quiet", files=LIGER)
    hub.create_repository("octo", "asking", files=LIGER | {PATH: wanted})
    hub.create_repository("elsewhere", "asking", files=LIGER | {PATH: wanted})
    for repository in (REPOSITORY, "octo/asking"):
        hub.open_issue(repository, "octo", "Nights", "The nights are here.")
    app, here = next(iter(hub.world.state.apps.values())), next(iter(hub.world.state.installations.values()))
    hub.world.repository("octo/quiet").parent_id = hub.world.repository("octo/asking").id  # a fork
    hub.push("octo/quiet", "main", "octo", {PATH: wanted})
    now = datetime(2026, 3, 1, 2, 20, tzinfo=UTC)
    schedule = Nights(talk.parts.desk, lambda: (), lambda: now, talk.parts.clients.installed)

    def asked() -> list[str]:
        before = len(hub.requests)
        assert schedule.step() is False
        return [one.path for one in hub.requests[before:] if one.path.endswith(PATH)]

    assert len(asked()) == 2, "of the two that are no forks the configuration is read"
    assert [job.request.origin.repository for job in inbox.recent_jobs(9)] == ["octo/asking"]
    assert inbox.recent_jobs(1)[0].request.origin.installation_id == here.id
    assert len(asked()) == 1, "one that asks for none is read again after a push"
    talk.clock[0] += 60  # GitHub dates pushes to the second
    hub.push(REPOSITORY, "main", "maintainer", {PATH: wanted})
    assert len(asked()) == 2
    assert {job.request.origin.repository for job in inbox.recent_jobs(9)} == {"octo/asking", REPOSITORY}
    gone = hub.install(app, "elsewhere")
    hub.faults.fail_next("create_installation_token", 403, body={"message": "This installation has been suspended"})
    with capture_logs() as logs:
        asked()
    assert [(one["event"], one.get("installation")) for one in logs] == [("repositories_not_listed", gone.id)]
    assert len(inbox.recent_jobs(9)) == 2
    listings = [one for one in hub.world.state.tokens.values() if one.repository_ids is None]
    assert [one.permissions for one in listings] == [{"metadata": "read"}]
    for job in inbox.recent_jobs(9):
        inbox.cancel(job.job_id, "octo")
    talk.settle()
    talk.skip(1)


def test_a_night_of_a_branch_that_is_not_there_is_logged_once_a_day(open_talk: Open) -> None:
    talk = open_talk(LIGER)
    config = b'base_branch = "gone"\n[nightly]\nat = "02:17"\nissue = 1\n'
    talk.hub.push(REPOSITORY, "main", "maintainer", {PATH: config})
    schedule = Nights(talk.parts.desk, lambda: ((REPOSITORY, None),), lambda: datetime(2026, 3, 1, 2, 20, tzinfo=UTC))
    with capture_logs() as logs:
        assert begun(talk, schedule) == begun(talk, schedule) == []
    assert [(one["event"], one["error"]) for one in logs if one["log_level"] == "warning"] == snapshot(
        [("night_not_started", "there is no branch 'gone'")]
    )


@pytest.mark.long  # in `make test` tests/workers/stages/test_nightly leaves a rest
def test_what_a_nights_budget_left_is_measured_the_next_day_at_the_same_commit(
    open_talk: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    talk = open_talk(LIGER)
    number = talk.issue("The nights are here.")
    for action, answer in {"doctor": HOST, "verify": VERDICT, "benchmark": measured(200.0)}.items():
        talk.answer(action, to_json(answer), always=True)
    now = [datetime(2026, 3, 1, 2, 20, tzinfo=UTC)]
    schedule = Nights(talk.parts.desk, lambda: ((REPOSITORY, None),), lambda: now[0])
    talk.hub.push(REPOSITORY, "main", "maintainer", {PATH: f'[nightly]\nat = "02:17"\nissue = {number}\n'.encode()})
    reports = []
    for spends in (True, False, False):
        spent = property(lambda night, spends=spends: 7200.0 if spends and night.measured else 0.0)
        monkeypatch.setattr(Night, "spent_s", spent)
        begun(talk, schedule)
        reports += [body for body in talk.heard(number) if body.startswith("**No regression")]
        now[0] += timedelta(days=1)
    first, second = reports
    assert "the budget ended before `rms_norm`, `softmax`" in first
    assert "`softmax`: 7 numbers recorded" in second and "`geglu`: already measured at this commit" in second


def issues(talk: Talk, first: int) -> list[tuple[int, str, str]]:
    """Give the issues that the bot opened: number, title and state."""
    found = talk.hub.world.repository(REPOSITORY).issues.values()
    return [(issue.number, issue.title, issue.state) for issue in found if issue.number > first]


def test_the_issue_of_a_kernel_lives_from_the_first_report_to_its_closing(open_talk: Open) -> None:
    talk = open_talk(LIGER)
    number = talk.issue("The nights are here.")
    for line in ("", "one", "two"):
        night(talk, number, 200.0, line)
    assert issues(talk, number) == []
    night(talk, number, 220.0, "three")
    ((issue, title, state),) = issues(talk, number)
    assert (title, state) == snapshot(("geglu became slower on NVIDIA H200", "open"))
    body = talk.hub.world.repository(REPOSITORY).issues[issue].body
    assert re.sub("first [0-9a-f]{32}", "first UPDATE", talk.normal(body)) == snapshot("""\
**`geglu` became worse** on NVIDIA H200, found at `COMMIT4`: forward time is 1.100 times the old value at T=4096 I=11008.

**Next:** fix it, or accept it with `/kernel triaged REASON`, which makes the current measurements the new baseline.

The only commits between the two nights:

- `COMMIT4` Change files

| kernel | pass | size | metric | new / old (95% interval) | between | verdict | why it was compared |
| --- | --- | --- | --- | ---: | --- | --- | --- |
| `geglu` | forward | T=4096 I=11008 | time | 1.100 (1.095 to 1.106) | `COMMIT3` to `COMMIT4` | confirmed | outside the series' band |
| `geglu` | backward | T=4096 I=11008 | time | 1.100 (1.095 to 1.106) | `COMMIT3` to `COMMIT4` | confirmed | outside the series' band |
| `geglu` | full | T=4096 I=11008 | time | 1.100 (1.095 to 1.106) | `COMMIT3` to `COMMIT4` | confirmed | outside the series' band |

![geglu: time, microseconds, forward, T=4096 I=11008: 4 nights, changed in number 4](https://hub/octo/kernels/raw/COMMIT5/JOB4/geglu-history.png)

On a checkout, on a machine with the same GPU:

```sh
git checkout COMMIT4
kernelsmith compare geglu --against COMMIT3
kernelsmith bisect geglu COMMIT3..COMMIT4
```

<sub>Each change of time or memory was confirmed by three interleaved runs of both commits. This issue closes by itself once they are gone.</sub>

<!-- first UPDATE -->\
""")
    night(talk, number, 220.0, "four")
    assert talk.heard(issue) == [], "a comment only when something new is known"
    night(talk, number, 260.0, "five")
    assert talk.read(issue).splitlines()[0] == snapshot(
        "**`geglu` became worse** on NVIDIA H200, found at `COMMIT7`: forward time is 1.300 times the old value at T=4096 I=11008."
    )
    night(talk, number, 200.0, "six")
    assert talk.read(issue).splitlines()[0] == snapshot(
        "**`geglu` has recovered** at `COMMIT9` on NVIDIA H200. In three interleaved runs it was as good as the good commit. This issue is closed."
    )
    assert issues(talk, number) == [(issue, title, "closed")]
    night(talk, number, 230.0, "seven")
    assert issues(talk, number) == [(issue, title, "open")], "one issue for a kernel and a GPU, opened again"
    talk.skip(issue)


@pytest.mark.long  # in `make test` tests/workers/nightly/test_memory keeps testbeds apart
def test_each_gpu_model_has_an_issue_of_its_own(open_talk: Open) -> None:
    talk = open_talk(LIGER)
    number = talk.issue("The nights are here.")
    other = {"doctor": replace(HOST, gpu="NVIDIA B200", architecture="sm_100"), "benchmark": on_b200(200.0)}
    for line in ("one", "two"):
        night(talk, number, 200.0, line)
        night(talk, number, 200.0, **other)
    night(talk, number, 220.0, "three")
    assert "**No regression" in night(talk, number, 200.0, **other)
    assert [title for _, title, _ in issues(talk, number)] == ["geglu became slower on NVIDIA H200"]
    night(talk, number, 220.0, "four")
    assert "**Confirmed regression in" in night(talk, number, 200.0, **other | {"benchmark": on_b200(230.0)})
    night(talk, number, 200.0, "five")
    night(talk, number, 200.0, **other | {"benchmark": on_b200(230.0)})
    assert [(title, state) for _, title, state in issues(talk, number)] == [
        ("geglu became slower on NVIDIA H200", "closed"),
        ("geglu became slower on NVIDIA B200", "open"),
    ]
    for issue, _, _ in issues(talk, number):
        talk.skip(issue)


def on_b200(times_us: float) -> Any:
    """As ``measured``, on another GPU model."""
    return replace(measured(times_us), gpu="NVIDIA B200")


def larger(times_us: float) -> Any:
    """As ``measured``, with twice the peak memory of the original."""
    result = measured(times_us)

    def twice(one: Timing) -> Timing:
        return replace(one, peak_bytes=2**31) if one.contender == "candidate" else one

    return replace(result, rows=tuple(replace(row, timings=tuple(map(twice, row.timings))) for row in result.rows))


@pytest.mark.long  # in `make test` wrong values come first in the title of a joined issue, below
def test_the_title_of_an_issue_names_the_most_important_of_what_stands(open_talk: Open) -> None:
    talk = open_talk(LIGER)
    number = talk.issue("The nights are here.")
    found = []
    for line, times_us, answers in (
        ("", 200.0, {}),
        ("one", 220.0, {}),
        ("two", 220.0, {"benchmark": larger(220.0)}),
        ("three", 220.0, {"verify": WRONG}),
        ("four", 220.0, {"benchmark": larger(220.0)}),
        ("five", 220.0, {}),
    ):
        night(talk, number, times_us, line, **answers)
        found += [title.removesuffix(" on NVIDIA H200") for _, title, _ in issues(talk, number)]
    assert found == snapshot(
        [
            "geglu became slower",
            "geglu needs more memory",
            "geglu gives wrong values",
            "geglu needs more memory",
            "geglu became slower",
        ]
    )
    ((issue, _, _),) = issues(talk, number)
    talk.hub.world.repository(REPOSITORY).issues[issue].title = "Ours: look at geglu"
    night(talk, number, 220.0, "six", verify=WRONG)
    assert issues(talk, number) == [(issue, "Ours: look at geglu", "open")], "a person's title stays"
    talk.skip(issue)


def test_a_locked_conversation_costs_a_comment_and_its_issue_is_closed_all_the_same(open_talk: Open) -> None:
    talk = open_talk(LIGER)
    number = talk.issue("The nights are here.")
    for times_us, line in ((200.0, ""), (200.0, "one"), (200.0, "two"), (220.0, "three")):
        night(talk, number, times_us, line)
    ((issue, title, _),) = issues(talk, number)
    talk.hub.push(REPOSITORY, "main", "maintainer", {GEGLU: LIGER[GEGLU] + b"# four\n"})
    talk.answer("benchmark", to_json(measured(200.0)), always=True)
    talk.say(number, "/kernel nightly geglu")
    talk.listen()
    talk.publish()  # the status comment
    refusal = {"message": "Unable to create comment because issue is locked."}
    talk.hub.faults.fail_next("create_issue_comment", 403, body=refusal)
    talk.settle()
    assert any(body.startswith("**Recovered at") for body in talk.heard(number))
    assert (issues(talk, number), talk.heard(issue)) == ([(issue, title, "closed")], [])


@pytest.mark.long  # in `make test` one is opened at the same commit, below
def test_where_no_issue_can_be_opened_the_report_of_the_night_tells_it(open_talk: Open) -> None:
    talk = open_talk(LIGER)
    number = talk.issue("The nights are here.")
    for line in ("", "one", "two"):
        night(talk, number, 200.0, line)
    refuse_issues(talk)
    assert "**Confirmed regression in `geglu`**" in night(talk, number, 220.0, "three")
    assert issues(talk, number) == []
    assert {job.state for job in inbox.find_jobs(REPOSITORY)} == {JobState.done}


def refuse_issues(talk: Talk) -> None:
    refusal = {"message": "Issues has been disabled in this repository."}
    talk.hub.faults.fail_next("create_issue", 410, times=5, body=refusal)


@pytest.mark.long  # in `make test` one is opened at the same commit, below
def test_an_issue_that_was_refused_is_opened_by_the_next_night_that_can(open_talk: Open) -> None:
    talk = open_talk(LIGER)
    number = talk.issue("The nights are here.")
    for line in ("", "one", "two"):
        night(talk, number, 200.0, line)
    for line in ("three", "four"):
        refuse_issues(talk)
        night(talk, number, 220.0, line)
    assert issues(talk, number) == []
    assert "No new regression" in night(talk, number, 220.0, "five")
    ((issue, title, state),) = issues(talk, number)
    assert (title, state) == ("geglu became slower on NVIDIA H200", "open")
    body = talk.normal(talk.hub.world.repository(REPOSITORY).issues[issue].body)
    assert body.splitlines()[0] == snapshot(
        "**`geglu` became worse** on NVIDIA H200, found at `COMMIT4`: forward time is 1.100 times the old value at T=4096 I=11008."
    )
    assert body.count("![") == 1 and body.count("| confirmed |") == 3
    night(talk, number, 220.0, "six")
    assert talk.heard(issue) == [], "it is told once"
    night(talk, number, 200.0, "seven")
    assert "has recovered" in talk.read(issue)
    assert issues(talk, number) == [(issue, title, "closed")]


@pytest.mark.parametrize(("then_us", "opened"), few([(200.0, 0), (260.0, 1)], [(260.0, 1)]))
def test_what_was_refused_is_joined_with_what_is_new(open_talk: Open, then_us: float, opened: int) -> None:
    talk = open_talk(LIGER)
    number = talk.issue("The nights are here.")
    night(talk, number, 200.0)
    refuse_issues(talk)
    night(talk, number, 300.0, "one", verify=WRONG)
    assert issues(talk, number) == []
    later = night(talk, number, then_us, "two", verify=VERDICT if opened == 0 else WRONG)
    assert ("Recovered" in later) == (opened == 0)
    assert len(issues(talk, number)) == opened, "what has recovered before anybody was told is no news"
    for issue, title, _ in issues(talk, number):
        assert "gives wrong values" in title
        talk.skip(issue)


def test_a_night_begins_at_the_same_commit_where_an_issue_is_still_to_be_opened(open_talk: Open) -> None:
    talk = open_talk(LIGER)
    number = talk.issue("The nights are here.")
    for line in ("", "one"):
        night(talk, number, 200.0, line)
    refuse_issues(talk)
    config = {PATH: f'[nightly]\nat = "02:17"\nissue = {number}\n'.encode()}
    talk.hub.push(REPOSITORY, "main", "maintainer", config)
    night(talk, number, 220.0, "two")
    talk.answer("benchmark", to_json(measured(200.0)), always=True)
    now = [datetime(2026, 3, 1, 2, 20, tzinfo=UTC)]
    schedule = Nights(talk.parts.desk, lambda: ((REPOSITORY, None),), lambda: now[0])
    assert len(begun(talk, schedule)) == 4
    ((issue, _, state),) = issues(talk, number)
    assert state == "open"
    now[0] += timedelta(days=1)
    assert len(begun(talk, schedule)) == 4, "all is told"
    talk.skip(issue)
    talk.skip(number)


def test_the_issue_of_a_kernel_that_is_removed_is_closed(open_talk: Open) -> None:
    talk = open_talk(LIGER)
    number = talk.issue("The nights are here.")
    for times_us, line in ((200.0, ""), (200.0, "one"), (200.0, "two"), (220.0, "three")):
        night(talk, number, times_us, line)
    ((issue, title, _),) = issues(talk, number)
    talk.hub.push(REPOSITORY, "main", "maintainer", {GEGLU: None}, "Remove geglu")
    talk.answer("benchmark", to_json(measured(200.0)), always=True)
    talk.say(number, "/kernel nightly")
    talk.settle()
    talk.skip(number)
    assert talk.read(issue) == snapshot(
        "**`geglu` no longer exists** at `COMMIT5`. Its regression can no longer be checked, so this issue is closed."
    )
    assert issues(talk, number) == [(issue, title, "closed")]


def test_a_person_accepts_a_regression_and_it_is_the_base_from_then_on(open_talk: Open) -> None:
    talk = open_talk(LIGER)
    number = talk.issue("The nights are here.")
    for line in ("", "one", "two"):
        night(talk, number, 200.0, line)
    night(talk, number, 220.0, "three")
    ((issue, title, _),) = issues(talk, number)
    talk.skip(issue)
    talk.say(issue, "/kernel triaged it rounds as eager mode now", by="visitor")
    talk.settle()
    assert "permission" in talk.read(issue)
    assert issues(talk, number) == [(issue, title, "open")]
    talk.say(issue, "/kernel triaged it rounds as eager mode now")
    talk.settle()
    assert talk.read(issue) == snapshot(
        "**Accepted.** The current measurements are the new baseline of 3 series; this issue is closed. **Next:** nothing."
    )
    assert issues(talk, number) == [(issue, title, "closed")]
    assert "**No regression at" in night(talk, number, 221.0, "four")
    assert "**No regression at" in night(talk, number, 200.0, "five"), (
        "back at the old level is no news of an accepted change"
    )
    assert "**Confirmed regression in `geglu`**" in night(talk, number, 260.0, "six")
    assert issues(talk, number) == [(issue, title, "open")], "what is worse than what was accepted is news"
    assert "found at `COMMIT7`" in talk.read(issue)
    assert "**Recovered at" in night(talk, number, 200.0, "seven")
    assert "has recovered" in talk.read(issue)
    talk.say(issue, "/kernel triaged once more")
    talk.settle()
    assert "no confirmed change is open here" in talk.read(issue)
    talk.say(number, "/kernel triaged here")
    talk.settle()
    assert "this is not one" in talk.read(number)


@pytest.mark.long  # in `make test` test_faults of the service has forged marks
def test_an_issue_that_somebody_else_opened_with_the_bots_marker_is_not_taken_for_its_own(open_talk: Open) -> None:
    talk = open_talk(LIGER)
    key = regression_key("geglu", "NVIDIA H200")
    number = talk.issue(f"Mine.\n\n<!-- kernelsmith:job=none kind=regression key={key} -->")
    for line in ("", "one", "two"):
        night(talk, number, 200.0, line)
    night(talk, number, 220.0, "three")
    ((issue, _, _),) = issues(talk, number)
    assert issue != number
    talk.skip(issue)


def merged(talk: Talk, line: str) -> int:
    """Have a pull request with another line of the kernel merged; give its number."""
    branch = f"change-{line}"
    talk.hub.push(REPOSITORY, branch, "maintainer", {GEGLU: LIGER[GEGLU] + f"# {line}\n".encode()}, f"Say {line}")
    number = talk.hub.open_pull(REPOSITORY, "maintainer", branch, f"Say {line}").number
    talk.hub.merge(REPOSITORY, number, "maintainer")
    talk.settle()
    return number


@pytest.mark.long  # in `make test` one is marked after a search, below
def test_the_pull_request_that_alone_lies_between_two_nights_is_named_and_marked_with_a_check(open_talk: Open) -> None:
    talk = open_talk(LIGER)
    number = talk.issue("The nights are here.")
    for line in ("", "one", "two"):
        night(talk, number, 200.0, line)
    pull = merged(talk, "slow")
    night(talk, number, 220.0)
    ((issue, _, _),) = issues(talk, number + 1)
    body = talk.normal(talk.hub.world.repository(REPOSITORY).issues[issue].body)
    assert f", pull request #{pull}" in body
    assert talk.hub.world.repository(REPOSITORY).issues[issue].labels == ["kernel regression"]
    assert talk.checks() == snapshot(
        ["kernelsmith / geglu regression: completed neutral, geglu became worse: 1.100 times what it was"]
    )
    talk.skip(issue)


def test_a_comment_has_a_range_searched_and_the_pull_request_of_the_commit_is_marked(open_talk: Open) -> None:
    talk = open_talk(LIGER)
    number = talk.issue("It became slower.")
    good = talk.hub.branches(REPOSITORY)["main"]
    pull = merged(talk, "slow")
    for line in ("two", "three"):
        talk.hub.push(REPOSITORY, "main", "maintainer", {GEGLU: LIGER[GEGLU] + f"# {line}\n".encode()}, f"Say {line}")
    talk.answer("doctor", to_json(HOST), always=True)
    talk.answer("benchmark", to_json(measured(260.0)), always=True)
    talk.answer("verify", to_json(VERDICT), always=True)
    talk.say(number, f"/kernel bisect geglu {good[:12]}..main")
    talk.settle()
    (report,) = [body for body in talk.heard(number) if not body.startswith("**The bisection")]
    assert folded(report).split("\n\n▸")[0] == snapshot("""\
**`geglu` became worse in 3 places** between `COMMIT1` and `COMMIT2`, 1.300 times what it was.
**Next:** `kernelsmith bisect geglu COMMIT1..COMMIT2` on a checkout searches inside the merge; then fix it.

- `COMMIT3` Merge pull request #&#8203;2 from change-slow, pull request #2
- `COMMIT4` Say two
- `COMMIT2` Say three

![geglu: time, forward, T=4096 I=11008 over 4 commits, 4 of them compared; worse from number 2, 3, 4 on](https://hub/octo/kernels/raw/COMMIT5/JOB1/bisect.png)

<sub>5 comparisons, each an interleaved run of two commits on NVIDIA H200.</sub>

Provenance: GPU `NVIDIA H200` · measured copy bandwidth `4240 GB/s` · base commit `COMMIT2`

<sub>Job [`JOB1`](https://bot.example/jobs/JOB1) · [asked](https://hub/octo/kernels/issues/1#issuecomment-1023) for by `maintainer`</sub>\
""")
    assert f"pull request #{pull}" in report
    assert talk.checks() == snapshot(
        ["kernelsmith / geglu regression: completed neutral, geglu became slower or larger"]
    )
    assert talk.asked().count("benchmark") == 5


def test_a_range_that_is_none_or_too_long_is_answered_and_starts_nothing(open_talk: Open) -> None:
    talk = open_talk(LIGER)
    number = talk.issue("It became slower.")
    good = talk.hub.branches(REPOSITORY)["main"]
    for line in range(33):
        talk.hub.push(REPOSITORY, "main", "maintainer", {GEGLU: LIGER[GEGLU] + f"# {line}\n".encode()})
    for words in ("main..v9", f"main..{good[:12]}", f"{good[:12]}..main", "main"):
        talk.say(number, f"/kernel bisect geglu {words}")
        talk.settle()
    answers = [folded(body) for body in talk.heard(number)]
    assert answers == snapshot(
        [
            "Nothing was done: no line of commits leads from `main` to `v9`. Name a commit of the default branch and a later one as `GOOD..BAD`, each by its id, branch or tag.",
            "Nothing was done: no line of commits leads from `main` to `COMMIT1`. Name a commit of the default branch and a later one as `GOOD..BAD`, each by its id, branch or tag.",
            "Nothing was done: `COMMIT1..main` has 34 commits, and a job takes at most 32. Name two that are closer together, such as two that nights measured, or run `kernelsmith bisect geglu COMMIT1..main` on a checkout.",
            "`/kernel bisect geglu main`: `main` is not a value for `GOOD..BAD`. Name two commits, branches or tags with two dots between them, such as `1f2e3d4..main`.",
        ]
    )
    assert talk.untouched()


def test_what_became_faster_in_a_week_is_told_in_one_issue_that_people_can_close(open_talk: Open) -> None:
    talk = open_talk(LIGER)
    number = talk.issue("The nights are here.")
    for line in ("", "one", "two"):
        night(talk, number, 200.0, line)
    talk.clock[0] += 7 * 86_400
    night(talk, number, 150.0, "three")
    assert issues(talk, number) == [], "the week goes on"
    talk.clock[0] += 7 * 86_400
    assert "**Faster than a week ago:**" in night(talk, number, 150.0, "four")
    ((issue, title, state),) = issues(talk, number)
    assert (title, state) == snapshot(("Kernels that became faster on NVIDIA H200, week by week", "open"))
    assert talk.read(issue) == snapshot("""\
**Faster since DATE** at `COMMIT5`: `geglu`.

| kernel | pass | size | metric | new / old (95% interval) | between | verdict | why it was compared |
| --- | --- | --- | --- | ---: | --- | --- | --- |
| `geglu` | forward | T=4096 I=11008 | time | 0.750 (0.746 to 0.754) | `COMMIT3` to `COMMIT5` | improved | below the level of the week before |
| `geglu` | backward | T=4096 I=11008 | time | 0.750 (0.746 to 0.754) | `COMMIT3` to `COMMIT5` | improved | below the level of the week before |
| `geglu` | full | T=4096 I=11008 | time | 0.750 (0.746 to 0.754) | `COMMIT3` to `COMMIT5` | improved | below the level of the week before |\
""")
    talk.hub.set_issue_state(REPOSITORY, issue, "maintainer", "closed")
    night(talk, number, 100.0, "five")
    talk.clock[0] += 7 * 86_400
    assert "**Faster than a week ago:**" in night(talk, number, 100.0, "six")
    assert issues(talk, number) == [(issue, title, "closed")]
    assert talk.heard(issue) == []


@pytest.mark.parametrize(
    ("name", "told"),
    [("octo/kernels-two", True), ("acme/kernels", True), ("octo/more", False)],
)
@pytest.mark.long  # in `make test` tests/workers/nightly/test_memory renames one
def test_the_numbers_and_issues_of_a_renamed_repository_go_on_under_its_name(
    open_talk: Open, name: str, told: bool
) -> None:
    talk = open_talk(LIGER)
    number = talk.issue("The nights are here.")
    for times_us, line in ((200.0, ""), (200.0, "one"), (200.0, "two"), (220.0, "three")):
        night(talk, number, times_us, line)
    ((issue, _, _),) = issues(talk, number)
    talk.skip(issue)
    (app,) = talk.hub.world.state.apps.values()
    app.events = [event for event in app.events if told or event != "repository"]
    if not name.startswith("octo/"):
        talk.hub.install(app, talk.hub.add_user(name.partition("/")[0]).login)
    talk.hub.rename(REPOSITORY, name, "maintainer")
    talk.settle()
    watched = ((REPOSITORY, None), (name, None))
    config = {PATH: f'[nightly]\nat = "02:17"\nissue = {number}\n'.encode()}
    talk.hub.push(name, "main", "maintainer", config)
    talk.answer("benchmark", to_json(measured(200.0)), always=True)
    schedule = Nights(talk.parts.desk, lambda: watched, lambda: datetime(2026, 3, 1, 2, 20, tzinfo=UTC))
    begun(talk, schedule)
    assert [job.request.base_sha for job in inbox.find_jobs(name)] == [talk.hub.branches(name)["main"]], "one night"
    assert history.repositories() == (name,)
    (state,) = (one for one in history.kernel_states(name) if one.kernel == "geglu")
    assert (state.confirmed_changes, state.last_change and state.last_change.state) == (0, "recovered")
    assert talk.hub.world.repository(name).issues[issue].state == "closed"
    for place in (number, issue):
        talk.skip(place)


@pytest.mark.slow
def test_a_bench_on_a_pull_request_is_held_against_what_the_kernels_own_nights_vary_by(open_talk: Open) -> None:
    talk = open_talk(LIGER)
    number = talk.issue("The nights are here.")
    night(talk, number, 200.0)
    database = runtime.current().database
    with database.read() as session:
        series = list(store.read(session, REPOSITORY, "geglu"))
    past = [
        (
            key,
            replace(
                point,
                revision=f"{day:040x}",
                measured_at=point.measured_at - day * 86_400.0,
                value=point.value * wobble,
            ),
        )
        for key, (point,) in series
        for day, wobble in enumerate((0.98, 1.02, 0.99, 1.01, 1.03, 0.97, 1.0), 1)
    ]
    with database.write() as session:
        store.add(session, past)

    def benched(kernel: str, times_us: float) -> str:
        branch, path = f"{kernel}-{times_us:.0f}", f"src/liger_kernel/ops/{kernel}.py"
        talk.hub.push(REPOSITORY, branch, "maintainer", {path: LIGER[path] + b"# another\n"})
        pull = talk.hub.open_pull(REPOSITORY, "maintainer", branch, "Another").number
        talk.answer("benchmark", to_json(measured(times_us)), always=True)
        talk.say(pull, f"/kernel bench {kernel}")
        talk.settle()
        return "\n".join(folded(body) for body in talk.heard(pull))

    unusual = benched("geglu", 240.0)
    assert unusual.partition("**Unusual")[2].partition("\n\n!")[0] == snapshot("""\
 for `geglu`**, by the nights on NVIDIA H200:

- `geglu` forward, T=4096 I=11008: time +20.0%; 8 nights vary from -9.6% to +10.6%.
- `geglu` backward, T=4096 I=11008: time +20.0%; 8 nights vary from -9.6% to +10.6%.
- `geglu` full, T=4096 I=11008: time +20.0%; 8 nights vary from -9.6% to +10.6%.\
""")
    assert "Nothing is unusual for `geglu`, by the nights on NVIDIA H200." in benched("geglu", 203.0)
    assert "nights" not in benched("softmax", 240.0), "no night has measured it"
