"""A run: traces, cuts, has the parts written and proved, composes, and judges the whole. Each answer is kept in the run's folder,
so that an interrupted run goes on from where it was. What a language model answers passes the gates of what the compiler writes.
"""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Any, TypeVar

from gpu_runner.contracts import CaptureResult, Composed, Status, Verdict, from_json, to_json
from workers.authors.llm import (
    composition_question,
    cut_question,
    kernel_question,
    read_composition,
    read_kernel,
    read_wishes,
)
from workers.authors.llm.failures import failed_verdict
from workers.authors.llm.protocol import CompositionBrief, CutBrief, Failed, KernelBrief, UnusableAnswer
from workers.authors.protocol import AuthorRefusal, Proposal
from workers.contracts import AuthorName, Failure, FailureCode, UserFacingError
from workers.fuse.cut import Cut, Holds, cut, divided, simpler
from workers.fuse.operators import packet_of
from workers.fuse.pages import picture, shares, subgraphs, totals
from workers.fuse.part import Part, digest_of, moves_more
from workers.fuse.program import (
    Claim,
    Program,
    claims,
    composed_of,
    cut_failure,
    entry_of,
    faults,
    first_failing,
    refactored,
    torch_anywhere,
    why,
    with_entry,
)
from workers.fuse.review import revised
from workers.fuse.traced import Traced, traced_of
from workers.models.protocol import Answer, ModelError, Question

T = TypeVar("T")


@dataclass(frozen=True)
class Authors:
    """Who cuts, writes parts and composes: the compiler, a model, or ``auto``, a model where the compiler refuses or fails.

    A model sees at most ``rounds`` times what failed of its answer.
    """

    extract: AuthorName = AuthorName.compiler
    dispatch: AuthorName = AuthorName.compiler
    compose: AuthorName = AuthorName.compiler
    rounds: int = 3


BY_COMPILER = Authors()


@dataclass(frozen=True)
class Tools:
    """What a run is carried out with; ``version`` is of whatever the answers depend on besides what is asked."""

    capture: Callable[[str], CaptureResult]  # the model's source
    propose: Callable[[str, str], Proposal | AuthorRefusal]  # a part's name and its problem
    verify: Callable[[str, str, str], Verdict]  # a part's problem, its source and the function in it
    judge: Callable[[str, str, str, Composed], Verdict]  # a problem, a program, the callable in it, what it claims
    say: Callable[[str], None]
    version: str
    authors: Authors = BY_COMPILER
    brief: Callable[[Part], KernelBrief | None] = lambda part: None  # what a model is told of a part that runs
    ask: Callable[[Question], Answer] | None = None  # within the run's budget; None: no model is configured

    def asks(self, author: AuthorName) -> bool:
        """Whether a model takes part in what an author does."""
        return self.ask is not None and author is not AuthorName.compiler


@dataclass(frozen=True)
class PartResult:
    """What became of a part: its source where that is proved, else why it stays with torch."""

    name: str
    source: str | None
    reason: str | None
    kernels: tuple[str, ...] = ()
    by_model: bool = False


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
        self.refusals = set[str]()  # of the compiler, as far as they were asked for in this process
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
    traced, authors = _traced(source, answers, tools), tools.authors

    def refusal(part: Part) -> str | None:
        return _written(part, answers, tools).refusal

    def holds(part: Part) -> str | None:
        return None if tools.asks(authors.dispatch) and tools.brief(part) is not None else refusal(part)

    chosen = _revised(source, traced, cut(traced, holds), holds, answers, tools)
    _listed(out, traced, chosen)
    places = sum(map(len, chosen.places.values()))
    tools.say(f"parts: {len(chosen.parts)}, at {places} places; operators left to torch: {len(chosen.kept)}")
    _refactor(source, out, traced, chosen, answers, tools)
    if not chosen.parts:
        return _ended(out, traced, chosen, (), None)
    tried = dict[str, PartResult]()
    with ThreadPoolExecutor(jobs) as pool:
        while new := [part for part in chosen.parts.values() if part.name not in tried]:
            for result in pool.map(lambda part: _proved(part, out, answers, tools), new):
                tried[result.name] = result
                if result.source is None and not result.by_model:
                    chosen = simpler(traced, chosen, result.name, refusal)
                elif result.source is None and authors.dispatch is AuthorName.auto:
                    chosen = divided(traced, chosen, result.name, refusal)
    parts = tuple(tried.values())
    _listed(out, traced, chosen)
    outcomes = [
        {
            "id": part.name,
            "author": (AuthorName.llm if part.by_model else AuthorName.compiler).value,
            "proved": part.source is not None,
            "reason": part.reason,
        }
        for part in parts
    ]
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

    written = answers.get(_Written, "compile", part.source, ask)
    answers.refusals |= {written.refusal} if written.refusal else set()
    return written


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


