"""The comment that ends a job."""

# ruff: noqa: E501 (messages stand here as they are sent)
from __future__ import annotations

from dataclasses import replace

from inline_snapshot import snapshot

from gpu_runner.contracts import BenchmarkResult, CaseOutcome, TestCase, TestsResult
from service.report.benchmarks import speed_sentence
from service.report.job import report_comment
from service.report.layout import find_marker, length
from tests.service.report.facts import (
    DONE,
    FAILURE,
    INTERPRETED,
    LINKS,
    MEASURED,
    STOPPED,
    VALIDATED,
    WRONG,
)
from workers.contracts import ReportUpdate, StyleOutcome

URLS = {"speed.png": "https://github.com/octo-org/library/raw/0123456/speed.png"}


def test_a_measured_kernel() -> None:
    assert report_comment(ReportUpdate(VALIDATED), DONE, LINKS, URLS) == snapshot("""\
**`reglu` is proved and passes the library's tests.** Of 2 measurements on NVIDIA H200, against the best baseline: faster on 1, same on 1, geometric mean 1.12×.
**Next:** merge [pull request 13](https://github.com/octo-org/library/pull/13) when you are satisfied. The bot never merges.

| workload | pass | kernel | eager | torch.compile | speedup (95% interval) | floor | of the floor | verdict |
| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | --- |
| `T=4096 I=14336 bfloat16` | forward | 120 µs | 240 µs | 150 µs | 1.25× (1.23 to 1.27) | 108 µs | 90% | faster than torch.compile |
| `T=4096 I=14336 bfloat16` | full | 1.48 ms | 2.96 ms | 1.48 ms | 1.00× (0.98 to 1.02) | 1.33 ms | 90% | same |

<sub>Medians. The floor is the least time that the hardware allows.</sub>

![Speed of reglu by sequence length](https://github.com/octo-org/library/raw/0123456/speed.png)

<details><summary>Proof</summary>

- 4 of 4 checks passed, on 2 workloads with 5 seeds.
- Kernels that ran: `_reglu_forward`, `_reglu_backward`.
- Two runs agree bit for bit.
- Peak memory: 3.00 MiB forward, 5.00 MiB backward.

<details><summary>All checks</summary>

| check | of | passed | largest error | allowed | on |
| --- | --- | ---: | ---: | ---: | --- |
| values | output 0 | 2 of 2 | 0.003 | 0.008 | `T=1 I=1 bfloat16` |
| gradient | gradient of a | 1 of 1 | 2e-07 | 2e-06 | `T=7 I=129 float32` |
| written | – | 1 of 1 | – | – | `T=7 I=129 float32` |

</details>

</details>

<details><summary>The library's tests</summary>

1 passed in 0.50s

| test | outcome |
| --- | --- |
| `test/test_reglu.py::test_correct[1]` | passed |

</details>

<details><summary>The library's benchmark script</summary>

1 passed in 0.50s

| test | outcome |
| --- | --- |
| `test/test_reglu.py::test_correct[1]` | passed |

</details>

<details><summary>Style check</summary>

Passed: `ruff check`, `ruff format --check`

</details>

<details><summary>Peak memory</summary>

| workload | pass | kernel | eager | torch.compile |
| --- | --- | ---: | ---: | ---: |
| `T=4096 I=14336 bfloat16` | forward | 1.00 MiB | 3.00 MiB | 1.00 MiB |
| `T=4096 I=14336 bfloat16` | full | 1.00 MiB | 3.00 MiB | 1.00 MiB |

</details>

Provenance: GPU `NVIDIA H200` · torch `2.13.0` · base commit `000000000000`

To repeat it on a checkout of the base commit, with `problem.py` from the job's page:

```sh
kernelsmith create problem.py --name reglu --repo . --auto
```

<sub>Job [`j7k2`](https://bot.example/jobs/j7k2) · [asked](https://github.com/octo-org/library/issues/12#issuecomment-34) for by `octocat` · [pull request 13](https://github.com/octo-org/library/pull/13)</sub>

<!-- kernelsmith:job=j7k2 kind=report -->\
""")


def test_a_kernel_that_only_the_interpreter_ran() -> None:
    assert report_comment(ReportUpdate(INTERPRETED), DONE, LINKS) == snapshot("""\
**`reglu` is proved in Triton's interpreter and passes the library's tests.** Speed is only predicted, from the roofline of NVIDIA H200: nothing was timed.
**Next:** merge [pull request 13](https://github.com/octo-org/library/pull/13) when you are satisfied. The bot never merges.

| workload | pass | kernel, predicted | least time | bytes to move |
| --- | --- | ---: | ---: | ---: |
| `T=4096 I=14336 bfloat16` | forward | 83.2 µs | 83.2 µs | 256 MiB |

<sub>Predicted for NVIDIA H200: bytes that must move / bandwidth that a copy is expected to reach. This is a lower bound for a kernel on a GPU.</sub>

<details><summary>Proof</summary>

- 4 of 4 checks passed, on 2 workloads with 5 seeds.
- Kernels that ran: `_reglu_forward`, `_reglu_backward`.
- Two runs agree bit for bit.
- Peak memory: 3.00 MiB forward, 5.00 MiB backward.
- Triton's interpreter ran the kernels: the values are proved as the interpreter computes them, and nothing is known about the compiled code.

<details><summary>All checks</summary>

| check | of | passed | largest error | allowed | on |
| --- | --- | ---: | ---: | ---: | --- |
| values | output 0 | 2 of 2 | 0.003 | 0.008 | `T=1 I=1 bfloat16` |
| gradient | gradient of a | 1 of 1 | 2e-07 | 2e-06 | `T=7 I=129 float32` |
| written | – | 1 of 1 | – | – | `T=7 I=129 float32` |

</details>

</details>

<details><summary>The library's tests</summary>

1 passed in 0.50s

| test | outcome |
| --- | --- |
| `test/test_reglu.py::test_correct[1]` | passed |

</details>

<details><summary>Style check</summary>

Passed: `ruff check`, `ruff format --check`

</details>

Provenance: GPU `NVIDIA H200` · torch `2.13.0` · base commit `000000000000`

To repeat it on a checkout of the base commit, with `problem.py` from the job's page:

```sh
kernelsmith create problem.py --name reglu --repo . --auto
```

<sub>Job [`j7k2`](https://bot.example/jobs/j7k2) · [asked](https://github.com/octo-org/library/issues/12#issuecomment-34) for by `octocat` · [pull request 13](https://github.com/octo-org/library/pull/13)</sub>

<!-- kernelsmith:job=j7k2 kind=report -->\
""")


