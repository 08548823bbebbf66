"""A run: traces, cuts, has the parts written and proved, composes, and judges the whole. Each answer is kept in the run's folder,
so that an interrupted run goes on from where it was.
"""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Any, TypeVar

from gpu_runner.contracts import CaptureResult, Composed, Status, Verdict, from_json, to_json
from workers.authors.protocol import AuthorRefusal, Proposal
from workers.contracts import Failure, FailureCode, UserFacingError
from workers.fuse.cut import Cut, cut, unbiased
from workers.fuse.pages import picture, shares, subgraphs, totals
from workers.fuse.part import Part, digest_of, moves_more
from workers.fuse.program import (
    Claim,
    claims,
    composed_of,
    cut_failure,
    faults,
    first_failing,
    refactored,
    torch_anywhere,
    why,
)
from workers.fuse.traced import Traced, traced_of

T = TypeVar("T")


@dataclass(frozen=True)
class Tools:
    """What a run is carried out with; ``version`` is of whatever the answers depend on besides what is asked."""

    capture: Callable[[str], CaptureResult]  # the model's source
    propose: Callable[[str, str], Proposal | AuthorRefusal]  # a part's name and its problem
    verify: Callable[[str, str, str], Verdict]  # a part's problem, its source and the function in it
    judge: Callable[[str, str, str, Composed], Verdict]  # a problem, a program, the callable in it, what it claims
    say: Callable[[str], None]
    version: str


@dataclass(frozen=True)
class PartResult:
    """What became of a part: its source where that is proved, else why it stays with torch."""

    name: str
    source: str | None
    reason: str | None
    kernels: tuple[str, ...] = ()


@dataclass(frozen=True)
class FuseResult:
    """``verdict`` is of the whole; None where there was nothing to compose."""

    verdict: Verdict | None
    parts: tuple[PartResult, ...]
    summary: Mapping[str, Any]


class Answers:
    """The answers of a run, kept as a file of JSON."""

    def __init__(self, path: Path, version: str, *, fresh: bool) -> None:
        self._path, self._version, self._lock = path, version, Lock()
        self._known: dict[str, Any] = {}
        if path.exists() and not fresh:
            self._known = json.loads(path.read_text(encoding="utf-8"))

    def get(self, kind: type[T], what: str, text: str, ask: Callable[[], T]) -> T:
        """The answer to a question, asked once."""
        key = digest_of(f"{self._version}\0{what}\0{text}")
        if key in self._known:
            return from_json(kind, self._known[key])
        answer = ask()
        with self._lock:
            self._known[key] = to_json(answer)
            new = self._path.with_suffix(".new")
            new.write_text(json.dumps(self._known), encoding="utf-8")
            new.replace(self._path)
        return answer


@dataclass(frozen=True)
class _Written:
    """What an author answered: a source or a refusal."""

    source: str | None
    refusal: str | None


def fuse(source: str, out: Path, tools: Tools, *, jobs: int, fresh: bool = False) -> FuseResult:
    """Fuse a model into ``out``.

    Raises:
        UserFacingError: the model cannot be fused, or the environment is at fault.
    """
    model, before = out / "orchestrator" / "model.py", composed_path(out)
    model.parent.mkdir(parents=True, exist_ok=True)
    if fresh or not model.exists() or model.read_text(encoding="utf-8") != source:
        before.unlink(missing_ok=True)
    answers = Answers(out / "orchestrator" / "answers.json", tools.version, fresh=fresh)
    model.write_text(source, encoding="utf-8")
    traced = _traced(source, answers, tools)

    def holds(part: Part) -> str | None:
        return _written(part, answers, tools).refusal

    chosen = cut(traced, holds)
    _listed(out, traced, chosen)
    places = sum(map(len, chosen.places.values()))
    tools.say(f"{len(chosen.parts)} parts at {places} places; {len(chosen.kept)} operators stay with torch")
    _refactor(source, out, traced, chosen, answers, tools)
    if not chosen.parts:
        return _ended(out, traced, chosen, (), None)
    tried = dict[str, PartResult]()
    with ThreadPoolExecutor(jobs) as pool:
        while new := [part for part in chosen.parts.values() if part.name not in tried]:
            for result in pool.map(lambda part: _proved(part, out, answers, tools), new):
                tried[result.name] = result
                if result.source is None:
                    chosen = unbiased(traced, chosen, result.name, holds)
    parts = tuple(tried.values())
    _listed(out, traced, chosen)
    outcomes = [{"id": part.name, "proved": part.source is not None, "reason": part.reason} for part in parts]
    _write(out / "kernels_out" / "summary.json", outcomes)
    if not any(part.source for part in parts):
        return _ended(out, traced, chosen, parts, None)
    verdict = _composed(source, out, traced, chosen, parts, answers, tools)
    return _ended(out, traced, chosen, parts, verdict)


def composed_path(out: Path) -> Path:
    """Where a run writes the composed program."""
    return out / "compose_out" / "composed_kernel.py"


def _traced(source: str, answers: Answers, tools: Tools) -> Traced:
    tools.say("tracing")
    return traced_of(source, answers.get(CaptureResult, "capture", source, lambda: tools.capture(source)))


