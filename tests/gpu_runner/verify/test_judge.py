"""From the request to the verdict where no candidate is judged: the problem, the files or the host is at fault."""

from __future__ import annotations

import io
import math
import tarfile
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest

from gpu_runner import verify
from gpu_runner.context import RunContext
from gpu_runner.contracts import CandidateSource, Evidence, SourceFile, Status, Verdict, VerifyRequest
from gpu_runner.scratch import ScratchError
from gpu_runner.verify import judge as judge_module
from gpu_runner.verify.judge import judge
from gpu_runner.verify.opening import candidate_session
from tests.cheats.trial import surroundings
from tests.honest.table import KERNELS
from tests.problems import problem_source

REGLU = (KERNELS / "reglu.py").read_text()
ONE_INPUT = '\nINPUTS = {"x": "T H"}\nWORKLOADS = [{"T": 64, "H": 64}]\nDTYPES = ["float32"]\n'


def judged(problem: str, candidate: str = REGLU, **more: object) -> Verdict:
    source = CandidateSource((SourceFile("candidate.py", candidate),))
    return verify.run(VerifyRequest(problem, source, **more), RunContext(Path(tempfile.gettempdir())))  # type: ignore[arg-type]


def test_a_problem_that_cannot_be_parsed_is_refused_with_its_line() -> None:
    verdict = judged("import torch\nimport os\n")
    assert (verdict.status, verdict.rule) == (Status.refused, "problem")
    assert verdict.evidence[0].line == 2


def test_a_reference_that_does_not_run_is_refused_with_its_line() -> None:
    verdict = judged("import torch\n\n\ndef reference(x):\n    return torch.nonsense(x)\n\n" + ONE_INPUT)
    assert (verdict.status, verdict.rule) == (Status.refused, "problem")
    assert "nonsense" in verdict.evidence[0].message
    assert verdict.evidence[0].line == 5


def test_a_problem_whose_answer_is_trivial_is_degenerate() -> None:
    verdict = judged("import torch\n\n\ndef reference(x):\n    return x * 0.0\n\n" + ONE_INPUT)
    assert verdict.status is Status.degenerate_problem
    assert "zeros" in verdict.evidence[0].message


def test_an_accusation_without_a_line_of_its_own_has_that_of_the_candidate() -> None:
    text = "import torch\n\n\ndef candidate(x):\n    return torch.empty_like(x)\n"
    idle = CandidateSource((SourceFile("candidate.py", text),))
    evidence = Evidence("launch", "No kernel ran."), Evidence("values", "They are off.")
    for status, line in ((Status.cheating, 4), (Status.incorrect_values, None)):
        lines = [one.line for one in judge_module._with_a_line(Verdict(status, evidence), idle).evidence]
        assert lines == [line, None]


def test_a_problem_of_kernelbench_names_the_dtypes_that_it_is_not_judged_in() -> None:
    file = SourceFile("candidate.py", (KERNELS / "kernelbench_relu.py").read_text())
    request = VerifyRequest(problem_source("kernelbench_relu"), CandidateSource((file,), symbol="ModelNew"), quick=True)
    verdict = verify.run(request, RunContext(Path(tempfile.gettempdir())))
    assert verdict.status is Status.passed
    assert {check.workload for check in verdict.checks if check.name == "dtype_left_out"} == {"bfloat16", "float16"}


def test_a_size_in_the_candidate_beyond_the_reach_of_the_host_is_named() -> None:
    far = REGLU.replace("import torch\n", "import torch\n\nFAR = 1_000_003\n", 1)
    for source, expected in ((REGLU, set()), (far, {"T", "I"})):
        verdict = judged(problem_source("reglu"), source, quick=True)
        named = {check.workload.split(" > ")[0] for check in verdict.checks if check.name == "constant_left_out"}
        assert named >= expected if expected else "I" not in named


def test_a_candidate_that_cannot_be_imported_is_a_compile_error_with_its_line() -> None:
    verdict = judged(problem_source("reglu"), "import torch\n\nx = torch.empty(3).shape[7]\n", quick=True)
    assert verdict.status is Status.compile_error
    assert verdict.evidence[0].line == 3
    assert verdict.quick


def test_a_candidate_in_a_library_is_judged_in_its_tree() -> None:
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / "tree.tar.gz"
        _write_tree(tree, {"repo-1/src/lib/__init__.py": "", "repo-1/src/lib/settings.py": "BLOCK = 4096\n"})
        text = REGLU.replace("import torch\n", "import torch\n\nfrom lib.settings import BLOCK\n", 1).replace(
            "4096", "BLOCK"
        )
        source = CandidateSource(
            (SourceFile("src/lib/reglu.py", text),), "lib.reglu", "ReGLU.apply", "tree.tar.gz", ("src",)
        )
        context = RunContext(Path(folder))
        verdict = verify.run(VerifyRequest(problem_source("reglu"), source, quick=True), context)
    assert verdict.evidence == ()
    assert verdict.status is Status.passed
    assert context.levels()


