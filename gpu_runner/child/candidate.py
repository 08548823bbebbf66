"""The role in which a candidate runs: its host code in the runner's evaluator, its kernels on the inputs that the judge sent.

Where no time is of interest, a kernel under ``triton.autotune`` takes a drawn one of its settings that launches, and kernels are
compiled ahead: the widths of a problem's cases want one each, and none has to wait for the one before it.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import itertools
import json
import math
import re
import secrets
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch

from gpu_runner.child import at_scale, uncompiled
from gpu_runner.child.calls import Arguments, settle
from gpu_runner.child.compiling import compiling_ahead
from gpu_runner.child.handlers import Answer, ChildState, Handler, start
from gpu_runner.child.interpreter import teach_descriptors, teach_interpreter, teach_libdevice, teach_maxima
from gpu_runner.child.steps import LabelledTensors, Steps, backward, is_plain, outputs_of
from gpu_runner.contracts.reading import of_threads, of_tiles
from gpu_runner.messages import (
    AskDevice,
    CaseReply,
    CaseTrail,
    CompileCase,
    CompiledReply,
    DecideCase,
    FindBeyond,
    KernelOutcomes,
    LeaveTrail,
    LoadCandidate,
    MeasurePeaks,
    NumbersBeyond,
    OpenDevice,
    PeakBytes,
    Request,
    RunCase,
    SampleCall,
    SampledReply,
    SelectCallable,
    SentCall,
    TurnDecision,
    TurnedReply,
    WarmUp,
)
from gpu_runner.numerics.measures import keep_pages
from gpu_runner.program import altered, lookups, threads, tiles
from gpu_runner.program.coverage import Decisions
from gpu_runner.program.devices import Device, facts_of_gpu
from gpu_runner.program.kernels import tensors_in
from gpu_runner.program.lanes import Noted, note, watch_blocks
from gpu_runner.program.load import EVALUATED, IMPORTED, Sources, load_module
from gpu_runner.program.log import Log, native_place, watch_launches
from gpu_runner.program.memory import Order, fill_compiled_lanes, guard_memory, order_programs, sampling
from gpu_runner.program.objects import Violation

EXPANDED = 64  # a number of which at least as many elements are views is a number, not an answer
MOST_FOLLOWED = 2**18  # elements of the largest input of a case in which is followed what hangs on NaN
MOST_TRIED = 2**16  # elements of all tensors of a launch before which another setting is tried in the interpreter
MOST_BEYOND = 8  # numbers at the size of a workload that are told
_current: list[Log] = []
_FROM = re.compile(r"^from ([\w.]+) import\b", re.MULTILINE)


def load(state: ChildState, request: LoadCandidate, tensors: list[torch.Tensor]) -> Answer[None]:
    """Load the candidate into an evaluator; a ``ModelNew`` is built.

    By the request's mode it is evaluated, imported by CPython, or, as an original, which is compared with and never judged,
    imported where the evaluator lacks something that it uses. What is not judged is not tuned by time either.
    """
    decisions = state.values["decisions"] = Decisions()
    if request.compiles:
        state.values["compiler"] = uncompiled.Compiler()
        take_any(decisions)
    elif not state.gpu:
        torch.set_num_threads(1)  # what is interpreted is small: threads only wait for each other, and for other jobs
        keep_pages()
        teach_interpreter()
        teach_libdevice()
        teach_maxima()
        teach_descriptors()
        take_any(decisions)
        guard_memory()
        watch_blocks(decisions)
        order_programs(_order_imported if request.mode == IMPORTED else _order)
    else:
        take_one_that_launches()
    if state.gpu and request.mode == IMPORTED:
        fill_compiled_lanes()
    if _any_text(state, request, of_tiles):
        tiles.watch_real() if state.gpu else tiles.stand_in()
    if _any_text(state, request, of_threads):
        threads.watch_real() if state.gpu else threads.stand_in()
    watch_launches(lambda: _current[-1] if _current else None)
    state.values["loaded"] = request
    try:
        if request.mode == IMPORTED:
            raise Violation(None, "It is to be imported.")
        state.values["sources"] = Sources(state.work)
        _evaluate(state, None)
    except Violation as violation:
        if request.mode == EVALUATED and not _is_of_library(violation, request):
            raise
        _import(state, violation)
    return None, []


def select(state: ChildState, request: SelectCallable, tensors: list[torch.Tensor]) -> Answer[None]:
    """Take another callable of the module that was loaded."""
    state.values["loaded"] = replace(state.values["loaded"], symbol=request.symbol)
    state.values["told"] = {}
    if why := state.values.get("imported"):
        _import(state, why)
    elif state.values["evaluator"].broken is not None:
        _evaluate(state, None)
    else:
        _take(state, state.values["find"](request.symbol), state.values["where"])
    return None, []


def _any_text(state: ChildState, request: LoadCandidate, is_of: Callable[[str], bool]) -> bool:
    """Whether a file of the candidate imports a language, which is not imported for others: libraries look whether it is there.

    In the interpreter, where another stands in for it, so does a file of the library that one of these imports from.
    """
    texts = [(state.work / path).read_text("utf-8", "replace") for path in request.written or request.own]
    if not state.gpu:
        modules = {name.replace(".", "/") for text in texts for name in _FROM.findall(text)}
        paths = [state.work / root / f"{name}.py" for root in request.roots for name in modules]
        texts += [path.read_text("utf-8", "replace") for path in paths if path.is_file()]
    return any(map(is_of, texts))


def _evaluate(state: ChildState, device: Device | None) -> None:
    """Have the evaluator carry out the host code from now on, told of a device."""
    request: LoadCandidate = state.values["loaded"]
    files = state.values["sources"], request.roots, request.own, request.module
    evaluator, find = load_module(*files, device, state.values["decisions"])
    state.values |= {"opaque": lambda: evaluator.opaque, "evaluator": evaluator, "find": find}
    _take(state, find(request.symbol), lambda: (evaluator.path, evaluator.line) if evaluator.depth else None)


def _order() -> Order:
    """The second run of a case must give what the first one gave, whichever program comes first."""
    return Order.drawn if _current and _current[-1].run == "second" else Order.ascending


def _order_imported() -> Order:
    return Order.descending


def _is_of_library(violation: Violation, request: LoadCandidate) -> bool:
    """Whether it is the library around a candidate, and none of the files that the candidate wrote, that cannot be evaluated."""
    return request.written is not None and violation.path not in request.written


def _import(state: ChildState, why: object) -> None:
    """Have CPython carry out the host code from now on."""
    if not state.gpu:
        torch.cuda.device = contextlib.nullcontext  # there is none to make the current one
        torch.library.wrap_triton = lambda kernel: kernel  # some versions of torch refuse what is interpreted
        torch.cuda.current_stream = tiles.current_stream
    request: LoadCandidate = state.values["loaded"]
    symbol: Any = importlib.import_module(request.module)
    for part in request.symbol.split("."):
        symbol = getattr(symbol, part)
    state.values["opaque"] = lambda: 0
    _take(state, symbol, native_place(str(state.work)))
    state.values["imported"] = str(why)


def _take(state: ChildState, symbol: Any, where: Callable[[], tuple[str | None, int | None] | None]) -> None:
    request: LoadCandidate = state.values["loaded"]
    if request.form.name == "kernelbench":
        symbol = symbol(*request.form.init).to(state.device)
    if not callable(symbol):
        raise TypeError(f"{request.symbol} is not callable")
    state.values["candidate"], state.values["where"] = symbol, where


def run(state: ChildState, request: RunCase, tensors: list[torch.Tensor]) -> Answer[CaseReply]:
    """Run one case: forward, backward, both once more, and the raw inputs as they are afterwards."""
    lookups.forget()
    if not state.gpu:
        forget_settings()
    decisions = state.values["decisions"]
    try:
        if request.altered:
            return _run_altered(state, request, tensors)
        with decisions.undone_by_errors() if request.optional else contextlib.nullcontext():
            answer = _run(state, request, tensors)
        state.values["evaluated"] = not state.values.get("imported")
        return answer
    except Violation as violation:
        if state.values.get("imported") or not _is_of_library(violation, state.values["loaded"]):
            raise
        _import(state, violation)
        try:
            return _run(state, request, tensors)
        finally:
            if state.values.get("evaluated"):  # a call that another one does not hang on led into the library
                state.values |= {"imported": "", "told": {}}
                _evaluate(state, None)


def _run_altered(state: ChildState, request: RunCase, tensors: list[torch.Tensor]) -> Answer[CaseReply]:
    decisions, evaluator = state.values["decisions"], state.values.get("evaluator")
    other = state.values.setdefault("altered", {}).setdefault(request.altered, Decisions())
    other.fixed |= decisions.fixed
    broken = None if evaluator is None else evaluator.broken
    try:
        with decisions.aside_in(other), altered.altering(request.altered):
            return _run(state, request, tensors)
    finally:
        if evaluator is not None:  # what goes wrong there ends no other call
            evaluator.broken = broken


def _run(state: ChildState, request: RunCase, tensors: list[torch.Tensor]) -> Answer[CaseReply]:
    arguments = settle(state, request.call, tensors)
    if request.call.tolerant and "evaluator" in state.values:
        state.values["evaluator"].broken = None  # what stands is judged by in each case that it survives
    device = None if state.values.get("imported") else device_of(state, request.call)
    with _on(state, device):
        return _answer(state, request, tensors, arguments, device)


def device_of(state: ChildState, call: SentCall) -> Device | None:
    """The device that a case tells of; None for the one that is there. Cases that tell the same have the same."""
    if call.device is None and not call.gpu and not call.compiling:
        return None
    described = [call.device, call.gpu, call.multiprocessors, call.compiling]
    devices: dict[str, Device] = state.values.setdefault("devices", {})
    known = devices.get(key := json.dumps(described, sort_keys=True))
    if known is None:
        told = Device(call.gpu, call.multiprocessors, is_compiling=call.compiling)
        known = devices[key] = told if call.device is None else Device.like(call.device)
    return known


_OF_A_DEVICE = ("candidate", "where", "opaque", "evaluator", "find")


@contextmanager
def _on(state: ChildState, device: Device | None) -> Iterator[None]:
    """Load the program for another device, so that it may ask as it is imported, once each; and the usual one afterwards."""
    if device is None:
        yield
        return
    usual = {name: state.values[name] for name in _OF_A_DEVICE}
    loaded: dict[Device, dict[str, Any]] = state.values.setdefault("told", {})
    try:
        if (known := loaded.pop(device, None)) is None:
            _evaluate(state, device)
        else:
            state.values |= known
        yield
        loaded[device] = {name: state.values[name] for name in _OF_A_DEVICE}  # where nothing went wrong
    finally:
        state.values |= usual


def _answer(
    state: ChildState, request: RunCase, tensors: list[torch.Tensor], arguments: Arguments, device: Device | None
) -> Answer[CaseReply]:
    call = request.call
    log, steps = _prepared(state, call, tensors, arguments)
    decisions = state.values["decisions"]
    # In a large case with NaN it takes minutes to follow them, and others of its size show what is decided there.
    given = [entry for entry in (*call.inputs, *call.upstream) if entry is not None]
    decisions.is_paused = call.odd and max((math.prod(entry.shape) for entry in given), default=0) > MOST_FOLLOWED
    note(Noted.nothing if decisions.is_paused else Noted.nans if call.odd else Noted.decisions)
    with _logged(log, state):
        kept = steps.all()
        lookups.settle(decisions)
        trail = log.trail.left()
        inputs = [*arguments.raw.values(), *arguments.raw_upstream]
        reply = CaseReply(
            values=tuple(steps.reply.entries),
            raw=tuple(arguments.raw),
            raw_upstream=len(arguments.raw_upstream),
            launched=log.launched,
            launches=log.launches,
            work=log.work(),
            broken=log.broken_guards(),
            ordering=tuple(log.ordering.items()),
            touched=() if call.tolerant else tuple(log.touched),
            untouched=tuple(label for label, value in kept.items() if _is_unaccounted(value, log)),
            imported=state.values.get("imported", ""),
            trail=trail,
            decisions=decisions.rows(),
            kernels=decisions.of_kernels() if request.several else KernelOutcomes(),
            processors=_multiprocessors(state, device),
            asked=device is not None and device.was_asked,
            **steps.facts(),
        )
    return reply, [*steps.reply.tensors, *inputs]


def _multiprocessors(state: ChildState, device: Device | None) -> int:
    if device is not None and not state.gpu:
        return device.multiprocessors
    return torch.cuda.get_device_properties(0).multi_processor_count if state.gpu else 0


def sampled(state: ChildState, request: SampleCall, tensors: list[torch.Tensor]) -> Answer[SampledReply]:
    """Call the candidate forward and backward: at the size of a workload, where a few programs of each launch run, or at a usual
    size; see ``verify.scale`` and ``verify.usual``.

    What it decides there is not noted, since not all of what follows is judged.
    """
    if state.values.get("imported"):
        return SampledReply(), []
    reply, answers = _sampled(state, request, tensors, request.operations)
    unseen = at_scale.unseen(request, reply.values, answers) if request.again else set()
    if unseen:
        again, other = _sampled(state, request, tensors, request.again)
        unseen -= at_scale.unseen(request, again.values, other)
        values = [entry for entry in reply.values if entry.label not in unseen]
        values += [
            replace(entry, tensor=None if entry.tensor is None else entry.tensor + len(answers))
            for entry in again.values
            if entry.label in unseen
        ]
        reply, answers = replace(reply, values=tuple(values)), [*answers, *other]
    return reply, answers


def _sampled(
    state: ChildState, request: SampleCall, tensors: list[torch.Tensor], operations: int
) -> Answer[SampledReply]:
    """The same by few programs of each launch, or all of them for so many ``operations`` on blocks."""
    call = request.call
    arguments = settle(state, call, tensors) if request.operations else at_scale.spread(request, tensors)
    device = device_of(state, call)
    given = [*arguments.memory.values(), *(grad for grad in arguments.upstream if grad is not None)]
    with (
        _on(state, device),
        _deciding_apart(state) as apart,
        sampling(given, operations=operations, middle=request.middle) as sample,
    ):
        log = Log(state.values["where"], False, state.values["opaque"], sample=sample)
        if not request.operations:
            at_scale.note_few(request, arguments, sample)
        for name, memory in arguments.memory.items():
            log.is_input(memory, name)
        with _logged(log, state):
            log.begin_step("forward")
            outputs = outputs_of(arguments.call(state.values["candidate"]))
            values = {f"output {place}": value for place, value in enumerate(outputs)}
            if call.backward:
                log.begin_step("backward")
                values |= backward(outputs, arguments, retain=False)
        entries, gathered = at_scale.gathered(request, values, sample)
        plain = [(name, one) for name, one in (arguments.memory | values).items() if is_plain(one)]
        offsets = tuple((name, *sample.offset_of(one), one.numel()) for name, one in plain)
    processors = _multiprocessors(state, device)
    return SampledReply(entries, offsets, apart.ranges(), log.work(), log.launched, processors), gathered


def beyond(state: ChildState, request: FindBeyond, _: list[torch.Tensor]) -> Answer[NumbersBeyond]:
    """Those numbers of a call at scale, which any process may have carried out, that no case of this one had."""
    return tuple(itertools.islice(state.values["decisions"].beyond(request.ranges), MOST_BEYOND)), []


@contextmanager
def _deciding_apart(state: ChildState, apart: Decisions | None = None) -> Iterator[Decisions]:
    """What is decided meanwhile, of which nothing counts: nobody judges what comes of it."""
    decisions, evaluator = state.values["decisions"], state.values.get("evaluator")
    apart = apart or Decisions()
    decisions.is_paused = True
    noted = note(Noted.nothing)
    broken = None if evaluator is None else evaluator.broken
    if evaluator is not None:
        evaluator.decisions = apart
    try:
        yield apart
    finally:
        decisions.is_paused = False
        note(noted)
        if evaluator is not None:  # what leaves the language there ends no call that counts
            evaluator.decisions, evaluator.broken = decisions, broken


def decided(state: ChildState, request: DecideCase, tensors: list[torch.Tensor]) -> Answer[tuple[tuple[int, int], ...]]:
    """What host code decides and computes in a call of which nothing counts and no kernel runs; see ``verify.combinations``."""
    if state.values.get("imported"):
        return (), []
    call = request.call
    with _on(state, device_of(state, call)), _deciding_apart(state) as apart:
        log, steps = _prepared(state, call, tensors, settle(state, call, tensors, reuse=False), dry=True)
        with _logged(log, state):
            steps.warm()
    return apart.signature(), []


def turned(state: ChildState, request: TurnDecision, tensors: list[torch.Tensor]) -> Answer[TurnedReply]:
    """The trail of one case in which the decision at a place of the host code ends the other way, and how often it did.

    No kernel runs. What is decided does not count as seen; what is decided there alone is told, of all such cases of this decision
    so far.
    """
    evaluator = state.values["evaluator"]
    place = request.decision
    apart = state.values.setdefault("turned", {}).setdefault(place, Decisions())
    evaluator.turned, evaluator.turns = place, 0
    try:
        with _deciding_apart(state, apart):
            trail = _trail(state, request.call, tensors, dry=True)
    finally:
        evaluator.turned = None
    return TurnedReply(trail, evaluator.turns, apart.rows(state.values["decisions"])), []


def leave_trail(state: ChildState, request: LeaveTrail, tensors: list[torch.Tensor]) -> Answer[CaseTrail]:
    """The trail of one case, without running its kernels unless that is another one than the trail that is ``expected``.

    ``dry``: none is expected, and kernels never run; host code that reads what one wrote may raise then.
    """
    if request.dry:
        return _trail(state, request.call, tensors, dry=True), []
    try:
        trail = _trail(state, request.call, tensors, dry=True)
    except Exception:  # noqa: BLE001 - host code that reads what a kernel wrote read what lay there
        trail = None
    if trail is None or trail.whole != request.expected:
        trail = _trail(state, request.call, tensors, dry=False)
    return trail, []


def _trail(state: ChildState, call: SentCall, tensors: list[torch.Tensor], *, dry: bool) -> CaseTrail:
    log, steps = _prepared(state, call, tensors, settle(state, call, tensors), dry=dry)
    with _logged(log, state):
        steps.all()
    return log.trail.left()


def warm(state: ChildState, request: WarmUp, tensors: list[torch.Tensor]) -> Answer[None]:
    """Compile what forward and backward launch on a case that nobody judges, or run them once where times choose among kernels."""
    with _deciding_apart(state):
        if state.gpu and _compile_ahead(state, request.call, tensors):
            return None, []
        log, steps = _prepared(state, request.call, tensors, settle(state, request.call, tensors))
        with _logged(log, state):
            steps.warm()
    if state.gpu:
        torch.cuda.empty_cache()  # others are at work on the device
    return None, []


def compile_launched(state: ChildState, request: CompileCase, tensors: list[torch.Tensor]) -> Answer[CompiledReply]:
    """Compile what forward and backward launch on a case, for a GPU that is not there, and run none of it."""
    call = request.call
    compiler, evaluator = state.values["compiler"], state.values.get("evaluator")
    compiler.failed, refused = None, None
    with _on(state, device_of(state, call)):
        log, steps = _prepared(state, call, tensors, settle(state, call, tensors))
        try:
            with _logged(log, state):
                steps.warm()
        except Exception:  # noqa: BLE001 - host code that reads what a kernel writes reads what lay there
            refused = compiler.failed and uncompiled.refusal_of(compiler.failed)
        if evaluator is not None:
            evaluator.broken = None
    return CompiledReply(refused, tuple(compiler.compiled)), []


def _compile_ahead(state: ChildState, call: SentCall, tensors: list[torch.Tensor]) -> bool:
    """Begin to compile what a case launches, without running or waiting for it; whether that was all there is to do."""
    log, steps = _prepared(state, call, tensors, settle(state, call, tensors), ahead=compiling_ahead)
    try:
        with _logged(log, state):
            steps.warm()
    except Exception:  # noqa: BLE001 - host code that reads what a kernel wrote read what lay there
        return False
    return not log.was_tuned


def _prepared(
    state: ChildState, call: SentCall, tensors: list[torch.Tensor], arguments: Arguments, **how: Any
) -> tuple[Log, Steps]:
    log = Log(state.values["where"], call.poison, state.values["opaque"], has_devices=call.has_devices, **how)
    for given in (arguments, *([arguments.other] if call.others else [])):
        for name, memory in given.memory.items():
            log.is_input(memory, name)
        for tensor in (*given.tensors(), *given.upstream):
            if tensor is not None:
                log.lies(tensor)
    return log, Steps(state.values["candidate"], call, tensors, arguments, log, LabelledTensors())


@contextmanager
def _logged(log: Log, state: ChildState) -> Iterator[None]:
    _current.append(log)
    try:
        with log:
            yield
        if state.gpu:
            torch.cuda.synchronize()
    finally:
        _current.pop()


def device_there(state: ChildState, request: AskDevice, tensors: list[torch.Tensor]) -> Answer[dict[str, Any]]:
    """What host code can learn of the GPU."""
    return facts_of_gpu(), []


def memory(state: ChildState, request: MeasurePeaks, tensors: list[torch.Tensor]) -> Answer[PeakBytes]:
    """The peak bytes of GPU memory that forward and backward take beyond what was there; unwatched."""
    if not state.gpu:
        return PeakBytes(), []
    arguments = settle(state, request.call, tensors)
    peaks = PeakBytes()
    torch.cuda.synchronize()
    for _ in range(2):  # the first run also compiles
        before = _reset_peak()
        outputs = outputs_of(arguments.call(state.values["candidate"]))
        peaks = PeakBytes(torch.cuda.max_memory_allocated() - before)
        if request.call.backward:
            _reset_peak()
            backward(outputs, arguments, retain=False)
            peaks = replace(peaks, backward=torch.cuda.max_memory_allocated() - before)
        del outputs
    return peaks, []


def _reset_peak() -> int:
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    return int(torch.cuda.memory_allocated())


def _is_unaccounted(value: Any, log: Log) -> bool:
    """Whether no kernel wrote a result, and it is no input, no constant, and no number expanded to its shape either."""
    if not is_plain(value) or value.numel() == 0 or log.is_accounted_for(value):
        return False
    return not _is_expanded(value)


def _is_expanded(value: torch.Tensor) -> bool:
    span = 1 + sum((size - 1) * step for size, step in zip(value.shape, value.stride(), strict=True))
    return bool(span * EXPANDED <= value.numel())


def take_any(decisions: Decisions) -> None:
    """Let every autotuner of this process take a drawn one of its settings for each key: on a GPU times choose, so that any may be.

    The interpreter launches all of them. Where little memory is given to the kernel, another setting is launched before as under a
    clock, so that what a trial leaves in memory shows; what kernels decide there is not judged. A second time changes nothing.
    """
    from triton.runtime.autotuner import Autotuner

    original, bench = Autotuner.run, Autotuner._bench  # noqa: SLF001 - the one place where a setting is tried
    if getattr(original, "takes_any", False):
        return

    def run(self: Any, *args: Any, **kwargs: Any) -> Any:
        self.cache_results = False  # on disk
        return original(self, *args, **kwargs)

    def trial(self: Any, *args: Any, **kwargs: Any) -> Any:
        if self.__dict__["has_launched"]:
            return [0.0] * 3  # the first of these is taken
        self.__dict__["has_launched"] = True
        if sum(tensor.numel() for tensor in tensors_in([*args, kwargs])) <= MOST_TRIED:
            was_paused, decisions.is_paused = decisions.is_paused, True
            self.__dict__["do_bench"] = _once
            try:
                bench(self, *args, **kwargs)
            finally:
                decisions.is_paused = was_paused
        return [1.0] * 3

    run.takes_any = True  # type: ignore[attr-defined]  # a mark on the function itself
    Autotuner.run, Autotuner._bench = run, trial  # noqa: SLF001 - as above
    Autotuner.prune_configs = _drawn_order(Autotuner.prune_configs)


def _drawn_order(prune: Callable[..., Any]) -> Callable[..., Any]:
    """The settings that are left, in a drawn order, of which none was launched yet."""

    @functools.wraps(prune)
    def begin(self: Any, *args: Any, **kwargs: Any) -> Any:
        _tuners.add(self)
        left = list(prune(self, *args, **kwargs))
        self.__dict__["has_launched"] = False
        return [left.pop(secrets.randbelow(len(left))) for _ in range(len(left))]

    return begin


_tuners: weakref.WeakSet[Any] = weakref.WeakSet()  # which have chosen a setting


def forget_settings() -> None:
    """Have each autotuner of this process choose anew, as in a process whose calls came in another order."""
    for tuner in _tuners:
        tuner.cache.clear()


def take_one_that_launches() -> None:
    """Let every autotuner of this process choose a drawn setting that the GPU can launch, and compile no other.

    It is launched once before, as under a clock: what a trial leaves in memory shows. What is lent, reset or pruned around a trial
    stays as the autotuner does it.
    """
    from triton.runtime.autotuner import Autotuner

    bench = Autotuner._bench  # noqa: SLF001 - the one place where a setting is tried
    if getattr(bench, "takes_one", False):
        return

    def trial(self: Any, *args: Any, **kwargs: Any) -> Any:
        if self.__dict__.get("has_launched", False):
            return [math.inf] * 3
        self.__dict__["do_bench"] = _once
        times = bench(self, *args, **kwargs)
        first = times[0] if isinstance(times, list | tuple) else times
        self.__dict__["has_launched"] = math.isfinite(first)
        return times

    trial.takes_one = True  # type: ignore[attr-defined]  # a mark on the function itself
    Autotuner.prune_configs = _drawn_order(Autotuner.prune_configs)
    Autotuner._bench = trial  # noqa: SLF001 - as above


def _once(launch: Callable[[], Any], *_: Any, **__: Any) -> list[float]:
    """Launch without a clock; what cannot be launched raises, as under a clock."""
    launch()
    return [0.0] * 3


HANDLERS: dict[type[Request[Any]], Handler] = {
    OpenDevice: start, LoadCandidate: load, SelectCallable: select, RunCase: run, LeaveTrail: leave_trail, WarmUp: warm,
    MeasurePeaks: memory, AskDevice: device_there, SampleCall: sampled, FindBeyond: beyond, DecideCase: decided,
    TurnDecision: turned, CompileCase: compile_launched,
}  # fmt: skip
