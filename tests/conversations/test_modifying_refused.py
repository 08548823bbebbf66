"""What a modify job refuses, repairs and warns of; nothing is pushed that did not pass."""

# ruff: noqa: E501 (messages stand here as they are sent)

from __future__ import annotations

import json

from inline_snapshot import snapshot

from gpu_runner.contracts import to_json
from tests.conversations.conftest import Open
from tests.conversations.modifying import (
    LIGER,
    PROBLEM,
    WORDS,
    answers,
    change,
    runs_tests,
    slope,
    speaks,
)
from tests.conversations.normal import gist
from tests.conversations.optimizing import heard
from tests.conversations.talk import REPOSITORY, Talk
from tests.service.report.facts import VERDICT, WRONG
from tests.workers.stages.library import PATH, SUITE
from workers import artifacts

RIGHT = to_json(VERDICT)
ONE = "--candidates 1"


def attempts(talk: Talk) -> list[str]:
    """Give what the job's record says became of each proposal."""
    kept = next(found for found in talk.job().artifacts if found.name == "attempts-modify-1.json")
    told = json.loads(artifacts.get(kept.digest))["attempts"]
    return [f"{item['task']}: {item['outcome']} {item['evidence']}".rstrip() for item in told]


def test_a_wrong_first_change_is_repaired_by_what_the_runner_found(open_talk: Open) -> None:
    talk = open_talk(LIGER)
    answers(talk)
    runs_tests(talk)
    for verdict in (RIGHT, RIGHT, to_json(WRONG)):
        talk.answer("verify", verdict)
    wrong = slope(summary="It takes a slope, for now in forward alone.")
    wrong["edits"] = [edit for edit in wrong["edits"] if "slope * a * (1 - gate)" not in edit["new"]]
    mended = change(PATH, (("1 + 1.702 * a * (1 - gate)", "1 + slope * a * (1 - gate)"),))
    model = speaks(wrong, mended)
    number = talk.ask(f"/kernel modify geglu {WORDS} {ONE}")
    talk.skip(number)
    assert "The gradient of `a` is wrong in 3 rows." in model.told(1)
    assert "The files as the last proposal left them" in model.told(1)
    (told,) = [entry for entry in heard(talk, talk.pull()) if "model's description" in entry]
    assert gist(told, 1) == snapshot(
        "**`geglu` is changed and proved:** values and gradients match the reference, and today's call still returns the same results. The library's whole test file passes. 1 added test fails before the change and passes with it."
    )
    assert "The model's description: It takes a slope.\n" in told
    assert attempts(talk) == snapshot(
        ["modify: incorrect_gradient The gradient of `a` is wrong in 3 rows.", "repair: passed"]
    )


def test_a_change_that_weakens_a_test_is_refused(open_talk: Open) -> None:
    talk = open_talk(LIGER)
    answers(talk)
    edited = slope()
    edited["edits"].append({"path": SUITE, "old": "torch.testing.assert_close", "new": "torch.equal"})
    replaced = slope(tests="def expected(a, b):\n    return a\n\n\ndef test_all():\n    assert expected(1, 2) == 1\n")
    speaks(edited, replaced)
    number = talk.ask(f"/kernel modify geglu {WORDS} {ONE} --repairs 1")
    assert talk.asked() == ["imports", "verify"]
    assert heard(talk, number) == snapshot(
        [
            """\
**`geglu` stopped in modify:** none of 2 changes of `geglu` that a model proposed passes; the one that came furthest ended as `tests`: the added tests define `expected` again.

**Next:** Nothing of them was pushed. `/kernel retry` asks anew; the attempts are on the job's page.

- ❌ **modify**: none of 2 changes of `geglu` that a model proposed passes; the one that came furthest ended as `tests`: the added tests define `expected` again
- ⬜ **confirm**: prove and test the pushed commit again, measure it against the previous kernel, write the report

What was tried:

- attempt 1 \\(modify\\) ended as `tests`: `test/transformers/test_geglu.py` is a test file that stands: tests are added at its end and never edited
- attempt 2 \\(repair 1\\) ended as `tests`: the added tests define `expected` again

<sub>Job [`JOB1`](https://bot.example/jobs/JOB1) · [asked](https://hub/octo/kernels/issues/1#issuecomment-1013) for by `maintainer`</sub>\
""",
            """\
**`geglu` stopped in modify:** none of 2 changes of `geglu` that a model proposed passes; the one that came furthest ended as `tests`: the added tests define `expected` again.
**Next:** Nothing of them was pushed. `/kernel retry` asks anew; the attempts are on the job's page.

What was tried:

- attempt 1 \\(modify\\) ended as `tests`: `test/transformers/test_geglu.py` is a test file that stands: tests are added at its end and never edited
- attempt 2 \\(repair 1\\) ended as `tests`: the added tests define `expected` again

<sub>Job [`JOB1`](https://bot.example/jobs/JOB1) · [asked](https://hub/octo/kernels/issues/1#issuecomment-1013) for by `maintainer`</sub>\
""",
        ]
    )
    assert talk.hub.pull_numbers(REPOSITORY) == []
    assert list(talk.hub.branches(REPOSITORY)) == ["main"]


