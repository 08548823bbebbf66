"""The definition of done of a port: what a reviewer asks of it, each item with what shows it. Pure."""

from __future__ import annotations

import ast
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from gpu_runner.contracts import BenchmarkResult, CaseOutcome, Check, Status, TestCase, TestsResult, Workload
from gpu_runner.contracts.expressions import ExpressionError, evaluate_expression
from workers.contracts import (
    DoneItem,
    Failure,
    FailureCode,
    KernelTiling,
    LoweredKernel,
    Parity,
    PortWork,
    UserFacingError,
)
from workers.targets.contract import ApiContract
from workers.targets.module import CONTEXT, CallVariant, PortedModule
from workers.targets.uses import ImportedName, unkept

SHAPE_GROUPS, LEAST_APART = 3, 4.0  # sizes, and how many times the elements of the smallest the largest has
RESOLVES = "test_package_resolves_to_the_port_and_the_module_to_the_default"
ELEMENT_BYTES = 2  # of bfloat16
FLOATS = ("float32", "bfloat16", "float16")
NOT_PUSHED = "Nothing was pushed. "
FIXES = {
    "three shape groups": "Give the problem at least three WORKLOADS: small, medium and large.",
    "names that other files use": "Change those files first, or keep the default operator.",
}


@dataclass(frozen=True)
class WrittenPort:
    """A port as it was written, with what was asked of it so far."""

    contract: ApiContract
    module: PortedModule
    variants: tuple[CallVariant, ...]
    used: tuple[ImportedName, ...]
    workloads: tuple[Workload, ...]


def api_items(written: WrittenPort, ran: TestsResult) -> tuple[DoneItem, ...]:
    """What can be said before anything is judged; ``ran`` is the run of the port's own test in a process of its own."""
    cases = {case.node.rpartition("::")[2]: case for case in ran.cases}
    resolves = cases.get(RESOLVES)
    broken = [case for case in ran.cases if case.outcome in (CaseOutcome.failed, CaseOutcome.error)]
    own = [f"{case.node.rpartition('::')[2]}: {_last(case.message)}" for case in broken if case is not resolves]
    if not ran.cases:
        own = [_last(ran.log) or ran.summary]
    contract = written.contract
    lost = unkept(written.module.source, written.used)
    passed = sum(case.outcome is CaseOutcome.passed for case in ran.cases)
    users = ", ".join(sorted({f"{use.name} ({use.path.rpartition('/')[2]})" for use in written.used}))
    return (
        DoneItem(
            "parameters, defaults and exports",
            not own,
            "; ".join(own)
            or f"{passed} tests of the written file passed: forward({', '.join(p.name for p in contract.parameters)})",
        ),
        DoneItem(
            "names that other files use",
            not lost,
            "; ".join(lost) or (f"kept as called: {users}" if users else "no other file imports from the module"),
        ),
        DoneItem(
            "both import forms",
            {CaseOutcome.passed: True, CaseOutcome.skipped: None}.get(resolves.outcome, False) if resolves else False,
            _resolving(resolves),
        ),
        _shape_groups(written.workloads),
        _saved(written),
    )


def _shape_groups(workloads: Sequence[Workload]) -> DoneItem:
    """Whether the sizes are several, the largest of them many times the smallest."""
    products = sorted({math.prod(size for _, size in workload.sizes) for workload in workloads})
    apart = products[-1] / products[0]
    sizes = "; ".join(dict.fromkeys(workload.label() for workload in workloads))
    holds = len(set(workloads)) >= SHAPE_GROUPS and apart >= LEAST_APART
    return DoneItem(
        "three shape groups", holds, f"{sizes}: the largest has {apart:.3g} times the elements of the smallest"
    )


def _resolving(case: TestCase | None) -> str:
    if case is None:
        return "its test did not run"
    if case.outcome is CaseOutcome.passed:
        return "checked in a clean process, with stand-ins for the device: the package gives the port, the module the default"
    if case.outcome is CaseOutcome.skipped:
        return f"not imported here: {_last(case.message)}"
    return _last(case.message)


