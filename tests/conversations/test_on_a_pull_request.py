"""Commands about a kernel under a pull request: they take its head, and what comes of them goes to its branch."""

from __future__ import annotations

import pytest

from deploy.localhub.hub import Hub
from gpu_runner.contracts import to_json
from tests.conversations.conftest import Open
from tests.conversations.normal import folded, gist
from tests.conversations.optimizing import TODAY, answers, searched
from tests.conversations.talk import REPOSITORY, Talk
from tests.few import few
from tests.recorded.libraries import STANDING
from tests.service.report.facts import TESTS
from workers.contracts import JobState, StageName, Verb

GEGLU = "src/liger_kernel/ops/geglu.py"
SLOWER = STANDING[GEGLU] + b"\n# another way\n"


def opened(hub: Hub, changes: dict[str, bytes], by: str = "maintainer") -> int:
    hub.push(REPOSITORY, "topic", by, changes)
    return hub.open_pull(REPOSITORY, by, "topic", "Another way").number


def forked(hub: Hub) -> int:
    hub.fork(REPOSITORY, "visitor")
    hub.push("visitor/kernels", "topic", "visitor", {GEGLU: SLOWER})
    return hub.open_pull(REPOSITORY, "visitor", "visitor:topic", "Another way").number


def read(talk: Talk, number: int) -> str:
    return "\n\n".join(folded(body) for body in talk.heard(number))


def press(talk: Talk, identifier: str) -> None:
    """Press a button of the newest check run, and let everything happen."""
    talk.clock[0] += 10
    run = talk.hub.check_runs(REPOSITORY)[-1]
    assert identifier in [action["identifier"] for action in run.actions]
    talk.hub.press_check(REPOSITORY, run.id, identifier, "maintainer")
    talk.settle()


def test_the_kernel_that_a_pull_request_touches_is_optimized_as_it_is_there(open_talk: Open) -> None:
    talk = open_talk(STANDING)
    searched(talk, 1.4, 1.5, 1.5, 1.4)
    talk.answer("tests", to_json(TESTS), always=True)
    number = opened(talk.hub, {GEGLU: SLOWER})
    head = talk.hub.branches(REPOSITORY)["topic"]
    talk.say(number, "/kernel optimize --goal speed --auto")
    talk.settle()
    job = talk.job()
    assert (job.state, job.request.kernel) == (JobState.done, "geglu")
    assert (job.request.base_sha, job.request.base_ref) == (head, "topic")
    pull = talk.hub.issue(REPOSITORY, talk.pull()).pull
    assert pull is not None and pull.base_ref == "topic"
    assert talk.hub.branches(REPOSITORY)["topic"] == head
    assert [line.split()[0] for line in talk.changed()] == [GEGLU]
    kernel = talk.hub.read_file(REPOSITORY, job.branch, GEGLU)
    assert kernel is not None and b"# another way" in kernel
    talk.skip_all(number)


def test_a_forks_kernel_is_optimized_and_nothing_of_it_is_pushed(open_talk: Open) -> None:
    talk = open_talk(STANDING)
    searched(talk, 1.4, 1.5, 1.5, 1.4)
    talk.answer("tests", to_json(TESTS), always=True)
    number = forked(talk.hub)
    before = set(talk.hub.branches(REPOSITORY))
    talk.say(number, "/kernel optimize geglu --goal speed")
    talk.settle()
    assert talk.job().checkpoint is not None
    press(talk, "approve/profile/1")
    press(talk, "approve/optimize/1")
    assert {run.head_sha for run in talk.hub.check_runs(REPOSITORY)} == {talk.job().request.base_sha}
    job = talk.job()
    assert (job.state, job.request.base_ref, job.pull_number) == (JobState.done, "visitor:topic", None)
    assert {branch for branch in talk.hub.branches(REPOSITORY) if branch.startswith("kernelsmith/")} == set()
    assert before <= set(talk.hub.branches(REPOSITORY))
    assert talk.hub.pull_numbers(REPOSITORY) == [number]
    told = talk.heard(number)
    report = next(body for body in told if "git apply" in body)
    assert "visitor:topic" in gist(report)
    assert f"+++ b/{GEGLU}" in report


