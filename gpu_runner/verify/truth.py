"""Asks the reference, in a child of its own, for the truth of each case."""

from __future__ import annotations

import ast
import functools
import math
import random
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from gpu_runner.contracts.problem import InputSpec, Problem
from gpu_runner.contracts.reading import parse
from gpu_runner.errors import ChildError, ChildFailed, ChildOutOfMemory, ChildTimeout, MalformedReply
from gpu_runner.messages import (
    NOISY,
    PARAMETER_NOISE,
    ROUNDED,
    SHAKEN,
    CallForm,
    DescribeModuleInputs,
    Differentiate,
    DifferentiateTwice,
    DrawModuleInputs,
    Evaluate,
    LoadReference,
    MeasureTraffic,
    PlainValue,
    ReferenceValues,
    ShapedCall,
    ShapedTensor,
    TrafficBytes,
    TruthKinds,
)
from gpu_runner.numerics.compare import FLOAT32_STEP, Truth, natural_error, rms
from gpu_runner.numerics.measures import typical_size
from gpu_runner.numerics.tolerances import typical_of
from gpu_runner.session import ChildReply, ChildSession
from gpu_runner.spans import span
from gpu_runner.verify.cases import EXPANDED, FAR_OF_MASKS, REPEATED, Case, Content, MemoryLayout, Special, fallbacks
from gpu_runner.verify.early import has_its_device
from gpu_runner.verify.inputs import DTYPES, filled_of, make_inputs, make_upstream, places_of, shape_of
from gpu_runner.verify.laying import Laid, Placement, lay, lay_packed, place_of
from gpu_runner.verify.proof import Expected, Proof, make_call
from gpu_runner.verify.ratios import Ratio, in_ratio, in_steps, ratio_of, steps_of
from gpu_runner.verify.reach import farthest, with_room
from gpu_runner.verify.relations import lay_related
from gpu_runner.verify.uses import Uses, directions_of, second_labels

# By how much of itself an input is shaken in order to see how much of an answer float32 can hold at all. A kernel that rounds an
# intermediate result as large as its input, such as a log-sum of large values, errs like that; and where an element lies at a step
# or a bend of the function, as elements of few bits often do, float32 may see it on either side.
SHAKE = 4 * FLOAT32_STEP
MOST_NOISY = 2**18  # elements of all inputs
# A gradient that is zero by cancellation, as that of a norm over one column, is what rounding leaves of terms as large as the
# upstream gradient times the reciprocal of a standard deviation that only its epsilon keeps from zero.
VANISHES, VANISHING = 1e-6, 1e-3
VANISHED = 1e-12  # root mean square of an output below which it is rounding alone: inputs are about one

LARGEST = 2.0**116  # of an answer to ordinary inputs; of large upstream gradients it is 2**90 and more

MOST_ORDINARY = 96  # of a dimension: sums of more terms lose more than Triton's approximations
LEAST_ORDINARY = 4  # of a dimension: with fewer elements, means and sums are exact by chance
LOST = 0.1  # of a row's size: an error that leaves nothing of the answer
SETTLED = 1e-3  # of its size: how far the truth may move with inputs that are a few roundings of float32 away
MOST_RESTARTS = 8  # of the reference's process, seconds each on a GPU
# Of a process's memory what may live of what a forward makes in the dtype of a case: it is asked for in float64 too, and up to
# eleven times, on the host by one core, whose time is what it makes in all.
OF_MEMORY, OF_HOST_MEMORY, MOST_MADE_AGAIN = 64, 512, 8
# In place of what is not finite: seeds, and how large; among numbers as they are, and among tiny ones, which saturate nothing.
TINY, CANCELLED = 2.0**-22, 1e-9
NUMBERS_FOR_ODD = ((1.0, ((1, 256.0), (1, -256.0), (2, 16.0))), (TINY, ((3, TINY), (4, TINY))))
FEW_ELEMENTS = 2**13  # of all inputs: what is made of fewer fits
MOST_DRAWN_ANEW = 2**24  # elements of a module's parameters; of more the host takes ten seconds and more for five draws
MOST_WHOLE, MOST_OF_ROWS = (
    2**22,
    2**21,
)  # elements of a module's output that are compared all, or else in rows at random
MOST_SHAKEN = 2**25  # elements of all inputs: the truth is asked for twice or four times more, in float64


