"""What a reviewer is shown at a checkpoint."""

# ruff: noqa: E501 (messages stand here as they are sent)
from __future__ import annotations

from dataclasses import fields, replace

from inline_snapshot import snapshot

from service.report.create import profile_table
from service.report.job import MAX_ATTEMPTS, checkpoint_comment
from tests.service.report.facts import ANALYZED, CHECKPOINTS, GENERATED, LINKS, PROFILE, SHA, WAITING, WRONG
from workers.contracts import CheckpointUpdate, CheckpointView, KernelProfile, StageName
from workers.pipelines.transitions import MAX_STAGE_ATTEMPTS

URLS = {"speed.png": "https://github.com/octo-org/library/raw/0123456/speed.png"}


def test_analyze_shows_the_profile_and_the_reference() -> None:
    assert checkpoint_comment(CHECKPOINTS["analyze"], WAITING, LINKS) == snapshot("""\
**`reglu` is understood:** tier 1, element-wise, nearest to `geglu`.
**Next:** review [`1f2e3d4c5b6a`](https://github.com/octo-org/library/commit/1f2e3d4c5b6a79880011223344556677889900aa) on [pull request 13](https://github.com/octo-org/library/pull/13), and approve it or request changes.

Check the inputs, gradients and names: the `compiler` author writes the kernel from them.

| field | value |
| --- | --- |
| operation | `reglu` |
| autograd function | `LigerReGLUFunction` |
| module | `LigerReGLU` |
| functional form | `liger_reglu` |
| tier | 1, element-wise |
| nearest kernel that exists | `geglu` |
| inputs | `a` `(T, I)` input dtype<br>`b` `(T, I)` input dtype |
| outputs | `y` `(T, I)` same as input |
| forward | `y = max(a, 0) * b` |
| in float32 for precision | none |
| saved for backward | `a`, `b` |
| recomputed in backward | the mask of a |
| gradients | `da` = `dy * b where a > 0`<br>`db` = `dy * max(a, 0)` |
| grid | 1D, one program per row |
| block size | `calculate_settings(n_cols)` |
| partial sums over SMs | not needed |
| module's arguments | `bias: bool = False` |
| learnable parameters | `weight` `(I,)`, starting with ones |
| benchmark over | `T` (sequence length) |
| benchmark at | 1024, 2048 |
| compared with | `liger`, `torch` |
| fixed in the benchmark | `I` = `14336` |

- Rows are wide, so one program takes one row.

<details><summary>Reference</summary>

```python
def reference(a, b):
    return F.relu(a) * b
```

</details>

- **Approve**: the kernel is written and proved.
- **Request changes**: the analysis runs again; a Python block in the review replaces the problem. This was attempt 1 of 5.
- If GitHub does not let you review: `/kernel approve 1f2e3d4c5b6a`, or `/kernel revise` with what should change.

<sub>Job [`j7k2`](https://bot.example/jobs/j7k2) · [asked](https://github.com/octo-org/library/issues/12#issuecomment-34) for by `octocat` · [pull request 13](https://github.com/octo-org/library/pull/13)</sub>

<!-- kernelsmith:job=j7k2 kind=checkpoint key=analyze-1 -->\
""")


def test_generate_shows_the_verdict_the_formulas_and_the_files() -> None:
    assert checkpoint_comment(CHECKPOINTS["generate"], WAITING, LINKS) == snapshot("""\
**`reglu` is written and proved:** values and gradients match the reference.
**Next:** review [`1f2e3d4c5b6a`](https://github.com/octo-org/library/commit/1f2e3d4c5b6a79880011223344556677889900aa) on [pull request 13](https://github.com/octo-org/library/pull/13), and approve it or request changes.

| value | computed as |
| --- | --- |
| forward | `y = max(a, 0) * b` |
| da | `dy * b where a > 0` |
| db | `dy * max(a, 0)` |

Files, by the `compiler` author:

- `src/ops/reglu.py`
- `test/test_reglu.py`

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

- **Approve**: the library's tests and the benchmark run.
- **Request changes**: the kernel is written and proved again, with your comments as feedback. This was attempt 2 of 5.
- If GitHub does not let you review: `/kernel approve 1f2e3d4c5b6a`, or `/kernel revise` with what should change.

<sub>Job [`j7k2`](https://bot.example/jobs/j7k2) · [asked](https://github.com/octo-org/library/issues/12#issuecomment-34) for by `octocat` · [pull request 13](https://github.com/octo-org/library/pull/13)</sub>

<!-- kernelsmith:job=j7k2 kind=checkpoint key=generate-2 -->\
""")


def test_validate_shows_the_report() -> None:
    assert checkpoint_comment(CHECKPOINTS["validate"], WAITING, LINKS, URLS) == snapshot("""\
**`reglu` is proved and passes the library's tests.** Of 2 measurements on NVIDIA H200, against the best baseline: faster on 1, same on 1, geometric mean 1.12×.
**Next:** review [`1f2e3d4c5b6a`](https://github.com/octo-org/library/commit/1f2e3d4c5b6a79880011223344556677889900aa) on [pull request 13](https://github.com/octo-org/library/pull/13), and approve it or request changes.

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

- **Approve**: the job ends, and the pull request is yours to merge.
- **Request changes**: tests, benchmark and report run again, with your comments as feedback. This was attempt 1 of 5.
- If GitHub does not let you review: `/kernel approve 1f2e3d4c5b6a`, or `/kernel revise` with what should change.

<sub>Job [`j7k2`](https://bot.example/jobs/j7k2) · [asked](https://github.com/octo-org/library/issues/12#issuecomment-34) for by `octocat` · [pull request 13](https://github.com/octo-org/library/pull/13)</sub>

<!-- kernelsmith:job=j7k2 kind=checkpoint key=validate-1 -->\
""")


