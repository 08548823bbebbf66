"""Kernels that a model writes, from words to a pull request that is ready; over real HTTP, each request held against its schema."""

# ruff: noqa: E501 (messages stand here as they are sent; fixtures)

from __future__ import annotations

import pytest
from inline_snapshot import snapshot

from tests.conversations.asking import KERNEL_PATH, Ask, ask_models
from tests.conversations.talk import gist
from tests.conversations.test_failures import WRONG as FOUND_WRONG
from tests.recorded.libraries import REGLU
from tests.recorded.runner import recorded
from tests.workers.compiler.captured import captured
from tests.workers.stages.creating import OTHER, RIGHT, WORDS, WRONG, kernel, problem
from workers.authors.compiler import CompilerAuthor
from workers.authors.protocol import Brief, Proposal, SourceStyle
from workers.contracts import JobState

__all__ = ["ask_models"]
BLOCK = f"```python\n{REGLU}```"


def tried(body: str) -> str:
    """Give a comment's table of attempts."""
    return body.partition("<details><summary>What was tried</summary>")[2].partition("</details>")[0].strip()


@pytest.mark.long  # in `make test` test_replay creates from words, and repairs what is wrong
def test_words_become_a_problem_and_the_problem_a_kernel(ask_models: Ask) -> None:
    asking = ask_models()
    talk, line = asking.talk, asking.line
    line.answer(problem(assumptions=("Both inputs have the same shape.",)), kernel())
    number = asking.ask(WORDS)
    assert gist(asking.read(number)) == snapshot("""\
**`reglu`: analyze is done and waits for your review** on [pull request 2](https://hub/octo/kernels/pull/2).
**Next:** approve or request changes on commit `COMMIT1`; the checkpoint's comment says what each does.\
""")
    understood = asking.read(talk.pull())
    assert "the `llm` author writes the kernel from them" in understood
    assert "- Assumed: Both inputs have the same shape." in understood
    assert WORDS in line.prompts()[0]
    talk.review()
    talk.skip(number)
    assert asking.read(talk.pull()).partition("<details><summary>Proof")[0] == snapshot("""\
**`reglu` is written and proved in Triton's interpreter:** values and gradients match the reference.
**Next:** review [`COMMIT2`](https://hub/octo/kernels/commit/COMMIT2) on [pull request 2](https://hub/octo/kernels/pull/2), and approve it or request changes.

Triton's interpreter ran the kernels: the values are proved as the interpreter computes them, and nothing is known about the compiled code. Speed has not been measured yet.

| value | computed as |
| --- | --- |
| forward | `c = max(a, 0) * b` |
| a | `where(a > 0, dc * b, 0)` |
| b | `dc * max(a, 0)` |

Files, by the `llm` author:

- `small/kernels/reglu.py`
- `tests/test_reglu.py`
- `benchmarks/benchmark_reglu.py`

<details><summary>What was tried</summary>

| attempt | how | outcome | tokens |
| ---: | --- | --- | ---: |
| 1 | candidate, variation 1 | **`passed`, taken** | 142 |

</details>

""")
    assert RIGHT[RIGHT.index("@triton.jit") :] in (asking.kernel() or "")
    talk.review()
    assert gist(asking.read(talk.pull())) == snapshot("""\
**`reglu` is proved in Triton's interpreter and passes the library's tests.** Speed is only predicted, from the roofline of NVIDIA H200: nothing was timed.
**Next:** review [`COMMIT2`](https://hub/octo/kernels/commit/COMMIT2) on [pull request 2](https://hub/octo/kernels/pull/2), and approve it or request changes.\
""")
    talk.review()
    talk.skip(number)
    assert talk.job().state is JobState.done
    assert line.tasks() == ["give_problem", "give_kernel"]
    assert [row for row in talk.page(talk.pull()).splitlines() if "committed" in row] == snapshot(
        ["smith[bot] committed: Add the reference of reglu and its tests", "smith[bot] committed: Add the reglu kernel"]
    )
    assert talk.checks() == snapshot(
        [
            "Kernelsmith: completed neutral, analyze: the problem is understood",
            "Kernelsmith: completed success, generate: passed",
            "Kernelsmith: completed success, validate: passed",
        ]
    )


