"""Commands that are refused, answered, or about jobs that exist: one reply each, and nothing left behind."""

from __future__ import annotations

from hashlib import sha1

import pytest

from service.report.layout import MessageKind, find_marker
from tests.service.io.conftest import CREATE, FILES, SECRET, Bench
from tests.service.io.samples import PROBLEM
from tests.service.io.stages import broken
from workers.contracts import JobState, ProblemKind
from workers.observability import configure


def replies(bench: Bench, number: int) -> list[str]:
    found = [(find_marker(entry.body), entry.body) for entry in bench.comments(number)]
    return [body for marker, body in found if marker is not None and marker.kind is MessageKind.reply]


def say(bench: Bench, body: str, by: str = "maintainer", issue_body: str = "please") -> list[str]:
    number = bench.issue(issue_body)
    bench.say(number, body, by)
    bench.handle()
    return replies(bench, number)


def with_problem(source: str) -> str:
    return f"/kernel create reglu\n```python\n{source}```\n"


BAD_INPUT = (
    ("/kernel create reglu", "The command does not say what"),
    ("/kernel create reglu\n\nthe same as geglu, with relu", "A description in words needs a language model"),
    (with_problem("def reference(a:\n"), "Syntax error"),
    (with_problem(PROBLEM.replace('"T": 64', '"S": 64')), "for dimension `T`"),
    (with_problem(PROBLEM.replace("import torch\n", "import torch, numpy\n", 1)), "the problem imports `numpy`"),
    ("/kernel create ../../etc/passwd\n", "A name is not a path"),
    ("/kernel create reglu from src/none.py", "no file"),
    (with_problem(PROBLEM).replace("reglu", "geglu", 1), "exists at `kernels/geglu.py`"),
    ("/kernel create reglu from src/problem.py:Nothing", "`Nothing`"),
    ("/kernel create reglu from kernels/geglu.py", "no `reference`"),
    ("/kernel create reglu from src/folder", "not a file"),
    ("/kernel create reglu from ../secret.py", "stays inside of it"),
    ("/kernel create reglu from https://elsewhere.example/o/r/blob/main/x.py", "another host"),
    ("/kernel craete reglu", "Did you mean"),
    ("/kernel status", "No job belongs to this conversation"),
    ("/kernel cancel", "nothing to cancel"),
    ("/kernel retry", "nothing to retry"),
    ("/kernel approve abcdef1", "nothing to approve"),
    ("/kernel revise make it faster", "nothing to revise"),
    ("/kernel cancel nosuchjob", "There is no job `nosuchjob`"),
    ("\n".join(["/kernel status"] * 10), "This comment has 10 commands"),
)


def test_what_cannot_be_carried_out_gets_one_reply_and_leaves_nothing(bench: Bench) -> None:
    unexpected = []
    for body, expected in BAD_INPUT:
        answers = say(bench, body)
        if len(answers) != 1 or expected.lower() not in answers[0].lower():
            unexpected.append((body, answers))
    assert unexpected == []
    assert bench.jobs() == ()
    assert bench.publish() == 0


def test_what_is_no_command_gets_neither_reply_nor_reaction(bench: Bench) -> None:
    for body in (
        "```\n/kernel create reglu\n```",
        "`/kernel create reglu`",
        "no command here",
        "> /kernel help\n\nyes",
    ):
        number = bench.issue()
        comment = bench.say(number, body)
        bench.handle()
        assert bench.comments(number) == []
        assert bench.reactions(number, comment) == ()


TOKEN = "ghp_" + "a1B2c3D4" * 5
TYPED = (
    f"/kernel create {TOKEN}",
    f"/kernel create reglu {TOKEN}",
    f"/kernel help\n\nmy key is sk-{TOKEN}",
    f"/kernel bench --against {TOKEN}",
    f"/kernel create reglu --author={TOKEN}",
    f"/kernel status {TOKEN[:30]}",
    f"/kernel create reglu from https://me:{TOKEN}@github.example/o/r/blob/main/x.py",
    f"> /kernel create {TOKEN}\n/kernel {TOKEN}",
    with_problem(PROBLEM + f"KEY = {TOKEN!r}\n"),
    f"/kernel create reglu {SECRET}",
    f"/kernel optimize {TOKEN[:12]}\u200e{TOKEN[12:]}",
)


