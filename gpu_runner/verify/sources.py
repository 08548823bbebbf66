"""A candidate's Python files, its own and those of the tree around them, parsed when they are asked for."""

from __future__ import annotations

import ast
import tarfile
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath

from gpu_runner.context import RunContext
from gpu_runner.contracts.reading import MAX_BYTES, SourceError, parse_bounded
from gpu_runner.contracts.verify import CandidateSource
from gpu_runner.scratch import ScratchError


class CandidateFiles(Mapping[str, ast.Module]):
    """By path, as the files lie in a child's folder: a tree's one top folder is left out, and own files lie over the tree's.

    Raises:
        ScratchError: the tree cannot be read.
    """

    def __init__(self, candidate: CandidateSource, context: RunContext) -> None:
        self._own = {str(PurePosixPath(file.path)): file.text for file in candidate.files if file.path.endswith(".py")}
        self._trees: dict[str, ast.Module] = {}
        self._members: dict[str, tarfile.TarInfo] = {}
        if candidate.tree is None:
            return
        try:
            self._archive = context.tree(candidate.tree)
            with tarfile.open(self._archive) as archive:
                members = archive.getmembers()
        except (ValueError, OSError, tarfile.TarError) as error:
            raise ScratchError(f"the tree cannot be read: {error}") from error
        top = _top_folder(members)
        for member in members:
            parts = PurePosixPath(member.name).parts
            path = str(PurePosixPath(*(parts[1:] if top else parts)))
            if member.isfile() and path.endswith(".py"):
                self._members[path] = member

    def __getitem__(self, path: str) -> ast.Module:
        """The parsed file; an empty one where it is no Python that can be parsed.

        Raises:
            KeyError: there is none.
        """
        if path not in self._trees:
            try:
                self._trees[path] = parse_bounded(self.text(path))
            except SourceError:
                self._trees[path] = ast.Module([], [])
        return self._trees[path]

    def text(self, path: str) -> str:
        """The file's text.

        Raises:
            KeyError: there is none.
        """
        if path in self._own:
            return self._own[path]
        member = self._members[path]
        with tarfile.open(self._archive) as archive:
            file = archive.extractfile(member)
            return "" if file is None else file.read(MAX_BYTES + 1).decode("utf-8", "replace")

    def __contains__(self, path: object) -> bool:
        """Whether there is such a file."""
        return path in self._own or path in self._members

    def __iter__(self) -> Iterator[str]:
        """The paths."""
        return iter(dict.fromkeys([*self._own, *self._members]))

    def __len__(self) -> int:
        """How many files there are."""
        return len({*self._own, *self._members})


def _top_folder(members: list[tarfile.TarInfo]) -> bool:
    """Whether all of a snapshot lies in one folder, as GitHub packs it."""
    tops = {PurePosixPath(member.name).parts[:1] for member in members}
    return len(tops) == 1 and not any(not m.isdir() and len(PurePosixPath(m.name).parts) == 1 for m in members)