def _revised(source: str, traced: Traced, chosen: Cut, holds: Holds, answers: Answers, tools: Tools) -> Cut:
    """A cut as a model asks in the words of a review; as it is where no model takes part, or the compiler refused nothing."""
    author = tools.authors.extract
    refused = [reason for reason in chosen.kept.values() if reason in answers.refusals]
    if not tools.asks(author) or not chosen.parts or (author is AuthorName.auto and not refused):
        return chosen
    listed = "\n".join(
        f"{number}. {', '.join(part.operators)}: {len(chosen.places[part.name])} places, saves {chosen.saving(part.name)} bytes"
        for number, part in enumerate(chosen.parts.values(), 1)
    )
    kept = "\n".join(f"{packet_of(traced.nodes[n].op)}: {why}" for n, why in chosen.kept.items() if n in traced.nodes)
    tools.say("asking a model about the cut")
    try:
        wished = read_wishes(
            _asked(cut_question(CutBrief(source, listed, kept, picture(traced, chosen))), answers, tools)
        )
    except (UnusableAnswer, ModelError, UserFacingError) as error:
        tools.say(f"the cut is unchanged: {_passing(error)}")
        return chosen
    revised_cut, answered = revised(traced, chosen, wished, holds)
    for sentence in answered if wished else ():
        tools.say(sentence)
    return revised_cut


def _asked(question: Question, answers: Answers, tools: Tools) -> Answer:
    ask = tools.ask
    assert ask is not None, "a model that takes part is there"
    return answers.get(Answer, "ask", json.dumps(to_json(question)), lambda: ask(question))


def _passing(error: Exception) -> str:
    """Why a model gave nothing that can be used.

    Raises:
        UserFacingError: another one than that, which ends the run.
    """
    if isinstance(error, UserFacingError):
        if error.failure.code not in (FailureCode.model, FailureCode.budget):
            raise error
        return error.failure.message
    return str(error)


def _searched(
    question: Callable[[Failed | None, int], Question],
    read: Callable[[Answer, Failed | None], T],
    judged: Callable[[T], Verdict],
    text: Callable[[T], str],
    answers: Answers,
    tools: Tools,
) -> tuple[T, Verdict] | str:
    """A model's first answer that is proved, with its verdict; or why there is none. It sees what failed of the one before."""
    failed: Failed | None = None
    for round_ in range(1 + tools.authors.rounds):
        try:
            answer = _asked(question(failed, round_), answers, tools)
        except (ModelError, UserFacingError) as error:
            return _passing(error)
        try:
            made = read(answer, failed)
        except UnusableAnswer as error:
            failed = Failed(str((answer.data or {}).get("source", "")), error.fault.value, str(error))
            continue
        verdict = judged(made)
        if verdict.status is Status.passed:
            return made, verdict
        failed = failed_verdict(verdict, text(made))
    assert failed is not None, "a search has a round"
    return f"none of the model's {1 + tools.authors.rounds} answers is proved; the last one: {failed.status}: {failed.sentence}"


def _by_model(part: Part, refusal: str | None, answers: Answers, tools: Tools) -> tuple[str, Verdict] | str:
    """A model's file of a part with its verdict, or why there is none; ``refusal`` is the compiler's, where that was asked."""
    told = tools.brief(part)
    assert told is not None, "a part that a model writes is one that runs"
    brief = replace(told, refused=refusal)
    tools.say(f"{part.name}: asking a model")
    return _searched(
        lambda failed, round_: kernel_question(replace(brief, failed=failed), round_),
        lambda answer, failed: read_kernel(answer, replace(brief, failed=failed)).source,
        lambda source: _verdict(part, source, answers, tools),
        str,
        answers,
        tools,
    )


