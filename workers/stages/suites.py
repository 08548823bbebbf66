"""The target's own checks, run by the runner in a snapshot with changed files laid over it."""

from __future__ import annotations

import base64
import json
from pathlib import PurePosixPath

from gpu_runner.contracts import Action, CaseOutcome, SourceFile, TestsRequest, TestsResult, from_json, to_json
from workers.contracts import FileChange, UserFacingError
from workers.engine.protocol import StageContext
from workers.layouts.protocol import Layout, SuiteRun
from workers.stages.workbench import SNAPSHOT_FILE, answer_of
from workers.tree import Tree

MOST_FAILING = 20
LOG_CHARS = 4000
MOST_TROUBLE = 200
PLOTS = "The library's own plots of these rows are among the job's artifacts: {}."
NO_PLOTS = "The library's own visualizer did not draw everything: {}"


def run_suite(
    context: StageContext, key: str, suite: SuiteRun, changes: tuple[FileChange, ...], *, lasting: bool = False
) -> TestsResult:
    """Run tests, or a benchmark script, of the target.

    Raises:
        UserFacingError: the GPU host failed.
    """
    files = tuple(SourceFile(change.path, change.text) for change in changes if change.text is not None)
    request = TestsRequest(
        SNAPSHOT_FILE,
        files + suite.support,
        suite.module,
        suite.arguments,
        suite.import_roots,
        suite.collect,
        suite.pictures,
    )
    beside = {SNAPSHOT_FILE: context.request.snapshot}
    return from_json(TestsResult, answer_of(context.gpu(key, request, Action.tests, beside, lasting=lasting)))


def library_plots(context: StageContext, layout: Layout, tree: Tree, data: tuple[FileChange, ...]) -> tuple[str, ...]:
    """Have the library's own visualizer draw the rows that its benchmark script wrote, and keep its pictures as artifacts.

    What the report notes of it: the pictures, or why there are none. Nothing fails for the want of them.
    """
    runs = layout.plots_of(data, tree)
    if runs:
        context.note("running the library's own visualizer")
    drawn, trouble = list[str](), list[str]()
    for number, suite in enumerate(runs, 1):
        try:
            result = run_suite(context, f"visualizer-{number}", suite, (), lasting=True)
        except UserFacingError as error:
            trouble.append(error.failure.message)
            continue
        if not result.passed:
            trouble.append((result.log.strip().splitlines() or [result.summary])[-1][:MOST_TROUBLE])
        for picture in result.pictures:
            name = PurePosixPath(picture.path).name
            context.artifact(name, base64.b64decode(picture.base64), "image/png")
            drawn.append(f"`{name}`")
    notes = [PLOTS.format(", ".join(drawn))] if drawn else []
    return (*notes, *(NO_PLOTS.format(reason) for reason in dict.fromkeys(trouble)))


def failed_nodes(tests: TestsResult) -> frozenset[str]:
    """Give the tests that did not pass, by their node ids."""
    return frozenset(c.node for c in tests.cases if c.outcome in (CaseOutcome.failed, CaseOutcome.error))


def failing(tests: TestsResult) -> str:
    """Give the failing tests with their messages, or the end of the log where no test could be read."""
    bad = [case for case in tests.cases if case.outcome in (CaseOutcome.failed, CaseOutcome.error)]
    lines = [f"{case.node}: {case.message or case.outcome.value}" for case in bad[:MOST_FAILING]]
    more = [f"and {len(bad) - MOST_FAILING} more"] if len(bad) > MOST_FAILING else []
    return "\n".join([*lines, *more]) if bad else tests.log[-LOG_CHARS:]


def json_bytes(value: object) -> bytes:
    """Give a contract as the bytes of a JSON file."""
    return json.dumps(to_json(value), indent=2, sort_keys=True).encode()
