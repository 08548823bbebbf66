"""`/kernel fuse` from the command to the pull request, through the real stages, with a runner's recorded answers."""

# ruff: noqa: E501 (messages stand here as they are sent)

from __future__ import annotations

import pytest
from inline_snapshot import snapshot

from gpu_runner.contracts import Evidence, Status, Verdict, to_json
from tests.conversations.conftest import Open
from tests.conversations.optimizing import heard
from tests.conversations.talk import Talk
from tests.recorded.libraries import FUSED, PLAIN, STACK, fuse
from workers.contracts import FailureCode, JobState

LIBRARY = PLAIN | {"models/stack.py": STACK.encode()}
WRONG = Verdict(Status.incorrect_values, (Evidence("values", "It is off."),))
PARTS = "| 1. `relu_mul_add_4cbc72` |"


def checkpoint(talk: Talk, number: int) -> str:
    """Give what a checkpoint says; the status comment is skipped."""
    return next(text for text in heard(talk, number) if "**Next:** review" in text or "**Next:** merge" in text)


def decided(talk: Talk, number: int, state: str, body: str = "") -> str:
    talk.clock[0] += 10
    talk.review(state, body)
    return checkpoint(talk, number)


def rows(text: str) -> list[str]:
    """Give the table of parts, without what is measured."""
    table = [line.split(" | ") for line in text.splitlines() if line.startswith("| ") and ". `" in line]
    return [f"{cells[0][2:]}, {cells[1]}: {cells[-1].rstrip(' |')}" for cells in table]


def test_a_model_is_cut_reviewed_and_composed_where_one_part_fails(open_talk: Open) -> None:
    talk = open_talk(LIBRARY)
    number = talk.ask("/kernel fuse models/stack.py:Stack")
    text = checkpoint(talk, number)
    assert rows(text) == snapshot(
        [
            "1. `relu_mul_add_cabd2f`, relu, mul, add: not tried yet",
            "2. `gelu_mul_a40c02`, gelu, mul: not tried yet",
            "3. `sigmoid_mul_dbba4a`, sigmoid, mul: not tried yet",
        ]
    )
    assert text == snapshot("""\
**`stack` is cut into 3 parts at 3 places**, which may save 6.38 KiB of 34.2 KiB that a forward moves; nothing of it is proved yet.
**Next:** review [`COMMIT1`](https://hub/octo/kernels/commit/COMMIT1) on [pull request 2](https://hub/octo/kernels/pull/2), and approve it or request changes.

- 11 operators compute.
- Torch has a library for 3 of them: matrix product \\(3\\).
- Between them are 3 groups of 2 to 3 operators.

| part | operators | inputs | places | bytes apart | floor | saved | outcome |
| --- | --- | --- | ---: | ---: | ---: | ---: | --- |
| 1. `relu_mul_add_cabd2f` | relu, mul, add | `6 x 32 float32`<br>`6 x 32 float32` | 1 | 5.25 KiB | 2.25 KiB | 3.00 KiB | not tried yet |
| 2. `gelu_mul_a40c02` | gelu, mul | `6 x 48 float32` | 1 | 4.50 KiB | 2.25 KiB | 2.25 KiB | not tried yet |
| 3. `sigmoid_mul_dbba4a` | sigmoid, mul | `6 x 24 float32` | 1 | 2.25 KiB | 1.12 KiB | 1.12 KiB | not tried yet |

Bytes are of one forward, saved ones of all places of a part: 19% of the model's together. Time is not predicted.

```mermaid
flowchart TD
    n0["layer_norm<br/>torch"]
    n1["linear<br/>torch"]
    n2["part 2<br/>gelu_mul_a40c02<br/>gelu, mul"]
    n3["linear<br/>torch"]
    n4["part 1<br/>relu_mul_add_cabd2f<br/>relu, mul, add"]
    n5["linear<br/>torch"]
    n6["part 3<br/>sigmoid_mul_dbba4a<br/>sigmoid, mul"]
    n0 --> n1
    n1 --> n2
    n2 --> n3
    n3 --> n4
    n4 --> n5
    n5 --> n6
    classDef part fill:#cfe8cf,stroke:#3a7d3a
    class n2,n4,n6 part
```

▸ What stays with torch

The same on the command line: `kernelsmith fuse model.py --out run`

- **Approve**: the parts are proved, and a program is composed of them and proved as a whole.
- **Request changes**: `keep 3 and 4 together` or `leave 2 to torch` changes the cut, which is shown again. This was attempt 1 of 5.
- Where GitHub does not let you review: `/kernel approve COMMIT1`, or `/kernel revise` and what should change.

<sub>Job [`JOB1`](https://bot.example/jobs/JOB1) · [asked](https://hub/octo/kernels/issues/1#issuecomment-1013) for by `maintainer` · [pull request 2](https://hub/octo/kernels/pull/2)</sub>\
""")
    text = decided(talk, number, "REQUEST_CHANGES", "Please keep 1 and 2 together, and leave 9 to torch.")
    assert rows(text) == snapshot(
        [
            "1. `gelu_mul_linear_f921b7`, gelu, mul, linear, relu, mul, add: not tried yet",
            "2. `sigmoid_mul_dbba4a`, sigmoid, mul: not tried yet",
        ]
    )
    assert "Parts 1 and 2 are one:" in text and "There is no part 9: the parts are 1 to 3." in text
    talk.answer("verify", to_json(WRONG))  # of the largest part
    text = decided(talk, number, "APPROVE")
    assert rows(text) == snapshot(
        [
            "1. `gelu_mul_linear_f921b7`, gelu, mul, linear, relu, mul, add: stays with torch: incorrect\\_values: It is off.",
            "2. `sigmoid_mul_dbba4a`, sigmoid, mul: proved",
        ]
    )
    assert text.splitlines()[0] == snapshot(
        "**`stack` is composed of 1 proved part, and proved as a whole in Triton's interpreter:** values and gradients match the reference, 1.12 KiB of 34.2 KiB saved; torch computes 1 part that could not be proved."
    )
    text = decided(talk, number, "APPROVE")
    assert text.splitlines()[0] == snapshot(
        "**`stack` is composed of 1 proved part, and proved as a whole in Triton's interpreter:** values and gradients match the reference, 1.12 KiB of 34.2 KiB saved; torch computes 1 part that could not be proved. Speed is only predicted, from the roofline of NVIDIA H200: nothing was timed."
    )
    talk.clock[0] += 10
    talk.review("APPROVE")
    assert talk.job().state is JobState.done
    assert "merge" in "\n".join(heard(talk, number))
    assert talk.changed() == snapshot(
        [
            "small/kernels/fused/__init__.py +0 -0",
            "small/kernels/fused/stack/__init__.py +0 -0",
            "small/kernels/fused/stack/composed_kernel.py +225 -0",
            "small/kernels/fused/stack/original.py +30 -0",
            "tests/test_fused_stack.py +49 -0",
        ]
    )
    names = {artifact.name for artifact in talk.job().artifacts}
    assert {"subgraphs.json", "cut.md", "orchestrator/model.py", "compose_out/composed_kernel.py"} <= names
    assert sum(name.endswith("/verdict.json") for name in names) == 3