def test_files_named_like_the_runners_own_modules_are_not_loaded_in_their_place() -> None:
    files = [
        SourceFile(f"{name}.py", "raise ValueError('not the real one')\n") for name in ("torch", "triton", "numpy")
    ]
    source = CandidateSource((SourceFile("candidate.py", REGLU), *files))
    request = VerifyRequest(problem_source("reglu"), source, dtypes=("float32",), quick=True)
    assert verify.run(request, RunContext(Path(tempfile.gettempdir()))).status is Status.passed


def test_a_tree_that_is_not_there_is_refused() -> None:
    source = CandidateSource((SourceFile("candidate.py", REGLU),), tree="../elsewhere.tar.gz")
    context = RunContext(Path(tempfile.gettempdir()))
    verdict = verify.run(VerifyRequest(problem_source("reglu"), source, quick=True), context)
    assert (verdict.status, verdict.rule) == (Status.refused, "files")


HIDDEN = "# coding: utf-7\n# +AAo-raise SystemExit\n"


def test_a_file_that_is_not_screened_has_one_reading_too() -> None:
    files = (SourceFile("candidate.py", REGLU), SourceFile("more.py", HIDDEN))
    source = CandidateSource(files, screened=("candidate.py",))
    request = VerifyRequest(problem_source("reglu"), source, dtypes=("float32",), quick=True)
    verdict = verify.run(request, RunContext(Path(tempfile.gettempdir())))
    assert (verdict.status, verdict.rule) == (Status.refused, "files")
    assert "more.py: line 1" in verdict.evidence[0].message


def test_a_screened_file_of_the_tree_has_one_reading(tmp_path: Path) -> None:
    _write_tree(tmp_path / "tree.tar.gz", {"repo-1/lib/more.py": HIDDEN, "repo-1/lib/people.py": HIDDEN})
    files = (SourceFile("candidate.py", REGLU),)
    context = RunContext(tmp_path)
    source = CandidateSource(files, tree="tree.tar.gz", screened=("candidate.py", "lib/more.py"))
    with pytest.raises(ScratchError, match=r"more\.py: line 1"):
        candidate_session("candidate", source, context)
    candidate_session("candidate", replace(source, screened=("candidate.py",)), context)


def _write_tree(path: Path, files: dict[str, str]) -> None:
    with tarfile.open(path, "w:gz") as archive:
        for name, text in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(text.encode())
            archive.addfile(info, io.BytesIO(text.encode()))


def _errs(error: float, count: int = 1, status: Status = Status.incorrect_values) -> Verdict:
    evidence = Evidence("values", "The error is too large.", "T=5 float16", "output 0", error=error, allowed=1.0)
    return Verdict(status, evidence=(evidence,) * count)


_RACE = Verdict(Status.nondeterministic, rule="race", evidence=(Evidence("values", "A kernel writes over another."),))


@pytest.mark.parametrize(
    ("first", "seed", "ended"),
    [
        (_errs(1.9), None, Status.passed),
        (_errs(1.9, 2), None, Status.passed),
        (_errs(1.9, 3), None, Status.incorrect_values),
        (_errs(3.1), None, Status.incorrect_values),
        (_errs(math.nan), None, Status.incorrect_values),
        (_errs(1.9, status=Status.nondeterministic), None, Status.passed),
        (_errs(3.1, status=Status.nondeterministic), None, Status.nondeterministic),
        (_RACE, None, Status.nondeterministic),
        (_errs(1.9), "0" * 32, Status.incorrect_values),
        (replace(_errs(1.9, status=Status.unproved), rule=judge_module.INTERPRETED), None, Status.passed),
        (replace(_errs(3.1, status=Status.unproved), rule=judge_module.INTERPRETED), None, Status.unproved),
        (Verdict(Status.unproved, evidence=(Evidence("imported", "It does something else."),)), None, Status.unproved),
    ],
)
def test_a_narrow_failure_is_drawn_once_more(
    first: Verdict, seed: str | None, ended: Status, monkeypatch: pytest.MonkeyPatch
) -> None:
    verdicts = iter((first, Verdict(Status.passed)))
    monkeypatch.setattr(judge_module, "_judge_once", lambda *_, **__: next(verdicts))
    verdict = judge(VerifyRequest("", CandidateSource(())), replace(surroundings(), seed=seed))
    assert verdict.status is ended
    again = [(check.name, check.error, check.allowed) for check in verdict.checks]
    assert again == ([("once_more", 1.9, 1.0)] if ended is Status.passed else [])


def test_what_fails_twice_fails_as_it_did_the_second_time(monkeypatch: pytest.MonkeyPatch) -> None:
    verdicts = iter((_errs(1.5), _errs(1.2)))
    monkeypatch.setattr(judge_module, "_judge_once", lambda *_, **__: next(verdicts))
    assert judge(VerifyRequest("", CandidateSource(())), surroundings()) == _errs(1.2)
