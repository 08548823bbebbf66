"""Children that start while the truth is still being asked for: each start takes seconds, and they do not wait for each other.

Nothing is decided here. What a child does before its turn is not looked at, and where that ended it, it starts anew.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, ExitStack, contextmanager
from queue import SimpleQueue
from typing import Self

from gpu_runner.context import RunContext
from gpu_runner.contracts.envelope import Isolation
from gpu_runner.contracts.verify import CandidateSource
from gpu_runner.errors import ChildError, ChildFailed, ProtocolError
from gpu_runner.messages import CallForm, OpenDevice, WarmUp
from gpu_runner.program.load import EITHER, EVALUATED
from gpu_runner.sandbox.landlock import abi, handled
from gpu_runner.session import ChildSession
from gpu_runner.spans import span
from gpu_runner.verify.opening import ORIGINAL, candidate_session, load, loaded, opened
from gpu_runner.verify.proof import Proof, make_call

_LOOK_S = 0.2

Door = Callable[[CallForm], AbstractContextManager[ChildSession]]


def keeps_apart(levels: tuple[Isolation, ...]) -> bool:
    """Say whether a child at these levels can neither look into nor end another one."""
    if Isolation.namespaces in levels:
        return True
    _, _, scopes = handled(abi())  # of signals, where this kernel's Landlock has them
    return Isolation.landlock in levels and scopes != 0


class Early:
    """A candidate's child, from before its turn to the end of it. A context manager; at its end the child is gone.

    ``beside`` is how many other children run meanwhile. With ``warming``, a case that nobody judges, the code is loaded before
    its turn too, where that is safe, and what it launches compiled: it is there when its turn comes. So are other such cases
    that ``also`` names until then. By ``name`` it is told where the time went. ``told`` is given the child before
    it loads anything.
    """

    def __init__(
        self,
        source: CandidateSource,
        context: RunContext,
        beside: int,
        warming: Proof | None,
        name: str | None = None,
        told: Callable[[ChildSession], None] | None = None,
    ) -> None:
        self._source = source
        self._context = context
        self._beside = beside
        self._warming = warming
        self._name = name
        self._told = told
        self._more: SimpleQueue[Callable[[], Proof] | None] = SimpleQueue()
        self._is_over = False
        self._stack = ExitStack()
        self._pool = ThreadPoolExecutor(1, "early")
        self._future: Future[ChildSession | None] | None = None
        self._busy: ChildSession | None = None  # runs code that is not ours
        self._is_loaded = self._is_taken = False

    def __enter__(self) -> Self:
        """Begin to start the child."""
        self._future = self._pool.submit(self._prepare)
        return self

    def __exit__(self, *_: object) -> None:
        """End the child, also where its turn never came."""
        assert self._future is not None
        self._is_over = True
        self._more.put(None)
        while not self._future.done():
            if self._busy is not None:
                self._busy.abandon()
            wait([self._future], _LOOK_S)
        self._pool.shutdown()
        self._stack.close()

    def also(self, make: Callable[[], Proof]) -> None:
        """Name one more case that nobody judges; it is made when it is run, before the child's turn."""
        self._more.put(make)

    @contextmanager
    def turn(self, form: CallForm) -> Iterator[ChildSession]:
        """The child, loaded; it ends with its turn.

        Raises:
            RunnerError: the device cannot be used in there. ScratchError: files cannot be placed. ChildFailed: it does not load.
        """
        assert self._future is not None
        self._more.put(None)
        with span(f"waiting for the {self._name or 'candidate'}"):
            session = self._future.result()
        if session is None or self._is_taken:
            with loaded("candidate", self._source, form, self._context, self._name) as fresh:
                yield fresh
            return
        self._is_taken = True
        with self._stack:
            session.renew()
            if not self._is_loaded:
                load(session, self._source, form, mode=EITHER if self._name == ORIGINAL else EVALUATED)
            yield session

    def _prepare(self) -> ChildSession | None:
        """Start the child; None where what it did before its turn left it unfit."""
        session = candidate_session("candidate", self._source, self._context, self._beside, self._name)
        self._stack.enter_context(opened(session, self._context))
        if self._told is not None:
            self._told(session)
        if self._warming is None or not keeps_apart(session.isolation):
            return session
        self._busy = session
        try:
            load(session, self._source, self._warming.form, mode=EITHER if self._name == ORIGINAL else EVALUATED)
            self._is_loaded = True
            warming: Proof | None = self._warming
            while warming is not None and is_fit_after_a_run(session, warming):
                warming = self._next()
            if warming is None:
                return session
        finally:
            self._busy = None
        self._stack.close()
        return None

    def _next(self) -> Proof | None:
        """Wait for the next case to be warmed up by; None when the turn has come, or will never come."""
        make = self._more.get()
        return None if make is None or self._is_over else make()


def is_fit_after_a_run(session: ChildSession, warming: Proof) -> bool:
    """Have a child compile what a case needs that nobody judges; whether it is as it was, so that it may be judged."""
    call = make_call(warming)
    try:
        session.call(WarmUp(call.call), call.tensors)
    except ChildError:
        return has_its_device(session)
    except (ChildFailed, ProtocolError):
        return False
    return True


def has_its_device(session: ChildSession) -> bool:
    """Say whether an error left the device as it was; a fault of a kernel spoils it for the rest of the process."""
    try:
        session.call(OpenDevice())
    except (ChildFailed, ProtocolError):
        return False
    return True