@pytest.mark.long  # in `make test` one is fused with reviews, above
def test_a_pasted_model_is_fused_without_reviews(open_talk: Open) -> None:
    talk = open_talk()
    number = talk.ask(fuse(FUSED, "--auto"))
    assert talk.job().state is JobState.done, heard(talk, number)
    assert talk.job().request.kernel == "model"
    talk.skip_all(number)


def test_a_test_that_only_says_that_it_passed_stops_the_job(open_talk: Open) -> None:
    talk = open_talk()
    talk.answer(
        "tests", {"passed": True, "exit_code": 0, "cases": [], "summary": "exit code 0", "log": "PASS", "collected": []}
    )
    number = talk.ask(fuse(FUSED, "--auto"))
    failure = talk.job().failure
    assert failure is not None and failure.code is FailureCode.tests
    assert "does not pass in the library" in failure.message
    talk.skip_all(number)


@pytest.mark.long  # in `make test` one part fails, above
def test_where_every_part_fails_nothing_is_composed(open_talk: Open) -> None:
    talk = open_talk()
    number = talk.ask(fuse(FUSED))
    for _ in range(3):
        talk.answer("verify", to_json(WRONG))
    talk.skip_all(number)
    talk.clock[0] += 10
    talk.review("APPROVE")
    assert "none of the parts could be proved" in "\n".join(heard(talk, number))
    talk.clock[0] += 10


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        ("/kernel fuse", "Nothing says what the kernel should compute"),
        ("/kernel fuse models/stack.py:Missing", "defines no `Missing`"),
        ("/kernel fuse models/none.py", "There is no file `models/none.py`"),
        ("/kernel fuse models/stack.py:Stack twice", "`twice`"),
    ],
)
def test_what_cannot_be_fused_is_refused_where_it_was_asked(open_talk: Open, command: str, reason: str) -> None:
    talk = open_talk(LIBRARY)
    number = talk.ask(command)
    assert reason in "\n".join(heard(talk, number))
    assert talk.asked() == []


@pytest.mark.long
@pytest.mark.slow
def test_the_real_runner_carries_a_model_to_a_pull_request(open_talk: Open) -> None:
    talk = open_talk(LIBRARY, real_runner=True)
    number = talk.ask("/kernel fuse models/stack.py:Stack --auto")
    assert talk.job().state is JobState.done, heard(talk, number)
    assert "composed of 3 proved parts, and proved as a whole in Triton's interpreter" in "\n".join(heard(talk, number))
