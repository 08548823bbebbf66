"""Starts every child of a benchmark at the same time: a start takes seconds, and they do not wait for each other."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack
from dataclasses import replace

from gpu_runner import outline
from gpu_runner.benchmark.race import RaceEntry
from gpu_runner.context import RunContext
from gpu_runner.contracts.envelope import RunnerError
from gpu_runner.contracts.problem import Problem
from gpu_runner.scratch import ScratchError
from gpu_runner.session import ChildSession
from gpu_runner.verify.opening import candidate_session, opened, reference_session

REFERENCE, GAUGE = "reference", "gauge"  # the children that are no contenders

Opening = Callable[[], ChildSession]


def openings(problem: Problem, contenders: tuple[RaceEntry, ...], context: RunContext) -> dict[str, Opening]:
    """How to start each child: the reference, the gauge of the GPU, and one for each contender."""

    def of(entry: RaceEntry) -> Opening:
        if entry.source is None:
            return lambda: reference_session("timing", problem.source, context)
        source = entry.source
        return lambda: candidate_session("timing", source, context)

    return {
        REFERENCE: lambda: reference_session(outline.ROLE, problem.source, context),
        GAUGE: lambda: ChildSession("gauge", context.limits, context.require),
        **{entry.name: of(entry) for entry in contenders},
    }


def start_all(makers: Mapping[str, Opening], context: RunContext, stack: ExitStack) -> dict[str, ChildSession]:
    """Start all children; the stack ends them.

    Raises:
        RunnerError: one of them could not be started; the others are ended.
    """
    with ThreadPoolExecutor(len(makers), "start") as pool:
        started = {name: pool.submit(_start, maker, context) for name, maker in makers.items()}
    sessions: dict[str, ChildSession] = {}
    failed: BaseException | None = None
    for name, future in started.items():
        error = future.exception()
        if error is not None:
            failed = failed or error
            continue
        manager, sessions[name] = future.result()
        stack.push(manager)
    if isinstance(failed, ScratchError):
        raise RunnerError(f"the files cannot be placed: {failed}") from failed
    if failed is not None:
        raise failed
    return sessions


def roomy(context: RunContext, children: int) -> RunContext:
    """The context with room for ``children`` at once.

    Without a user namespace the kernel counts the threads of all of them against the limit of each.
    """
    limits = replace(context.limits, processes=context.limits.processes * max(1, children))
    return replace(context, limits=limits)


def _start(maker: Opening, context: RunContext) -> tuple[AbstractContextManager[ChildSession], ChildSession]:
    manager = opened(maker(), context)
    return manager, manager.__enter__()