def test_a_stopped_job() -> None:
    assert report_comment(ReportUpdate(failure=FAILURE), STOPPED, LINKS) == snapshot("""\
**`reglu` stopped in validate:** the library's tests still fail after 3 attempts.
**Next:** Look at the first failing test. `/kernel retry` runs validate again, with a new set of attempts.

What was tried:

- attempt 1: 2 failed
- attempt 2: 1 failed

<details><summary>Log</summary>

```text
E   AssertionError: 0.5 != 0.25
```

</details>

<sub>Job [`j7k2`](https://bot.example/jobs/j7k2) · [asked](https://github.com/octo-org/library/issues/12#issuecomment-34) for by `octocat` · [pull request 13](https://github.com/octo-org/library/pull/13)</sub>

<!-- kernelsmith:job=j7k2 kind=report -->\
""")


def test_a_cancelled_job() -> None:
    assert report_comment(ReportUpdate(cancelled_by="octocat"), DONE, LINKS) == snapshot("""\
**`reglu` was cancelled** by `octocat`; what was pushed stays.
**Next:** nothing. `/kernel retry` resumes it; a new `/kernel create` starts over.

<sub>Job [`j7k2`](https://bot.example/jobs/j7k2) · [asked](https://github.com/octo-org/library/issues/12#issuecomment-34) for by `octocat` · [pull request 13](https://github.com/octo-org/library/pull/13)</sub>

<!-- kernelsmith:job=j7k2 kind=report -->\
""")


def test_the_end_without_a_new_report() -> None:
    assert report_comment(ReportUpdate(), DONE, LINKS) == snapshot("""\
**`reglu` is done:** every checkpoint was approved.
**Next:** merge [pull request 13](https://github.com/octo-org/library/pull/13) when you are satisfied. The bot never merges.

<sub>Job [`j7k2`](https://bot.example/jobs/j7k2) · [asked](https://github.com/octo-org/library/issues/12#issuecomment-34) for by `octocat` · [pull request 13](https://github.com/octo-org/library/pull/13)</sub>

<!-- kernelsmith:job=j7k2 kind=report -->\
""")


def test_what_stands_against_a_merge_is_the_verdict() -> None:
    failed = TestsResult(
        False, 1, (TestCase("test_a", CaseOutcome.failed, 0.1, "0.5 != 0.25"),), "1 failed", "E   assert\n"
    )
    summary = replace(VALIDATED, verdict=WRONG, tests=failed, style=StyleOutcome(False, ("ruff check",), "E501"))
    assert report_comment(ReportUpdate(summary), DONE, LINKS).split("\n")[0] == snapshot(
        "**`reglu` cannot be merged as it is:** a gradient is wrong; the library's tests fail (1 failed); the library's style check fails."
    )


def test_the_first_two_lines_are_the_verdict_and_the_next_action() -> None:
    for summary in (VALIDATED, INTERPRETED):
        first, second = report_comment(ReportUpdate(summary), DONE, LINKS).split("\n")[:2]
        assert first.startswith("**`reglu`")
        assert second.startswith("**Next:**")


def test_nothing_predicted_is_called_fast() -> None:
    text = report_comment(ReportUpdate(INTERPRETED), DONE, LINKS)
    assert "faster" not in text
    assert "speedup" not in text
    assert "only predicted" in text


def test_an_image_that_was_not_published_is_left_out() -> None:
    assert "![" not in report_comment(ReportUpdate(VALIDATED), DONE, LINKS)


def test_failing_tests_come_first_and_their_number_is_bounded() -> None:
    cases = [TestCase(f"test_{n}", CaseOutcome.passed, 0.0) for n in range(500)]
    cases.append(TestCase("test_bad", CaseOutcome.failed, 0.0, "no | good\n@octocat"))
    summary = replace(VALIDATED, tests=TestsResult(False, 1, tuple(cases), "1 failed", "log"))
    text = report_comment(ReportUpdate(summary), DONE, LINKS)
    assert "| `test_bad` | failed | no &#124; good @&#8203;octocat |" in text
    assert "461 more cases not shown." in text
    assert text.index("test_bad") < text.index("test_0")


def test_a_giant_report_is_cut_and_found_again() -> None:
    rows = replace(MEASURED, rows=MEASURED.rows * 2000)
    text = report_comment(ReportUpdate(replace(VALIDATED, benchmark=rows)), DONE, LINKS)
    assert length(text) <= 65_536
    assert find_marker(text) is not None
    assert text.count("<details>") == text.count("</details>")


def test_nothing_measured_is_not_called_anything() -> None:
    nothing = BenchmarkResult((), predicted=False, gpu=None, bandwidth_gbps=None)
    assert speed_sentence(nothing) == "Nothing could be timed."
