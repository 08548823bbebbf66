"""What a person may get wrong, or try: one reply with the fix, and nothing left behind."""

# ruff: noqa: E501 (messages stand here as they are sent)

from __future__ import annotations

import json

import pytest
from inline_snapshot import Snapshot, snapshot

from deploy.localhub.webhooks import signature
from tests.conversations.conftest import SECRET
from tests.conversations.talk import REPOSITORY, Talk
from tests.recorded.libraries import REGLU, create
from workers import inbox

LIMIT = 25 * 2**20


@pytest.mark.parametrize(
    ("comment", "reply"),
    [
        pytest.param(
            "/kernel create",
            snapshot(
                "`/kernel create`: `NAME` is missing. The form is `/kernel create NAME [from PATH[:SYMBOL]|URL] [--author compiler|llm|auto] [--candidates N] [--repairs N] [--choose first|best] [--to ascend|cutile|cutedsl|rocm] [--layout liger|plain|versioned|fla] [--gpu ARCH] [--profile] [--auto] [--dry-run]`, for example `/kernel create reglu --layout liger`."
            ),
            id="empty create",
        ),
        pytest.param(
            "/kernel create reglu",
            snapshot('''\
The command does not say what `reglu` should compute. Paste this with your own code:

````markdown
/kernel create reglu
```python
"""ReGLU: a gated unit with ReLU on the gate."""
import torch
import torch.nn.functional as F


def reference(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return F.relu(a) * b


INPUTS = {"a": "T I", "b": "T I"}
WORKLOADS = [{"T": 4096, "I": 14336}, {"T": 2048, "I": 11008}]
```
````

`reference` computes in plain PyTorch what the kernel should; `INPUTS` names each tensor's dimensions, outermost first; `WORKLOADS` gives the sizes to measure. A KernelBench file (`class Model`, `get_inputs()`, `get_init_inputs()`) works too, and so does `from PATH` for a file of this repository.\
'''),
            id="no problem",
        ),
        pytest.param(
            "/kernel create reglu\n\nlike geglu but with relu",
            snapshot('''\
A description in words needs a language model, and none is configured here; the compiler works from code. For `reglu`, paste this with your own code:

````markdown
/kernel create reglu
```python
"""ReGLU: a gated unit with ReLU on the gate."""
import torch
import torch.nn.functional as F


def reference(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return F.relu(a) * b


INPUTS = {"a": "T I", "b": "T I"}
WORKLOADS = [{"T": 4096, "I": 14336}, {"T": 2048, "I": 11008}]
```
````

`reference` computes in plain PyTorch what the kernel should; `INPUTS` names each tensor's dimensions, outermost first; `WORKLOADS` gives the sizes to measure. A KernelBench file (`class Model`, `get_inputs()`, `get_init_inputs()`) works too, and so does `from PATH` for a file of this repository.\
'''),
            id="words",
        ),
        pytest.param(
            create("reglu", "def reference(a:\n    return a\n"),
            snapshot("""\
Syntax error: '\\(' was never closed (line 1). Nothing was done.

**Next:** Correct the syntax.\
"""),
            id="syntax error",
        ),
        pytest.param(
            create("reglu", REGLU.replace('"T": 4096', '"S": 4096')),
            snapshot("""\
No size for dimension `T` in a workload (line 11). Nothing was done.

**Next:** Add &quot;T&quot; to every workload.\
"""),
            id="unknown dimension",
        ),
        pytest.param(
            create("reglu", REGLU.replace("import torch\n", "import torch\nimport os\n", 1)),
            snapshot("""\
The problem imports `os` (line 3). Nothing was done.

**Next:** A problem imports torch and nothing else; write out what you need from other modules.\
"""),
            id="module",
        ),
        pytest.param(
            create("reglu", REGLU.replace("def reference", "def refrence")),
            snapshot("""\
There is no `reference` in the problem. Nothing was done.

**Next:** Define `def reference(x: torch.Tensor, ...)` that computes what the kernel should, or a KernelBench `class Model`.\
"""),
            id="no reference",
        ),
        pytest.param(
            create("reglu", REGLU.replace(', "b": "T I"', "")),
            snapshot("""\
`b` has neither dims nor a default (line 6). Nothing was done.

**Next:** Give `b` a default, dims in INPUTS if it is a tensor, or a value in every workload.\
"""),
            id="no dims",
        ),
        pytest.param(
            create("2fast", REGLU),
            snapshot("`/kernel create 2fast`: `2fast` cannot be the name of a kernel. A name starts with a letter."),
            id="no identifier",
        ),
        pytest.param(
            create("class", REGLU),
            snapshot(
                "`/kernel create class`: `class` cannot be the name of a kernel. This is a word of Python itself, so no module can have it as its name. Did you mean `class_kernel`?"
            ),
            id="keyword",
        ),
        pytest.param(
            create("../../etc/passwd", REGLU),
            snapshot(
                "`/kernel create ../../etc/passwd`: `../../etc/passwd` cannot be the name of a kernel. A name is not a path: the layout decides where the files go. Did you mean `passwd`?"
            ),
            id="path",
        ),
        pytest.param(
            create("small/kernels/reglu.py", REGLU),
            snapshot(
                "`/kernel create small/kernels/reglu.py`: `small/kernels/reglu.py` cannot be the name of a kernel. A name is not a path: the layout decides where the files go. Did you mean `reglu`?"
            ),
            id="file",
        ),
        pytest.param(
            create("reglu", REGLU, "--fast"),
            snapshot(
                "`/kernel create reglu --fast`: `create` has no option `--fast`. Its options: `--author`, `--candidates`, `--repairs`, `--choose`, `--to`, `--layout`, `--gpu`, `--profile`, `--auto`, `--dry-run`."
            ),
            id="unknown option",
        ),
        pytest.param(
            "/kernel craete reglu",
            snapshot(
                "`/kernel craete reglu`: there is no command `craete`. Did you mean `create`? The commands are: `create`, `optimize`, `modify`, `port`, `fuse`, `tune`, `profile`, `bench`, `verify`, `nightly`, `bisect`, `triaged`, `explain`, `status`, `cancel`, `retry`, `approve`, `revise`, `help`. `/kernel help` explains them."
            ),
            id="unknown verb",
        ),
        pytest.param(
            "/kernel create reglu from nowhere.py",
            snapshot("""\
There is no file `nowhere.py` on `main`. Nothing was done.

**Next:** A path is relative to the repository's root, such as `src/model.py:MLP`.\
"""),
            id="no file",
        ),
        pytest.param(
            "/kernel create reglu from README.md",
            snapshot("""\
The problem cannot be used: there is no `reference` in the problem. Nothing was done.

**Next:** Define `def reference(x: torch.Tensor, ...)` that computes what the kernel should, or a KernelBench `class Model`.\
"""),
            id="not Python",
        ),
        pytest.param(
            "\n".join(["/kernel status"] * 10),
            snapshot(
                "This comment has 10 commands, and at most 5 are accepted in one. None was carried out; split them over several comments."
            ),
            id="ten commands",
        ),
        pytest.param(
            "/kernel approve 1234567",
            snapshot(
                "No job belongs to this conversation, so there is nothing to approve. `/kernel create NAME` starts one."
            ),
            id="nothing to approve",
        ),
        pytest.param(
            "/kernel retry nosuchjob", snapshot("There is no job `nosuchjob` in this repository."), id="unknown job"
        ),
    ],
)
def test_what_cannot_become_a_job_is_answered_at_once(talk: Talk, comment: str, reply: Snapshot[str]) -> None:
    number = talk.ask(comment)
    assert talk.read(number) == reply
    assert talk.untouched()
    assert talk.asked() == []


