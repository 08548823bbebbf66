"""A run: what it writes, that it goes on from where it was, and what becomes of parts and programs that fail."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from gpu_runner.contracts import CaptureResult, Composed, Evidence, Status, Verdict, parse_problem
from tests.workers.fuse.models import MLP, RESNET, SCALED, captured, module_of
from workers.authors.llm.protocol import KernelBrief
from workers.authors.protocol import AuthorRefusal, KernelPlan, Proposal
from workers.contracts import Failure, FailureCode, UserFacingError
from workers.fuse.part import Part, style_of
from workers.fuse.run import BY_COMPILER, Authors, FuseResult, Tools, fuse
from workers.models.protocol import Answer, Question

PLAN = KernelPlan("", 1, (), "", (), (), "", (), "", "", "", False, "", "", "", "")
WRONG = Verdict(Status.incorrect_values, (Evidence("values", "It is off."),))


@dataclass
class Bench:
    """Tools that answer without a runner; a part is written as its own reference."""

    wrong: str = "none"  # of a part with this operator the verdict is that it is wrong
    refused: str = "none"
    whole: Verdict = field(default_factory=lambda: Verdict(Status.passed))
    stop_at: str = ""  # where the run is interrupted
    asked: list[str] = field(default_factory=list)
    claims: list[Composed] = field(default_factory=list)
    said: list[str] = field(default_factory=list)
    refactored: Verdict = field(default_factory=lambda: Verdict(Status.passed))
    authors: Authors = BY_COMPILER
    model: Callable[[Question], Answer] | None = None

    def _ask(self, what: str) -> None:
        if what == self.stop_at:
            raise KeyboardInterrupt
        self.asked.append(what)

    def capture(self, source: str) -> CaptureResult:
        self._ask("capture")
        return captured(source)

    def propose(self, name: str, problem: str) -> Proposal | AuthorRefusal:
        self._ask("propose")
        if f"aten.{self.refused}." in problem:
            return AuthorRefusal(f"it has no way to express `{self.refused}` yet")
        return Proposal(f"import math\n\nimport torch\n\n\n{module_text(problem, name)}", PLAN)

    def verify(self, problem: str, source: str, name: str) -> Verdict:
        self._ask("verify")
        return WRONG if f"aten.{self.wrong}." in problem else Verdict(Status.passed, kernels=(f"_{name}_kernel",))

    def judge(self, problem: str, text: str, symbol: str, claim: Composed) -> Verdict:
        self._ask("judge")
        self.claims.append(claim)
        return self.whole if claim.kernels else self.refactored

    def brief(self, part: Part) -> KernelBrief:
        return KernelBrief(part.name, "candidate.py", parse_problem(part.source), None, style_of(part.name))

    def run(self, out: Path, source: str = MLP, **more: bool) -> FuseResult:
        asks = self.capture, self.propose, self.verify, self.judge
        tools = Tools(*asks, self.said.append, "1", self.authors, self.brief, self.model)
        return fuse(source, out, tools, jobs=1, **more)


def module_text(problem: str, name: str) -> str:
    return problem.partition("def reference")[2].partition("INPUTS")[0].join([f"def {name}", ""])


def test_a_run_leaves_its_folder(tmp_path: Path) -> None:
    result = Bench().run(tmp_path)
    assert result.verdict is not None and result.verdict.status is Status.passed
    names = [row["id"] for row in json.loads((tmp_path / "subgraphs.json").read_text())["subgraphs"]]
    assert len(names) == 3
    for name in names:
        assert {p.name for p in (tmp_path / "kernels_out" / name).iterdir()} == {
            "problem.py",
            "candidate.py",
            "verdict.json",
        }
    assert [row["id"] for row in json.loads((tmp_path / "kernels_out" / "summary.json").read_text())] == names
    with tarfile.open(tmp_path / "orchestrator" / "code.py.tgz") as archive:
        assert archive.getnames() == ["model.py", "fused.py"]
    assert "flowchart TD" in (tmp_path / "cut.md").read_text()
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert (summary["status"], summary["calls"], summary["operators"], summary["left_to_torch"]) == ("passed", 3, 10, 2)
    assert (tmp_path / "compose_out" / "problem.py").read_text() == MLP
    composed = (tmp_path / "compose_out" / "composed_kernel.py").read_text()
    assert all(hasattr(module_of(composed), name) for name in names)


def test_the_claim_of_the_whole_names_every_kernel(tmp_path: Path) -> None:
    bench = Bench()
    result = bench.run(tmp_path)
    assert set(bench.claims[-1].kernels) == {f"_{part.name}_kernel" for part in result.parts}


@pytest.mark.parametrize("stop", ["propose", "verify", "judge"])
def test_an_interrupted_run_goes_on_from_where_it_was(stop: str, tmp_path: Path) -> None:
    first, second = Bench(stop_at=stop), Bench()
    with pytest.raises(KeyboardInterrupt):
        first.run(tmp_path)
    second.run(tmp_path)
    alone = Bench()
    alone.run(tmp_path / "alone")
    assert first.asked and first.asked + second.asked == alone.asked


def test_a_finished_run_asks_nothing_again_unless_it_starts_over(tmp_path: Path) -> None:
    Bench().run(tmp_path)
    again = Bench()
    again.run(tmp_path)
    assert again.asked == []
    again.run(tmp_path, fresh=True)
    assert again.asked


def test_a_part_that_fails_stays_with_torch_and_the_rest_is_composed(tmp_path: Path) -> None:
    result = Bench(wrong="gelu").run(tmp_path)
    [kept] = [part for part in result.parts if part.source is None]
    assert kept.reason == "incorrect_values: It is off." and "gelu" in kept.name
    composed = (tmp_path / "compose_out" / "composed_kernel.py").read_text()
    assert kept.name not in composed and "torch.ops.aten.gelu.default(linear)" in composed
    assert result.summary["stays_with_torch"] == {kept.name: kept.reason}
    assert result.summary["calls"] == 2


def test_a_part_that_fails_with_a_bias_is_tried_without(tmp_path: Path) -> None:
    bench = Bench(wrong="add")
    result = bench.run(tmp_path, SCALED)
    assert [(part.name.rpartition("_")[0], part.source is not None) for part in result.parts] == [
        ("add_gelu_mul", False),
        ("gelu_mul", True),
    ]
    assert result.verdict is not None and result.verdict.status is Status.passed
    assert result.summary["cut_again"] == {result.parts[0].name: "incorrect_values: It is off."}
    assert result.summary["stays_with_torch"] == {}
    assert [row["id"] for row in json.loads((tmp_path / "subgraphs.json").read_text())["subgraphs"]] == [
        result.parts[1].name
    ]
    composed = (tmp_path / "compose_out" / "composed_kernel.py").read_text()
    assert "torch.ops.aten.linear.default(x, up, b)" in composed and "aten.add" not in composed
    assert bench.asked.count("verify") == 2
    asked = list(bench.asked)
    bench.run(tmp_path, SCALED)
    assert bench.asked == asked


def test_a_part_that_fails_without_a_bias_too_is_not_tried_again(tmp_path: Path) -> None:
    bench = Bench(wrong="gelu")
    result = bench.run(tmp_path, SCALED)
    assert result.verdict is None and result.summary["status"] == "nothing proved"
    assert bench.asked.count("verify") == 2


def test_a_program_that_computes_something_else_fails(tmp_path: Path) -> None:
    result = Bench(whole=WRONG).run(tmp_path)
    assert result.verdict == WRONG and result.summary["why"] == "incorrect_values: It is off."


def test_a_composed_file_that_was_changed_is_refused(tmp_path: Path) -> None:
    Bench().run(tmp_path)
    path = tmp_path / "compose_out" / "composed_kernel.py"
    text = path.read_text()
    path.write_text(text.replace("torch.ops.aten.relu.default(x0)", "torch.ops.aten.relu.default(x0 * 1)"))
    with pytest.raises(UserFacingError, match="differs from what the run composes: the part `relu_mul_add_"):
        Bench().run(tmp_path)
    Bench().run(tmp_path, fresh=True)
    assert path.read_text() == text


def test_where_no_part_saves_anything_nothing_is_composed(tmp_path: Path) -> None:
    result = Bench(refused="batch_norm").run(tmp_path, RESNET)
    assert {part.name.rpartition("_")[0] for part in result.parts} == {"add_relu"}
    result = Bench(refused="relu").run(tmp_path / "none", RESNET)
    assert all("relu" not in part.name for part in result.parts)


def test_a_model_that_cannot_be_traced_is_refused_with_its_reason(tmp_path: Path) -> None:
    tools = Tools(
        lambda _: CaptureResult(None, "it draws random numbers", 7, "Call eval()."),
        *(Bench().propose, Bench().verify, Bench().judge, lambda _: None, "1"),
    )
    with pytest.raises(UserFacingError) as raised:
        fuse(MLP, tmp_path, tools, jobs=1)
    expected = Failure(FailureCode.problem, "the model cannot be traced: it draws random numbers", "Call eval().", 7)
    assert raised.value.failure == expected


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (Status.incorrect_values, "cut into parts, the model already computes something else in PyTorch"),
        (Status.degenerate_problem, "the model cannot be judged: degenerate_problem: Zeros pass."),
    ],
)
def test_a_refactored_program_that_fails_ends_the_run(status: Status, message: str, tmp_path: Path) -> None:
    verdict = Verdict(status, (Evidence("values", "Zeros pass."),))
    with pytest.raises(UserFacingError, match=message):
        Bench(refactored=verdict).run(tmp_path)
