"""Answers to a bench or a verify that has nothing to compare, or may not. Pure."""

from __future__ import annotations

from service.escape import code
from workers.contracts import Verb


def reply_no_pull(verb: Verb) -> str:
    """Answer a bench or verify on an issue, where nothing is changed that could be looked at."""
    if verb is Verb.verify:
        return "`verify` proves the kernels that a pull request touches, and this is an issue. Give it on the pull request."
    return (
        "`bench` compares the head of a pull request with its merge base, and this is an issue. Give the command on the pull "
        "request, or name what the default branch is to be compared with, such as `/kernel bench rms_norm --against v1.2.0`."
    )


def reply_no_change(sha: str, against: str) -> str:
    """Answer a bench or verify whose two sides are one commit."""
    return (
        f"There is nothing to compare: {code(sha[:12])} is all contained in {code(against)}. Nothing was done. "
        "Say what to compare it with, such as `/kernel bench --against v1.2.0`."
    )


def reply_no_comparison(against: str, head_sha: str) -> str:
    """Answer a bench whose other side is not there, or has no history in common with the head."""
    return (
        f"{code(against)} and {code(head_sha[:12])} cannot be compared: there is no such branch, tag or commit here, or the two "
        "have no history in common. Nothing was done. **Next:** name another one with `--against`."
    )


def reply_fork_needs_writer(login: str) -> str:
    """Answer a bench or verify of a fork's code by somebody without write permission."""
    return (
        f"This pull request comes from a fork, and a fork's code runs only when somebody with write permission asks for it; "
        f"{code(login)} has none. Nothing was done. A maintainer who has read the change can give the command."
    )