def test_a_change_outside_of_the_kernels_files_is_refused(open_talk: Open) -> None:
    talk = open_talk(LIGER)
    answers(talk)
    elsewhere = slope()
    elsewhere["edits"].append({"path": ".github/workflows/ci.yml", "old": "on: push", "new": "on: [push]"})
    functional = "src/liger_kernel/transformers/functional.py"
    others = slope()
    others["edits"].append(
        {"path": functional, "old": "LigerDyTFunction.apply(x)", "new": "LigerDyTFunction.apply(x, 1)"}
    )
    speaks(elsewhere, others)
    number = talk.ask(f"/kernel modify geglu {WORDS} {ONE} --repairs 1")
    assert talk.asked() == ["imports", "verify"]
    assert heard(talk, number) == snapshot(
        [
            """\
**`geglu` stopped in modify:** none of 2 changes of `geglu` that a model proposed passes; the one that came furthest ended as `path`: Other kernels share `src/liger_kernel/transformers/functional.py`: only `liger_geglu` may be changed in it.

**Next:** Nothing of them was pushed. `/kernel retry` asks anew; the attempts are on the job's page.

- ❌ **modify**: none of 2 changes of `geglu` that a model proposed passes; the one that came furthest ended as `path`: Other kernels share `src/liger_kernel/transformers/functional.py`: only `liger_geglu` may be cha…
- ⬜ **confirm**: prove and test the pushed commit again, measure it against the previous kernel, write the report

What was tried:

- attempt 1 \\(modify\\) ended as `path`: `.github/workflows/ci.yml` is none of the files that this change may touch
- attempt 2 \\(repair 1\\) ended as `path`: Other kernels share `src/liger_kernel/transformers/functional.py`: only `liger_geglu` may be changed in it.

<sub>Job [`JOB1`](https://bot.example/jobs/JOB1) · [asked](https://hub/octo/kernels/issues/1#issuecomment-1013) for by `maintainer`</sub>\
""",
            """\
**`geglu` stopped in modify:** none of 2 changes of `geglu` that a model proposed passes; the one that came furthest ended as `path`: Other kernels share `src/liger_kernel/transformers/functional.py`: only `liger_geglu` may be changed in it.
**Next:** Nothing of them was pushed. `/kernel retry` asks anew; the attempts are on the job's page.

What was tried:

- attempt 1 \\(modify\\) ended as `path`: `.github/workflows/ci.yml` is none of the files that this change may touch
- attempt 2 \\(repair 1\\) ended as `path`: Other kernels share `src/liger_kernel/transformers/functional.py`: only `liger_geglu` may be changed in it.

<sub>Job [`JOB1`](https://bot.example/jobs/JOB1) · [asked](https://hub/octo/kernels/issues/1#issuecomment-1013) for by `maintainer`</sub>\
""",
        ]
    )
    assert list(talk.hub.branches(REPOSITORY)) == ["main"]


def test_a_call_that_breaks_is_told_in_the_first_line(open_talk: Open) -> None:
    talk = open_talk(LIGER)
    answers(talk)
    runs_tests(talk)
    for verdict in (RIGHT, to_json(WRONG)):
        talk.answer("verify", verdict)
    speaks(slope())
    number = talk.ask(f"/kernel modify geglu {WORDS} {ONE}")
    talk.skip(number)
    (told,) = heard(talk, talk.pull())
    assert told.partition("\n\nThe model's description")[0] == snapshot("""\
**`geglu` is changed, and a call that works today breaks:** `LigerGELUMulFunction.apply(a, b)` no longer gives what it gave, status `incorrect_gradient`: The gradient of `a` is wrong in 3 rows.
**Next:** review [`COMMIT1`](https://hub/octo/kernels/commit/COMMIT1) on [pull request 2](https://hub/octo/kernels/pull/2), and approve it or request changes.

> [!WARNING]
> `LigerGELUMulFunction.apply(a, b)` no longer gives what it gave, status `incorrect_gradient`: The gradient of `a` is wrong in 3 rows. Such callers must be changed. Approve only if this is intended.\
""")
    assert talk.body(talk.pull()).splitlines()[0] == snapshot(
        "**`geglu` is changed, and a call that works today breaks:** `LigerGELUMulFunction.apply(a, b)` no longer gives what it gave, status `incorrect_gradient`: The gradient of `a` is wrong in 3 rows."
    )