@pytest.mark.parametrize("body", TYPED)
def test_a_secret_that_somebody_types_is_named_by_its_kind_and_neither_repeated_nor_obeyed(
    bench: Bench, body: str, capsys: pytest.CaptureFixture[str]
) -> None:
    configure(json=True)
    (reply,) = say(bench, body)
    assert "contains what looks like a secret" in reply
    assert "revoke it" in reply
    assert bench.jobs() == ()
    for shown in (reply, capsys.readouterr().err):
        assert TOKEN[:30] not in shown
        assert SECRET not in shown


def test_a_secret_in_the_issue_that_holds_the_problem_is_not_stored(bench: Bench) -> None:
    body = f"```python\n{PROBLEM}KEY = {TOKEN!r}\n```\n"
    (reply,) = say(bench, "/kernel create reglu", issue_body=body)
    assert "of the problem contains what looks like a secret (GitHub token)" in reply
    assert TOKEN not in reply
    assert bench.jobs() == ()


def test_help_explains_the_commands(bench: Bench) -> None:
    (reply,) = say(bench, "/kernel help")
    assert "/kernel create" in reply


def test_somebody_without_permission_is_told_so_once_and_nothing_is_done(bench: Bench) -> None:
    (reply,) = say(bench, f"{CREATE}\n/kernel status\n/kernel nonsense", by="visitor")
    assert "`visitor` has read permission" in reply
    assert bench.jobs() == ()


def test_the_association_that_a_payload_claims_counts_for_nothing(bench: Bench) -> None:
    bench.hub.add_user("stranger")
    (reply,) = say(bench, CREATE, by="stranger")
    assert "`stranger` has" in reply
    assert bench.jobs() == ()


def test_the_configuration_can_allow_a_person_to_command_but_not_to_decide(bench: Bench) -> None:
    bench.hub.push(bench.repository, "main", "second", {".github/kernelsmith.toml": 'allow = ["visitor"]\n'})
    number = bench.issue()
    bench.say(number, CREATE, by="visitor")
    bench.settle()
    job = bench.job()
    assert job.state is JobState.waiting
    bench.say(number, f"/kernel approve {(job.head_sha or '')[:12]}", by="visitor")
    bench.hub.review(bench.repository, job.pull_number or 0, "visitor", "APPROVE")
    bench.settle()
    assert bench.job().state is JobState.waiting
    assert any("decide at a checkpoint" in reply for reply in replies(bench, number))


def test_a_configuration_on_another_branch_counts_for_nothing(bench: Bench) -> None:
    bench.hub.push(bench.repository, "other", "second", {".github/kernelsmith.toml": 'allow = ["visitor"]\n'})
    (reply,) = say(bench, CREATE, by="visitor")
    assert "has read permission" in reply


def test_a_broken_configuration_is_named_with_its_line(bench: Bench) -> None:
    bench.hub.push(bench.repository, "main", "second", {".github/kernelsmith.toml": 'layout = "plain"\nalow = []\n'})
    (reply,) = say(bench, CREATE)
    assert "line 2" in reply
    assert "`allow`" in reply
    assert bench.jobs() == ()


def test_the_configured_branch_is_the_base_and_options_come_from_the_configuration(bench: Bench) -> None:
    sha = bench.hub.push(bench.repository, "develop", "second", {"x.txt": "x\n"})
    text = 'base_branch = "develop"\nlayout = "plain"\nauthor = "compiler"\n'
    bench.hub.push(bench.repository, "main", "second", {".github/kernelsmith.toml": text})
    say(bench, CREATE)
    request = bench.job().request
    assert (request.base_ref, request.base_sha) == ("develop", sha)
    assert (request.options.layout, request.options.author.value) == ("plain", "compiler")


def test_a_configured_branch_that_is_not_there_is_named(bench: Bench) -> None:
    bench.hub.push(bench.repository, "main", "second", {".github/kernelsmith.toml": 'base_branch = "gone"\n'})
    (reply,) = say(bench, CREATE)
    assert "`gone`" in reply