def _saved(written: WrittenPort) -> DoneItem:
    """What forward keeps for backward, against the origin's: an input that only the port keeps must not be overwritten."""
    contract = written.contract
    inputs = {parameter.name for parameter in contract.parameters}
    kept = [name for name in written.module.saved if name in inputs]
    more = [name for name in kept if name not in contract.saved]
    own = [name for name in written.module.saved if name not in inputs]
    evidence = f"the origin saves {_names(contract.saved)}, the port {_names((*kept, *own))}"
    if more:
        evidence += f"; {_names(more)} must not be overwritten before backward"
    needed = {text.removeprefix(CONTEXT) for text in (contract.backward.arguments if contract.backward else ())}
    options = [name for name in contract.attributes if name in needed & inputs]
    evidence += f"; options kept: {_names(options)}" if options else ""
    return DoneItem("saved tensors", True, evidence)


def judged_items(
    parities: Sequence[Parity],
    written: WrittenPort,
    tilings: Sequence[KernelTiling],
    kernels: Sequence[LoweredKernel],
    compiled: str,
    cores: int,
    measured: BenchmarkResult | None = None,
) -> tuple[DoneItem, ...]:
    """What verdicts, compiler, source and times say of a port; with ``cores`` where its launchers share work out to them."""
    dtypes = list(dict.fromkeys(dtype for parity in parities for dtype in parity.dtypes))
    named = [name for name in FLOATS if any(text.endswith(f".{name}") for text in written.contract.dtypes)]
    unjudged = [name for name in named if name not in (*dtypes, "float32")]
    failed = [parity.name for parity in parities if parity.verdict.status is not Status.passed]
    items = [
        DoneItem(
            "parity forward and backward", not failed, f"{len(parities) - len(failed)} of {len(parities)} calls passed"
        ),
        DoneItem(
            "dtypes",
            not unjudged,
            f"verified in {_names(dtypes)}; the origin names {_names(named)}",
        ),
        DoneItem(
            "accepted by the target's compiler",
            True if kernels or compiled else None,
            compiled
            or (f"{len(kernels)} kernels lowered" if kernels else "the target's compiler is not installed here"),
        ),
    ]
    if cores:
        items += _tiled(written.module.source, tilings, cores)
    groups = len({tiling.workload for tiling in tilings})
    timed = len(_timed(measured))
    items.append(
        DoneItem("times of three shape groups", True, f"{timed} sizes are timed on the {measured.gpu}")
        if measured is not None and timed >= SHAPE_GROUPS
        else DoneItem(
            "times of three shape groups", None, f"the tiles of {groups} sizes are in the report; times need the device"
        )
    )
    return tuple(items)


def _timed(measured: BenchmarkResult | None) -> set[str]:
    """The sizes at which the port was timed."""
    rows = () if measured is None else measured.rows
    return {
        row.workload.label()
        for row in rows
        if any(timing.contender == "candidate" and timing.median_us is not None for timing in row.timings)
    }


def _tiled(source: str, tilings: Sequence[KernelTiling], cores: int) -> list[DoneItem]:
    """Whether every launcher and kernel of an Ascend port has its tile, its grid and its loop."""
    functions = [node for node in ast.parse(source).body if isinstance(node, ast.FunctionDef)]
    kernels = [node for node in functions if node.decorator_list and "_kernel" in node.name]
    launchers = [node for node in functions if "device_context(" in ast.unparse(node)]
    untiled = [node.name for node in launchers if "get_npu_core_count()" not in ast.unparse(node)]
    still = [node.name for node in kernels if "tl.num_programs(" not in ast.unparse(node)]
    lacking = [*untiled, *still]
    multipliers = ", ".join(f"{number:g}" for number in sorted({tiling.multiplier for tiling in tilings}))
    filled = [tiling.filled_share(cores) for tiling in tilings if tiling.tiles]
    loops = f"{len(kernels)} kernels stride over a grid of `get_npu_core_count()` programs"
    loops += f", {min(filled):.0%} to {max(filled):.0%} of whose turns are filled on {cores} cores" if filled else ""
    if lacking:
        loops = f"{_names(lacking)} has no grid of cores, or no loop over it"
    return [
        DoneItem(
            "tiles from the unified buffer",
            "compute_default_tiling_strategy(" in source,
            f"`compute_default_tiling_strategy` with the multiplier counted in each kernel: {multipliers}",
        ),
        DoneItem("parallel and balanced", not lacking, loops),
    ]


FEW_CORES, SMALL_ROW, DRIFTING = 0.5, 1024, 0.5
SYNCHRONIZING = (".item()", ".tolist()", ".cpu()", "torch.equal(", "synchronize(")


