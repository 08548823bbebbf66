"""`/kernel optimize --author llm` against a server that speaks a provider's protocol: diagnosis, variants, a review, a repair."""

# ruff: noqa: E501 (messages stand here as they are sent; fixtures)

from __future__ import annotations

import re

import pytest
from inline_snapshot import snapshot

from gpu_runner.contracts import to_json
from tests.conversations.asking import Ask, Asking, ask_models
from tests.conversations.optimizing import approve, heard, searched, so_fast
from tests.conversations.talk import gist
from tests.recorded.libraries import STANDING
from tests.service.report.facts import TESTS
from tests.workers.stages.answers import failing_tests
from tests.workers.stages.library import GEGLU, PATH
from tests.workers.stages.modelling import DIAGNOSIS, blocks, change
from workers.contracts import JobState

__all__ = ["ask_models"]
ASKED = "/kernel optimize geglu --author llm --goal speed --variants 2"
PROBLEM = '''
```python
"""A gated unit with a sigmoid."""
import torch


def reference(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return (a.float() * torch.sigmoid(1.702 * a.float())).to(b.dtype) * b


INPUTS = {"a": "T I", "b": "T I"}
WORKLOADS = [{"T": 16, "I": 2050}]
DTYPES = ["float32"]
CALL = "LigerGELUMulFunction.apply(a, b)"
```
'''
# What comes with its rows apart is read as it lies.
STEADY = GEGLU.replace("dc.view(-1, n_cols)", "dc.contiguous().view(-1, n_cols)").replace(
    "a.view(-1, n_cols), b.view(-1, n_cols)", "a.contiguous().view(-1, n_cols), b.contiguous().view(-1, n_cols)"
)
FORWARD = "    c = torch.empty_like(a)\n    BLOCK_SIZE = 1024\n"


def asking_for_geglu(ask_models: Ask, *speedups: float) -> Asking:
    asking = ask_models(files=STANDING)
    searched(asking.talk, *speedups)
    return asking


def model_parts(body: str) -> str:
    """Give the lines of a comment that speak of a model, or of what it wrote."""
    rows = body.splitlines()
    kept = [row for row in rows if re.search(r"\bmodel\b|^\| \**v\d|^\| \d|Hypothesis|“", row) and "| `M=" not in row]
    return "\n".join(kept)


