"""What can go wrong with a sandboxed child, as typed exceptions under the runner's one root."""

from __future__ import annotations

from gpu_runner.contracts.envelope import RunnerError


class ProtocolError(RunnerError):
    """The child wrote what is no answer: wrong framing, a wrong nonce, or sizes beyond the limits."""


class MalformedReply(ProtocolError, ValueError):  # noqa: N818 - it names what came
    """The child replied with what the runner's own code never does: a field is missing, or of another type."""


class IsolationUnavailable(RunnerError):  # noqa: N818 - it names the state of the host
    """This host cannot give a level of isolation that was demanded."""


class ChildFailed(RunnerError):  # noqa: N818 - the root of what a child may end in
    """A call did not give an answer; ``log`` is the end of what the child printed (untrusted text)."""

    def __init__(self, message: str, log: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.log = log


class ChildError(ChildFailed):
    """The code in the child raised: ``kind`` is the exception's class name, ``line`` where in the files it was given."""

    def __init__(
        self,
        kind: str,
        message: str,
        log: str = "",
        line: int | None = None,
        path: str | None = None,
        verdict: tuple[str, str | None] | None = None,
    ) -> None:
        super().__init__(f"{kind}: {message}", log)
        self.verdict = verdict  # status and rule, where the runner's own evaluator refused to go on
        self.kind = kind
        self.message = message
        self.line = line
        self.path = path


class ChildDied(ChildFailed):
    """The child ended before it answered, by ``signal`` or with ``exit_code``; both None where neither is known."""

    def __init__(self, signal: int | None, exit_code: int | None, log: str = "") -> None:
        ways = {"signal": signal, "exit code": exit_code}
        how = next((f" ({way} {number})" for way, number in ways.items() if number is not None), "")
        super().__init__(f"the child ended before it answered{how}", log)
        self.signal = signal
        self.exit_code = exit_code


class ChildTimeout(ChildFailed):
    """The child did not answer in time and was killed; ``added_s`` is what it was given besides, as long as the host was busy."""

    def __init__(self, timeout_s: float, log: str = "", added_s: float = 0.0) -> None:
        busy = f" and {added_s:.1f} s for which it waited for a processor" if added_s else ""
        super().__init__(f"no answer within {timeout_s:.1f} s{busy}", log)
        self.timeout_s = timeout_s
        self.added_s = added_s


class AnswerRefused(ChildFailed):
    """The child answered with more than was asked for, or in another shape; its values were not read.

    ``wrong_shape``: an output or gradient has another shape than the expected one, and is far larger.
    """

    def __init__(self, message: str, log: str = "", wrong_shape: bool = False) -> None:
        super().__init__(message, log)
        self.wrong_shape = wrong_shape


class ChildOutOfMemory(ChildFailed):
    """The child asked for more memory, on the host or the GPU, than there was or than it may have."""