def test_a_name_that_exists_is_refused_with_a_pointer_to_it(talk: Talk) -> None:
    number = talk.ask(create("scale", REGLU))
    assert talk.heard(number) == snapshot(
        [
            """\
A kernel `scale` exists at `small/kernels/scale.py`. Nothing was done.

**Next:** Choose another name; to make the existing one faster, use `/kernel optimize scale`.\
"""
        ]
    )
    assert talk.untouched()


def test_a_problem_that_does_not_run_is_told_with_its_line(talk: Talk) -> None:
    number = talk.ask(create("reglu", REGLU.replace("F.relu(a) * b", "F.relu(a) @ b")))
    assert talk.heard(number) == snapshot(
        [
            """\
**`reglu` stopped in analyze:** the problem cannot be used: the reference does not run: RuntimeError: mat1 and mat2 shapes cannot be multiplied \\(101x103 and 101x103\\) (line 7).

**Next:** Run the problem on its own and correct it. `/kernel retry` reads the same problem again, which helps only if the file it came from has changed. Otherwise give a new `/kernel create` with the corrected problem.

- ❌ **analyze**: the problem cannot be used: the reference does not run: RuntimeError: mat1 and mat2 shapes cannot be multiplied \\(101x103 and 101x103\\)
- ⬜ **generate**: write the kernel and prove it against the reference
- ⬜ **validate**: run the library's own checks and tests, benchmark, write the report

<sub>Job [`JOB1`](https://bot.example/jobs/JOB1) · [asked](https://hub/octo/kernels/issues/1#issuecomment-1013) for by `maintainer`</sub>\
""",
            """\
**`reglu` stopped in analyze:** the problem cannot be used: the reference does not run: RuntimeError: mat1 and mat2 shapes cannot be multiplied \\(101x103 and 101x103\\) (line 7).
**Next:** Run the problem on its own and correct it. `/kernel retry` reads the same problem again, which helps only if the file it came from has changed. Otherwise give a new `/kernel create` with the corrected problem.

<sub>Job [`JOB1`](https://bot.example/jobs/JOB1) · [asked](https://hub/octo/kernels/issues/1#issuecomment-1013) for by `maintainer`</sub>\
""",
        ]
    )
    assert list(talk.hub.branches(REPOSITORY)) == ["main"]
    assert talk.hub.pull_numbers(REPOSITORY) == []
    assert talk.hub.check_runs(REPOSITORY) == []