def test_a_model_writes_variants_acts_on_a_review_and_mends_what_the_librarys_tests_refuse(ask_models: Ask) -> None:
    asking = asking_for_geglu(ask_models, 1.4, 1.5)
    talk, line = asking.talk, asking.line
    line.answer(DIAGNOSIS)
    number = talk.ask(ASKED)
    assert line.tasks() == ["give_diagnosis"]
    profiled = next(body for body in talk.heard(talk.pull()) if "These would be tried" in body)
    start = profiled.index("<details><summary>A model")
    assert profiled[start : profiled.index("</details>", start)] == snapshot("""\
<details><summary>A model's reading</summary>

Written by a model. Everything outside of this section is measured, or derived by rules.

One program walks a whole row &lt;img src=x&gt; @&#8203;everybody.

- backward runs at 0.50 of its floor

1. Let a program take a block of a row.
2. Use eight warps.

""")
    assert model_parts(profiled) == snapshot("""\
<details><summary>A model's reading</summary>
Written by a model. Everything outside of this section is measured, or derived by rules.
| 1 | Launch settings by measurement | 2 kernels are launched with settings of one rule for all GPUs and sizes. | 1.00× to 1.15× |
| 2 | A model's change | A model may be asked, right after the launch settings; forward runs at 0.50 of its floor, backward runs at 0.50 of its floor. | 1.00× to 1.30× |
| 3 | Pipelined loops | Loops that load are pipelined, as deep as shared memory holds on every GPU since sm\\_80: 2 places; forward runs at 0.50 of its floor, backward runs at 0.50 of its floor. | 1.00× to 1.25× |
| 4 | Row lengths as constants | The length of a row is a compile-time constant: 1 places; forward runs at 0.50 of its floor, backward runs at 0.50 of its floor. | 1.00× to 1.08× |
| 5 | Eviction hints on streamed loads | Loads that are used once are marked to be evicted first, what every program reads again to be kept: 5 places; forward runs at 0.50 of its floor, backward runs at 0.50 of its floor. | 1.00× to 1.05× |\
""")

    said = blocks(2048, hypothesis="`x` | spills\n## @everybody <script>")
    line.answer(blocks(2048, before=7), said, blocks(4096, 2048))
    approve(talk, number)
    assert line.tasks()[1:] == ["give_variant"] * 3
    assert "the old text of edit 1 is not there" in line.prompts()[2]
    assert "Blocks of 2048 in backward." in line.prompts()[3] and "One program walks a whole row" in line.prompts()[3]
    compared = next(body for body in talk.heard(talk.pull()) if "The search" in body)
    assert gist(compared) == snapshot("""\
**Of 3 variants of `geglu`, `v3` is 1.50× as fast as v0 on NVIDIA H200:** A model's change.
**Next:** review [`COMMIT1`](https://hub/octo/kernels/commit/COMMIT1) on [pull request 2](https://hub/octo/kernels/pull/2), and approve it or request changes.\
""")
    assert model_parts(compared) == snapshot("""\
**Of 3 variants of `geglu`, `v3` is 1.50× as fast as v0 on NVIDIA H200:** A model's change.
| v1 | v0 | Launch settings by measurement | the same code again | – | – | – | – | – | It is the same code as v0. |
| v2 | v0 | A model's change (written by a model) | kept | 1.40× | 1.40× | 1.40× | same | 1.40× |  |
| **v3** | v2 | A model's change (written by a model) | kept | 1.50× | 1.50× | 1.50× | same | 1.50× |  |
- **Hypothesis**: The settings come from a rule that knows neither this GPU nor these sizes; measured ones are at least as fast.
<details><summary>v2: A model&#39;s change, kept</summary>
Written by a model: assumption, change and expectation are in its own words.
- **Hypothesis**: `x` &#124; spills ## @&#8203;everybody &lt;script&gt;
| 1 | change, variation 1 | `edit`: the old text of edit 1 is not there in \\`src/liger\\_kernel/ops/geglu.py\\` | 142 |
| 2 | repair 1 | `passed` | 142 |
<details><summary>v3: A model&#39;s change, kept</summary>
Written by a model: assumption, change and expectation are in its own words.
- **Hypothesis**: Too few warps hide the loads.
| 3 | change, variation 2 | `passed` | 142 |
- **Request changes**: `use v2` takes that variant instead, unless it is wrong or breaks a guardrail; other words go to a model, which writes one more variant and answers each point. This was attempt 1 of 5.\
""")

    talk.answer("benchmark", to_json(so_fast(1.6)))
    line.answer(blocks(512, 4096, replies=("Smaller blocks, as many as there were.",)))
    talk.clock[0] += 10
    talk.say(number, "/kernel revise Try smaller blocks <img src=x>, as @octocat said")
    talk.settle()
    again = next(body for body in talk.heard(talk.pull()) if "The search" in body)
    assert gist(again) == snapshot("""\
**Of 4 variants of `geglu`, `v4` is 1.60× as fast as v0 on NVIDIA H200:** A model's change.
**Next:** review [`COMMIT1`](https://hub/octo/kernels/commit/COMMIT1) on [pull request 2](https://hub/octo/kernels/pull/2), and approve it or request changes.\
""")
    assert model_parts(again) == snapshot("""\
**Of 4 variants of `geglu`, `v4` is 1.60× as fast as v0 on NVIDIA H200:** A model's change.
| v1 | v0 | Launch settings by measurement | the same code again | – | – | – | – | – | It is the same code as v0. |
| v2 | v0 | A model's change (written by a model) | kept | 1.40× | 1.40× | 1.40× | same | 1.40× |  |
| v3 | v2 | A model's change (written by a model) | kept | 1.50× | 1.50× | 1.50× | same | 1.50× |  |
| **v4** | v3 | A model's change (written by a model) | kept | 1.60× | 1.60× | 1.60× | same | 1.60× |  |
- “Try smaller blocks &lt;img src=x&gt;, as @&#8203;octocat said”: Smaller blocks, as many as there were.
- **Hypothesis**: The settings come from a rule that knows neither this GPU nor these sizes; measured ones are at least as fast.
<details><summary>v2: A model&#39;s change, kept</summary>
Written by a model: assumption, change and expectation are in its own words.
- **Hypothesis**: `x` &#124; spills ## @&#8203;everybody &lt;script&gt;
| 1 | change, variation 1 | `edit`: the old text of edit 1 is not there in \\`src/liger\\_kernel/ops/geglu.py\\` | 142 |
| 2 | repair 1 | `passed` | 142 |
<details><summary>v3: A model&#39;s change, kept</summary>
Written by a model: assumption, change and expectation are in its own words.
- **Hypothesis**: Too few warps hide the loads.
| 3 | change, variation 2 | `passed` | 142 |
<details><summary>v4: A model&#39;s change, kept</summary>
Written by a model: assumption, change and expectation are in its own words.
- **Hypothesis**: Too few warps hide the loads.
| 1 | change, variation 1 | `passed` | 142 |
- **Request changes**: `use v2` takes that variant instead, unless it is wrong or breaks a guardrail; other words go to a model, which writes one more variant and answers each point. This was attempt 2 of 5.\
""")

    talk.answer("tests", to_json(failing_tests("test_grad")))
    talk.answer("tests", to_json(TESTS), always=True)
    talk.answer("benchmark", to_json(so_fast(1.6)))
    talk.answer("benchmark", to_json(so_fast(1.6)))
    line.answer(blocks(256, 512))
    approve(talk, number)
    assert "test_geglu.py::test_grad" in line.prompts()[-1]
    report = next(body for body in talk.heard(talk.pull()) if "Variants tried and rejected" in body)
    assert gist(report) == snapshot("""\
**`geglu` is 1.60× as fast as before on NVIDIA H200, peak memory same.** Its values and gradients are proved, and the library's tests pass. By pass: forward 1.60×, backward 1.60×, full 1.60×.
**Next:** review [`COMMIT5`](https://hub/octo/kernels/commit/COMMIT5) on [pull request 2](https://hub/octo/kernels/pull/2), and approve it or request changes.\
""")
    assert model_parts(report) == snapshot("""\
- v5: a model repaired v4; it was verified and measured again
| v1 | v0 | Launch settings by measurement | the same code again | – | – | – | – | – | It is the same code as v0. |
| v2 | v0 | A model's change (written by a model) | kept | 1.40× | 1.40× | 1.40× | same | 1.40× |  |
| v3 | v2 | A model's change (written by a model) | kept | 1.50× | 1.50× | 1.50× | same | 1.50× |  |
| v4 | v3 | A model's change (written by a model) | kept | 1.60× | 1.60× | 1.60× | same | 1.60× |  |
| **v5** | v4 | A model's change (written by a model) | kept | 1.60× | 1.60× | 1.60× | same | 1.60× |  |
- **Hypothesis**: The settings come from a rule that knows neither this GPU nor these sizes; measured ones are at least as fast.\
""")
    assert talk.changed() == snapshot(["src/liger_kernel/ops/geglu.py +1 -1"])
    talk.skip(number)
    talk.review()
    assert talk.job().state is JobState.done
    talk.skip(number)


