"""`/kernel modify` from the command to the pull request, through the real stages, with a model that says what a test wrote."""

# ruff: noqa: E501 (messages stand here as they are sent)

from __future__ import annotations

from inline_snapshot import snapshot

from gpu_runner.contracts import Pass, Word, to_json
from tests.conversations.conftest import Open
from tests.conversations.modifying import (
    EMPTY,
    LIGER,
    PLAIN_ADDED,
    PLAIN_PATH,
    PLAIN_SUITE,
    SMALL,
    WORDS,
    answers,
    change,
    runs_tests,
    slope,
    speaks,
    suite,
)
from tests.conversations.optimizing import heard
from tests.conversations.talk import Talk
from tests.service.report.facts import VERDICT
from tests.service.report.kernels_facts import measured
from tests.workers.models import anthropic_server
from tests.workers.models.protocol_server import Asked, Reply
from tests.workers.stages.library import PATH, SUITE
from workers import runtime
from workers.contracts import JobState
from workers.models.settings import installed
from workers.settings import Settings

RIGHT = to_json(VERDICT)
ONE = "--candidates 1"


def approve(talk: Talk) -> None:
    talk.clock[0] += 10
    talk.review("APPROVE")


def test_a_kernel_is_changed_from_the_command_to_the_pull_request(open_talk: Open) -> None:
    talk = open_talk(LIGER)
    answers(talk)
    model = speaks(slope())
    runs_tests(talk)
    number = talk.ask(f"/kernel modify geglu {WORDS} {ONE}\nToday's slope stays the default.")
    assert talk.asked() == ["imports", "verify", "capture", "verify", "verify", "tests", "tests", "tests", "verify"]
    assert "let the caller choose the slope of the gate\n\nToday's slope stays the default." in model.told(0)
    assert heard(talk, number) == snapshot(
        [
            """\
**`geglu` is changed and proved:** values and gradients match the reference, and today's call still returns the same results. The library's whole test file passes. 1 added test fails before the change and passes with it.
**Next:** review [`COMMIT1`](https://hub/octo/kernels/commit/COMMIT1) on [pull request 2](https://hub/octo/kernels/pull/2), and approve it or request changes.

The model's description: It takes a slope.

| file | comes | goes |
| --- | ---: | ---: |
| `src/liger_kernel/ops/geglu.py` | +16 | −13 |
| `test/transformers/test_geglu.py` | +6 | −0 |

▸ What was changed

▸ Added tests

▸ The new problem

▸ What was tried

▸ Proof

▸ The library's tests

▸ Style check

- **Approve**: the change is proved and tested again, and measured against the previous kernel.
- **Request changes**: the change is made again, with your comments answered point by point. This was attempt 1 of 5.
- If GitHub does not let you review: `/kernel approve COMMIT1`, or `/kernel revise` with what should change.

<sub>Job [`JOB1`](https://bot.example/jobs/JOB1) · [asked](https://hub/octo/kernels/issues/1#issuecomment-1013) for by `maintainer` · [pull request 2](https://hub/octo/kernels/pull/2)</sub>\
""",
            """\
**`geglu`: modify is done and waits for your review** on [pull request 2](https://hub/octo/kernels/pull/2).

**Next:** approve or request changes on commit `COMMIT1`; the checkpoint's comment says what each does.

- 👀 **modify**: ask a model for the change, prove it, run the library's whole test file
- ⬜ **confirm**: prove and test the pushed commit again, measure it against the previous kernel, write the report

<sub>Job [`JOB1`](https://bot.example/jobs/JOB1) · [asked](https://hub/octo/kernels/issues/1#issuecomment-1013) for by `maintainer` · [pull request 2](https://hub/octo/kernels/pull/2)</sub>\
""",
        ]
    )
    assert talk.body(talk.pull()) == snapshot("""\
**`geglu` is changed and proved:** values and gradients match the reference, and today's call still returns the same results. The library's whole test file passes. 1 added test fails before the change and passes with it.

Requested in #1 ([comment](https://hub/octo/kernels/issues/1#issuecomment-1013)), in these words:

```text
let the caller choose the slope of the gate

Today's slope stays the default.
```

| file | comes | goes |
| --- | ---: | ---: |
| `src/liger_kernel/ops/geglu.py` | +16 | −13 |
| `test/transformers/test_geglu.py` | +6 | −0 |

**Not measured yet.**

▸ Proof

▸ Reference

The bot pushes to this branch and never merges. Commits of yours on it stay, and stop the job until `/kernel retry`.

<sub>Job [`JOB1`](https://bot.example/jobs/JOB1) · [asked](https://hub/octo/kernels/issues/1#issuecomment-1013) for by `maintainer`</sub>\
""")
    assert talk.changed() == snapshot(
        ["src/liger_kernel/ops/geglu.py +16 -13", "test/transformers/test_geglu.py +6 -0"]
    )
    runs_tests(talk)
    talk.answer("script", to_json(suite(SUITE)))
    approve(talk)
    assert talk.asked()[9:] == ["tests", "tests", "tests", "verify", "benchmark", "script"]
    assert talk.job().state is JobState.waiting
    assert heard(talk, number) == snapshot(
        [
            """\
**`geglu` is changed and is 1.00× as fast as before on NVIDIA H200: of 6 measurements, same on 6.** Its values and gradients are proved, and the library's tests pass. 1 added test fails before the change and passes with it.
**Next:** review [`COMMIT1`](https://hub/octo/kernels/commit/COMMIT1) on [pull request 2](https://hub/octo/kernels/pull/2), and approve it or request changes.

| workload | pass | after | before | eager | torch.compile | host | against before (95% interval) | against the best baseline (95% interval) | floor | of the floor | verdict |
| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | --- |
| `M=2048 N=4096 bfloat16` | forward | 200 µs | 200 µs | 900 µs | 210 µs | 14.0 µs | 1.00× (0.99 to 1.01) same | 1.05× (1.04 to 1.06) | 100 µs | 50% | faster than torch.compile |
| `M=2048 N=16384 bfloat16` | forward | 200 µs | 200 µs | 900 µs | 210 µs | 14.0 µs | 1.00× (0.99 to 1.01) same | 1.05× (1.04 to 1.06) | 100 µs | 50% | faster than torch.compile |
| `M=2048 N=4096 bfloat16` | backward | 200 µs | 200 µs | 900 µs | 210 µs | 14.0 µs | 1.00× (0.99 to 1.01) same | 1.05× (1.04 to 1.06) | 100 µs | 50% | faster than torch.compile |
| `M=2048 N=16384 bfloat16` | backward | 200 µs | 200 µs | 900 µs | 210 µs | 14.0 µs | 1.00× (0.99 to 1.01) same | 1.05× (1.04 to 1.06) | 100 µs | 50% | faster than torch.compile |
| `M=2048 N=4096 bfloat16` | full | 200 µs | 200 µs | 900 µs | 210 µs | 14.0 µs | 1.00× (0.99 to 1.01) same | 1.05× (1.04 to 1.06) | 100 µs | 50% | faster than torch.compile |
| `M=2048 N=16384 bfloat16` | full | 200 µs | 200 µs | 900 µs | 210 µs | 14.0 µs | 1.00× (0.99 to 1.01) same | 1.05× (1.04 to 1.06) | 100 µs | 50% | faster than torch.compile |

<sub>Medians. The floor is the least time that the hardware allows. Host is the host's time to queue the pass. Noise: a baseline measured against itself in the same run differed by 0.2% (median) and 0.2% (most). A kernel is called faster or slower only beyond 1% and beyond this noise. 6 disturbed rounds were left out.</sub>

▸ Noise and conditions

![Errors of geglu against the float64 reference; the worst is 0.38 of what is allowed](https://hub/octo/kernels/raw/COMMIT2/JOB1/geglu-accuracy.png)
![Measured times of geglu on NVIDIA H200, by workload and pass](https://hub/octo/kernels/raw/COMMIT2/JOB1/geglu-speed.png)

| file | comes | goes |
| --- | ---: | ---: |
| `src/liger_kernel/ops/geglu.py` | +16 | −13 |
| `test/transformers/test_geglu.py` | +6 | −0 |

- Times are those of today's call, before the change and with it.

▸ What was changed

▸ Added tests

▸ The new problem

▸ What was tried

▸ Proof

▸ The library's tests

▸ The library's benchmark script

▸ Style check

▸ Peak memory

Provenance: GPU `NVIDIA H200` · measured copy bandwidth `4240 GB/s` · base commit `COMMIT3`

To ask for it again on a checkout of the base commit, with `request.txt` from the job's page:

```sh
kernelsmith modify geglu --repo . --request request.txt --auto --candidates 1
```

- **Approve**: the job ends, and the pull request is yours to merge.
- **Request changes**: proof, tests, benchmark and report run again; another change needs a new `/kernel modify`. This was attempt 1 of 5.
- If GitHub does not let you review: `/kernel approve COMMIT1`, or `/kernel revise` with what should change.

<sub>Job [`JOB1`](https://bot.example/jobs/JOB1) · [asked](https://hub/octo/kernels/issues/1#issuecomment-1013) for by `maintainer` · [pull request 2](https://hub/octo/kernels/pull/2)</sub>\
""",
            """\
**`geglu`: confirm is done and waits for your review** on [pull request 2](https://hub/octo/kernels/pull/2).

**Next:** approve or request changes on commit `COMMIT1`; the checkpoint's comment says what each does.

- ✅ **modify**: ask a model for the change, prove it, run the library's whole test file
- 👀 **confirm**: prove and test the pushed commit again, measure it against the previous kernel, write the report

<sub>Job [`JOB1`](https://bot.example/jobs/JOB1) · [asked](https://hub/octo/kernels/issues/1#issuecomment-1013) for by `maintainer` · [pull request 2](https://hub/octo/kernels/pull/2)</sub>\
""",
        ]
    )
    assert talk.body(talk.pull()) == snapshot("""\
**`geglu` is changed and is 1.00× as fast as before on NVIDIA H200: of 6 measurements, same on 6.** Its values and gradients are proved, and the library's tests pass. 1 added test fails before the change and passes with it.

Requested in #1 ([comment](https://hub/octo/kernels/issues/1#issuecomment-1013)), in these words:

```text
let the caller choose the slope of the gate

Today's slope stays the default.
```

| file | comes | goes |
| --- | ---: | ---: |
| `src/liger_kernel/ops/geglu.py` | +16 | −13 |
| `test/transformers/test_geglu.py` | +6 | −0 |

| workload | pass | after | before | eager | torch.compile | host | against before (95% interval) | against the best baseline (95% interval) | floor | of the floor | verdict |
| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | --- |
| `M=2048 N=4096 bfloat16` | forward | 200 µs | 200 µs | 900 µs | 210 µs | 14.0 µs | 1.00× (0.99 to 1.01) same | 1.05× (1.04 to 1.06) | 100 µs | 50% | faster than torch.compile |
| `M=2048 N=16384 bfloat16` | forward | 200 µs | 200 µs | 900 µs | 210 µs | 14.0 µs | 1.00× (0.99 to 1.01) same | 1.05× (1.04 to 1.06) | 100 µs | 50% | faster than torch.compile |
| `M=2048 N=4096 bfloat16` | backward | 200 µs | 200 µs | 900 µs | 210 µs | 14.0 µs | 1.00× (0.99 to 1.01) same | 1.05× (1.04 to 1.06) | 100 µs | 50% | faster than torch.compile |
| `M=2048 N=16384 bfloat16` | backward | 200 µs | 200 µs | 900 µs | 210 µs | 14.0 µs | 1.00× (0.99 to 1.01) same | 1.05× (1.04 to 1.06) | 100 µs | 50% | faster than torch.compile |
| `M=2048 N=4096 bfloat16` | full | 200 µs | 200 µs | 900 µs | 210 µs | 14.0 µs | 1.00× (0.99 to 1.01) same | 1.05× (1.04 to 1.06) | 100 µs | 50% | faster than torch.compile |
| `M=2048 N=16384 bfloat16` | full | 200 µs | 200 µs | 900 µs | 210 µs | 14.0 µs | 1.00× (0.99 to 1.01) same | 1.05× (1.04 to 1.06) | 100 µs | 50% | faster than torch.compile |

<sub>Medians. The floor is the least time that the hardware allows. Host is the host's time to queue the pass. Noise: a baseline measured against itself in the same run differed by 0.2% (median) and 0.2% (most). A kernel is called faster or slower only beyond 1% and beyond this noise. 6 disturbed rounds were left out.</sub>

▸ Noise and conditions

▸ Proof

Provenance: GPU `NVIDIA H200` · measured copy bandwidth `4240 GB/s` · base commit `COMMIT3`

▸ Reference

The bot pushes to this branch and never merges. Commits of yours on it stay, and stop the job until `/kernel retry`.

<sub>Job [`JOB1`](https://bot.example/jobs/JOB1) · [asked](https://hub/octo/kernels/issues/1#issuecomment-1013) for by `maintainer` · [pull request 2](https://hub/octo/kernels/pull/2)</sub>\
""")
    approve(talk)
    assert talk.job().state is JobState.done
    assert heard(talk, number) == snapshot(
        [
            """\
**`geglu` is done**: see [pull request 2](https://hub/octo/kernels/pull/2).

**Next:** merge it when you are satisfied. The bot never merges.

- ✅ **modify**: ask a model for the change, prove it, run the library's whole test file
- ✅ **confirm**: prove and test the pushed commit again, measure it against the previous kernel, write the report

<sub>Job [`JOB1`](https://bot.example/jobs/JOB1) · [asked](https://hub/octo/kernels/issues/1#issuecomment-1013) for by `maintainer` · [pull request 2](https://hub/octo/kernels/pull/2)</sub>\
"""
        ]
    )
    assert talk.page(talk.pull()) == snapshot("""\
smith[bot] opened «Change geglu: let the caller choose the slope of the gate»
smith[bot] committed: Change the geglu kernel
smith[bot] commented (outdated): **`geglu` is changed and proved:** values and gradients match the reference, and today's call still returns the same results. The library's whole test file passes. 1 added test fails before the change and passes with it.
smith[bot]: review_requested maintainer
maintainer reviewed: approved
smith[bot]: ready_for_review
smith[bot] commented: **`geglu` is changed and is 1.00× as fast as before on NVIDIA H200: of 6 measurements, same on 6.** Its values and gradients are proved, and the library's tests pass. 1 added test fails before the change and passes with it.
smith[bot]: review_requested maintainer
maintainer reviewed: approved\
""")
    assert talk.checks() == snapshot(
        ["Kernelsmith: completed success, modify: passed", "Kernelsmith: completed success, confirm: passed"]
    )