def test_nobody_is_asked_about_a_call_that_breaks_so_it_is_refused(open_talk: Open) -> None:
    talk = open_talk(LIGER)
    answers(talk)
    for verdict in (RIGHT, to_json(WRONG)):
        talk.answer("verify", verdict)
    speaks(slope(), {"a": "thing that no form has"})
    number = talk.ask(f"/kernel modify geglu {WORDS} {ONE} --repairs 1 --auto")
    assert heard(talk, number) == snapshot(
        [
            """\
**`geglu` stopped in modify:** none of 2 changes of `geglu` that a model proposed passes; the one that came furthest ended as `call`: `LigerGELUMulFunction.apply(a, b)` no longer gives what it gave, status `incorrect_gradient`: The gradient of `a` is wrong in 3 rows, and nobody is asked \\(--auto\\): a change that breaks a call needs a person, or a problem that was given with the request. Keep the call as it is today, such as by a default.

**Next:** Nothing of them was pushed. `/kernel retry` asks anew; the attempts are on the job's page.

- ❌ **modify**: none of 2 changes of `geglu` that a model proposed passes; the one that came furthest ended as `call`: `LigerGELUMulFunction.apply(a, b)` no longer gives what it gave, status `incorrect_gradient`: Th…
- ⬜ **confirm**: prove and test the pushed commit again, measure it against the previous kernel, write the report

What was tried:

- attempt 1 \\(modify\\) ended as `call`: `LigerGELUMulFunction.apply(a, b)` no longer gives what it gave, status `incorrect_gradient`: The gradient of `a` is wrong in 3 rows, and nobody is asked \\(--auto\\): a change that breaks a call needs a person, or a problem that was given with the request. Keep the call as it is today, such as by a default.
- attempt 2 \\(repair 1\\) ended as `form`: it does not fit the form: at &#36; there is a field that the form does not have; at &#36; there is no summary and no edits and no replies

<sub>Job [`JOB1`](https://bot.example/jobs/JOB1) · [asked](https://hub/octo/kernels/issues/1#issuecomment-1013) for by `maintainer`</sub>\
""",
            """\
**`geglu` stopped in modify:** none of 2 changes of `geglu` that a model proposed passes; the one that came furthest ended as `call`: `LigerGELUMulFunction.apply(a, b)` no longer gives what it gave, status `incorrect_gradient`: The gradient of `a` is wrong in 3 rows, and nobody is asked \\(--auto\\): a change that breaks a call needs a person, or a problem that was given with the request. Keep the call as it is today, such as by a default.
**Next:** Nothing of them was pushed. `/kernel retry` asks anew; the attempts are on the job's page.

What was tried:

- attempt 1 \\(modify\\) ended as `call`: `LigerGELUMulFunction.apply(a, b)` no longer gives what it gave, status `incorrect_gradient`: The gradient of `a` is wrong in 3 rows, and nobody is asked \\(--auto\\): a change that breaks a call needs a person, or a problem that was given with the request. Keep the call as it is today, such as by a default.
- attempt 2 \\(repair 1\\) ended as `form`: it does not fit the form: at &#36; there is a field that the form does not have; at &#36; there is no summary and no edits and no replies

<sub>Job [`JOB1`](https://bot.example/jobs/JOB1) · [asked](https://hub/octo/kernels/issues/1#issuecomment-1013) for by `maintainer`</sub>\
""",
        ]
    )
    assert list(talk.hub.branches(REPOSITORY)) == ["main"]


def test_without_a_model_nothing_is_run(open_talk: Open) -> None:
    talk = open_talk(LIGER)
    number = talk.ask(f"/kernel modify geglu {WORDS}")
    assert talk.asked() == []
    assert heard(talk, number) == snapshot(
        [
            """\
**`geglu` stopped in modify:** `/kernel modify` needs a language model, and none is configured on this bot.

**Next:** An operator configures one, with a key, a model's name and a budget \\(docs/models.md\\); then `/kernel retry` goes on.

- ❌ **modify**: `/kernel modify` needs a language model, and none is configured on this bot
- ⬜ **confirm**: prove and test the pushed commit again, measure it against the previous kernel, write the report

<sub>Job [`JOB1`](https://bot.example/jobs/JOB1) · [asked](https://hub/octo/kernels/issues/1#issuecomment-1013) for by `maintainer`</sub>\
""",
            """\
**`geglu` stopped in modify:** `/kernel modify` needs a language model, and none is configured on this bot.
**Next:** An operator configures one, with a key, a model's name and a budget \\(docs/models.md\\); then `/kernel retry` goes on.

<sub>Job [`JOB1`](https://bot.example/jobs/JOB1) · [asked](https://hub/octo/kernels/issues/1#issuecomment-1013) for by `maintainer`</sub>\
""",
        ]
    )