def _listed(out: Path, traced: Traced, chosen: Cut) -> None:
    listed = {"total": totals(traced, chosen), "subgraphs": subgraphs(chosen), "torch": dict(chosen.kept)}
    _write(out / "subgraphs.json", listed)
    (out / "cut.md").write_text(f"```mermaid\n{picture(traced, chosen)}```\n", encoding="utf-8")


def _written(part: Part, answers: Answers, tools: Tools) -> _Written:
    def ask() -> _Written:
        tools.say(f"cutting: {', '.join(part.operators[:6])}{'' if len(part.operators) < 7 else ', ...'}")
        try:
            answer = tools.propose(part.name, part.source)
        except UserFacingError as error:
            if error.failure.code is FailureCode.environment:
                raise
            return _Written(None, error.failure.message)
        if isinstance(answer, AuthorRefusal):
            return _Written(None, answer.sentence)
        refusal = moves_more(part, answer.plan)
        return _Written(None if refusal else answer.source, refusal)

    return answers.get(_Written, "compile", part.source, ask)


def _refactor(source: str, out: Path, traced: Traced, chosen: Cut, answers: Answers, tools: Tools) -> None:
    """Write the refactored program, and hold it against the model: a cut that changes what is computed is a fault of the cut."""
    fused = refactored(traced, chosen)
    tools.say("judging the refactored program")
    verdict = _judged(source, traced, fused, torch_anywhere(fused), answers, tools)
    folder = out / "orchestrator"
    (folder / "fused.py").write_text(fused, encoding="utf-8")
    _write(folder / "verdict.json", to_json(verdict))
    _pack(folder / "code.py.tgz", {"model.py": source, "fused.py": fused})
    if verdict.status is not Status.passed:
        raise UserFacingError(cut_failure(verdict))


def _proved(part: Part, out: Path, answers: Answers, tools: Tools) -> PartResult:
    """Have a part proved that was written; one that fails has no source."""
    source = _written(part, answers, tools).source
    assert source is not None, "a part of the cut is one that the author wrote"
    folder = out / "kernels_out" / part.name
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "problem.py").write_text(part.source, encoding="utf-8")
    (folder / "candidate.py").write_text(source, encoding="utf-8")
    asked = f"{part.source}\0{source}"
    verdict = answers.get(Verdict, "verify", asked, lambda: tools.verify(part.source, source, part.name))
    _write(folder / "verdict.json", to_json(verdict))
    tools.say(f"{part.name}: {verdict.status.value}")
    if verdict.status is not Status.passed:
        return PartResult(part.name, None, why(verdict))
    return PartResult(part.name, source, None, verdict.kernels)


def _composed(
    source: str, out: Path, traced: Traced, chosen: Cut, parts: tuple[PartResult, ...], answers: Answers, tools: Tools
) -> Verdict:
    bodies = {part.name: part.source for part in parts if part.source is not None}
    whole = composed_of(traced, chosen, bodies)
    path = composed_path(out)
    folder = path.parent
    folder.mkdir(exist_ok=True)
    found = faults(path.read_text(encoding="utf-8"), whole, bodies) if path.exists() else []
    if found:
        message = f"{path} is not what the run composes: {found[0]}"
        raise UserFacingError(Failure(FailureCode.refused, message, "Start over with --fresh, or move the file away."))
    path.write_text(whole.source, encoding="utf-8")
    (folder / "problem.py").write_text(traced.problem.source, encoding="utf-8")
    tools.say("judging the whole")
    kernels = tuple(dict.fromkeys(kernel for part in parts for kernel in part.kernels if part.source))
    verdict = _judged(source, traced, whole.source, Composed(whole.torch_lines, kernels), answers, tools)
    _write(folder / "verdict.json", to_json(verdict))
    _write(folder / "summary.json", {"status": verdict.status.value, "calls": dict(whole.calls), "kernels": kernels})
    return verdict


def _judged(source: str, traced: Traced, text: str, composed: Composed, answers: Answers, tools: Tools) -> Verdict:
    def judged(claim: Claim) -> Verdict:
        asked = f"{claim.problem}\0{text}\0{claim.composed}"
        ask = partial(tools.judge, claim.problem, text, claim.symbol, claim.composed)
        return answers.get(Verdict, f"judge {claim.symbol}", asked, ask)

    return first_failing(map(judged, claims(traced, source, composed)))


def _ended(
    out: Path, traced: Traced, chosen: Cut, parts: tuple[PartResult, ...], verdict: Verdict | None
) -> FuseResult:
    proved = [part.name for part in parts if part.source]
    failed = {part.name: part.reason for part in parts if part.reason}
    summary = {
        **totals(traced, chosen),
        **shares(traced, chosen, proved),
        "saved_bytes": sum(chosen.saving(name) for name in proved),
        "proved": proved,
        "stays_with_torch": {name: reason for name, reason in failed.items() if name in chosen.parts},
        "cut_again": {name: reason for name, reason in failed.items() if name not in chosen.parts},
        "status": verdict.status.value if verdict is not None else "nothing proved" if parts else "nothing to gain",
        "why": None if verdict is None or verdict.status is Status.passed else why(verdict),
    }
    _write(out / "summary.json", summary)
    return FuseResult(verdict, parts, summary)


def _write(path: Path, form: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(form, indent=1) + "\n", encoding="utf-8")


def _pack(path: Path, files: Mapping[str, str]) -> None:
    with tarfile.open(path, "w:gz") as archive:
        for name, text in files.items():
            data = text.encode()
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