class BadProblem(Exception):  # noqa: N818 - an expected outcome of judging a problem
    """The reference does not run, or cannot be judged by."""

    def __init__(self, message: str, line: int | None = None, log: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.line = line
        self.log = log


@dataclass(frozen=True)
class ModuleArguments:
    """Inputs of a module's call by name: shape and dtype of each tensor, and numbers."""

    tensors: dict[str, tuple[tuple[int, ...], str]]
    numbers: dict[str, Any]

    @property
    def order(self) -> tuple[str, ...]:
        """The names by place."""
        return tuple(f"input {place}" for place in range(len(self.tensors) + len(self.numbers)))


def _dtype_name(tensor: torch.Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")


@dataclass
class Oracle:
    """The reference in its child."""

    problem: Problem
    session: ChildSession
    form: CallForm
    state: dict[str, torch.Tensor]  # a module's parameters and buffers as it was built
    trained: tuple[str, ...] = ()
    seed: int = 0  # of what a module draws as it is built
    restarts: int = 0  # of its child, whose device was lost or which took too much memory
    dropped: ChildError | None = None  # why the last case was left out
    uses: Uses = field(default_factory=Uses)
    coming: Case | None = None  # whose inputs are made while the reference works
    _pool: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(2, "drawing"))
    _ahead: dict[Case, Future[Proof]] = field(default_factory=dict)
    _drawn: dict[torch.dtype, tuple[dict[str, torch.Tensor], dict[str, Laid]]] = field(default_factory=dict)

    @classmethod
    def open(cls, problem: Problem, session: ChildSession, seed: int) -> Oracle:
        """Import the problem in the child.

        Raises:
            BadProblem: it cannot be imported or built.
        """
        try:
            reply = session.call(LoadReference(problem.form, seed))
        except ChildError as error:
            raise BadProblem(f"the problem cannot be loaded: {error}", error.line, error.log) from error
        form = form_of(problem)
        if form is not None:
            fixed = sum(math.prod(int(dim) for dim in spec.dims if dim.isdigit()) for spec in problem.inputs)
            return cls(problem, session, form, {}, seed=seed, uses=Uses(fixed=fixed))
        model = reply.message
        form = CallForm("kernelbench", parameters=model.parameters, init=model.init)
        state = dict(zip(model.parameters, _torch(reply), strict=True))
        return cls(problem, session, form, state, model.trained, seed)

    def prove(self, case: Case, other_seed: int | None) -> Proof | None:
        """The case with its truth, at rounder sizes where the reference does not run at odd ones; None where at none.

        It is smaller where the reference would make more than fits. Large or odd values go as far as the reference can be judged
        by.

        Raises:
            BadProblem: the reference takes too long.
        """
        case = self._placed(case)
        if case.content is not Content.ordinary:
            known = farthest(case, self.problem, lambda attempt: self._prove(attempt, None))
            return known and self.with_idle(known)
        return self._prove(case, other_seed)

    def _prove(self, case: Case, other_seed: int | None) -> Proof | None:
        first: Proof | None = None
        for attempt in _attempts(case, interpreted=not self.session.gpu):
            try:
                proof = self._used(_with_ordinary(self._proved(attempt, other_seed)))
            except ChildError as error:
                self.dropped = error
                if not has_its_device(self.session):
                    self._restart(error, attempt)
                continue
            except ChildOutOfMemory as error:
                if self.session.is_gone:
                    self._restart(error, attempt)
                return first
            except (
                KeyError,
                IndexError,
                TypeError,
                ValueError,
                AttributeError,
                ArithmeticError,
                RuntimeError,
            ) as error:
                raise BadProblem("the reference's process answered in place of the runner's own code") from error
            except ChildTimeout as error:
                raise BadProblem(f"the reference gave no answer: {error} ({case.label()})", log=error.log) from error
            is_last = not case.spare or attempt.scalars == case.spare[-1]
            if (case.weights and not _keeps_dtype(proof)) or (case.mixed and not self._keeps_dtype_of_first(proof)):
                return None  # its answers are of another dtype then, of which a kernel for one dtype knows nothing
            if case.is_empty and not _is_finite(proof):
                continue
            is_good = _is_finite(proof) and _has_room(proof) and _is_settled(proof) and not loses_rows(proof)
            if case.content is not Content.ordinary or (
                is_good and (is_last or case.may_vanish or not _vanishes(proof))
            ):
                return with_room(proof)
            if not is_last:
                continue  # other scalars may have an answer
            first = first or proof
            for gentler in attempt.gentler():
                tamer = self._prove(gentler, other_seed)
                if tamer is not None and _is_finite(tamer) and _has_room(tamer) and _is_settled(tamer):
                    return tamer
            return first
        return first

    def with_idle(self, proof: Proof) -> Proof:
        """Mark what is not finite though nothing that is not finite reaches it but times zero, as behind a causal mask; and leave
        out what is NaN for numbers too, as a slope where another branch divides by zero.

        Numbers in these places are large, and as large of the other sign, and then of another size: what hangs on one differs. What
        is no larger than a limit hangs on none of these, and on tiny ones where all others are tiny.
        """
        idle = {
            label: ~torch.isfinite(item.truth.exact) & ~torch.isfinite(item.truth.own)
            for label, item in proof.expected().items()
            if item is not None and item.truth.exact.is_floating_point()
        }
        never = {label: mask.clone() for label, mask in idle.items()}
        usual: dict[str, Expected | None] = {}
        beside: dict[float, dict[str, Expected | None]] = {}
        drawn = [(scale, *number) for scale, numbers in NUMBERS_FOR_ODD for number in numbers]
        for scale, seed, size in drawn if proof.case.content is Content.odd else ():
            if not any(mask.any() for mask in (*idle.values(), *never.values())):
                return proof
            stream = torch.Generator().manual_seed(proof.case.seed + seed)
            filled = {name: _with_numbers(proof.inputs[name], scale, size, stream) for name in proof.filled}
            inputs, upstream = proof.inputs | filled, proof.upstream
            if proof.case.odd_upstream:
                upstream = tuple(laid and lay(_with_numbers(laid.view(), scale, size, stream)) for laid in upstream)
            laid = {name: lay(value) for name, value in inputs.items()}
            among = replace(proof, inputs=inputs, laid=laid, outputs=(), gradients={})
            try:
                known = self.with_truth(among, upstream, roughly=True).expected()
            except ChildFailed as error:
                self.recover(error)
                return proof
            usual, first = usual or known, beside.setdefault(scale, known)
            for label, mask in never.items():
                item = known[label]
                mask &= False if item is None else torch.isnan(item.truth.exact)
            for label, mask in idle.items():
                one, other = first[label], known[label]
                if one is not None and other is not None:
                    # Gradients go with the upstream one, and of what cancels rounding is left.
                    apart = CANCELLED * abs(size) if proof.case.odd_upstream else 0.0
                    mask &= torch.isfinite(one.truth.exact)
                    mask &= (one.truth.exact - other.truth.exact).abs() <= apart

        def marked(item: Expected | None) -> Expected | None:
            number = None if item is None else usual.get(item.label)
            if item is None or number is None or item.label not in idle:
                return item
            numbers = torch.where(idle[item.label], number.truth.exact, math.nan)
            judged = None if item.truth.judged is None else item.truth.judged & ~never[item.label]
            return replace(item, truth=replace(item.truth, idle=numbers, judged=judged))

        outputs = tuple(one for item in proof.outputs if (one := marked(item)) is not None)
        return replace(proof, outputs=outputs, gradients={name: marked(item) for name, item in proof.gradients.items()})

    def _restart(self, error: ChildFailed, case: Case) -> None:
        """Give the reference a fresh process: the old one is lost where it takes too much memory, and on a GPU where torch asserts
        something of the values, as for probabilities of NaN.

        Raises:
            BadProblem: that has happened too often.
        """
        if self.restarts == MOST_RESTARTS:
            raise BadProblem(
                f"the reference's process is lost again and again: {error} ({case.label()})", log=error.log
            ) from error
        self.restarts += 1
        self.session.restart()
        self.session.call(LoadReference(self.problem.form, self.seed))

    def recover(self, error: Exception) -> None:
        """Have a reference that was lost to what it was asked for go on in a fresh process.

        Raises:
            BadProblem: that has happened too often.
        """
        if isinstance(error, ChildFailed) and self.session.is_gone:
            self._restart(error, self._plain)

    def _keeps_dtype_of_first(self, proof: Proof) -> bool:
        """Whether answers have the dtype of the first input, which of the two it may be: it is cast to that and not promoted."""
        case = replace(proof.case, dtype=proof.case.beside, beside=proof.case.dtype)
        turned = replace(self.asked(case), wanted=())
        try:
            return _keeps_dtype(proof) and _keeps_dtype(self.with_truth(turned, None, roughly=True))
        except ChildError:  # it takes the two one way round alone, as torch's layer norm does on a CPU
            return False

    def _proved(self, case: Case, other_seed: int | None) -> Proof:
        proof = self.with_truth(self.asked(case), None)
        if other_seed is None or self.form.name == "kernelbench":
            return proof
        other = self.asked(replace(case, seed=other_seed))
        return replace(proof, other=self.with_truth(other, proof.upstream))

    def _used(self, proof: Proof) -> Proof:
        """Add other ways to call the candidate, of a double backward with its truth; none of it where the reference has none."""
        proof = self.uses.deal(proof)
        if all(use.kind != "double" for use in proof.uses):
            return proof
        proof = replace(proof, directions=directions_of(proof))
        call, kinds = make_call(proof), TruthKinds(noise=_is_noisy(proof), rounded=_is_rounded(proof))
        try:
            reply = self.session.call(DifferentiateTwice(call.call, kinds), call.tensors)
        except ChildError:
            seconds: dict[str, Expected | None] = {}
        else:
            labels = list(second_labels(proof))
            there = len(reply.message.kinds["own"]) == len(labels)
            gradients = dict(zip(labels, _expected(labels, reply), strict=True)) if there else {}
            seconds = _with_second_naturals(gradients, proof)
        if any(item is not None for item in seconds.values()):
            return replace(proof, seconds=seconds)
        return replace(proof, directions={}, uses=tuple(use for use in proof.uses if use.kind != "double"))

    def reason(self) -> BadProblem:
        """Why no case was left."""
        if self.dropped is None:
            return BadProblem("the reference does not run: there is not enough memory for it")
        return BadProblem(f"the reference does not run: {self.dropped}", self.dropped.line, self.dropped.log)

    def asked(self, case: Case) -> Proof:
        """Make the inputs of a case."""
        if self.form.name == "kernelbench":
            return self._asked_of_module(case)
        with span("drawing and scaling"):
            ahead = self._ahead.pop(case, None)
            made = asked_of(self.problem, self.form, case) if ahead is None else ahead.result()
        if self.coming is not None:
            self.ask_ahead(self.coming)
        return made

    def on_shapes(self, case: Case) -> ShapedCall:
        """What the reference is called with on shapes alone."""
        form, scalars = self.form, dict[str, Any]()
        if form.name == "kernelbench":
            drawn = self.module_inputs(case)
            form, scalars = replace(form, order=drawn.order), drawn.numbers
            shapes = drawn.tensors | {name: (tuple(x.shape), _dtype_name(x)) for name, x in self.state.items()}
            given = [
                (name, shape, case.dtype if DTYPES[dtype].is_floating_point else dtype, False)
                for name, (shape, dtype) in shapes.items()
            ]
        else:
            scalars = {spec.name: spec.default for spec in self.problem.scalars if spec.default is not None}
            scalars |= dict(case.scalars)
            given = [
                (spec.name, shape_of(spec, case.size_of), spec.dtype or case.dtype, spec.grad)
                for spec in self.problem.inputs
            ]
        inputs = tuple(
            ShapedTensor(name, shape, dtype, grad and DTYPES[dtype].is_floating_point)
            for name, shape, dtype, grad in given
        )
        return ShapedCall(form, scalars, inputs)

    def made_bytes(self, case: Case) -> int:
        """What the operators of the reference's forward make; 0 where it does not run on shapes alone."""
        traffic = self._traffic(case)
        return 0 if traffic is None else traffic.made

    def _traffic(self, case: Case) -> TrafficBytes | None:
        try:
            return self.session.call(MeasureTraffic(self.on_shapes(case))).message
        except (ChildError, MalformedReply):
            return None

    def _placed(self, case: Case) -> Case:
        """The case at sizes that the reference takes, and that fit."""
        return self._within_memory(replace(case, sizes=tuple(self.in_form(dict(case.sizes), case.scalars).items())))

    def in_form(self, sizes: Mapping[str, int], scalars: tuple[tuple[str, Any], ...]) -> dict[str, int]:
        """The sizes at which the reference runs by more than chance: two dimensions in one ratio, or multiples of a step."""
        if self.form.name == "kernelbench":
            return dict(sizes)
        if self._ratio is not None:
            return in_ratio(sizes, self._ratio)
        is_usual = self._counts(scalars) == self._counts(self._plain.scalars)
        return in_steps(sizes, self._steps) if is_usual else dict(sizes)

    def _counts(self, scalars: tuple[tuple[str, Any], ...]) -> dict[str, int]:
        """The whole scalars, which may say what sizes are multiples of."""
        given = {spec.name: spec.default for spec in self.problem.scalars} | dict(scalars)
        return {name: value for name, value in given.items() if isinstance(value, int)}

    @functools.cached_property
    def _plain(self) -> Case:
        return Case("", (), "float32", 0, self.problem.workloads[0].scalars)

    def _runs(self, sizes: Mapping[str, int]) -> bool:
        return self.made_bytes(replace(self._plain, sizes=tuple(sizes.items()))) > 0

    @functools.cached_property
    def _ratio(self) -> Ratio | None:
        return ratio_of(self.problem, self._runs)

    @functools.cached_property
    def _steps(self) -> dict[str, int]:
        return steps_of(self.problem, self._runs)

    def _within_memory(self, case: Case) -> Case:
        """The case, its shortest dimensions halved first, until inputs and what the reference's operators make of them fit."""
        if case.measured or self.form.name == "kernelbench":
            return case
        most = self.session.limits.memory_bytes // (OF_MEMORY if self.session.gpu else OF_HOST_MEMORY)
        while self._taken_bytes(case, most) > most:
            known = [(size, dim) for dim, size in case.sizes if size > 1]
            if not known:
                break
            halved = min(known)[1]  # a case is about its longest one
            case = replace(case, sizes=tuple((dim, size // 2 if dim == halved else size) for dim, size in case.sizes))
        return case

    def _taken_bytes(self, case: Case, most: int) -> int:
        elements = sum(math.prod(shape_of(spec, case.size_of)) for spec in self.problem.inputs)
        given: int = elements * DTYPES[case.dtype].itemsize
        traffic = None if elements <= FEW_ELEMENTS or given > most else self._traffic(case)
        return given if traffic is None else given + max(traffic.live, traffic.made // MOST_MADE_AGAIN)

    def ask_ahead(self, case: Case) -> None:
        """Begin to make the inputs of a case that comes later."""
        case = self._placed(case)
        if self.form.name != "kernelbench" and case not in self._ahead:
            self._ahead[case] = self._pool.submit(asked_of, self.problem, self.form, case)

    def module_inputs(self, case: Case) -> ModuleArguments:
        """What a module is called with, without its content.

        Raises:
            ValueError: the child answered in place of the runner's own code.
        """
        arguments = ModuleArguments({}, {})
        for place, form in enumerate(self.session.call(DescribeModuleInputs(case.seed)).message):
            name = f"input {place}"
            if isinstance(form, PlainValue):
                arguments.numbers[name] = form.value
            elif form.dtype in DTYPES and all(size >= 0 for size in form.shape):
                arguments.tensors[name] = form.shape, form.dtype
            else:
                raise ValueError("no form of an input")
        return arguments

    def without_inputs(self, case: Case, drawn: ModuleArguments) -> Proof:
        """A module's case with its parameters alone: the inputs of its call are drawn where it is called."""
        state = self._parameters(case, DTYPES[case.dtype])
        laid = {name: lay(tensor) for name, tensor in state.items()}
        return Proof(case, replace(self.form, order=drawn.order), state, laid, (), ())

    def _laid_parameters(self, case: Case, dtype: torch.dtype) -> tuple[dict[str, torch.Tensor], dict[str, Laid]]:
        """A module's parameters and buffers as they are sent; many are drawn once and stay the same in all draws of a dtype."""
        if dtype in self._drawn:
            return self._drawn[dtype]
        state = self._parameters(case, dtype)
        made = state, {name: lay(tensor) for name, tensor in state.items()}
        if sum(tensor.numel() for tensor in state.values()) > MOST_DRAWN_ANEW:
            self._drawn[dtype] = made
        return made

    def _asked_of_module(self, case: Case) -> Proof:
        reply = self.session.call(DrawModuleInputs(case.seed))
        tensors = iter(_torch(reply))
        scalars = iter(reply.message.scalars)
        dtype = DTYPES[case.dtype]
        inputs: dict[str, torch.Tensor] = {}
        plain: dict[str, Any] = {}
        for place, is_tensor in enumerate(reply.message.is_tensor):
            if is_tensor:
                tensor = next(tensors)
                inputs[f"input {place}"] = tensor.to(dtype) if tensor.is_floating_point() else tensor
            else:
                plain[f"input {place}"] = next(scalars)
        order = tuple(f"input {place}" for place in range(len(reply.message.is_tensor)))
        parameters, laid_parameters = self._laid_parameters(case, dtype)
        laid = {name: lay(tensor) for name, tensor in inputs.items()} | laid_parameters
        return Proof(case, replace(self.form, order=order), inputs | parameters, laid, tuple(plain.items()), ())

    def _parameters(self, case: Case, dtype: torch.dtype) -> dict[str, torch.Tensor]:
        stream = torch.Generator().manual_seed(case.seed)
        parameters = {}
        for name, tensor in self.state.items():
            if tensor.is_floating_point() and name in self.trained:
                noise = PARAMETER_NOISE * (rms(tensor) or 1.0)
                tensor = tensor + noise * torch.randn(tensor.shape, generator=stream)
            parameters[name] = tensor.to(dtype) if tensor.is_floating_point() else tensor
        return parameters

    def with_truth(self, proof: Proof, upstream: tuple[Any, ...] | None, *, roughly: bool = False) -> Proof:
        """Add outputs, upstream gradients and gradients to a case's inputs; ``roughly``: without what rounding may make of them."""
        kinds = TruthKinds(
            shake=SHAKE if _is_shaken(proof) and not roughly else 0.0,
            by_value=proof.case.content is Content.ordinary and not _has_equal_elements(proof.case),
            noise=_is_noisy(proof) and not roughly,
            rounded=_is_rounded(proof) and not roughly,
        )
        call = make_call(proof)
        reply = self.session.call(Evaluate(call.call, kinds), call.tensors)
        outputs = _expected([f"output {place}" for place in range(len(reply.message.kinds["own"]))], reply)
        outputs = (
            [item and _of_rows(item, self.seed) for item in outputs] if self.form.name == "kernelbench" else outputs
        )
        given = [_with_order_of_rows(item, proof) for item in outputs if item is not None]
        if proof.case.special is Special.ties:
            size = max((rms(each) for each in proof.inputs.values() if each.is_floating_point()), default=0.0)
            given = [replace(item, truth=_with_ties(item.truth, size)) for item in given]
        proof = replace(proof, outputs=tuple(given))
        with span("drawing and scaling"):
            proof = replace(proof, upstream=_upstream(proof) if upstream is None else upstream)
        if not proof.has_backward:
            return proof
        call = make_call(replace(proof, laid={}))  # the inputs are there since the outputs were asked for
        reply = self.session.call(Differentiate(call.call, kinds), call.tensors)
        names = reply.message.names
        gradients = dict(zip(names, _expected([f"gradient of {name}" for name in names], reply), strict=True))
        with span("drawing and scaling"):
            return replace(proof, gradients=_with_naturals(gradients, proof))


def _with_numbers(values: torch.Tensor, scale: float, size: float, stream: torch.Generator) -> torch.Tensor:
    """Values, scaled, with numbers in place of what is not finite."""
    scaled, numbers = values * scale, size * torch.randn(values.shape, generator=stream)
    return torch.where(torch.isfinite(scaled), scaled, numbers.to(scaled.dtype))


def _attempts(case: Case, *, interpreted: bool) -> Iterator[Case]:
    """A case, and what is drawn in its place where the reference refuses it: other scalars, rounder sizes."""
    drawn = [case, *(replace(case, scalars=scalars, spare=()) for scalars in case.spare)]
    yield from drawn
    for attempt in drawn:
        yield from fallbacks(attempt, interpreted=interpreted)


def is_sound(proof: Proof) -> bool:
    """Whether the truth of a case is numbers, and more than what rounding leaves, in the dtype of the case."""
    is_of_dtype = not (proof.case.weights or proof.case.mixed) or _keeps_dtype(proof)
    return is_of_dtype and _is_finite(proof) and _is_settled(proof) and not _vanishes(proof)


def _is_finite(proof: Proof) -> bool:
    truths = [item.truth for item in proof.expected().values() if item is not None]
    values = [value for truth in truths for value in (truth.exact, truth.own) if value.is_floating_point()]
    return all(map(_holds_numbers, values))


def _has_room(proof: Proof) -> bool:
    """Whether nothing is so large that the same operations in another order may overflow on the way in float32; what is no larger
    than what was given need not be computed, as the least of a row."""
    given = [*proof.inputs.values(), *(laid.view() for laid in proof.upstream if laid is not None)]
    most = max([LARGEST, *map(_largest, given)])
    return all(_largest(item.truth.exact) <= most for item in proof.expected().values() if item is not None)


def _largest(values: torch.Tensor) -> float:
    if not values.is_floating_point() or not values.numel():
        return 0.0
    return max(float(end.abs()) for end in values.aminmax())


def _holds_numbers(values: torch.Tensor) -> bool:
    """Whether all are finite; its least and largest element, of which NaN is both, tell so in one pass."""
    return not values.numel() or all(math.isfinite(float(end)) for end in values.aminmax())


def _keeps_dtype(proof: Proof) -> bool:
    return all(item.dtype == proof.case.dtype for item in proof.outputs if item.truth.exact.is_floating_point())


def _is_settled(proof: Proof) -> bool:
    """Whether the truth says more than what rounding leaves, where elements are equal along a dimension."""
    if proof.case.layout not in (MemoryLayout.broadcast, MemoryLayout.level):
        return True
    truths = [item.truth for item in proof.expected().values() if item is not None]
    return not _vanishes(proof) and all(
        rms(moved.double() - truth.exact) <= SETTLED * rms(truth.exact)
        for truth in truths
        if truth.exact.is_floating_point()
        for moved in truth.shaken
    )


def loses_rows(proof: Proof) -> bool:
    """Whether the reference in its own dtype has no answer beside the smallest number, as a norm whose variance is infinite.

    Torch's fused norms give zeros there, and a kernel that adds a row up gives NaN: neither is the answer. Gradients tell what an
    output does not that a bias makes many times as large, another one in each column.
    """
    if proof.case.special not in FAR_OF_MASKS:
        return False
    items = (*proof.outputs, *proof.gradients.values())
    truths = [item.truth for item in items if item and item.truth.exact.is_floating_point()]
    return any(_loses_a_row(truth) for truth in truths if truth.exact.numel())


def _loses_a_row(truth: Truth) -> bool:
    """Whether the reference's error is as large as what a row has beside its mean, which a bias may make many times as large."""
    exact, own = (value.double().reshape(-1, *value.shape[-1:]) for value in (truth.exact, truth.own))
    apart = (exact - exact.mean(-1, keepdim=True)).norm(dim=-1)
    return bool(((own - exact).norm(dim=-1) > LOST * torch.maximum(apart, SETTLED * exact.norm(dim=-1))).any())


def _vanishes(proof: Proof) -> bool:
    """Whether an output is zero, or what rounding leaves of terms that cancel, at these scalars: a formula may end there."""
    return any(rms(item.truth.exact) < VANISHED for item in proof.outputs if item.truth.exact.is_floating_point())


def _with_ordinary(proof: Proof) -> Proof:
    """Mark the truth of a case in which nothing cancels by the way it was drawn."""
    case = proof.case
    is_drawn = not (case.special or case.related or case.echoes or case.given_back)
    plain = case.content is Content.ordinary and is_drawn and case.dtype == "float32"
    if not plain or not all(LEAST_ORDINARY <= size <= MOST_ORDINARY for _, size in case.sizes):
        return proof

    def marked(item: Expected) -> Expected:
        return replace(item, truth=replace(item.truth, is_ordinary=True))

    gradients = {name: None if item is None else marked(item) for name, item in proof.gradients.items()}
    return replace(proof, outputs=tuple(marked(item) for item in proof.outputs), gradients=gradients)


def _with_ties(truth: Truth, size: float) -> Truth:
    """The truth without the jumps of its runs with noise: of numbers so exact a tie is decided as the reference decides it.

    Where it is zero throughout, as a mean of these numbers, jumps are told from noise by the ``size`` of inputs. Of whole numbers
    every other one is a jump.
    """
    if not truth.exact.is_floating_point():
        return replace(truth, shaken=())
    jump = SETTLED * (rms(truth.exact) or size)
    runs = (torch.where((run - truth.exact).abs() > jump, truth.exact, run) for run in truth.shaken)
    return replace(truth, shaken=tuple(runs))


def _has_equal_elements(case: Case) -> bool:
    """Whether elements are equal as they were drawn: their mean is exact by luck alone, and what cancels leaves rounding."""
    return bool(
        case.special not in (Special.none, Special.ends, Special.limits)
        or case.wild
        or case.echoes
        or case.given_back
        or case.related
        or {case.layout, case.upstream} & REPEATED
    )


def _is_shaken(proof: Proof) -> bool:
    if proof.case.special is Special.limits or proof.case.content is Content.odd:
        return False  # elements lie exactly where a rounding would tell, or are no numbers
    if _has_equal_elements(proof.case):
        return True
    if proof.case.content is not Content.ordinary:
        return proof.case.content is Content.large
    elements = sum(tensor.numel() for tensor in proof.inputs.values())
    return proof.case.dtype in ("float16", "bfloat16") and elements <= MOST_SHAKEN


def _is_noisy(proof: Proof) -> bool:
    """Whether it is tried what float32 arithmetic loses: of many elements the reference's own run says it."""
    elements = sum(tensor.numel() for tensor in proof.inputs.values())
    return proof.case.content in (Content.ordinary, Content.large) and elements <= MOST_NOISY


def _is_rounded(proof: Proof) -> bool:
    """Whether it is tried what other roundings than eager mode's lose in half precision."""
    elements = sum(tensor.numel() for tensor in proof.inputs.values())
    is_half = proof.case.dtype in ("float16", "bfloat16")
    return is_half and proof.case.content in (Content.ordinary, Content.large) and elements <= MOST_SHAKEN


def form_of(problem: Problem) -> CallForm | None:
    """How a problem's callable is called; None where only the reference's process can say it."""
    if problem.form == "kernelbench":
        return None
    weights = tuple(spec.name for spec in problem.inputs if spec.parameter)
    defaults = tuple((spec.name, spec.default) for spec in problem.scalars if spec.default is not None)
    by_name = _keyword_only(problem.source)
    return CallForm("reference", problem.parameters, by_name, (), (), problem.mutates, weights, defaults)


def asked_of(problem: Problem, form: CallForm, case: Case) -> Proof:
    """Make the inputs of a case of a problem with a reference."""
    inputs = make_inputs(problem, case)
    scalars = {spec.name: spec.default for spec in problem.scalars if spec.default is not None}
    places = places_of(problem, case)
    guard = case.seed if case.seed % 2 else None
    laid = {spec.name: lay(inputs[spec.name], places[spec.name], _beyond(spec, case), guard) for spec in problem.inputs}
    if case.related:
        laid |= lay_related(case, inputs, guard)
    if case.packed:
        laid |= lay_packed({name: inputs[name] for name in case.packed}, case.packed_along, guard)
    wanted = [spec.name for spec in problem.inputs if spec.grad and inputs[spec.name].is_floating_point()]
    # A gradient in another dtype than the first input's is what that one's loses, where a kernel rounds by it.
    wanted = [name for name in wanted if name not in case.mixed]
    chosen = tuple(wanted[:1] if case.narrow_grad else wanted)
    given = tuple((scalars | dict(case.scalars)).items())
    return Proof(case, form, inputs, laid, given, chosen, filled=filled_of(problem, case))


def blank(problem: Problem, proof: Proof, few: Case) -> Proof:
    """A case that nobody judges and for which the same kernels are compiled as for this one: of the same form, or of ``few`` rows.

    It has none of the case's values: what a candidate sees before its turn says nothing of what it will be judged by.
    """
    if few.sizes != proof.case.sizes:
        return asked_of(problem, proof.form, few)
    laid = {name: replace(one, raw=torch.zeros_like(one.raw)) for name, one in proof.laid.items()}
    upstream = tuple(one and replace(one, raw=torch.zeros_like(one.raw)) for one in proof.upstream)
    inputs = {name: one.view() for name, one in laid.items()}
    return Proof(few, proof.form, inputs, laid, proof.scalars, proof.wanted, upstream=upstream)


def _keyword_only(source: str) -> tuple[str, ...]:
    functions = [node for node in parse(source).body if isinstance(node, ast.FunctionDef) and node.name == "reference"]
    return tuple(argument.arg for function in functions for argument in function.args.kwonlyargs)


def _beyond(spec: InputSpec, case: Case) -> int | None:
    high = case.size_of.get(spec.high) if isinstance(spec.high, str) else spec.high
    return None if high is None else int(high)


def _upstream(proof: Proof) -> tuple[Laid | None, ...]:
    shapes = [item.shape for item in proof.outputs]
    dtypes = [DTYPES[item.dtype] if item.differentiable else torch.float32 for item in proof.outputs]
    made = make_upstream(shapes, dtypes, proof.case)
    stream = random.Random(f"{proof.case.seed}/upstream")  # noqa: S311 - the case's seed is secret
    guard = proof.case.seed if proof.case.seed % 2 else None
    laid: list[Laid | None] = []
    known: dict[tuple[tuple[int, ...], str], Laid | None] = {}
    for grad, item in zip(made, proof.outputs, strict=True):
        place = (
            Placement()
            if proof.case.upstream in EXPANDED
            else place_of(item.shape, MemoryLayout(proof.case.upstream), stream)
        )
        place = place.aligned(item.shape) if proof.case.aligned else place
        back = proof.inputs.get(proof.case.given_back)
        grad = item.truth.exact.to(grad.dtype) if proof.case.echoes else grad
        grad = grad if back is None or back.shape != grad.shape else back.to(grad.dtype)
        form = item.shape, item.dtype
        if item.differentiable and proof.case.one_upstream and form in known:
            laid.append(known[form])
            continue
        laid.append(lay(place.repeated(grad), place, None, guard) if item.differentiable else None)
        known[form] = laid[-1]
    return tuple(laid)


def _expected(labels: list[str], reply: ChildReply[ReferenceValues]) -> list[Expected | None]:
    """Pair the exact values with the reference's own ones; None where a gradient does not exist."""
    tensors, forms = iter(_torch(reply)), reply.message.kinds
    beside, given = reply.message.beside, reply.message.given
    exact, own = ([form and next(tensors) for form in forms[kind]] for kind in ("exact", "own"))
    kinds = [kind for kind in (*SHAKEN, *NOISY) if kind in forms]
    shaken = [[form and next(tensors) for form in forms[kind]] for kind in kinds]
    others = [form and next(tensors) for form in forms[ROUNDED]] if ROUNDED in forms else None
    if any(len(answers) != len(own) for answers in (exact, *shaken, others or own)):
        raise BadProblem("the reference gives another number of outputs in float64")
    expected: list[Expected | None] = [None] * len(own)
    for place, form in enumerate(forms["own"]):
        true, own_value = exact[place], own[place]
        if form is None or true is None or own_value is None:
            continue
        if not true.shape == own_value.shape == form.shape or DTYPES[form.dtype] != own_value.dtype:
            raise BadProblem("the reference gives another shape in float64, or not what it announces")
        moved = [answer for answers in shaken if (answer := answers[place]) is not None]
        truth = Truth(
            true,
            own_value,
            shaken=tuple(moved),
            rounded=None if others is None else others[place],
            is_noisy=any(kind in NOISY for kind in kinds),
        )
        expected[place] = Expected(
            labels[place],
            truth,
            form.shape,
            form.stride,
            form.dtype,
            form.differentiable,
            beside[place] if beside else False,
            given[place] if given else False,
        )
    return expected


def _of_rows(item: Expected, seed: int) -> Expected:
    """An output whose truth is of some rows where it is large, the same in each draw; of one that has no short rows of elements."""
    count = math.prod(item.shape)
    if count <= MOST_WHOLE:
        return item
    columns = item.shape[-1] if item.shape[-1] <= MOST_OF_ROWS // MOST_ORDINARY else 1
    stream = torch.Generator().manual_seed(seed)
    rows = torch.randint(0, count // columns, (MOST_OF_ROWS // columns,), generator=stream)

    def of(values: torch.Tensor) -> torch.Tensor:
        return values.reshape(-1, columns)[rows]

    truth = item.truth
    moved = tuple(map(of, truth.shaken))
    rounded = None if truth.rounded is None else of(truth.rounded)
    truth = replace(truth, exact=of(truth.exact), own=of(truth.own), shaken=moved, rounded=rounded)
    return replace(item, truth=truth, rows=rows)


def _with_order_of_rows(item: Expected, proof: Proof) -> Expected:
    """Add to an output what a sum over rows loses in float32 where programs add their rows to it one after the other, in any order.

    Of n terms one after the other the rounding errors are a random walk: Higham and Mary, A New Approach to Probabilistic Rounding
    Error Analysis (2019).
    """
    largest = max(proof.inputs.values(), key=torch.Tensor.numel, default=None)
    if largest is None or not item.truth.exact.is_floating_point():
        return item
    left, terms = list(item.shape), 1
    for size in largest.shape[:-1]:
        if size in left:
            left.remove(size)
        else:
            terms *= size
    lost = FLOAT32_STEP * math.sqrt(terms) / 2 * rms(item.truth.exact) if terms > 1 else 0.0
    return replace(item, truth=replace(item.truth, natural=item.truth.natural + lost))


def _with_naturals(expected: dict[str, Expected | None], proof: Proof) -> dict[str, Expected | None]:
    """Add to each gradient the error that float32 rounding explains."""
    pairs = [(laid, output) for laid, output in zip(proof.upstream, proof.outputs, strict=True) if laid is not None]
    upstream, outputs = [rms(laid.view()) for laid, _ in pairs], [rms(output.truth.exact) for _, output in pairs]
    elements = sum(math.prod(output.shape) for _, output in pairs)
    largest = max((float(laid.view().abs().max()) for laid, _ in pairs if laid.view().numel()), default=0.0)

    def added(item: Expected, name: str) -> Expected:
        meeting = elements / max(1, math.prod(item.shape))
        natural = natural_error(upstream, outputs, typical_size(proof.inputs[name]), meeting)
        typical, scale, most = typical_of(natural), rms(item.truth.exact), max(upstream, default=0.0)
        # Of a mean over many elements each has a share, and is no less a gradient.
        if scale <= max(VANISHES * min(1.0, meeting), VANISHED) * most:
            natural = max(natural, VANISHING * most)
        if proof.case.upstream in (*EXPANDED, MemoryLayout.broadcast):
            most_terms = max(meeting, *(size for _, size in proof.case.sizes), 1)
            natural += FLOAT32_STEP * most_terms / 8 * scale
        terms = largest if name in proof.case.same else 0.0
        return replace(item, truth=replace(item.truth, natural=natural, typical=typical, terms=terms))

    return {name: None if item is None else added(item, name) for name, item in expected.items()}


def _with_second_naturals(expected: dict[str, Expected | None], proof: Proof) -> dict[str, Expected | None]:
    """Add to each second gradient the error that float32 rounding explains, from the sizes of the gradients that it derives."""
    firsts = [(name, item) for name, item in proof.gradients.items() if item is not None]
    along = [rms(proof.directions[name].view()) for name, _ in firsts]
    typical = [item.truth.typical for _, item in firsts]
    elements = sum(math.prod(item.shape) for _, item in firsts)
    own_inputs = [typical_size(proof.inputs[name]) for name in proof.wanted]
    own_inputs += [typical_size(laid.view()) for laid in proof.upstream if laid is not None]

    def added(item: Expected, own_input: float) -> Expected:
        natural = natural_error(along, typical, own_input, elements / max(1, math.prod(item.shape)))
        return replace(item, truth=replace(item.truth, natural=natural))

    pairs = zip(expected.items(), own_inputs, strict=bool(expected))
    return {label: None if item is None else added(item, own_input) for (label, item), own_input in pairs}


def _torch(reply: ChildReply[Any]) -> list[torch.Tensor]:
    return [buffer.to_torch() for buffer in reply.tensors]