def test_somebody_without_permission_is_told_so(talk: Talk) -> None:
    number = talk.ask(create("reglu", REGLU), by="visitor")
    assert talk.read(number) == snapshot(
        "`visitor` has read permission on this repository, and commands need write permission. Nothing was done. A maintainer can give the command, or add a login to `allow` in `.github/kernelsmith.toml` on the default branch."
    )
    assert talk.untouched()


@pytest.mark.parametrize(
    "comment",
    [
        "```\n/kernel create reglu\n```",
        "    /kernel create reglu",
        "`/kernel create reglu`",
        "> /kernel create reglu",
        "<!-- /kernel create reglu -->",
        "<details>\n/kernel create reglu\n</details>",
        "See /kernel create reglu.",
    ],
)
def test_a_command_that_is_only_text_is_no_command(talk: Talk, comment: str) -> None:
    number = talk.issue()
    written = talk.say(number, comment)
    talk.settle()
    assert talk.heard(number) == []
    assert talk.reactions(number, written) == ()
    assert talk.untouched()


def test_an_edit_that_repeats_a_command_is_no_second_command(talk: Talk) -> None:
    number = talk.issue()
    written = talk.say(number, "/kernel help")
    talk.settle()
    assert len(talk.heard(number)) == 1
    talk.hub.edit_comment(REPOSITORY, written, "maintainer", "Please:\n\n/kernel help")
    talk.settle()
    assert talk.heard(number) == []


def test_a_forged_signature_is_turned_away_before_anything_is_kept(talk: Talk) -> None:
    body = json.dumps({"action": "created", "comment": {"body": "/kernel create reglu"}}).encode()
    headers = {"X-GitHub-Event": "issue_comment", "X-GitHub-Delivery": "forged"}
    for forged in (
        "",
        "sha256=" + "0" * 64,
        signature("another secret of the webhook", body),
        signature(SECRET, b"{}"),
    ):
        answer = talk.client.post("/webhook", content=body, headers=headers | {"X-Hub-Signature-256": forged})
        assert answer.status_code == 401
    assert "forged" not in answer.text
    assert talk.parts.processor.step() is False
    assert talk.untouched()


def test_a_body_that_is_too_large_is_turned_away(talk: Talk) -> None:
    body = b" " * (LIMIT + 1)
    headers = {
        "X-GitHub-Event": "issue_comment",
        "X-GitHub-Delivery": "large",
        "X-Hub-Signature-256": signature(SECRET, body),
    }
    assert talk.client.post("/webhook", content=body, headers=headers).status_code == 413
    assert talk.parts.processor.step() is False
    assert talk.untouched()


def test_a_comment_as_long_as_github_takes_is_read(talk: Talk) -> None:
    number = talk.ask("/kernel help\n\n" + "x" * 65_000)
    assert talk.read(number).startswith("**A line that starts with `/kernel` is a command.**")


def test_words_of_a_person_cannot_call_others_or_break_the_answer(talk: Talk) -> None:
    number = talk.ask("/kernel create @everyone<!--|`--`")
    assert talk.read(number) == snapshot(
        "<code>/kernel create &#64;everyone&#60;&#33;--&#124;&#96;--&#96;</code>: `@everyone` cannot be the name of a kernel. A name is a Python identifier in snake\\_case: lower-case letters, digits and single underscores. Did you mean `everyone`?"
    )
    assert inbox.find_jobs(REPOSITORY) == ()