def _verdict(part: Part, source: str, answers: Answers, tools: Tools) -> Verdict:
    asked = f"{part.source}\0{source}"
    return answers.get(Verdict, "verify", asked, lambda: tools.verify(part.source, source, part.name))


def _proved(part: Part, out: Path, answers: Answers, tools: Tools) -> PartResult:
    """Have a part written and proved; one that fails has no source."""
    folder = out / "kernels_out" / part.name
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "problem.py").write_text(part.source, encoding="utf-8")
    written = _Written(None, None) if tools.authors.dispatch is AuthorName.llm else _written(part, answers, tools)
    source, by_model = written.source, written.source is None
    if source is None:
        found = _by_model(part, written.refusal, answers, tools)
        if isinstance(found, str):
            tools.say(f"{part.name}: {found}")
            return PartResult(part.name, None, found, by_model=True)
        source, verdict = found
    else:
        verdict = _verdict(part, source, answers, tools)
    (folder / "candidate.py").write_text(source, encoding="utf-8")
    _write(folder / "verdict.json", to_json(verdict))
    tools.say(f"{part.name}: {verdict.status.value}")
    if verdict.status is not Status.passed:
        return PartResult(part.name, None, why(verdict))
    return PartResult(part.name, source, None, verdict.kernels, by_model)


def _composed(
    source: str, out: Path, traced: Traced, chosen: Cut, parts: tuple[PartResult, ...], answers: Answers, tools: Tools
) -> Verdict:
    bodies = {part.name: part.source for part in parts if part.source is not None}
    whole = composed_of(traced, chosen, bodies)
    kernels = tuple(dict.fromkeys(kernel for part in parts for kernel in part.kernels if part.source))

    def judged(program: Program) -> Verdict:
        claim = Composed(program.torch_lines, kernels)
        return _judged(source, traced, program.source, claim, answers, tools)

    tools.say("judging the whole")
    whole, verdict = _whole(source, whole, [chosen.parts[name] for name in whole.calls], judged, answers, tools)
    path = composed_path(out)
    folder = path.parent
    folder.mkdir(exist_ok=True)
    found = faults(path.read_text(encoding="utf-8"), whole, bodies) if path.exists() else []
    if found:
        message = f"{path} differs from what the run composes: {found[0]}"
        raise UserFacingError(Failure(FailureCode.refused, message, "Start over with --fresh, or move the file away."))
    path.write_text(whole.source, encoding="utf-8")
    (folder / "problem.py").write_text(traced.problem.source, encoding="utf-8")
    _write(folder / "verdict.json", to_json(verdict))
    _write(folder / "summary.json", {"status": verdict.status.value, "calls": dict(whole.calls), "kernels": kernels})
    return verdict


def _whole(
    source: str,
    whole: Program,
    parts: Sequence[Part],
    judged: Callable[[Program], Verdict],
    answers: Answers,
    tools: Tools,
) -> tuple[Program, Verdict]:
    """The program with its verdict: as the cut composes it, or the first of a model's that passes."""
    author = tools.authors.compose
    verdict = None if tools.asks(author) and author is AuthorName.llm else judged(whole)
    if not tools.asks(author) or (verdict is not None and verdict.status is Status.passed):
        return whole, verdict or judged(whole)
    first = None if verdict is None else failed_verdict(verdict, entry_of(whole))
    brief = CompositionBrief(source, "\n\n".join(part.function for part in parts), entry_of(whole))
    tools.say("asking a model for the program")
    found = _searched(
        lambda failed, _: composition_question(replace(brief, failed=failed or first)),
        lambda answer, failed: with_entry(whole, read_composition(answer, replace(brief, failed=failed or first))),
        judged,
        entry_of,
        answers,
        tools,
    )
    if not isinstance(found, str):
        return found
    tools.say(f"the composed program is unchanged: {found}")
    return whole, verdict or judged(whole)


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
