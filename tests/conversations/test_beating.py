"""`/kernel create` with `auto`, where the compiler's kernel is far from its floor and a model is asked for a faster one."""

# ruff: noqa: E501 (messages stand here as they are sent; fixtures)

from __future__ import annotations

import pytest
from inline_snapshot import snapshot

from gpu_runner.contracts import BenchmarkResult, to_json
from tests.conversations.asking import Ask, Asking, ask_models
from tests.conversations.optimizing import TODAY, so_fast
from tests.conversations.test_failures import WRONG as FOUND_WRONG
from tests.recorded.libraries import REGLU, create
from tests.recorded.runner import recorded
from tests.service.report.kernels_facts import SLOWER
from tests.workers.stages.creating import WRONG, kernel
from workers.contracts import JobState

__all__ = ["ask_models"]
MODELS = "tl.store(da_ptr + offsets, tl.where("


def on_a_gpu(asking: Asking, *measured: BenchmarkResult) -> None:
    """Have the runner speak as one with a GPU: of the compiler's kernel alone, then of the two beside each other."""
    talk = asking.talk
    talk.answer("verify", recorded("verify", REGLU) | {"interpreted": False}, always=True)
    for each in (TODAY, *measured):
        talk.answer("benchmark", to_json(each))


def written(asking: Asking) -> str:
    """Ask for a kernel, approve the problem, and give what the comment says of the one that was written."""
    talk = asking.talk
    number = talk.ask(create("reglu", REGLU, "--candidates 1 --repairs 1"))
    talk.skip(number)
    talk.skip(talk.pull())
    talk.review()
    talk.skip(number)
    body = asking.read(talk.pull())
    return body[body.index("Files, by") : body.index("<details><summary>Proof")].strip()


def test_a_faster_one_is_taken_and_the_comment_says_by_how_much(ask_models: Ask) -> None:
    asking = ask_models()
    on_a_gpu(asking, so_fast(1.5))
    asking.line.answer(kernel())
    assert written(asking) == snapshot("""\
Files, by the `llm` author:

- `small/kernels/reglu.py`
- `tests/test_reglu.py`
- `benchmarks/benchmark_reglu.py`

- The compiler's kernel takes 1.92 times the reachable time, so a model was asked for a faster one; its kernel is taken, by a run of both: 1.50 times as fast \\(1.49 to 1.51\\) over 2 sizes.

<details><summary>What was tried</summary>

| attempt | how | outcome | both passes | tokens |
| ---: | --- | --- | ---: | ---: |
| 1 | candidate, variation 1 | **`passed`, taken** | 133.3 µs | 142 |

</details>\
""")
    assert MODELS in (asking.kernel() or "")
    (asked,) = asking.line.prompts()
    assert "forward at M=2048 N=4096 bfloat16: 200.0 us, floor 100.0 us, the floor is 50% of its time" in asked


@pytest.mark.long  # in `make test` tests/workers/stages/test_beating keeps the faster one
def test_one_that_is_slower_is_told_and_the_compilers_stays(ask_models: Ask) -> None:
    asking = ask_models()
    on_a_gpu(asking, SLOWER)
    asking.line.answer(kernel())
    assert written(asking) == snapshot("""\
Files, by the `compiler` author:

- `small/kernels/reglu.py`
- `tests/test_reglu.py`
- `benchmarks/benchmark_reglu.py`

- The compiler's kernel takes 1.92 times the reachable time, so a model was asked for a faster one; its kernel is proved and not taken, by a run of both: 0.97 times as fast \\(0.97 to 0.98\\) over 2 sizes, and needs 1.10 times the memory in forward at M=2048 N=4096 bfloat16.

<details><summary>What was tried</summary>

| attempt | how | outcome | both passes | tokens |
| ---: | --- | --- | ---: | ---: |
| 1 | candidate, variation 1 | `not faster`: 0\\.97 times as fast \\(0.97 to 0.98\\) over 2 sizes, and needs 1.10 times the memory in forward at M=2048 N=4096 bfloat16 | 205.2 µs | 142 |

</details>\
""")
    assert MODELS not in (asking.kernel() or MODELS)