def test_the_limit_of_a_day_is_kept(bench: Bench) -> None:
    text = "[limits]\njobs_per_day_per_person = 1\n"
    bench.hub.push(bench.repository, "main", "second", {".github/kernelsmith.toml": text})
    assert say(bench, CREATE) == []
    (reply,) = say(bench, CREATE.replace("reglu", "reglu_two"))
    assert "limit is reached" in reply
    assert "in 24 hours" in reply
    assert say(bench, CREATE.replace("reglu", "reglu_three"), by="second") == []


def test_the_problem_may_stand_in_the_issue(bench: Bench) -> None:
    assert say(bench, "/kernel create reglu", issue_body=f"I want this:\n```python\n{PROBLEM}```\n") == []
    assert bench.job().request.problem.text.strip() == PROBLEM.strip()


def test_the_problem_may_be_a_file_of_the_repository(bench: Bench) -> None:
    assert say(bench, "/kernel create reglu from src/problem.py") == []
    problem = bench.job().request.problem
    assert (problem.kind, problem.path) == (ProblemKind.path, "src/problem.py")


def test_the_problem_may_be_a_permalink(bench: Bench) -> None:
    sha = bench.hub.head(bench.repository)
    url = f"{bench.parts.settings.html_url}/{bench.repository}/blob/{sha}/src/problem.py"
    assert say(bench, f"/kernel create reglu from {url}#L1-L99") == []
    problem = bench.job().request.problem
    assert (problem.kind, problem.text) == (ProblemKind.permalink, PROBLEM)


def other_repository(bench: Bench, private: bool) -> str:
    bench.hub.create_repository("octo", "other", files=FILES, private=private)
    return f"{bench.parts.settings.html_url}/octo/other/blob/main/src/problem.py"


def test_a_permalink_to_a_public_repository_is_read(bench: Bench) -> None:
    assert say(bench, f"/kernel create reglu from {other_repository(bench, private=False)}") == []
    assert bench.job().request.problem.text == PROBLEM


def test_a_permalink_to_a_private_repository_is_not_told_from_one_to_nothing(bench: Bench) -> None:
    url = other_repository(bench, private=True)
    (reply,) = say(bench, f"/kernel create reglu from {url}")
    (nothing,) = say(bench, f"/kernel create reglu from {url.replace('other', 'nothing')}")
    assert reply.split("-->")[0].rpartition("<!--")[0].replace("other", "nothing") == nothing.rpartition("<!--")[0]
    assert bench.jobs() == ()


GIST, OLD = "6cad326836d38bd3a7ae3c1b2f0e9d8c", "b" * 40


def gist(bench: Bench, tail: str = "", **files: str) -> str:
    """Have a gist of these files and an older revision, and ask for a kernel from it; give the answers."""
    known = bench.hub.world.state.gists
    known[GIST] = {name.replace("_py", ".py").replace("_md", ".md"): text for name, text in files.items()}
    known[f"{GIST}/{OLD}"] = {"reglu.py": PROBLEM.replace("relu", "silu")}
    (said,) = say(bench, f"/kernel create reglu from {bench.parts.settings.html_url}/gist/octo/{GIST}{tail}") or ("",)
    return said


@pytest.mark.parametrize("tail", ["", "#file-reglu-py", "#file-reglu-py-L1-L99", "/raw", "/raw/reglu.py"])
def test_the_problem_may_be_a_gist(bench: Bench, tail: str) -> None:
    assert gist(bench, tail, reglu_py=PROBLEM, notes_md="Some words.") == ""
    problem = bench.job().request.problem
    assert (problem.kind, problem.text, problem.path) == (ProblemKind.permalink, PROBLEM, "reglu.py")


VERSION = sha1(f"blob {len(PROBLEM)}\0{PROBLEM}".encode(), usedforsecurity=False).hexdigest()


@pytest.mark.parametrize(
    ("tail", "text"),
    [
        (f"/{OLD}", PROBLEM.replace("relu", "silu")),
        (f"/raw/{OLD}/reglu.py", PROBLEM.replace("relu", "silu")),
        (f"/raw/{VERSION}/reglu.py", PROBLEM),
    ],
)
def test_a_revision_of_a_gist_is_read_and_the_version_of_a_raw_file(bench: Bench, tail: str, text: str) -> None:
    assert gist(bench, tail, reglu_py=PROBLEM) == ""
    assert bench.job().request.problem.text == text