@pytest.mark.long  # in `make test` providers go down in test_model_faults
def test_a_provider_that_goes_down_in_the_middle_leaves_what_was_kept(ask_models: Ask) -> None:
    asking = asking_for_geglu(ask_models, 1.4, 1.4, 1.4)
    asking.line.answer(DIAGNOSIS)
    number = asking.talk.ask(ASKED.replace("2", "4"))
    asking.talk.skip(number)
    asking.line.answer(blocks(2048))
    for _ in range(4):
        asking.line.refuse(529, "overloaded_error")
    approve(asking.talk, number)
    compared = next(body for body in heard(asking.talk, number) if "The search" in body)
    assert compared.count("Written by a model") == 0
    assert gist(compared) == snapshot("""\
**Of 4 variants of `geglu`, `v2` is 1.40× as fast as v0 on NVIDIA H200:** A model's change.
**Next:** review [`COMMIT1`](https://hub/octo/kernels/commit/COMMIT1) on [pull request 2](https://hub/octo/kernels/pull/2), and approve it or request changes.\
""")
    assert model_parts(compared) == snapshot("""\
**Of 4 variants of `geglu`, `v2` is 1.40× as fast as v0 on NVIDIA H200:** A model's change.
| v1 | v0 | Launch settings by measurement | the same code again | – | – | – | – | – | It is the same code as v0. |
| **v2** | v0 | A model's change (written by a model) | kept | 1.40× | 1.40× | 1.40× | same | 1.40× |  |
| v3 | v2 | Pipelined loops | no gain | 1.40× | 1.40× | 1.40× | same | 1.40× |  |
| v4 | v2 | Row lengths as constants | no gain | 1.40× | 1.40× | 1.40× | same | 1.40× |  |
The search ended because no model answered, and nothing else was left to try.
- No model was asked any further: anthropic is overloaded \\(status 529, overloaded\\_error\\). What was measured before stands.
▸ v2: A model&#39;s change, kept
- **Request changes**: `use v2` takes that variant instead, unless it is wrong or breaks a guardrail; other words go to a model, which writes one more variant and answers each point. This was attempt 1 of 5.\
""")


@pytest.mark.long  # a dozen verdicts; test_real_runner has the way through the real runner in `make test`
@pytest.mark.slow
def test_the_real_runner_judges_what_a_model_writes(ask_models: Ask) -> None:
    asking = ask_models(files=STANDING | {PATH: STEADY.encode()}, real_runner=True)
    wrong = change("(gate * (1 + 1.702 * a * (1 - gate)))", "(gate * (1 + 1.702 * a))", "A factor less in backward.")
    right = change(FORWARD, FORWARD.replace("1024", "2048"), "One block a row in forward.")
    asking.line.answer(DIAGNOSIS, wrong, right)
    number = asking.talk.ask(f"{ASKED[:-1]}1 --auto\n{PROBLEM}")
    assert asking.talk.job().state is JobState.done, asking.talk.heard(number)
    assert asking.line.tasks() == ["give_diagnosis", "give_variant", "give_variant"]
    assert "incorrect_gradient" in asking.line.prompts()[2]
    report = asking.talk.heard(asking.talk.pull())[-1]
    asking.talk.skip(number)
    assert "only predicted" in gist(report)
    assert model_parts(report) == snapshot("""\
| v1 | v0 | Launch settings by measurement | the same code again | It is the same code as v0. |
| **v2** | v0 | A model's change (written by a model) | proposed, not timed |  |
- **Hypothesis**: The settings come from a rule that knows neither this GPU nor these sizes; measured ones are at least as fast.\
""")
    assert asking.talk.changed() == [f"{PATH} +1 -1"]