def test_a_failed_proof_shows_where_and_how_far() -> None:
    update = CheckpointUpdate(StageName.generate, 5, replace(GENERATED, verdict=WRONG))
    assert checkpoint_comment(update, WAITING, LINKS) == snapshot("""\
**`reglu` is not proved:** a gradient is wrong.
**Next:** review [`1f2e3d4c5b6a`](https://github.com/octo-org/library/commit/1f2e3d4c5b6a79880011223344556677889900aa) on [pull request 13](https://github.com/octo-org/library/pull/13), and approve it or request changes.

| value | computed as |
| --- | --- |
| forward | `y = max(a, 0) * b` |
| da | `dy * b where a > 0` |
| db | `dy * max(a, 0)` |

Files, by the `compiler` author:

- `src/ops/reglu.py`
- `test/test_reglu.py`

<details><summary>Proof</summary>

- 0 of 1 checks passed, on 1 workload with 1 seed.
- Two runs differ in some bits.

**gradient**: The gradient of `a` is wrong in 3 rows. (`T=7 I=129 float32`, gradient of a, at `(3, 17)`, line 41) got `0.5`, expected `0.25`; error 0.31, allowed 2e-06

<details><summary>Output</summary>

````text
Traceback
```
@octocat
````

</details>

<details><summary>All checks</summary>

| check | of | passed | largest error | allowed | on |
| --- | --- | ---: | ---: | ---: | --- |
| gradient | gradient of a | 0 of 1 | 0.31 | 2e-06 | `T=7 I=129 float32` |

</details>

</details>

- **Approve**: the library's tests and the benchmark run.
- **Request changes**: the kernel is written and proved again, with your comments as feedback. This was the last attempt.
- If GitHub does not let you review: `/kernel approve 1f2e3d4c5b6a`, or `/kernel revise` with what should change.

<sub>Job [`j7k2`](https://bot.example/jobs/j7k2) · [asked](https://github.com/octo-org/library/issues/12#issuecomment-34) for by `octocat` · [pull request 13](https://github.com/octo-org/library/pull/13)</sub>

<!-- kernelsmith:job=j7k2 kind=checkpoint key=generate-5 -->\
""")


def test_with_auto_nobody_is_asked() -> None:
    update = replace(CHECKPOINTS["generate"], decides=False)
    text = checkpoint_comment(update, WAITING, LINKS)
    assert "nobody is asked" in text
    assert "Approve" not in text
    assert "/kernel approve" not in text


def test_a_proof_in_the_interpreter_is_said_to_be_one() -> None:
    update = replace(
        CHECKPOINTS["generate"], summary=replace(GENERATED, verdict=replace(GENERATED.verdict, interpreted=True))
    )
    first, *others = checkpoint_comment(update, WAITING, LINKS).split("\n")
    assert "proved in Triton's interpreter" in first
    assert any("nothing is known about the compiled code" in line for line in others)


def test_the_commit_is_the_one_of_this_checkpoint_and_not_of_another() -> None:
    other = replace(WAITING, head_sha="2" * 40, checkpoint=CheckpointView(StageName.analyze, 1, SHA))
    assert f"/kernel approve {SHA[:12]}" in checkpoint_comment(CHECKPOINTS["analyze"], other, LINKS)
    assert f"/kernel approve {'2' * 12}" in checkpoint_comment(CHECKPOINTS["generate"], other, LINKS)
    assert f"/kernel approve {'3' * 12}" in checkpoint_comment(CHECKPOINTS["analyze"], other, LINKS, sha="3" * 40)


def test_every_field_of_the_profile_is_in_the_table() -> None:
    table = profile_table(PROFILE)
    for field in fields(KernelProfile):
        changed: object = getattr(PROFILE, field.name)
        if isinstance(changed, str):
            changed = "another value"
        elif isinstance(changed, bool):
            changed = not changed
        elif isinstance(changed, int):
            changed = 3
        elif isinstance(changed, tuple):
            changed = () if changed else ("another value",)
        assert profile_table(replace(PROFILE, **{field.name: changed})) != table, field.name


def test_the_number_of_attempts_is_the_pipelines() -> None:
    assert MAX_ATTEMPTS == MAX_STAGE_ATTEMPTS


def test_a_hostile_problem_stays_in_its_block() -> None:
    summary = replace(ANALYZED, problem_source="```\n</details>\n@octocat\n<!-- kernelsmith:job=x kind=status -->")
    text = checkpoint_comment(replace(CHECKPOINTS["analyze"], summary=summary), WAITING, LINKS)
    assert "````python\n```\n</details>\n@octocat\n<!-- kernelsmith:job=x kind=status -->\n````" in text
