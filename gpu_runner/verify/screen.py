"""The static screen: a candidate's files against the language of host code and of kernels. It refuses early, with the line."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gpu_runner.contracts.reading import SourceError, read_source
from gpu_runner.contracts.verify import CandidateSource, SourceFile, Status
from gpu_runner.program.check import check
from gpu_runner.program.imports import Library
from gpu_runner.verify.standing import Anchors, Key, excused


@dataclass(frozen=True)
class Objection:
    """A rule that a candidate breaks."""

    status: Status
    rule: str | None
    message: str
    line: int | None = None
    path: str | None = None
    key: Key | None = None  # by which it is known again in another file


def screen(candidate: CandidateSource, library: Library, original: Mapping[str, str] | None = None) -> Objection | None:
    """The first objection to the screened files; ``library`` are the modules that they may import from.

    What the original's files of these paths are objected to for as well is dropped, as often as it stands in them.
    """
    before = (SourceFile(path, text) for path, text in (original or {}).items())
    known = excused(objection.key for file in before for objection in objections_to(file, library))
    for file in screened_files(candidate):
        for objection in objections_to(file, library):
            if objection.key is None or not known[objection.key]:
                return objection
            known[objection.key] -= 1
    return None


def screened_files(candidate: CandidateSource) -> list[SourceFile]:
    """The files to which the screen applies."""
    wanted = set(candidate.screened) or {file.path for file in candidate.files}
    return [file for file in candidate.files if file.path in wanted and file.path.endswith(".py")]


def objections_to(file: SourceFile, library: Library) -> list[Objection]:
    """The objections to one file, by line."""
    try:
        tree = read_source(file.text, file.path).tree
    except SourceError as error:
        status = Status.compile_error if error.rule == "syntax" else Status.refused
        return [Objection(status, error.rule, f"{error.message} {error.fix or ''}".strip(), error.line, file.path)]
    anchors = Anchors(tree)
    found = []
    for remark in check(tree, library.module_of(file.path), library):
        violation = remark.violation
        # What reaches out of a candidate must stand in the very function in which it stands today.
        key = anchors.key(violation.rule or "", remark.node, whole=violation.status is Status.cheating)
        line = getattr(remark.node, "lineno", None)
        found.append(Objection(violation.status, violation.rule, violation.message, line, file.path, key))
    return found