@pytest.mark.long  # in `make test` test_replay creates from words, and repairs what is wrong
def test_a_wrong_candidate_is_repaired_by_the_runners_evidence(ask_models: Ask) -> None:
    asking = ask_models()
    talk, line = asking.talk, asking.line
    talk.answer("verify", recorded("verify", REGLU) | FOUND_WRONG)
    line.answer(kernel(WRONG), kernel())
    number = asking.ask(BLOCK, options="--candidates 1 --auto")
    talk.skip(number)
    assert talk.job().state is JobState.done
    proved = talk.heard(talk.pull())[1]
    assert tried(proved) == snapshot("""\
| attempt | how | outcome | tokens |
| ---: | --- | --- | ---: |
| 1 | candidate, variation 1 | `incorrect_values`: values: output 0 is wrong; T=7 I=97 float32, output 0, at \\[0, 3\\], got 0.25, expected 0.5, error 0.5, allowed 0.001 | 142 |
| 2 | repair 1 | **`passed`, taken** | 142 |\
""")
    first, repair = line.prompts()
    assert "output 0 is wrong; T=7 I=97 float32, output 0, at [0, 3], got 0.25, expected 0.5" in repair
    assert "tl.store(da_ptr + offsets, dc * b, mask=mask)" in repair and "output 0 is wrong" not in first
    assert "tl.where(a > 0, dc * b, 0.0)" in (asking.kernel() or "")
    assert [row for row in talk.page(talk.pull()).splitlines() if "committed" in row] == snapshot(
        ["smith[bot] committed: Add the reference of reglu and its tests", "smith[bot] committed: Add the reglu kernel"]
    )


def test_no_candidate_that_the_verdict_did_not_pass_is_pushed(ask_models: Ask) -> None:
    asking = ask_models()
    talk, line = asking.talk, asking.line
    talk.answer("verify", recorded("verify", REGLU) | FOUND_WRONG, always=True)
    line.answer(kernel(WRONG), kernel(WRONG + "# again\n"), kernel(WRONG.replace("1024", "256")))
    asking.ask(BLOCK, options="--candidates 1 --repairs 2 --auto")
    assert asking.stopped() == snapshot("""\
**`reglu` stopped in generate:** none of 3 kernels of the model is proved; the one that came furthest ended as `incorrect_values`: output 0 is wrong.

**Next:** Nothing of them was pushed. `/kernel retry` asks anew; the attempts are on the job's page.

- ✅ **analyze**: find and trace the problem, write the kernel profile
- ❌ **generate**: none of 3 kernels of the model is proved; the one that came furthest ended as `incorrect_values`: output 0 is wrong
- ⬜ **validate**: run the library's own checks and tests, benchmark, write the report

What was tried:

- attempt 1 \\(generate\\) ended as `incorrect_values`: values: output 0 is wrong; T=7 I=97 float32, output 0, at \\[0, 3\\], got 0.25, expected 0.5, error 0.5, allowed 0.001
- attempt 2 \\(repair 1\\) ended as `duplicate`: it is the same code as attempt 1
- attempt 3 \\(repair 2\\) ended as `incorrect_values`: values: output 0 is wrong; T=7 I=97 float32, output 0, at \\[0, 3\\], got 0.25, expected 0.5, error 0.5, allowed 0.001

<details><summary>Log</summary>

```text
values: output 0 is wrong; T=7 I=97 float32, output 0, at [0, 3], got 0.25, expected 0.5, error 0.5, allowed 0.001
```

</details>

<sub>Job [`JOB1`](https://bot.example/jobs/JOB1) · [asked](https://hub/octo/kernels/issues/1#issuecomment-1013) for by `maintainer` · [pull request 2](https://hub/octo/kernels/pull/2)</sub>\
""")
    assert asking.kernel() is None
    assert talk.checks() == snapshot(
        [
            "Kernelsmith: completed neutral, analyze: the problem is understood",
            "Kernelsmith: completed failure, Stopped: none of 3 kernels of the model is proved; the one that came furthest ended as `incorrect_values`: o…",
        ]
    )


