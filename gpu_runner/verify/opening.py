"""Opens the children that compute, and tells a host that cannot from code that does not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from gpu_runner.context import RunContext
from gpu_runner.contracts.envelope import RunnerError
from gpu_runner.contracts.reading import SourceError, read_source
from gpu_runner.contracts.verify import CandidateSource
from gpu_runner.errors import ChildError
from gpu_runner.messages import CallForm, LoadCandidate, OpenDevice
from gpu_runner.program.load import EITHER, EVALUATED
from gpu_runner.scratch import ScratchError
from gpu_runner.session import ChildSession
from gpu_runner.verify.sources import CandidateFiles

ORIGINAL = "original"  # the name of the child in which what stands in the repository runs, to be judged by


def reference_session(
    role: str,
    problem_source: str,
    context: RunContext,
    beside: int = 0,
    name: str | None = None,
    gpu: bool | None = None,
) -> ChildSession:
    """A child with the problem's file alone; ``beside`` other children run meanwhile. ``name`` and ``gpu`` as of a session."""
    files: dict[str, bytes | str] = {"problem.py": problem_source}
    return ChildSession(role, context.limits, context.require, gpu, files=files, siblings=beside, name=name)


def candidate_session(
    role: str,
    candidate: CandidateSource,
    context: RunContext,
    beside: int = 0,
    name: str | None = None,
    gpu: bool | None = None,
    variables: Mapping[str, str] | None = None,
) -> ChildSession:
    """A child with a candidate's files and the tree that it lies in; ``beside`` other children run meanwhile.

    By ``name`` it is told where the time went; without one by its role. ``variables`` are added to its environment.

    Raises:
        ScratchError: the tree is not there, or a Python file of the candidate has not one reading.
    """
    screened = [path for path in candidate.screened if path.endswith(".py")]
    files: dict[str, bytes | str] = {file.path: file.text for file in candidate.files}
    known = CandidateFiles(candidate, context)
    own = [path for path in files if path.endswith(".py")]
    files |= {path: _read(path, known.text(path)) for path in dict.fromkeys([*own, *screened]) if path in known}
    try:
        tree = context.tree(candidate.tree)
    except ValueError as error:
        raise ScratchError(str(error)) from error
    roots = candidate.import_roots
    return ChildSession(
        role,
        context.limits,
        context.require,
        gpu,
        files=files,
        tree=tree,
        import_roots=roots,
        variables=variables,
        siblings=beside,
        name=name,
    )


@contextmanager
def opened(session: ChildSession, context: RunContext) -> Iterator[ChildSession]:
    """Start a child and its device.

    Raises:
        RunnerError: the device cannot be used in there.
    """
    with session:
        context.isolation.append(session.isolation)
        try:
            session.call(OpenDevice())
        except ChildError as error:
            raise RunnerError(f"the device cannot be used in the sandbox: {error}") from error
        yield session


@contextmanager
def loaded(
    role: str,
    candidate: CandidateSource,
    form: CallForm,
    context: RunContext,
    name: str | None = None,
    mode: str = EVALUATED,
    gpu: bool | None = None,
) -> Iterator[ChildSession]:
    """Start a child and load a candidate in it; ``name`` and ``gpu`` as of a session.

    Raises:
        RunnerError: the device cannot be used in there. ScratchError: files that cannot be placed. ChildFailed: it does not load.
    """
    with opened(candidate_session(role, candidate, context, name=name, gpu=gpu), context) as session:
        load(session, candidate, form, mode=EITHER if name == ORIGINAL else mode)
        yield session


def load(
    session: ChildSession, candidate: CandidateSource, form: CallForm, *, mode: str = EVALUATED, compiles: bool = False
) -> None:
    """Load a candidate in its child; ``mode`` is how its host code is carried out, ``compiles``: no kernel runs there.

    Raises:
        ChildFailed, ProtocolError: it does not load.
    """
    paths = tuple(file.path for file in candidate.files)
    own, written = (paths, None) if candidate.tree is None else ((), paths)  # in a library by need, as all of it
    names = candidate.module, candidate.symbol
    session.call(LoadCandidate(*names, form, mode, candidate.import_roots, own, written, compiles))


def _read(path: str, text: str) -> bytes:
    try:
        return read_source(text, path).data
    except SourceError as error:
        raise ScratchError(f"{path}: {error}") from error