@pytest.mark.parametrize(
    ("tail", "files", "said"),
    [
        ("", {"a_py": PROBLEM, "b_py": PROBLEM}, "the gist has several such files: link to one of them"),
        ("", {"a_md": "words", "b_md": "words"}, "could not be read"),
        ("/raw/b.py", {"a_py": PROBLEM}, "could not be read"),
        ("#file-b-py", {"a_py": PROBLEM}, "could not be read"),
        (f"/{'c' * 40}", {"a_py": PROBLEM}, "could not be read"),
        ("", {"a_py": "x = 1\n" * 200_000}, "is larger than 512 KiB"),
        ("", {f"f{number}_py": "x" * 999_999 for number in range(9)}, "the gist is larger than 8 MiB"),
        ("", {"a_py": ""}, "The problem is empty"),
        ("", {"a_py": "x = '\0'"}, "The character U+0000 cannot be seen"),
        ("", {"a_py": "\ud800"}, "Syntax error"),
        ("", {}, "could not be read"),
    ],
)
def test_a_gist_that_cannot_be_used_is_answered_with_the_reason(
    bench: Bench, tail: str, files: dict[str, str], said: str
) -> None:
    assert said in gist(bench, tail, **files)
    assert bench.jobs() == ()


def test_a_command_in_a_new_issue_is_carried_out(bench: Bench) -> None:
    number = bench.issue(CREATE)
    bench.handle()
    assert bench.job().request.origin.number == number
    assert bench.job().request.origin.comment_id is None


def test_an_edit_adds_only_what_it_adds(bench: Bench) -> None:
    number = bench.issue()
    comment = bench.say(number, CREATE)
    bench.handle()
    bench.hub.edit_comment(bench.repository, comment, "maintainer", f"Please:\n\n{CREATE}\n/kernel status\n")
    bench.handle()
    assert len(bench.jobs()) == 1
    assert len(replies(bench, number)) == 1


def test_a_typing_error_can_be_put_right_by_an_edit(bench: Bench) -> None:
    number = bench.issue()
    comment = bench.say(number, CREATE.replace("create reglu", "create reglu --layuot plain"))
    bench.handle()
    assert bench.jobs() == ()
    bench.hub.edit_comment(bench.repository, comment, "maintainer", CREATE.replace("reglu", "reglu --layout plain", 1))
    bench.handle()
    assert bench.job().request.options.layout == "plain"


def test_an_edit_that_replaces_a_command_gives_another_one(bench: Bench) -> None:
    number = bench.issue()
    comment = bench.say(number, CREATE)
    bench.handle()
    bench.hub.edit_comment(bench.repository, comment, "maintainer", CREATE.replace("reglu", "reglu_two", 1))
    bench.handle()
    assert [job.request.kernel for job in bench.jobs()] == ["reglu", "reglu_two"]


def test_the_same_kernel_is_not_made_twice_at_a_time(bench: Bench) -> None:
    assert say(bench, CREATE) == []
    (reply,) = say(bench, CREATE, by="second")
    assert "This is already job" in reply
    assert len(bench.jobs()) == 1


def test_the_bot_does_not_obey_itself_or_another_bot(bench: Bench) -> None:
    number = bench.issue()
    bench.hub.add_user("helper[bot]", type="Bot")
    bench.hub.add_collaborator(bench.repository, "helper[bot]", "admin")
    bench.hub.comment(bench.repository, number, "smith[bot]", CREATE)
    bench.hub.comment(bench.repository, number, "helper[bot]", CREATE)
    bench.handle()
    assert bench.jobs() == ()
    assert len(bench.comments(number)) == 1


def test_status_names_the_jobs_of_the_conversation(bench: Bench) -> None:
    number = bench.issue()
    bench.say(number, CREATE)
    bench.settle()
    bench.say(number, "/kernel status")
    bench.handle()
    (reply,) = replies(bench, number)
    assert f"https://bot.example/jobs/{bench.job().job_id}" in reply


