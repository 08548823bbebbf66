"""Opens the children that compute, and tells a host that cannot from code that does not."""

from __future__ import annotations

import tarfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import PurePosixPath

from gpu_runner.context import RunContext
from gpu_runner.contracts.envelope import RunnerError
from gpu_runner.contracts.reading import MAX_BYTES, SourceError, read_source
from gpu_runner.contracts.verify import CandidateSource, SourceFile
from gpu_runner.errors import ChildError
from gpu_runner.scratch import ScratchError
from gpu_runner.session import Session
from gpu_runner.verify.proof import Form

ORIGINAL = "original"  # the name of the child in which what stands in the repository runs, to be judged by


def reference_session(role: str, problem_source: str, context: RunContext, beside: int = 0) -> Session:
    """Give a child with the problem's file alone; ``beside`` other children run meanwhile."""
    return Session(role, context.limits, context.require, files={"problem.py": problem_source}, beside=beside)


def candidate_session(
    role: str, candidate: CandidateSource, context: RunContext, beside: int = 0, name: str | None = None
) -> Session:
    """Give a child with a candidate's files and the tree that it lies in; ``beside`` other children run meanwhile.

    By ``name`` it is told where the time went; without one by its role.

    Raises:
        ScratchError: the tree is not there, or a Python file of the candidate has not one reading.
    """
    screened = [path for path in candidate.screened if path.endswith(".py")]
    files: dict[str, bytes | str] = {file.path: file.text for file in candidate.files}
    files |= {file.path: _read(file) for file in files_at(candidate, screened, context)}
    try:
        tree = context.tree(candidate.tree)
    except ValueError as error:
        raise ScratchError(str(error)) from error
    roots = candidate.import_roots
    return Session(
        role, context.limits, context.require, files=files, tree=tree, import_roots=roots, beside=beside, name=name
    )


@contextmanager
def opened(session: Session, context: RunContext) -> Iterator[Session]:
    """Start a child and its device.

    Raises:
        RunnerError: the device cannot be used in there.
    """
    with session:
        context.isolation.append(session.isolation)
        try:
            session.call("start", {})
        except ChildError as error:
            raise RunnerError(f"the device cannot be used in the sandbox: {error}") from error
        yield session


@contextmanager
def loaded(
    role: str, candidate: CandidateSource, form: Form, context: RunContext, name: str | None = None
) -> Iterator[Session]:
    """Start a child and load a candidate in it; ``name`` as of a session.

    Raises:
        RunnerError: the device cannot be used in there. ScratchError: files that cannot be placed. ChildFailed: it does not load.
    """
    with opened(candidate_session(role, candidate, context, name=name), context) as session:
        load(session, candidate, form, untimed=name == ORIGINAL)
        yield session


def load(session: Session, candidate: CandidateSource, form: Form, *, untimed: bool = False) -> None:
    """Load a candidate in its child; ``untimed`` where its values alone are asked for, so that no kernel is tuned by time.

    Raises:
        ChildFailed, ProtocolError: it does not load.
    """
    facts = {"module": candidate.module, "symbol": candidate.symbol, "form": form.name, "init": list(form.init)}
    session.call("load", facts | {"untimed": untimed})


def _read(file: SourceFile) -> bytes:
    try:
        return read_source(file.text, file.path).data
    except SourceError as error:
        raise ScratchError(f"{file.path}: {error}") from error


def files_at(candidate: CandidateSource, paths: Sequence[str], context: RunContext) -> list[SourceFile]:
    """A candidate's own Python files, and of its tree those that lie at these paths.

    Raises:
        ScratchError: the tree cannot be read.
    """
    own = {file.path: file for file in candidate.files if file.path.endswith(".py")}
    wanted = {str(PurePosixPath(path)) for path in paths} - set(own)
    if candidate.tree is not None and wanted:
        own |= {file.path: file for file in _of_tree(candidate.tree, wanted, context)}
    return list(own.values())


def _of_tree(tree: str, wanted: set[str], context: RunContext) -> Iterator[SourceFile]:
    try:
        with tarfile.open(context.tree(tree)) as archive:
            for member in archive:
                parts = PurePosixPath(member.name).parts
                # A snapshot's files may lie in one more folder.
                path = next(
                    (p for p in (str(PurePosixPath(*parts)), str(PurePosixPath(*parts[1:]))) if p in wanted), None
                )
                if path is None or not member.isfile():
                    continue
                file = archive.extractfile(member)
                yield SourceFile(path, "" if file is None else file.read(MAX_BYTES + 1).decode("utf-8", "replace"))
    except (ValueError, OSError, tarfile.TarError) as error:
        raise ScratchError(f"the tree cannot be read: {error}") from error
