"""The static screen: an allow-list over a candidate's syntax tree. Pure; it refuses early, the runner proves later."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import PurePosixPath

from gpu_runner.contracts.reading import SourceError, read_source
from gpu_runner.contracts.status import Status
from gpu_runner.contracts.verify import CandidateSource, SourceFile
from gpu_runner.verify import allowed
from gpu_runner.verify.objections import Objection, objections_in
from gpu_runner.verify.standing import excused


def screen(
    candidate: CandidateSource, own: frozenset[str] = frozenset(), original: Iterable[SourceFile] = ()
) -> Objection | None:
    """Give the first objection to the screened files; ``own`` are the top-level names of the tree that the candidate lies in.

    What ``original``'s files are objected to for as well is dropped, as often as it stands in them.
    """
    local = own | tops_under([file.path for file in candidate.files], candidate.import_roots)
    known = excused(objection.key for file in original for objection in objections_to(file, local))
    for file in screened_files(candidate):
        for objection in objections_to(file, local):
            if objection.key is None or not known[objection.key]:
                return objection
            known[objection.key] -= 1
    return None


def screened_files(candidate: CandidateSource) -> list[SourceFile]:
    """Give the files to which the screen applies."""
    wanted = set(candidate.screened) or {file.path for file in candidate.files}
    return [file for file in candidate.files if file.path in wanted and file.path.endswith(".py")]


def tops_under(paths: Iterable[str], roots: tuple[str, ...]) -> set[str]:
    """Give the top-level modules that files have when these folders are on the path.

    A snapshot's files may lie in one more folder, so a root counts wherever it stands among the first two.
    """
    wanted = [PurePosixPath(root).parts for root in roots]
    tops = set()
    for path in paths:
        parts = PurePosixPath(path).parts
        for root in wanted:
            for start in (0, 1):
                if parts[start : start + len(root)] == root and len(parts) > start + len(root):
                    tops.add(parts[start + len(root)].removesuffix(".py"))
    return {top for top in tops if top.isidentifier()} - allowed.REACHING - allowed.MODULES


def objections_to(file: SourceFile, local: frozenset[str]) -> list[Objection]:
    """Give the objections to one file, by line."""
    try:
        tree = read_source(file.text, file.path).tree
    except SourceError as error:
        status = Status.compile_error if error.rule == "syntax" else Status.refused
        return [Objection(status, error.rule, f"{error.message} {error.fix}", error.line, file.path)]
    return objections_in(tree, file.path, local)