def test_wrong_ones_are_told_and_the_compilers_stays(ask_models: Ask) -> None:
    asking = ask_models()
    on_a_gpu(asking)
    asking.talk.answer("verify", recorded("verify", REGLU) | {"interpreted": False})
    for _ in range(2):
        asking.talk.answer("verify", recorded("verify", REGLU) | FOUND_WRONG)
    asking.line.answer(kernel(WRONG), kernel(WRONG.replace("1024", "256")))
    assert written(asking) == snapshot("""\
Files, by the `compiler` author:

- `small/kernels/reglu.py`
- `tests/test_reglu.py`
- `benchmarks/benchmark_reglu.py`

- The compiler's kernel takes 1.92 times the reachable time, so a model was asked for a faster one; the compiler's stays, since none of 2 kernels of the model is proved; the one that came furthest ended as `incorrect_values`: output 0 is wrong.

<details><summary>What was tried</summary>

| attempt | how | outcome | tokens |
| ---: | --- | --- | ---: |
| 1 | candidate, variation 1 | `incorrect_values`: values: output 0 is wrong; T=7 I=97 float32, output 0, at \\[0, 3\\], got 0.25, expected 0.5, error 0.5, allowed 0.001 | 142 |
| 2 | repair 1 | `incorrect_values`: values: output 0 is wrong; T=7 I=97 float32, output 0, at \\[0, 3\\], got 0.25, expected 0.5, error 0.5, allowed 0.001 | 142 |

</details>\
""")
    assert MODELS not in (asking.kernel() or MODELS)


@pytest.mark.long  # in `make test` tests/workers/stages/test_beating has each end of a try
def test_a_provider_that_is_down_costs_nothing_but_the_try(ask_models: Ask) -> None:
    asking = ask_models(model_tries=1)
    on_a_gpu(asking)
    asking.line.refuse(529, "overloaded_error")
    assert written(asking) == snapshot("""\
Files, by the `compiler` author:

- `small/kernels/reglu.py`
- `tests/test_reglu.py`
- `benchmarks/benchmark_reglu.py`

- The compiler's kernel takes 1.92 times the reachable time, so a model was asked for a faster one; the compiler's stays, since no model gave a kernel: anthropic is overloaded \\(status 529, overloaded\\_error\\).

<details><summary>What was tried</summary>

| attempt | how | outcome | tokens |
| ---: | --- | --- | ---: |
| 1 | candidate, variation 1 | `overloaded`: anthropic is overloaded \\(status 529, overloaded\\_error\\) | – |

</details>\
""")
    assert asking.talk.job().state is JobState.waiting


@pytest.mark.long  # in `make test` tests/workers/stages/test_beating has each end of a try
def test_a_budget_without_room_costs_nothing_but_the_try(ask_models: Ask) -> None:
    asking = ask_models(model_tokens_per_job=1_000)
    on_a_gpu(asking)
    assert written(asking) == snapshot("""\
Files, by the `compiler` author:

- `small/kernels/reglu.py`
- `tests/test_reglu.py`
- `benchmarks/benchmark_reglu.py`

- The compiler's kernel takes 1.92 times the reachable time, so a model was asked for a faster one; the compiler's stays, since the model budget of this job is reached: 0 tokens of 1,000 tokens are used, and the next request is likely to take MANY tokens.\
""")
    assert asking.line.prompts() == []


def test_without_a_gpu_nobody_is_asked(ask_models: Ask) -> None:
    asking = ask_models()
    assert "model" not in written(asking)
    assert (asking.line.prompts(), asking.talk.asked()) == ([], ["imports", "capture", "verify", "benchmark"])
