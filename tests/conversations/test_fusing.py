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
            "1. `add_relu_mul_9568ee`, add, relu, mul, add: not tried yet",
            "2. `add_gelu_mul_a5ab4d`, add, gelu, mul: not tried yet",
            "3. `add_sigmoid_mul_297356`, add, sigmoid, mul: not tried yet",
            "4. `layer_norm_6848f6`, layer\\_norm: not tried yet",
        ]
    )
    assert text == snapshot("""\
**`stack` is cut into 4 parts at 4 places**, which may save 9.91 KiB of 37.8 KiB that a forward moves; nothing is proved yet.
**Next:** review [`COMMIT1`](https://hub/octo/kernels/commit/COMMIT1) on [pull request 2](https://hub/octo/kernels/pull/2), and approve it or request changes.

- 14 operators compute.
- 3 of them call a library in torch: matrix product \\(3\\).
- Between these are 3 groups of 3 to 4 operators.

| part | operators | inputs | places | bytes unfused | floor | saved | outcome |
| --- | --- | --- | ---: | ---: | ---: | ---: | --- |
| 1. `add_relu_mul_9568ee` | add, relu, mul, add | `6 x 32 float32`<br>`32 float32`<br>`6 x 32 float32` | 1 | 6.00 KiB | 2.38 KiB | 3.62 KiB | not tried yet |
| 2. `add_gelu_mul_a5ab4d` | add, gelu, mul | `6 x 48 float32`<br>`48 float32` | 1 | 5.62 KiB | 2.44 KiB | 3.19 KiB | not tried yet |
| 3. `add_sigmoid_mul_297356` | add, sigmoid, mul | `6 x 24 float32`<br>`24 float32` | 1 | 2.81 KiB | 1.22 KiB | 1.59 KiB | not tried yet |
| 4. `layer_norm_6848f6` | layer\\_norm | `6 x 32 float32`<br>`32 float32`<br>`32 float32` | 1 | 3.25 KiB | 1.75 KiB | 1.50 KiB | not tried yet |

Bytes are per forward; saved bytes are of all places of a part, together 26% of the model's. Time is not predicted.

```mermaid
flowchart TD
    n0["part 4<br/>layer_norm_6848f6<br/>layer_norm"]
    n1["linear<br/>torch"]
    n2["part 2<br/>add_gelu_mul_a5ab4d<br/>add, gelu, mul"]
    n3["linear<br/>torch"]
    n4["part 1<br/>add_relu_mul_9568ee<br/>add, relu, mul, add"]
    n5["linear<br/>torch"]
    n6["part 3<br/>add_sigmoid_mul_297356<br/>add, sigmoid, mul"]
    n0 --> n1
    n1 --> n2
    n2 --> n3
    n3 --> n4
    n4 --> n5
    n5 --> n6
    classDef part fill:#cfe8cf,stroke:#3a7d3a
    class n0,n2,n4,n6 part
```

▸ What stays with torch

On the command line: `kernelsmith fuse model.py --out run`

- **Approve**: the parts are proved, and a program is composed of them and proved as a whole.
- **Request changes**: `keep 3 and 4 together` or `leave 2 to torch` changes the cut, which is shown again. This was attempt 1 of 5.
- If GitHub does not let you review: `/kernel approve COMMIT1`, or `/kernel revise` with what should change.

<sub>Job [`JOB1`](https://bot.example/jobs/JOB1) · [asked](https://hub/octo/kernels/issues/1#issuecomment-1013) for by `maintainer` · [pull request 2](https://hub/octo/kernels/pull/2)</sub>\
""")
    text = decided(talk, number, "REQUEST_CHANGES", "Please keep 1 and 2 together, and leave 9 to torch.")
    assert rows(text) == snapshot(
        [
            "1. `add_gelu_mul_af5236`, add, gelu, mul, linear, add, relu, mul, add: not tried yet",
            "2. `add_sigmoid_mul_297356`, add, sigmoid, mul: not tried yet",
            "3. `layer_norm_6848f6`, layer\\_norm: not tried yet",
        ]
    )
    assert "Parts 1 and 2 are one:" in text and "There is no part 9: the parts are 1 to 4." in text
    talk.answer("verify", to_json(WRONG))  # of the largest part
    text = decided(talk, number, "APPROVE")
    assert rows(text) == snapshot(
        [
            "1. `relu_mul_add_cabd2f`, relu, mul, add: proved",
            "2. `gelu_mul_a40c02`, gelu, mul: proved",
            "3. `layer_norm_6848f6`, layer\\_norm: stays with torch: unproved: \\`8\\` was never the minimum, so what it does otherwise was never judged. Let inputs, dimensions or scalars of the problem reach it, or leave it out.",
            "4. `sigmoid_mul_dbba4a`, sigmoid, mul: proved",
            "5. `add_gelu_mul_af5236`, add, gelu, mul, linear, add, relu, mul, add: cut again: incorrect\\_values: It is off.",
            "6. `add_sigmoid_mul_297356`, add, sigmoid, mul: cut again: unproved: \\`8\\` was never the minimum, so what it does otherwise was never judged. Let inputs, dimensions or scalars of the problem reach it, or leave it out.",
        ]
    )
    assert text.splitlines()[0] == snapshot(
        "**`stack` is composed of 3 proved parts, and proved as a whole in Triton's interpreter:** values and gradients match the reference, 6.38 KiB of 37.8 KiB saved; torch computes 1 part that could not be proved."
    )
    text = decided(talk, number, "APPROVE")
    assert text.splitlines()[0] == snapshot(
        "**`stack` is composed of 3 proved parts, and proved as a whole in Triton's interpreter:** values and gradients match the reference, 6.38 KiB of 37.8 KiB saved; torch computes 1 part that could not be proved. Speed is only predicted, from the roofline of NVIDIA H200: nothing was timed."
    )
    talk.clock[0] += 10
    talk.review("APPROVE")
    assert talk.job().state is JobState.done
    assert "merge" in "\n".join(heard(talk, number))
    assert talk.changed() == snapshot(
        [
            "small/kernels/fused/__init__.py +0 -0",
            "small/kernels/fused/stack/__init__.py +0 -0",
            "small/kernels/fused/stack/composed_kernel.py +513 -0",
            "small/kernels/fused/stack/original.py +30 -0",
            "tests/test_fused_stack.py +49 -0",
        ]
    )
    names = {artifact.name for artifact in talk.job().artifacts}
    assert {"subgraphs.json", "cut.md", "orchestrator/model.py", "compose_out/composed_kernel.py"} <= names
    assert {"stack-accuracy.png", "stack-speed.png"} <= names
    assert all(f"/{name}" in text for name in ("stack-accuracy.png", "stack-speed.png"))
    assert sum(name.endswith("/verdict.json") for name in names) == 9  # of each part that was tried, and of the whole


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
    for _ in range(4 + 3):  # with and without biases
        talk.answer("verify", to_json(WRONG))
    talk.skip_all(number)
    talk.clock[0] += 10
    talk.review("APPROVE")
    assert "no part could be proved" in "\n".join(heard(talk, number))
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
