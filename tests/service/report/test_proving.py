"""What verify says."""

# ruff: noqa: E501 (messages stand here as they are sent)
from __future__ import annotations

from dataclasses import replace

from inline_snapshot import snapshot

from gpu_runner.contracts import Evidence, Status, Verdict
from service.report.job import report_comment
from service.report.verdicts import Conclusion
from service.report.verify import proved_conclusion
from tests.conversations.normal import folded, gist
from tests.service.report.facts import LINKS, WRONG
from tests.service.report.kernels_facts import GEGLU, MEASURE, RMS, SOFTMAX, VERIFY_DONE
from workers.contracts import MeasuredKernel, ReportUpdate


def verify(*kernels: MeasuredKernel) -> str:
    return report_comment(ReportUpdate(replace(MEASURE, kernels=kernels)), VERIFY_DONE, LINKS)


def test_kernels_that_are_right() -> None:
    assert folded(verify(RMS, GEGLU)) == snapshot("""\
**2 kernels proved:** values and gradients match the references.
**Next:** `/kernel bench` compares the times; values are no obstacle to merging.

| kernel | verdict | checks | largest error | allowed | on |
| --- | --- | --- | ---: | ---: | --- |
| `rms_norm` | values and gradients match the reference | 4 of 4 | 0.003 | 0.008 | `T=1 I=1 bfloat16` |
| `geglu` | values and gradients match the reference | 4 of 4 | 0.003 | 0.008 | `T=1 I=1 bfloat16` |

▸ rms&#95;norm: every size

▸ geglu: every size

<sub>Head `1f2e3d4c5b6a` against base `abc012345678`.</sub>

Provenance: GPU `NVIDIA H200`

To repeat it on a checkout of the head commit:

```sh
kernelsmith compare --repo . --against main
```

<sub>Job [`j7k2`](https://bot.example/jobs/j7k2) · [asked](https://github.com/octo-org/library/pull/21#issuecomment-35) for by `octocat`</sub>

<!-- kernelsmith:job=j7k2 kind=report -->\
""")


def test_a_kernel_that_is_wrong() -> None:
    assert folded(verify(RMS, replace(GEGLU, verdict=WRONG), SOFTMAX)) == snapshot("""\
**1 of 2 kernels is wrong:** `geglu`: a gradient is wrong.
**Next:** fix `geglu`; the evidence is below.

| kernel | verdict | checks | largest error | allowed | on |
| --- | --- | --- | ---: | ---: | --- |
| `rms_norm` | values and gradients match the reference | 4 of 4 | 0.003 | 0.008 | `T=1 I=1 bfloat16` |
| `geglu` | **a gradient is wrong** | 0 of 1 | 0.31 | 2e-06 | `T=7 I=129 float32` |

Not measured:

- `softmax`: there is no benchmark script for `softmax`. Add one, or name the kernels.

▸ rms&#95;norm: every size

▸ geglu: every size

<sub>Head `1f2e3d4c5b6a` against base `abc012345678`.</sub>

Provenance: GPU `NVIDIA H200`

To repeat it on a checkout of the head commit:

```sh
kernelsmith compare --repo . --against main
```

<sub>Job [`j7k2`](https://bot.example/jobs/j7k2) · [asked](https://github.com/octo-org/library/pull/21#issuecomment-35) for by `octocat`</sub>

<!-- kernelsmith:job=j7k2 kind=report -->\
""")


def test_nothing_to_prove() -> None:
    assert [gist(verify(*kernels)) for kernels in ((SOFTMAX,), ())] == snapshot(
        [
            """\
**Nothing could be proved:** the reasons are below.
**Next:** see below what was not judged and why.\
""",
            """\
**This change touches no kernel:** nothing was proved.
**Next:** nothing, or name the kernels that should be proved: `/kernel verify NAME`.\
""",
        ]
    )


def test_a_host_at_fault_is_not_the_kernels_fault() -> None:
    broken = replace(GEGLU, verdict=Verdict(Status.environment_error))
    assert "1 kernel could not be judged" in verify(RMS, broken)


def test_host_code_that_cannot_be_evaluated_is_not_called_wrong() -> None:
    evidence = Evidence("load", "The evaluator has no `match`.", line=12)
    unproved = replace(GEGLU, verdict=Verdict(Status.unproved, (evidence,), rule="not evaluated"))
    comment = verify(RMS, unproved)
    assert "**1 kernel proved:**" in comment and "1 kernel could not be judged" in comment
    assert "(line 12)" in comment and "wrong" not in comment
    assert proved_conclusion(replace(MEASURE, kernels=(RMS, unproved))) is Conclusion.neutral
