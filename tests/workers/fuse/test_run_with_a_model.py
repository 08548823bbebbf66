"""A run in which a language model cuts, writes parts or composes, asked at local servers, behind the gates of the compiler."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gpu_runner.contracts import Composed, Status, Verdict
from tests.conversations.asking import Line
from tests.conversations.test_fusing_with_a_model import PART, WRITTEN
from tests.workers.fuse.models import MLP, SCALED, traced
from tests.workers.fuse.test_run import WRONG, Bench
from tests.workers.models.kinds import ANTHROPIC, KINDS, Kind
from tests.workers.stages.creating import kernel
from workers.authors.llm.protocol import UnusableAnswer
from workers.contracts import AuthorName, FailureCode, UserFacingError
from workers.fuse.asking import asker
from workers.fuse.cut import cut
from workers.fuse.program import composed_of, entry_of, with_entry
from workers.fuse.run import Authors
from workers.settings import Settings

AUTO, MODEL = AuthorName.auto, AuthorName.llm
LEDGER = "models.jsonl"


@pytest.fixture(params=KINDS, ids=[kind.name for kind in KINDS])
def line(request: pytest.FixtureRequest) -> Iterator[Line]:
    kind: Kind = request.param
    with kind.serve() as server:
        yield Line(kind, server)


@pytest.fixture
def one() -> Iterator[Line]:
    """One provider, where it does not matter which."""
    with ANTHROPIC.serve() as server:
        yield Line(ANTHROPIC, server)


def settings(line: Line, folder: Path, **more: Any) -> Settings:
    kind = line.kind
    own = {"api_key": kind.key, "model": kind.model, "base_url": line.server.base_url}
    return Settings(data_dir=folder, **{f"{kind.name}_{name}": value for name, value in own.items()}, **more)


def bench(line: Line, folder: Path, authors: Authors, more: dict[str, Any] | None = None, **known: Any) -> Bench:
    ask = asker(authors, settings(line, folder, **(more or {})), folder / LEDGER)
    return Bench(authors=authors, model=ask, **known)


def written(name: str) -> dict[str, Any]:
    """The answer with a module in the form that a part wants; what it computes the verdicts here do not ask."""
    camels = ["".join(word.capitalize() for word in each.split("_")) for each in (PART, name)]
    return kernel(WRITTEN.replace(PART, name).replace(*camels))


def named(source: str, refused: str) -> str:
    """The name of the part that a compiler refuses."""
    parts = cut(traced(source), lambda _: None).parts
    return next(name for name, part in parts.items() if refused in part.operators)


def outcomes(out: Path) -> list[tuple[str, str, bool]]:
    rows = json.loads((out / "kernels_out" / "summary.json").read_text())
    return [(row["id"].rpartition("_")[0], row["author"], row["proved"]) for row in rows]


def test_a_model_writes_the_part_that_the_compiler_refuses(line: Line, tmp_path: Path) -> None:
    name, authors = named(SCALED, "gelu"), Authors(dispatch=AUTO)
    line.answer(written(name))
    result = bench(line, tmp_path, authors, refused="gelu").run(tmp_path / "run", SCALED)
    assert result.verdict is not None and result.verdict.status is Status.passed
    assert outcomes(tmp_path / "run") == [("add_gelu_mul", "llm", True)]
    assert f"_{name}_kernel" in (tmp_path / "run" / "compose_out" / "composed_kernel.py").read_text()
    [row] = [json.loads(text) for text in (tmp_path / LEDGER).read_text().splitlines()]
    assert row["outcome"] == "answered" and row["tokens"] > 0
    assert "it has no way to express `gelu` yet" in line.prompts()[0]
    again = bench(line, tmp_path, authors, refused="gelu")
    again.run(tmp_path / "run", SCALED)
    assert len(line.server.asked) == 1 and again.asked == []


def test_a_kernel_that_is_not_proved_is_asked_for_again_and_then_the_compilers(one: Line, tmp_path: Path) -> None:
    name = named(SCALED, "gelu")
    one.answer(written(name), kernel("import torch\n"))
    known = bench(one, tmp_path, Authors(dispatch=AUTO, rounds=1), refused="gelu", wrong="gelu")
    result = known.run(tmp_path / "run", SCALED)
    assert result.summary["status"] == "nothing proved"
    (reason,) = result.summary["cut_again"].values()
    assert reason.startswith("none of the model's 2 answers is proved; the last one: names: ")
    assert "It is off." in one.prompts()[1]


def test_the_model_alone_leaves_to_torch_what_it_does_not_give(one: Line, tmp_path: Path) -> None:
    one.answer(kernel("import torch\n"))
    result = bench(one, tmp_path, Authors(dispatch=MODEL, rounds=0)).run(tmp_path / "run", SCALED)
    assert outcomes(tmp_path / "run") == [("add_gelu_mul", "llm", False)]
    assert list(result.summary["stays_with_torch"]) == [named(SCALED, "gelu")]


def test_a_budget_holds_over_all_parts_and_over_a_run_that_goes_on(one: Line, tmp_path: Path) -> None:
    limit, authors = 60_000, Authors(dispatch=MODEL, rounds=0)
    parts = list(cut(traced(MLP), lambda _: None).parts)
    one.answer(written(parts[0]), input_tokens=limit)
    result = bench(one, tmp_path, authors, {"model_tokens_per_job": limit}).run(tmp_path / "run")
    reasons = [reason or "" for reason in result.summary["stays_with_torch"].values()]
    assert len(one.server.asked) == 1 and len(reasons) == len(parts) - 1
    assert all(reason.startswith("the model budget of this job is reached") for reason in reasons)
    ask = asker(authors, settings(one, tmp_path, model_tokens_per_job=limit), tmp_path / LEDGER)
    Bench(authors=authors, model=ask).run(tmp_path / "run")
    assert len(one.server.asked) == 1


def test_without_a_model_its_author_is_refused_and_auto_is_the_compiler(tmp_path: Path) -> None:
    with pytest.raises(UserFacingError) as raised:
        asker(Authors(compose=MODEL), Settings(data_dir=tmp_path), tmp_path / LEDGER)
    assert raised.value.failure.code is FailureCode.model
    assert asker(Authors(AUTO, AUTO, AUTO), Settings(data_dir=tmp_path), tmp_path / LEDGER) is None


def test_a_model_changes_the_cut_in_the_words_of_a_review(line: Line, tmp_path: Path) -> None:
    line.answer({"reason": "It is small.", "wishes": ["leave 1 to torch", "keep 2 and 9 together"]})
    known = bench(
        line, tmp_path, Authors(extract=MODEL), {"model_purposes": {"extract": {f"{line.kind.name}_model": "cutter"}}}
    )
    result = known.run(tmp_path / "run")
    parts = list(cut(traced(MLP), lambda _: None).parts)
    assert [part.name for part in result.parts] == parts[1:]
    assert {"Part 1 stays with torch.", "There is no part 9: the parts are 1 to 3."} <= set(known.said)
    [asked] = line.server.asked
    assert asked.body["model"] == "cutter"
    assert f"1. {', '.join(cut(traced(MLP), lambda _: None).parts[parts[0]].operators)}" in line.prompts()[0]


@pytest.mark.parametrize("refused", ["none", "gelu"])
def test_a_cut_is_a_models_by_itself_where_the_compiler_refuses_something(
    refused: str, one: Line, tmp_path: Path
) -> None:
    if refused == "gelu":
        one.answer({"reason": "It is good.", "wishes": []})
    bench(one, tmp_path, Authors(extract=AUTO), refused=refused).run(tmp_path / "run")
    assert len(one.server.asked) == (refused == "gelu")


def test_a_cut_that_changes_the_model_fails_whoever_asked_for_it(one: Line, tmp_path: Path) -> None:
    one.answer({"reason": "It is small.", "wishes": ["leave 1 to torch"]})
    known = bench(one, tmp_path, Authors(extract=MODEL), refactored=WRONG)
    with pytest.raises(UserFacingError, match="cut into parts, the model already computes something else"):
        known.run(tmp_path / "run")


class Composing(Bench):
    """The program that the cut composes fails, any other passes."""

    def judge(self, problem: str, text: str, symbol: str, claim: Composed) -> Verdict:
        verdict = super().judge(problem, text, symbol, claim)
        return Verdict(Status.passed) if "of_a_model" in text else verdict


def entry(source: str) -> str:
    known = traced(source)
    chosen = cut(known, lambda _: None)
    return entry_of(composed_of(known, chosen, {name: f"def {name}(*given):\n    pass\n" for name in chosen.parts}))


def test_a_model_composes_where_the_composed_program_fails(line: Line, tmp_path: Path) -> None:
    right = entry(MLP).replace("linear_1", "of_a_model")
    line.answer({"source": right.replace("return ", "of_a_model = x + x\n    return ")}, {"source": right})
    authors = Authors(compose=AUTO, rounds=1)
    ask = asker(authors, settings(line, tmp_path), tmp_path / LEDGER)
    known = Composing(authors=authors, model=ask, whole=WRONG)
    result = known.run(tmp_path / "run")
    assert result.verdict is not None and result.verdict.status is Status.passed
    text = (tmp_path / "run" / "compose_out" / "composed_kernel.py").read_text()
    assert right in text
    lines = text.splitlines()
    assert {lines[place - 1].strip().split("(")[0] for place in known.claims[-1].torch_lines} >= {
        "of_a_model = torch.ops.aten.linear.default"
    }
    assert "which is no call" in line.prompts()[1]
    known.run(tmp_path / "run")
    assert len(line.server.asked) == 2


def test_a_program_that_no_model_gives_is_the_one_that_failed(one: Line, tmp_path: Path) -> None:
    one.answer({"source": "def candidate():\n    return 1\n"})
    result = bench(one, tmp_path, Authors(compose=AUTO, rounds=0), whole=WRONG).run(tmp_path / "run")
    assert result.verdict == WRONG


CHANGES = {
    "a part that is not called": ("add_gelu_mul_ID(", "print("),
    "another operator in its place": ("add_gelu_mul_ID(", "torch.ops.aten.gelu.default("),
    "one operator more": ("return ", "y = torch.ops.aten.linear.default(x, up)\n    return "),
    "arithmetic": ("return ", "y = x + x\n    return "),
    "a method": ("return ", "y = x.relu()\n    return "),
    "a change of an input": ("return ", "x[0] = x\n    return "),
    "a branch": ("return ", "if x.shape[0]:\n        pass\n    return "),
    "a function within": ("return ", "f = lambda: x\n    return "),
    "other parameters": ("def candidate(x", "def candidate(y, x"),
    "a second function": ("def candidate", "def other():\n    pass\n\n\ndef candidate"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_models_program_calls_the_same_parts_and_operators_and_does_nothing_else(change: str) -> None:
    known = traced(SCALED)
    chosen = cut(known, lambda _: None)
    (name,) = chosen.parts
    whole = composed_of(known, chosen, {name: f"def {name}(*given):\n    pass\n"})
    old, new = CHANGES[change]
    text = entry_of(whole).replace(old.replace("add_gelu_mul_ID", name), new)
    assert text != entry_of(whole)
    with pytest.raises(UnusableAnswer):
        with_entry(whole, text)
    assert with_entry(whole, entry_of(whole)) == whole