def test_a_job_of_another_repository_is_unknown_here(bench: Bench) -> None:
    number = bench.issue()
    bench.say(number, CREATE)
    bench.settle()
    owner = bench.repository.split("/")[0]
    bench.hub.create_repository(owner, "other", files=FILES)
    bench.hub.add_collaborator(f"{owner}/other", "maintainer", "admin")
    issue = bench.hub.open_issue(f"{owner}/other", "maintainer", "t", f"/kernel cancel {bench.job().job_id}").number
    bench.handle()
    assert bench.job().state is JobState.waiting
    bench.repository = f"{owner}/other"
    (entry,) = bench.comments(issue)
    assert "There is no job" in entry.body


def test_a_cancelled_job_says_so_once_and_a_second_cancel_is_answered(bench: Bench) -> None:
    number = bench.issue()
    bench.say(number, CREATE)
    bench.settle()
    pull = bench.job().pull_number or 0
    bench.say(pull, "/kernel cancel", by="second")
    bench.settle()
    assert bench.job().state is JobState.cancelled
    reports = [e for e in bench.comments(pull) if (m := find_marker(e.body)) and m.kind is MessageKind.report]
    assert len(reports) == 1
    assert "`second`" in reports[0].body
    assert replies(bench, pull) == []


def test_a_failed_job_goes_on_after_a_retry(bench: Bench) -> None:
    bench.analyze.fails.append(broken())
    number = bench.issue()
    bench.say(number, CREATE)
    bench.settle()
    assert bench.job().state is JobState.failed
    bench.say(number, "/kernel retry")
    bench.settle()
    assert bench.job().state is JobState.waiting
    assert len(replies(bench, number)) == 1


def test_a_retry_before_anything_was_committed_starts_over_where_the_branch_is_now(bench: Bench) -> None:
    bench.analyze.fails.append(broken())
    number = bench.issue()
    bench.say(number, CREATE)
    bench.settle()
    sha = bench.hub.push(bench.repository, "main", "second", {"new.txt": "new\n"})
    bench.say(number, "/kernel retry")
    bench.settle()
    assert bench.job().request.base_sha == sha
    assert "starts over" in replies(bench, number)[0]


def test_each_end_of_a_job_is_a_comment_of_its_own(bench: Bench) -> None:
    bench.analyze.fails += [broken("first"), broken("second")]
    number = bench.issue()
    bench.say(number, CREATE)
    bench.settle()
    bench.say(number, "/kernel retry")
    bench.settle()
    reports = [e for e in bench.comments(number) if (m := find_marker(e.body)) and m.kind is MessageKind.report]
    assert [("first" in entry.body, "second" in entry.body) for entry in reports] == [(True, False), (False, True)]
    assert [entry.minimized for entry in reports] == ["outdated", None]


@pytest.mark.parametrize(("members", "started"), [(("visitor",), True), (("second",), False)])
def test_a_team_that_is_allowed_may_give_commands(bench: Bench, members: tuple[str, ...], started: bool) -> None:
    bench.hub.add_team("octo", "kernels", *members)
    bench.hub.push(bench.repository, "main", "maintainer", {".github/kernelsmith.toml": b'allow = ["@octo/kernels"]\n'})
    bench.say(bench.issue(), CREATE, by="visitor")
    bench.settle()
    assert bool(bench.jobs()) is started


def test_a_user_that_an_enterprise_manages_is_in_its_team(bench: Bench) -> None:
    bench.hub.add_user("mona_octo")
    bench.hub.add_team("octo", "kernels", "mona_octo")
    bench.hub.push(bench.repository, "main", "maintainer", {".github/kernelsmith.toml": b'allow = ["@octo/kernels"]\n'})
    bench.say(bench.issue(), CREATE, by="mona_octo")
    bench.settle()
    assert bench.jobs()


def test_who_is_banned_gets_no_answer(bench: Bench) -> None:
    bench.hub.push(bench.repository, "main", "maintainer", {".github/kernelsmith.toml": b'ban = ["maintainer"]\n'})
    number = bench.issue()
    comment = bench.say(number, CREATE)
    bench.settle()
    assert (bench.jobs(), bench.comments(number), bench.reactions(number, comment)) == ((), [], ())