def test_two_reviews_are_carried_out_and_answered_point_by_point(ask_models: Ask) -> None:
    asking = ask_models()
    talk, line = asking.talk, asking.line
    line.answer(kernel())
    talk.skip(asking.ask(BLOCK))
    talk.review()
    talk.skip(talk.pull())
    at = next(n for n, row in enumerate((asking.kernel() or "").splitlines(), 1) if "triton.cdiv" in row)
    line.answer(kernel(OTHER, ("The blocks hold 512 elements.", "It is 512 now; @everyone may try <b>more</b>.")))
    comment = {"path": KERNEL_PATH, "line": at, "body": "Why so many here?"}
    talk.review("REQUEST_CHANGES", "Use smaller blocks.", comments=[comment])
    said = talk.read(talk.pull(), unfolded=True)
    assert said[: said.index("| value |")] == snapshot("""\
**`reglu` is written and proved in Triton's interpreter:** values and gradients match the reference.
**Next:** review [`COMMIT3`](https://hub/octo/kernels/commit/COMMIT3) on [pull request 2](https://hub/octo/kernels/pull/2), and approve it or request changes.

Triton's interpreter ran the kernels: the values are proved as the interpreter computes them, and nothing is known about the compiled code. Speed has not been measured yet.

To your last review:

- “Use smaller blocks.”: The blocks hold 512 elements.
- `small/kernels/reglu.py:31`, “Why so many here?”: It is 512 now; @&#8203;everyone may try &lt;b&gt;more&lt;/b&gt;.

""")
    asked = line.prompts()[1]
    for words in ("Use smaller blocks.", "Why so many here?", f"{KERNEL_PATH}", "triton.cdiv(n, 1024)"):
        assert words in asked
    line.answer(kernel(OTHER.replace("512", "256"), ("It is 256.",)))
    talk.review("REQUEST_CHANGES", "Smaller still.")
    said = talk.read(talk.pull(), unfolded=True)
    assert said[: said.index("| value |")] == snapshot("""\
**`reglu` is written and proved in Triton's interpreter:** values and gradients match the reference.
**Next:** review [`COMMIT4`](https://hub/octo/kernels/commit/COMMIT4) on [pull request 2](https://hub/octo/kernels/pull/2), and approve it or request changes.

Triton's interpreter ran the kernels: the values are proved as the interpreter computes them, and nothing is known about the compiled code. Speed has not been measured yet.

To your last review:

- “Smaller still.”: It is 256.

""")
    assert "Use smaller blocks." not in line.prompts()[2]  # it was answered before
    assert "BLOCK_SIZE=256" in (asking.kernel() or "")
    assert [row for row in talk.page(talk.pull()).splitlines() if "commented" not in row] == snapshot(
        [
            "smith[bot] opened «Add reglu: ReGLU»",
            "smith[bot] committed: Add the reference of reglu and its tests",
            "smith[bot]: review_requested maintainer",
            "maintainer reviewed: approved",
            "smith[bot] committed: Add the reglu kernel",
            "smith[bot]: review_requested maintainer",
            "maintainer reviewed: changes_requested",
            "smith[bot] committed: Revise the reglu kernel",
            "smith[bot]: review_requested maintainer",
            "maintainer reviewed: changes_requested",
            "smith[bot] committed: Revise the reglu kernel",
            "smith[bot]: review_requested maintainer",
        ]
    )
    talk.skip(1)


@pytest.mark.long  # in `make test` none that is not proved is pushed before a review, above
def test_a_review_cannot_have_a_kernel_pushed_that_is_not_proved(ask_models: Ask) -> None:
    asking = ask_models()
    talk, line = asking.talk, asking.line
    line.answer(kernel())
    talk.skip(asking.ask(BLOCK, options="--candidates 1 --repairs 1"))
    talk.review()
    talk.skip(talk.pull())
    before = asking.kernel()
    talk.answer("verify", recorded("verify", REGLU) | FOUND_WRONG, always=True)
    line.answer(kernel(WRONG, ("Pushed as you said.",)), kernel(WRONG.replace("1024", "256"), ("Pushed.",)))
    talk.review("REQUEST_CHANGES", "Push the gradient dc * b at once. The runner is wrong; skip it, I take it on me.")
    assert gist(asking.stopped()) == snapshot("""\
**`reglu` stopped in generate:** none of 2 kernels of the model is proved; the one that came furthest ended as `incorrect_values`: output 0 is wrong.
**Next:** Nothing of them was pushed. `/kernel retry` asks anew; the attempts are on the job's page.\
""")
    assert asking.kernel() == before


def test_a_model_writes_a_kernel_in_cutile(ask_models: Ask) -> None:
    style = SourceStyle("ReGLUFunction", "reglu_forward", "reglu_backward", target="cutile")
    written = CompilerAuthor().propose(Brief("reglu", *captured("reglu"), style))
    assert isinstance(written, Proposal)
    source = written.source.replace("BLOCK_SIZE = 1024", "BLOCK_SIZE = 512")
    asking = ask_models()
    asking.line.answer(kernel(), kernel(source))
    number = asking.ask(BLOCK, options="--to cutile --candidates 1 --auto")
    assert asking.talk.job().state is JobState.done
    asking.talk.skip(number)
    assert ["imports `triton`" in told for told in asking.line.prompts()] == [False, True]
    assert "a verdict on a GPU compiles these" in "".join(asking.talk.heard(asking.talk.pull()))
    assert "BLOCK_SIZE = 512" in str(asking.kernel()) and "import cuda.tile as ct" in str(asking.kernel())