def test_a_kernel_that_is_not_there_is_answered_with_the_nearest(open_talk: Open) -> None:
    talk = open_talk(LIGER)
    number = talk.ask(f"/kernel modify gelu {WORDS}")
    assert heard(talk, number) == snapshot(
        [
            """\
There is no kernel `gelu` in the repository. Nothing was done.

**Next:** The nearest names: `geglu`.\
"""
        ]
    )
    assert talk.untouched()


def test_without_words_the_form_is_shown(open_talk: Open) -> None:
    talk = open_talk(LIGER)
    number = talk.ask("/kernel modify geglu --auto")
    assert heard(talk, number) == snapshot(
        [
            "`/kernel modify geglu --auto`: `TEXT` is missing. The form is `/kernel modify NAME TEXT [--author llm|auto] [--candidates N] [--repairs N] [--layout liger|plain|versioned|fla] [--gpu ARCH] [--profile] [--auto] [--dry-run]`, for example `/kernel modify geglu let the caller choose the slope of the gate; today's is the default`."
        ]
    )
    assert talk.untouched()


def test_everything_that_is_missing_is_named_at_once(open_talk: Open) -> None:
    files = {path: text for path, text in LIGER.items() if path != SUITE}
    files[PATH] = LIGER[PATH].replace(b"forward(ctx, a, b)", b"forward(ctx, a, b, c)")
    talk = open_talk(files)
    number = talk.ask(f"/kernel modify geglu {WORDS}")
    assert heard(talk, number) == snapshot(
        [
            """\
`geglu` has no test file `test/transformers/test_geglu.py`; nothing says what `geglu` computes, so that a change of it could be proved. Nothing was done.

**Next:** Add one that holds the kernel against PyTorch: no change is proposed that it does not pass. Commit a problem file as `.kernelsmith/problems/geglu.py`, or paste it in a fenced Python block below the command: `def reference(...)` in plain torch, `INPUTS`, `WORKLOADS`, and how the kernel is called, such as `CALL = "LigerFooFunction.apply(x, w, eps)"`.\
"""
        ]
    )
    assert talk.untouched()


def test_a_problem_below_the_command_is_what_the_change_is_proved_against(open_talk: Open) -> None:
    talk = open_talk(LIGER)
    answers(talk)
    runs_tests(talk)
    for verdict in (RIGHT, RIGHT, RIGHT, to_json(WRONG)):
        talk.answer("verify", verdict)
    weaker = PROBLEM.replace("slope * a.float()", "1.702 * a.float()")
    model = speaks(slope(problem=weaker))
    number = talk.ask(
        f"/kernel modify geglu {WORDS} {ONE} --auto --repairs 1\n\n```python\n{PROBLEM}```\nIt may be slower."
    )
    assert talk.job().request.problem.text == PROBLEM
    assert talk.job().request.words == f"{WORDS}\n\nIt may be slower."
    assert "It may be slower." in model.told(0)
    assert heard(talk, number) == snapshot(
        [
            """\
**`geglu` stopped in modify:** no model gave a change: nothing more was written for it.

**Next:** An operator has to look at the model's name and its address \\(docs/models.md\\). This says nothing about the kernel. `/kernel retry` runs modify again; answers that it already has are not paid for again.

- ❌ **modify**: no model gave a change: nothing more was written for it
- ⬜ **confirm**: prove and test the pushed commit again, measure it against the previous kernel, write the report

What was tried:

- attempt 1 \\(modify\\) ended as `incorrect_gradient`: The gradient of `a` is wrong in 3 rows.
- attempt 2 \\(repair 1\\) ended as `rejected`: nothing more was written for it

<sub>Job [`JOB1`](https://bot.example/jobs/JOB1) · [asked](https://hub/octo/kernels/issues/1#issuecomment-1013) for by `maintainer`</sub>\
""",
            """\
**`geglu` stopped in modify:** no model gave a change: nothing more was written for it.
**Next:** An operator has to look at the model's name and its address \\(docs/models.md\\). This says nothing about the kernel. `/kernel retry` runs modify again; answers that it already has are not paid for again.

What was tried:

- attempt 1 \\(modify\\) ended as `incorrect_gradient`: The gradient of `a` is wrong in 3 rows.
- attempt 2 \\(repair 1\\) ended as `rejected`: nothing more was written for it

<sub>Job [`JOB1`](https://bot.example/jobs/JOB1) · [asked](https://hub/octo/kernels/issues/1#issuecomment-1013) for by `maintainer`</sub>\
""",
        ]
    )
    assert attempts(talk) == snapshot(
        [
            "modify: incorrect_gradient The gradient of `a` is wrong in 3 rows.",
            "repair: rejected nothing more was written for it",
        ]
    )
