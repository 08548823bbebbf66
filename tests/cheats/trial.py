"""Judges the files of this folder as the runner does, the truth of a problem asked for only once."""

from __future__ import annotations

import functools
import re
import tempfile
from pathlib import Path

from gpu_runner.context import RunContext
from gpu_runner.contracts import CandidateSource, Limits, SourceFile, Verdict, VerifyRequest, parse_problem
from gpu_runner.session import has_gpu
from gpu_runner.verify.cases import Content, MemoryLayout
from gpu_runner.verify.judge import choose_cases, judge, prove
from gpu_runner.verify.proof import Proof
from tests.cheats.table_new import NEW
from tests.problems import problem_source

HERE = Path(__file__).parent
HUNK = re.compile(r"@@ -(\d+)(?:,(\d+))? \+\d+(?:,\d+)? @@")


def surroundings() -> RunContext:
    return RunContext(Path(tempfile.gettempdir()), Limits(step_s=100.0))


def source(path: Path, symbol: str = "candidate") -> CandidateSource:
    return CandidateSource((SourceFile("candidate.py", path.read_text()),), symbol=symbol)


def cheat(name: str) -> CandidateSource:
    return CandidateSource((SourceFile("candidate.py", cheat_bytes(name).decode("utf-8")),))


def cheat_bytes(name: str) -> bytes:
    """The bytes of a cheat: ``NAME.py``, or what ``NAME.diff`` makes of an honest candidate or another cheat. Those that attack
    the reading of a file end in ``.py.bin``, since tools read every ``.py`` as text."""
    plain = HERE / "forms" / f"{name}.py"
    if (diff := plain.with_suffix(".diff")).exists():
        return patched(diff.read_text(), HERE.parent).encode()
    return (plain if plain.exists() else plain.with_suffix(".py.bin")).read_bytes()


def patched(diff: str, folder: Path) -> str:
    """The text that a unified diff makes of the file that its first line names in ``folder``.

    Raises:
        ValueError: the file has other lines than the diff says.
    """
    name, _, *lines = diff.removeprefix("--- ").removesuffix("\n").split("\n")
    old = (folder / name).read_text().split("\n")
    new: list[str] = []
    place = 0
    for line in lines:
        if hunk := HUNK.match(line):
            begin = int(hunk[1]) - (hunk[2] != "0")
            new += old[place:begin]
            place = begin
        elif line.startswith("+"):
            new.append(line[1:])
        elif old[place] != line[1:]:
            raise ValueError(f"line {place + 1} is {old[place]!r}, and {line[1:]!r} in the diff of {name}")
        else:
            new += [] if line.startswith("-") else [line[1:]]
            place += 1
    return "\n".join([*new, *old[place:]])


def source_of_problem(name: str) -> str:
    """The text of a problem of all tests, or of one that honest candidates or these have besides."""
    folders = (HERE / "problems", HERE.parent / "honest" / "problems")
    found = [folder / f"{name}.py" for folder in folders if (folder / f"{name}.py").is_file()]
    return found[0].read_text() if found else problem_source(name)


@functools.lru_cache(maxsize=1 if has_gpu() else None)  # there they take gigabytes
def proofs(name: str, dtype: str = "float32", around: str = "") -> tuple[Proof, ...]:
    """Cases of a problem in one dtype, or in several with commas between them; ``around`` the constants of that cheat."""
    candidate = cheat(around) if around else CandidateSource(())
    request = VerifyRequest(source_of_problem(name), candidate, dtypes=tuple(dtype.split(",")))
    problem = parse_problem(request.problem_source)
    return tuple(prove(problem, choose_cases(request, problem, not has_gpu()), surroundings())[0])


def whole_verdict(name: str) -> Verdict:
    """What a verdict with cases of its own, in the dtype in which it is wrong, says of a cheat."""
    problem, dtypes = (NEW[name].problem, tuple(NEW[name].dtype.split(","))) if name in NEW else ("reglu", ("float32",))
    return judge(VerifyRequest(source_of_problem(problem), cheat(name), dtypes=dtypes), surroundings())


def seen_through(name: str) -> tuple[Proof, ...]:
    """Few cases in which it is seen who writes into arguments: numbers that lie one beside the other, and a second backward."""
    plain = [
        proof
        for proof in proofs(name)
        if proof.case.layout == proof.case.upstream == MemoryLayout.dense and proof.case.content == Content.ordinary
    ]
    again = next(proof for proof in proofs(name) if proof.case.again)
    return (*sorted(plain, key=lambda proof: not proof.case.measured)[:2], again)