def patterns(
    source: str, tilings: Sequence[KernelTiling], parities: Sequence[Parity], stays: Iterable[ImportedName], cores: int
) -> tuple[str, ...]:
    """The failure patterns of ports that a port shows, each with its fix."""
    found = [
        f"`{path}` imports {_names(names)} from the operator's own module, so it uses the default even where the port is"
        " selected. To use the port, import from the package."
        for path, names in _by_path(stays).items()
    ]
    found += [
        f"`{tiling.kernel}` has work for {tiling.programs} of {cores} cores at {tiling.workload}: expect no gain there; use"
        " smaller tiles, or split rows."
        for tiling in tilings
        if tiling.programs < FEW_CORES * cores
    ]
    found += [
        f"`{tiling.kernel}` takes one row of {tiling.columns} columns at a time at {tiling.workload}. Lower the memory"
        " multiplier, so that several rows share a block."
        for tiling in tilings
        if tiling.rows == 1 and tiling.tiles > cores and 1 < tiling.columns < SMALL_ROW
    ]
    found += [
        f"Errors of `{parity.name}` reach {parity.largest:.0%} of what is allowed: check where statistics are added up, where"
        " results are cast, and whether backward takes the same branch as forward."
        for parity in parities
        if parity.largest is not None and parity.largest > DRIFTING
    ]
    found += [
        f"A launcher calls `{word}`, which waits for the device and leaves gaps between the kernels of an operator."
        for word in SYNCHRONIZING
        if word in source
    ]
    imports = [line for line in source.splitlines() if line.startswith("from ") and ".ops." in line]
    default = [line for line in imports if "_kernel" in line.partition(" import ")[2]]
    found += [f"`{line}` imports kernels of another module: write them for this device too." for line in default]
    return tuple(found)


def scalar_compares(kernels: Iterable[LoweredKernel]) -> tuple[str, ...]:
    """The kernels that compare tiles of whole numbers, in a sentence with the fix.

    Source: flagos-ai/FlagTree pull request 1156, where that took 44 to 55 times as long as by vector instructions.
    """
    found = ", ".join(f"`{kernel.name}` ({kernel.compares})" for kernel in kernels if kernel.compares)
    why = "tiles of integers, which a vector core does element by element"
    fix = "If the scalar unit of such a kernel is busy, compare offsets as float32, which is exact below 2^24."
    return (f"These kernels compare {why}: {found}. {fix}",) if found else ()


def largest_error(checks: Iterable[Check]) -> float | None:
    """The largest error of values and gradients, as a share of what is allowed."""
    shares = [check.error / check.allowed for check in checks if check.error is not None and check.allowed]
    return max(shares, default=None)


def _by_path(names: Iterable[ImportedName]) -> dict[str, list[str]]:
    found = dict[str, list[str]]()
    for each in names:
        found.setdefault(each.path, []).append(each.name)
    return found


def check_done(kernel: str, items: Iterable[DoneItem]) -> None:
    """Whether nothing is against a port.

    Raises:
        UserFacingError: an item does not hold; with the first of them.
    """
    for item in items:
        if item.holds is False:
            message = f"the port of `{kernel}` is not done: {item.name}: {item.evidence}"
            fix = NOT_PUSHED + FIXES.get(item.name, "This is a fault of Kernelsmith: report it with the job's log.")
            raise UserFacingError(Failure(FailureCode.verdict, message, fix))


def work(variant: CallVariant, workloads: Iterable[Workload]) -> tuple[PortWork, ...]:
    """Bytes that must move and operations, in bfloat16, at each size."""
    found = []
    plan = variant.proposal.plan
    for workload in workloads:
        values = {**dict(workload.sizes), "E": ELEMENT_BYTES}
        numbers = [
            _number(text, values)
            for text in (plan.forward_bytes, plan.backward_bytes, plan.forward_flops, plan.backward_flops)
        ]
        if None not in numbers:
            found.append(PortWork(workload.label(), *[math.ceil(number or 0) for number in numbers]))
    return tuple(found)


def _number(text: str, values: dict[str, int]) -> float | None:
    try:
        return float(evaluate_expression(text, values))
    except (ExpressionError, ArithmeticError):
        return None


def _names(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names) or "nothing"


def _last(text: str | None) -> str:
    """The line of a test's output that says most: the last of an error that pytest shows, else the last."""
    lines = [line.strip() for line in (text or "").splitlines() if line.strip()]
    errors = [line.removeprefix("E").strip() for line in lines if line.startswith("E  ")]
    return [*lines, *errors][-1][:300] if lines else ""
