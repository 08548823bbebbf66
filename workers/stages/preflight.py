"""Before a job writes anything: whether the GPU host can import what the tests need that its result will have to pass."""

from __future__ import annotations

import shlex
from collections.abc import Iterable

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from gpu_runner.contracts import CaseOutcome, TestCase
from workers.contracts import Failure, FailureCode, UserFacingError
from workers.engine.protocol import StageContext
from workers.layouts.import_graph import is_own
from workers.layouts.protocol import Layout, SuiteRun
from workers.stages.suites import run_suite
from workers.tree import Tree

PACKAGE = "package:"
MOST_NAMED = 12
ABSENT = "No module named"
LACKING = "the GPU host cannot import what the tests of `{}` need: {}"
INSTALL = "On that host, in the Python environment of its GPU worker: `pip install {}`."
OTHERS = "What `{}` needs comes with the library's own set-up for development: `pip install -e '.[dev]'` in a checkout of it."
LEFT_OVER = "Of the library's dev extra these are not there either, and these tests do not import them: {}."
RETRY = "Then `/kernel retry` goes on."


def check_host(context: StageContext, layout: Layout, tree: Tree, kernel: str) -> None:
    """Have the GPU host import what a kernel's test file imports, and look for the packages of the library's dev extra.

    A package that the test file does not import is no reason to refuse, and neither is a module that is found and raises: the
    tests say more of that.

    Raises:
        UserFacingError: an import is not possible there; or the GPU host failed.
    """
    context.note("looking whether the GPU host can import what the library's tests need")
    needs = layout.needs_of(kernel, tree)
    dev = _requirements(needs.dev)
    wanted = (*needs.modules, *(f"{PACKAGE}{name}" for name in dev))
    # Not lasting: what was missing may have been installed since.
    result = run_suite(context, "environment", SuiteRun("imports", wanted, needs.roots), ())
    bad = [case for case in result.cases if case.outcome is CaseOutcome.failed and case.node in wanted]
    failed = [case for case in bad if not case.node.startswith(PACKAGE)]
    failed = [case for case in failed if not is_own(_parts(case)[0], tree, needs.roots)]
    if failed:
        absent = [case.node.removeprefix(PACKAGE) for case in bad if case.node.startswith(PACKAGE)]
        raise UserFacingError(_failure(kernel, failed, dev, absent))


def _requirements(dev: Iterable[str]) -> dict[str, Requirement]:
    """Those that hold for this Python and system, by their normalized name."""
    found = dict[str, Requirement]()
    for text in dev:
        try:
            requirement = Requirement(text)
        except InvalidRequirement:
            continue
        if requirement.marker is None or requirement.marker.evaluate():
            found[canonicalize_name(requirement.name)] = requirement
    return found


def _failure(kernel: str, failed: list[TestCase], dev: dict[str, Requirement], absent: list[str]) -> Failure:
    named = list(dict.fromkeys(_named(case) for case in failed))
    more = f" and {len(named) - MOST_NAMED} more" if len(named) > MOST_NAMED else ""
    message = LACKING.format(kernel, ", ".join(named[:MOST_NAMED]) + more)
    tops = list(dict.fromkeys(_parts(case)[0].partition(".")[0] for case in failed))
    listed = [name for name in map(canonicalize_name, tops) if name in dev]
    unlisted = [top for top in tops if canonicalize_name(top) not in dev]
    fix = [INSTALL.format(shlex.join(str(dev[name]) for name in listed))] if listed else []
    fix += [OTHERS.format("`, `".join(unlisted[:MOST_NAMED]))] if unlisted else []
    left = [f"`{name}`" for name in absent if name not in listed]
    fix += [LEFT_OVER.format(", ".join(left[:MOST_NAMED]))] if left else []
    return Failure(FailureCode.environment, message, " ".join([*fix, RETRY]))


def _named(case: TestCase) -> str:
    module, text = _parts(case)
    if text.startswith(ABSENT):
        return f"`{module}`" if module == case.node else f"`{module}` (which `{case.node}` imports)"
    return f"`{case.node}` ({text})"


def _parts(case: TestCase) -> tuple[str, str]:
    """The module that an import was in want of, and what Python said of it."""
    module, _, text = (case.message or "").partition(": ")
    return module, text
