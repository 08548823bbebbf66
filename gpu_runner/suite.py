"""Tests: runs a repository's own tests or scripts in the sandbox; what they say of themselves is read with distrust."""

from __future__ import annotations

import base64
import json
import re
import struct
import tomllib
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any

from gpu_runner.context import RunContext
from gpu_runner.contracts import CaseOutcome, Picture, SourceFile, TestCase, TestsRequest, TestsResult
from gpu_runner.contracts.reading import of_threads, of_tiles
from gpu_runner.errors import ChildDied, ChildError, ChildOutOfMemory, ChildTimeout
from gpu_runner.messages import RunSuite
from gpu_runner.scratch import Scratch, ScratchError
from gpu_runner.session import ChildSession

MODULES = ("pytest", "benchmark", "ruff", "imports")
REPORT = ".kernelsmith-report.jsonl"
MAX_REPORT_BYTES = 32 * 2**20
MAX_COLLECTED_BYTES = 16 * 2**20
MAX_CASES = 20_000
MAX_PICTURES = 16
MAX_PICTURE_BYTES = 2 * 2**20
MAX_PICTURE_SIDE = 8192
PNG_HEAD = b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR"  # Source: PNG specification, sections 5.2 and 11.2.1
MAX_MESSAGE_CHARS = 2000
MAX_PROJECT_BYTES = 2**20
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


def run(request: TestsRequest, context: RunContext) -> TestsResult:
    """Run the requested suites.

    Raises:
        ValueError: the request cannot be carried out as it is.
    """
    if request.module not in MODULES:
        raise ValueError(f"{request.module!r} is none of {', '.join(MODULES)}")
    files: dict[str, bytes | str] = {file.path: file.text for file in request.files}
    session = ChildSession(
        "suite",
        context.limits,
        context.require,
        files=files,
        tree=context.tree(request.tree),
        import_roots=(*request.import_roots, ".kernelsmith-site"),
        fork=False,  # the tests run in a process below the child, and that one imports torch
    )
    try:
        with session:
            context.isolation.append(session.isolation)
            session.scratch.write(distribution(session.scratch))
            return _ran(session, request)
    except ScratchError as error:
        raise ValueError(str(error)) from error


def _ran(session: ChildSession, request: TestsRequest) -> TestsResult:
    texts = [file.text for file in request.files]
    languages = {
        "tiles": of_tiles,
        "threads": of_threads,
    }  # by the module that stands in for each where there is no GPU
    stands_in = tuple(name for name, is_of in languages.items() if any(map(is_of, texts)))
    asked = RunSuite(request.module, request.arguments, REPORT, stands_in)
    exit_code: int | None = None
    ended = ""
    try:
        exit_code = session.call(asked, timeout_s=session.limits.time_s).message
    except (ChildTimeout, ChildOutOfMemory) as failure:
        ended = failure.message
    except ChildDied as death:
        ended, exit_code = death.message, death.exit_code if death.signal is None else 128 + death.signal
    except ChildError as error:
        ended, exit_code = f"{error.kind}: {error.message}", 1
    session.settle()
    cases = read_report(session.scratch.read(REPORT, MAX_REPORT_BYTES) or b"")
    collected = tuple(_collected(session, path) for path in request.collect)
    pictures = tuple(_picture(session, path) for path in request.pictures[:MAX_PICTURES])
    return TestsResult(
        passed(request.module, exit_code, cases) and not ended,
        exit_code,
        cases,
        summary(cases, exit_code, ended),
        session.log,
        tuple(file for file in collected if file is not None),
        tuple(picture for picture in pictures if picture is not None),
    )


def passed(module: str, exit_code: int | None, cases: tuple[TestCase, ...]) -> bool:
    """Whether a run passes: exit code 0, and for pytest at least one test passed and none failed."""
    if exit_code != 0:
        return False
    outcomes = {case.outcome for case in cases}
    clean = not outcomes & {CaseOutcome.failed, CaseOutcome.error}
    return module != "pytest" or (clean and CaseOutcome.passed in outcomes)


def summary(cases: tuple[TestCase, ...], exit_code: int | None, ended: str = "") -> str:
    """A run in one line."""
    counts = {outcome: sum(case.outcome is outcome for case in cases) for outcome in CaseOutcome}
    parts = [f"{count} {outcome.value}" for outcome, count in counts.items() if count]
    end = ended or ("killed at the limit" if exit_code is None else f"exit code {exit_code}")
    return ", ".join([*parts, end])


def read_report(content: bytes) -> tuple[TestCase, ...]:
    """Read the lines that the plugin wrote, leaving out what is not of their form: the tests could write there too."""
    cases: dict[str, TestCase] = {}
    for line in content.splitlines()[: MAX_CASES * 3]:
        case = _case(line)
        if case is None:
            continue
        worse = (CaseOutcome.failed, CaseOutcome.error)
        if case.node not in cases or (case.outcome in worse and cases[case.node].outcome not in worse):
            cases[case.node] = case
    return tuple(list(cases.values())[:MAX_CASES])


def _case(line: bytes) -> TestCase | None:
    try:
        form = json.loads(line)
        message = form.get("message")
        return TestCase(
            str(form["node"])[:500],
            CaseOutcome(form["outcome"]),
            max(0.0, min(float(form["duration_s"]), 1e6)),
            None if message is None else str(message)[:MAX_MESSAGE_CHARS],
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def _collected(session: ChildSession, path: str) -> SourceFile | None:
    content = session.scratch.read(path, MAX_COLLECTED_BYTES)
    try:
        return None if content is None else SourceFile(str(PurePosixPath(path)), content.decode("utf-8"))
    except UnicodeDecodeError:
        return None


def _picture(session: ChildSession, path: str) -> Picture | None:
    """An image that begins as PNG does and is no larger than its limits; it is handed on as it is, never decoded."""
    content = session.scratch.read(path, MAX_PICTURE_BYTES) or b""
    head = len(PNG_HEAD)
    if not content.startswith(PNG_HEAD) or len(content) < head + 8:
        return None
    if not all(0 < side <= MAX_PICTURE_SIDE for side in struct.unpack(">II", content[head : head + 8])):
        return None
    return Picture(str(PurePosixPath(path)), base64.b64encode(content).decode("ascii"))


def distribution(scratch: Scratch) -> Mapping[str, str]:
    """Metadata of an installed distribution for the tree, so that it can ask for its own version."""
    content = scratch.read("pyproject.toml", MAX_PROJECT_BYTES)
    try:
        project: dict[str, Any] = tomllib.loads((content or b"").decode("utf-8")).get("project", {})
    except (UnicodeDecodeError, tomllib.TOMLDecodeError):
        return {}
    name, version = project.get("name"), project.get("version", "0")
    if not isinstance(name, str) or not _NAME.fullmatch(name) or not _NAME.fullmatch(str(version)):
        return {}
    stem = re.sub(r"[-_.]+", "_", name)
    folder = f".kernelsmith-site/{stem}-{version}.dist-info"
    return {
        f"{folder}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{folder}/INSTALLER": "kernelsmith\n",
    }