def test_a_small_library_is_changed_by_a_provider_over_its_protocol(open_talk: Open) -> None:
    talk = open_talk(SMALL)
    answers(talk)
    slow = measured((Pass.forward, 0.9, Word.slower), (Pass.backward, 1.0, Word.same))
    talk.answer("benchmark", to_json(slow))
    nodes = ("test_values", "test_nothing_is_scaled")
    for _stage in ("modify", "confirm"):
        runs_tests(talk, PLAIN_SUITE, nodes)
    said = change(PLAIN_PATH, (EMPTY,), "An empty tensor is given back.", suite=PLAIN_SUITE, tests=PLAIN_ADDED)
    other = change(PLAIN_PATH, ((EMPTY[0], EMPTY[1] + "    assert n\n"),), suite=PLAIN_SUITE, tests=PLAIN_ADDED)

    def reply(asked: Asked) -> Reply:
        first = "the smallest one that does what is asked" in str(asked.body)
        return anthropic_server.call("give_change", said if first else other)

    with anthropic_server.anthropic_server() as server:
        server.next(reply, reply)
        settings = Settings(
            anthropic_api_key=anthropic_server.KEY,
            anthropic_model=anthropic_server.MODEL,
            anthropic_base_url=server.base_url,
        )
        runtime.current().models = lambda: installed(settings, ())
        number = talk.ask("/kernel modify scale give an empty tensor back --candidates 2 --auto")
    assert talk.job().state is JobState.done, talk.job().failure
    talk.skip(number)
    assert heard(talk, talk.pull()) == snapshot(
        [
            """\
**`scale` is changed and proved:** values and gradients match the reference. The library's whole test file passes. 1 added test fails before the change and passes with it.
**Next:** nothing to do. With `--auto` nobody is asked; the change is proved and tested again, and measured against the previous kernel.

The model's description: An empty tensor is given back.

| file | comes | goes |
| --- | ---: | ---: |
| `small/kernels/scale.py` | +2 | −0 |
| `tests/test_scale.py` | +5 | −0 |

▸ What was changed

▸ Added tests

▸ What was tried

▸ Proof

▸ The library's tests

▸ Style check

<sub>Job [`JOB1`](https://bot.example/jobs/JOB1) · [asked](https://hub/octo/kernels/issues/1#issuecomment-1013) for by `maintainer` · [pull request 2](https://hub/octo/kernels/pull/2)</sub>\
""",
            """\
**`scale` is changed, but it is more than 5% slower on 2 measurements: `M=2048 N=4096 bfloat16` forward 0.90×, `M=2048 N=16384 bfloat16` forward 0.90×.** Its values and gradients are proved, and the library's tests pass. 1 added test fails before the change and passes with it.
**Next:** nothing to do. With `--auto` nobody is asked; the job ends, and the pull request is yours to merge.

| workload | pass | after | before | eager | torch.compile | host | against before (95% interval) | against the best baseline (95% interval) | floor | of the floor | verdict |
| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | --- |
| `M=2048 N=4096 bfloat16` | forward | 222 µs | 200 µs | 900 µs | 210 µs | 14.0 µs | 0.90× (0.89 to 0.91) slower | 0.94× (0.94 to 0.95) | 100 µs | 45% | same |
| `M=2048 N=16384 bfloat16` | forward | 222 µs | 200 µs | 900 µs | 210 µs | 14.0 µs | 0.90× (0.89 to 0.91) slower | 0.94× (0.94 to 0.95) | 100 µs | 45% | same |
| `M=2048 N=4096 bfloat16` | backward | 200 µs | 200 µs | 900 µs | 210 µs | 14.0 µs | 1.00× (0.99 to 1.01) same | 1.05× (1.04 to 1.06) | 100 µs | 50% | faster than torch.compile |
| `M=2048 N=16384 bfloat16` | backward | 200 µs | 200 µs | 900 µs | 210 µs | 14.0 µs | 1.00× (0.99 to 1.01) same | 1.05× (1.04 to 1.06) | 100 µs | 50% | faster than torch.compile |

<sub>Medians. The floor is the least time that the hardware allows. Host is the host's time to queue the pass. Noise: a baseline measured against itself in the same run differed by 0.2% (median) and 0.2% (most). A kernel is called faster or slower only beyond 1% and beyond this noise. 4 disturbed rounds were left out.</sub>

▸ Noise and conditions

![Errors of scale against the float64 reference; the worst is 0.38 of what is allowed](https://hub/octo/kernels/raw/COMMIT1/JOB1/scale-accuracy.png)
![Measured times of scale on NVIDIA H200, by workload and pass](https://hub/octo/kernels/raw/COMMIT1/JOB1/scale-speed.png)

| file | comes | goes |
| --- | ---: | ---: |
| `small/kernels/scale.py` | +2 | −0 |
| `tests/test_scale.py` | +5 | −0 |

▸ What was changed

▸ Added tests

▸ What was tried

▸ Proof

▸ The library's tests

▸ Style check

▸ Peak memory

Provenance: GPU `NVIDIA H200` · measured copy bandwidth `4240 GB/s` · base commit `COMMIT2`

To ask for it again on a checkout of the base commit, with `request.txt` from the job's page:

```sh
kernelsmith modify scale --repo . --request request.txt --auto --candidates 2
```

<sub>Job [`JOB1`](https://bot.example/jobs/JOB1) · [asked](https://hub/octo/kernels/issues/1#issuecomment-1013) for by `maintainer` · [pull request 2](https://hub/octo/kernels/pull/2)</sub>\
""",
        ]
    )
    assert talk.changed() == snapshot(["small/kernels/scale.py +2 -0", "tests/test_scale.py +5 -0"])


