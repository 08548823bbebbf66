"""What is said of a proof claims no more than was done."""

from __future__ import annotations

from dataclasses import replace

from inline_snapshot import snapshot

from gpu_runner.contracts import Check, Evidence, Status, Verdict
from service.report.verdicts import INTERPRETED, verdict_section

N8 = "N=8 C=512 S=512 bfloat16"
BESIDE = Verdict(
    Status.passed,
    checks=(
        Check("gradient", N8, True, "gradient of b", 0.00709, 0.0072),
        Check("gradient", "N=2 C=64 S=97 float32", True, "gradient of b", 1e-7, 2e-6),
    ),
    deterministic=False,
    excused=(
        Evidence("large_values", "It is inf where the truth is a number.", "N=2 C=64 S=97 float32", "output 0"),
        Evidence(
            "gradient",
            "The error over the whole tensor is too large.",
            N8,
            "gradient of b",
            error=0.00709,
            allowed=0.0063,
        ),
    ),
)


def test_what_was_refused_before_it_ran_is_not_said_to_have_run() -> None:
    evidence = (Evidence("screen", "It imports `numpy`.", line=1),)
    refused = Verdict(Status.refused, evidence, rule="unknown module", interpreted=True)
    assert verdict_section(refused) == "**screen**: It imports `numpy`. (line 1)"
    assert INTERPRETED not in verdict_section(refused)


def test_a_failure_on_drawn_inputs_is_shown_with_the_command_that_repeats_it() -> None:
    seed = "0123456789abcdef0123456789abcdef"
    wrong = Verdict(
        Status.incorrect_values, (Evidence("values", "The values differ.", "T=7 H=97 float32", "output 0"),), seed=seed
    )
    command = f"Repeat it: `kernelsmith verify problem.py candidate.py --seed {seed}`"
    assert command in verdict_section(wrong)
    assert "--seed" not in verdict_section(replace(wrong, status=Status.passed))
    refused = Verdict(Status.refused, (Evidence("screen", "It imports `numpy`.", line=1),), seed=seed)
    assert "--seed" not in verdict_section(refused), "nothing was drawn"


def test_a_repeated_verdict_says_that_it_opens_no_gate() -> None:
    assert "cannot approve the kernel" in verdict_section(replace(BESIDE, repeated=True))


def test_what_passed_only_beside_what_stands_is_named_with_what_a_new_kernel_would_be_allowed() -> None:
    assert verdict_section(BESIDE) == snapshot("""\
- 2 of 2 checks passed, on 2 workloads.
- Two runs differ in some bits.

These pass only because the existing kernel has errors as large:

- output 0: It is inf where the truth is a number. (`N=2 C=64 S=97 float32`)
- gradient of b: error 0.0071, allowed 0.0063 (`N=8 C=512 S=512 bfloat16`)

<details><summary>All checks</summary>

| check | of | passed | largest error | allowed | on |
| --- | --- | ---: | ---: | ---: | --- |
| gradient | gradient of b | 2 of 2 | 0.0071 | 0.0072 | `N=8 C=512 S=512 bfloat16` |

</details>\
""")


def test_what_was_decided_one_way_alone_is_listed_of_what_passed() -> None:
    decided = (Evidence("one_sided", "`n_cols > 65536`: always false.", line=12),)
    passed = Verdict(Status.passed, checks=(Check("values", N8, True, "output 0"),), one_sided=decided)
    assert "- line 12: `n_cols > 65536`: always false." in verdict_section(passed)
    assert "Decisions with one outcome: 1" in verdict_section(passed)
    assert "always false" not in verdict_section(replace(passed, quick=True)), "few cases say little"
    assert "always false" not in verdict_section(replace(passed, status=Status.incorrect_values))
