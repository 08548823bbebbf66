"""Record: which calls a repository's own script makes into one of its kernels, at its full sizes and without computing."""

from __future__ import annotations

import json
import math
from typing import Any

from gpu_runner.context import RunContext
from gpu_runner.contracts import RecordedCall, RecordedTensor, RecordRequest, RecordResult
from gpu_runner.errors import ChildError, ChildFailed, ProtocolError
from gpu_runner.messages import RecordScript
from gpu_runner.scratch import ScratchError
from gpu_runner.session import ChildSession
from gpu_runner.suite import distribution

REPORT = ".kernelsmith-record.jsonl"
MAX_REPORT_BYTES = 32 * 2**20
MAX_ARGUMENTS = 64
MAX_DIMENSIONS = 16
MAX_TEXT_CHARS = 200

Argument = RecordedTensor | int | float | bool | str | None


def run(request: RecordRequest, context: RunContext) -> RecordResult:
    """Run the script on fake tensors in a child, and return its calls.

    Raises:
        ValueError: the request cannot be carried out as it is.
    """
    tree = context.tree(request.tree)
    files: dict[str, bytes | str] = {file.path: file.text for file in request.files}
    roots = (*request.import_roots, ".kernelsmith-site")
    # Without a GPU even where there is one: nothing is computed, and no memory of it is taken.
    session = ChildSession(
        "recording", context.limits, context.require, gpu=False, files=files, tree=tree, import_roots=roots
    )
    try:
        with session:
            context.isolation.append(session.isolation)
            session.scratch.write(distribution(session.scratch))
            return _ran(session, request)
    except ScratchError as error:
        raise ValueError(str(error)) from error


def _ran(session: ChildSession, request: RecordRequest) -> RecordResult:
    asked = RecordScript(request.module, request.symbol, request.script, request.arguments, REPORT)
    error: str | None
    try:
        error = session.call(asked, timeout_s=session.limits.time_s).message
    except ChildError as failure:
        place = f" ({failure.path}:{failure.line})" if failure.path else ""
        error = f"{failure.kind}: {failure.message[:MAX_TEXT_CHARS]}{place}"
    except (ChildFailed, ProtocolError) as failure:
        error = str(failure)[:MAX_TEXT_CHARS]
    session.settle()
    return RecordResult(read_calls(session.scratch.read(REPORT, MAX_REPORT_BYTES) or b"", request.most), error)


def read_calls(content: bytes, most: int) -> tuple[RecordedCall, ...]:
    """Read the lines that the child wrote, one a call; what is not of their form is left out: the script could write there."""
    counts: dict[str, tuple[tuple[Argument, ...], int]] = {}
    for line in content.splitlines():
        arguments = _arguments(line)
        if arguments is None:
            continue
        # By its text: 1, 1.0 and True are equal in Python.
        key = repr(arguments)
        if key in counts or len(counts) < most:
            counts[key] = (arguments, counts.get(key, (arguments, 0))[1] + 1)
    return tuple(RecordedCall(arguments, count) for arguments, count in counts.values())


def _arguments(line: bytes) -> tuple[Argument, ...] | None:
    try:
        form = json.loads(line)
        if not isinstance(form, list) or len(form) > MAX_ARGUMENTS:
            return None
        return tuple(_argument(item) for item in form)
    except (ValueError, KeyError, TypeError, RecursionError):
        return None


def _argument(item: Any) -> Argument:
    if isinstance(item, dict):
        shape = item["shape"]
        good = isinstance(shape, list) and len(shape) <= MAX_DIMENSIONS and all(_is_size(size) for size in shape)
        if not good:
            raise ValueError("not a shape")
        return RecordedTensor(
            tuple(shape), str(item["dtype"])[:MAX_TEXT_CHARS], item["contiguous"] is True, item["grad"] is True
        )
    if isinstance(item, str):
        return item[:MAX_TEXT_CHARS]
    if item is None or isinstance(item, bool | int) or (isinstance(item, float) and math.isfinite(item)):
        return item
    raise ValueError("not an argument")


def _is_size(size: Any) -> bool:
    return type(size) is int and 0 <= size < 2**40