def test_a_job_on_a_fork_goes_on_by_its_button_and_begins_anew_on_no_commit_that_was_pushed_since(
    open_talk: Open,
) -> None:
    talk = open_talk(STANDING)
    answers(talk)
    number = forked(talk.hub)
    talk.say(number, "/kernel optimize geglu --goal speed")
    talk.settle()
    press(talk, "cancel")
    press(talk, "again")
    assert talk.job().state is JobState.waiting
    press(talk, "cancel")
    talk.hub.push("visitor/kernels", "topic", "visitor", {GEGLU: SLOWER + b"# not looked at\n"})
    talk.settle()
    press(talk, "again")
    assert talk.job().state is JobState.cancelled
    talk.skip(number)


def test_a_forks_code_is_taken_only_where_somebody_with_write_permission_asks(open_talk: Open) -> None:
    talk = open_talk(STANDING | {".github/kernelsmith.toml": b'allow = ["visitor"]\n'})
    number = forked(talk.hub)
    talk.say(number, "/kernel optimize geglu", by="visitor")
    talk.settle()
    assert "write permission" in talk.read(number)
    assert not talk.hub.branches(REPOSITORY).keys() - {"main"}


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"README.md": b"words\n"}, "The pull request touches no kernel"),
        (
            {
                GEGLU: SLOWER,
                "src/liger_kernel/ops/reglu.py": SLOWER.replace(b"GELUMul", b"ReGLU").replace(b"geglu", b"reglu"),
            },
            "The pull request touches several kernels: `geglu`, `reglu`",
        ),
    ],
    ids=["none", "several"],
)
def test_where_it_is_not_one_kernel_the_answer_says_which(
    open_talk: Open, changes: dict[str, bytes], told: str
) -> None:
    talk = open_talk(STANDING)
    number = opened(talk.hub, changes)
    talk.say(number, "/kernel optimize")
    talk.settle()
    assert told in talk.read(number)


def test_on_an_issue_a_name_is_needed(open_talk: Open) -> None:
    talk = open_talk(STANDING)
    number = talk.ask("/kernel optimize --goal speed")
    assert "`NAME` is missing" in talk.read(number)
    assert talk.untouched()


NAMES = ["GEGLU", "LigerGELUMulFunction", "src/liger_kernel/ops/geglu.py", "liger-geglu"]


# In `make test` the layouts' own tests find a kernel by each form.
@pytest.mark.parametrize("name", few(NAMES, NAMES[1:2]))
def test_a_kernel_is_found_by_any_form_of_its_name(open_talk: Open, name: str) -> None:
    talk = open_talk(STANDING)
    answers(talk)
    talk.answer("benchmark", to_json(TODAY))
    number = talk.ask(f"/kernel profile {name}")
    job = talk.job()
    assert (job.request.verb, job.request.kernel, job.state) == (Verb.profile, "geglu", JobState.done)
    talk.skip_all(number)


def test_a_profile_tells_what_bounds_the_kernel_and_changes_nothing(open_talk: Open) -> None:
    talk = open_talk(STANDING)
    answers(talk)
    talk.answer("benchmark", to_json(TODAY))
    number = talk.ask("/kernel profile geglu --scope large")
    assert talk.job().pipeline == (StageName.profile,)
    told = talk.heard(number)
    report = next(body for body in told if "These would be tried" in body)
    assert "`/kernel optimize geglu` tries what is listed below" in gist(report)
    assert "of both passes at `large` sizes" in report
    assert talk.hub.pull_numbers(REPOSITORY) == []


def test_tuning_tries_launch_settings_alone_and_asks_once(open_talk: Open) -> None:
    talk = open_talk(STANDING)
    searched(talk)
    number = talk.ask("/kernel tune geglu")
    job = talk.job()
    assert [view.stage for view in job.stages] == [StageName.profile, StageName.optimize, StageName.finalize]
    assert "tune" in talk.asked()
    told = read(talk, number)
    assert "Launch settings by measurement" in told
    assert "Pipelined loops" not in told


def test_a_dimension_that_the_problem_has_not_is_answered_before_a_job(open_talk: Open) -> None:
    talk = open_talk(STANDING)
    number = talk.ask('/kernel optimize geglu --target "forward under 0.3ms at vocab_size=4096"')
    assert "he problem has no dimension `vocab_size`" in talk.read(number)
    assert talk.untouched()