def test_a_review_with_lines_is_answered_point_by_point(open_talk: Open) -> None:
    talk = open_talk(LIGER)
    answers(talk)
    runs_tests(talk)
    renamed = change(
        PATH,
        (("ctx.slope = slope", "ctx.gate_slope = slope"), ("dc, ctx.slope)", "dc, ctx.gate_slope)")),
        "The slope is kept under a clearer name.",
        replies=("It is documented nowhere yet, and tests show it.", "Renamed to `gate_slope`."),
    )
    model = speaks(slope(), renamed)
    number = talk.ask(f"/kernel modify geglu {WORDS} {ONE}")
    talk.skip(number)
    talk.skip(talk.pull())
    runs_tests(talk, today=False)
    talk.clock[0] += 10
    line = {"path": PATH, "line": 61, "body": "Which slope?"}
    talk.review("REQUEST_CHANGES", "Say where it is documented.", comments=[line])
    talk.skip(number)
    assert "Which slope?" in model.told(1)
    assert heard(talk, talk.pull()) == snapshot(
        [
            """\
**`geglu` is changed and proved:** values and gradients match the reference, and today's call still returns the same results. The library's whole test file passes. 1 added test fails before the change and passes with it.
**Next:** review [`COMMIT2`](https://hub/octo/kernels/commit/COMMIT2) on [pull request 2](https://hub/octo/kernels/pull/2), and approve it or request changes.

To your last review:

- “Say where it is documented.”: It is documented nowhere yet, and tests show it.
- `src/liger_kernel/ops/geglu.py:61`, “Which slope?”: Renamed to `gate_slope`.

The model's description: The slope is kept under a clearer name.

| file | comes | goes |
| --- | ---: | ---: |
| `src/liger_kernel/ops/geglu.py` | +16 | −13 |
| `test/transformers/test_geglu.py` | +6 | −0 |

▸ What was changed

▸ Added tests

▸ The new problem

▸ What was tried

▸ Proof

▸ The library's tests

▸ Style check

- **Approve**: the change is proved and tested again, and measured against the previous kernel.
- **Request changes**: the change is made again, with your comments answered point by point. This was attempt 2 of 5.
- If GitHub does not let you review: `/kernel approve COMMIT2`, or `/kernel revise` with what should change.

<sub>Job [`JOB1`](https://bot.example/jobs/JOB1) · [asked](https://hub/octo/kernels/issues/1#issuecomment-1013) for by `maintainer` · [pull request 2](https://hub/octo/kernels/pull/2)</sub>\
"""
        ]
    )
    assert talk.page(talk.pull()) == snapshot("""\
smith[bot] opened «Change geglu: let the caller choose the slope of the gate»
smith[bot] committed: Change the geglu kernel
smith[bot] commented (outdated): **`geglu` is changed and proved:** values and gradients match the reference, and today's call still returns the same results. The library's whole test file passes. 1 added test fails before the change and passes with it.
smith[bot]: review_requested maintainer
maintainer reviewed: changes_requested
smith[bot] committed: Revise the geglu kernel
smith[bot] commented: **`geglu` is changed and proved:** values and gradients match the reference, and today's call still returns the same results. The library's whole test file passes. 1 added test fails before the change and passes with it.
smith[bot]: review_requested maintainer\
""")
