"""Answers to commands: what became of them, why nothing did, what was wrong in them, and the help. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from service.commands.command import CommandError, ErrorCode
from service.commands.grammar import GRAMMAR, MAX_COMMANDS, Argument, Option, Rule, rule_of
from service.escape import code, code_block, inline, sentence
from service.report.layout import Links, bullets, counted, duration_us, folded, link, paragraphs, percent, table
from service.report.status import MEASURING, again, current_stage, job_line, left_behind, pull_link, reason
from workers.contracts import (
    Decision,
    DecisionOutcome,
    DecisionResult,
    Estimate,
    Failure,
    JobRequest,
    JobState,
    JobView,
    Verb,
)
from workers.history import KernelState

EXAMPLE_PROBLEM = '''"""ReGLU: a gated unit with ReLU on the gate."""
import torch
import torch.nn.functional as F


def reference(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return F.relu(a) * b


INPUTS = {"a": "T I", "b": "T I"}
WORKLOADS = [{"T": 4096, "I": 14336}, {"T": 2048, "I": 11008}]
'''
EXPLANATION = (
    "`reference` computes in plain PyTorch what the kernel should; `INPUTS` names each tensor's dimensions, outermost first; "
    "`WORKLOADS` gives the sizes to measure. A KernelBench file (`class Model`, `get_inputs()`, `get_init_inputs()`) works too, "
    "and so does `from PATH` for a file of this repository."
)


def paste_this(name: str) -> str:
    """A whole comment to copy, for a kernel whose name was checked."""
    return f"````markdown\n/kernel create {name}\n```python\n{EXAMPLE_PROBLEM}```\n````\n\n{EXPLANATION}"


SAMPLES = {
    "--gpu": "--gpu sm_90",
    "--variants": "--variants 4",
    "--scope": "--scope large",
    "--target": '--target "forward < 0.3 ms @ H=4096"',
    "--against": "--against main",
}


def reply_command_errors(errors: tuple[CommandError, ...]) -> str:
    """One answer to all that was wrong in a comment."""
    lines = [_told(error) for error in errors]
    if len(lines) == 1:
        return lines[0]
    return paragraphs("Some lines of this comment could not be carried out:", bullets(lines))


def _told(error: CommandError) -> str:
    line = f"{code(error.raw, 160)}: " if error.raw and error.code is not ErrorCode.too_many else ""
    return f"{line}{WORDS[error.code](error)}"


def _too_many(error: CommandError) -> str:
    return (
        f"This comment has {inline(error.word)} commands, and at most {MAX_COMMANDS} are accepted in one. "
        "None was carried out; split them over several comments."
    )


def _in_quote(error: CommandError) -> str:
    return "this line belongs to the quote above it, so it was not carried out. Put an empty line before it."


def _unknown_verb(error: CommandError) -> str:
    choices = ", ".join(f"`{choice}`" for choice in error.choices)
    return f"there is no command {code(error.word)}.{_meant(error)} The commands are: {choices}. `/kernel help` explains them."


def _unknown_option(error: CommandError) -> str:
    verb = error.verb.value if error.verb else "this command"
    choices = ", ".join(f"`{choice}`" for choice in error.choices)
    there = f"Its options: {choices}." if choices else "It has no options."
    return f"`{verb}` has no option {code(error.word)}.{_meant(error)} {there}"


def _repeated_option(error: CommandError) -> str:
    return f"`{error.about}` is given twice. Give it once."


def _missing_value(error: CommandError) -> str:
    if error.about == "from":
        return "`from` needs a path or a link after it, such as `from src/model.py:MLP`."
    example = SAMPLES.get(error.about, "")
    return f"`{error.about}` needs a value{_choices(error) or (example and f', such as {code(example)}')}."


def _unknown_value(error: CommandError) -> str:
    reason = f" {sentence(error.reason)}" if error.reason else ""
    choices = _choices(error)
    return f"{code(error.word)} is not a value for `{error.about}`{choices}.{_meant(error)}{reason}"


def _missing_argument(error: CommandError) -> str:
    if error.verb is None:
        return "something is missing."
    rule = rule_of(error.verb)
    return f"`{error.about}` is missing. The form is `{rule.usage}`, for example `{rule.example}`."


def _unexpected_word(error: CommandError) -> str:
    reason = f" {sentence(error.reason)}" if error.reason else ""
    form = f" The form is `{rule_of(error.verb).usage}`." if error.verb and not reason else ""
    return f"{code(error.word)} is not expected here.{_meant(error)}{reason}{'' if error.nearest else form}"


def _bad_name(error: CommandError) -> str:
    return f"{code(error.word)} cannot be the name of a kernel. {sentence(error.reason)}{_meant(error)}"


def _bad_path(error: CommandError) -> str:
    return f"{code(error.word)} is not a path in this repository. {sentence(error.reason)}"


def _bad_link(error: CommandError) -> str:
    return (
        f"{code(error.word, 200)} is not a link to a file. "
        f"Such a link looks like {code(f'https://{_host(error)}/OWNER/NAME/blob/COMMIT/PATH#L1-L20')}."
    )


def _wrong_host(error: CommandError) -> str:
    return (
        f"{code(error.word, 200)} is on another host, and only links to {code(_host(error))} and its gists are followed. "
        "Paste the code as a fenced Python block instead."
    )


def _two_problems(error: CommandError) -> str:
    return f"there are two problems, {code(error.word, 200)} and the Python block. Leave one of them out."


WORDS: dict[ErrorCode, Callable[[CommandError], str]] = {
    ErrorCode.too_many: _too_many,
    ErrorCode.in_quote: _in_quote,
    ErrorCode.unknown_verb: _unknown_verb,
    ErrorCode.unknown_option: _unknown_option,
    ErrorCode.repeated_option: _repeated_option,
    ErrorCode.missing_value: _missing_value,
    ErrorCode.unknown_value: _unknown_value,
    ErrorCode.missing_argument: _missing_argument,
    ErrorCode.unexpected_word: _unexpected_word,
    ErrorCode.bad_name: _bad_name,
    ErrorCode.bad_path: _bad_path,
    ErrorCode.bad_link: _bad_link,
    ErrorCode.wrong_host: _wrong_host,
    ErrorCode.two_problems: _two_problems,
}


def _meant(error: CommandError) -> str:
    return f" Did you mean {code(error.nearest)}?" if error.nearest else ""


def _choices(error: CommandError) -> str:
    return f": {' or '.join(f'`{choice}`' for choice in error.choices)}" if error.choices else ""


def _host(error: CommandError) -> str:
    return error.choices[0] if error.choices else "this host"


def help_text(verb: Verb | None = None) -> str:
    """All commands in short, or one of them in full."""
    if verb is not None:
        return _one(rule_of(verb))
    rows = [(_span(rule.usage), rule.summary) for rule in GRAMMAR]
    return paragraphs(
        "**A line that starts with `/kernel` is a command.** `/kernel help create` explains one of them in full.",
        table(("command", "what it does"), rows),
        "Commands in code blocks, quotes and HTML are only text. "
        f"A comment with more than {MAX_COMMANDS} commands is not carried out. "
        "Commands need write permission, or a line in `.github/kernelsmith.toml`.",
    )


def _one(rule: Rule) -> str:
    return paragraphs(
        f"**{rule.verb.value}**: {rule.summary}",
        f"```\n{rule.usage}\n```",
        bullets([_argument(argument) for argument in rule.arguments] + [_option(option) for option in rule.options]),
        f"May be followed by {rule.then}." if rule.then else "",
        f"Example: `{rule.example}`",
    )


def _argument(argument: Argument) -> str:
    return f"`{argument.usage}`{'' if argument.required else ' (optional)'}: {argument.summary}"


def _option(option: Option) -> str:
    default = f"; by default {option.default}" if option.default else ""
    return f"`{option.usage}`: {option.summary}{default}"


def _span(usage: str) -> str:
    return "`" + usage.replace("|", "\\|") + "`"


UNPUSHED = (*MEASURING, Verb.profile, Verb.nightly, Verb.bisect)
FROM_CONFIGURATION = "`.github/kernelsmith.toml` on the default branch"


def reply_no_permission(login: str, permission: str, *, decides: bool = False) -> str:
    """Answer a command of someone who may not give it."""
    has = "no" if permission in ("", "none") else inline(permission, 20)
    text = f"{code(login)} has {has} permission on this repository, and "
    if decides:
        return f"{text}only people with write permission decide at a checkpoint. Nothing was done."
    return (
        f"{text}commands need write permission. Nothing was done. "
        f"A maintainer can give the command, or add a login to `allow` in {FROM_CONFIGURATION}."
    )


def reply_secret(kind: str, where: str) -> str:
    """Answer a text that holds a secret: it is not obeyed, for whatever came of it would show the secret again."""
    return (
        f"{where} contains what looks like a secret ({kind}). Nothing was done, and it is not repeated here, but everyone who can "
        "read this conversation has it: revoke it first. Then remove it from the text and give the command again in a new comment."
    )


def reply_empty_create(name: str) -> str:
    """Answer a create that says nowhere what to compute."""
    return paragraphs(
        f"The command does not say what {code(name)} should compute. Paste this with your own code:", paste_this(name)
    )


def reply_words_without_model(name: str) -> str:
    """Answer a create in words where no model author is configured."""
    return paragraphs(
        f"A description in words needs a language model, and none is configured here; the compiler works from code. "
        f"For {code(name)}, paste this with your own code:",
        paste_this(name),
    )


def reply_limit(what: str, used: float, limit: float, again_at: str) -> str:
    """Answer a command beyond a limit: ``what`` such as "jobs a day for one person", ``again_at`` a time in words."""
    return (
        f"The limit is reached: {used:g} of {limit:g} {inline(what, 80)}. Nothing was done. The command can be given again "
        f"{inline(again_at, 60)}; limits are set in {FROM_CONFIGURATION}."
    )


def reply_dry_run(request: JobRequest, estimate: Estimate) -> str:
    """Answer a command with ``--dry-run``."""
    names = (request.kernel,) if request.verb not in (*MEASURING, Verb.nightly) else request.kernels
    what = ", ".join(code(name) for name in names) or ALL_KERNELS[request.verb]
    at = f"commit {code((request.head_sha or request.base_sha)[:12])}"
    if request.commits:
        at = f"the {counted(len(request.commits) - 1, 'commit')} after {code(request.commits[0].sha[:12])}"
    goes = (
        "nothing is pushed"
        if request.read_only or request.verb in UNPUSHED
        else f"a pull request onto {code(request.base_ref)}"
    )
    asked = f"at most {estimate.model_tokens:,} tokens" if estimate.model_tokens else "none is used"
    asked += f" (${estimate.model_dollars:.2f})" if estimate.model_dollars is not None else ""
    missing = [_capital(f"{reason(failure)} {sentence(failure.fix or '')}".strip()) for failure in estimate.missing]
    first = "do what is missing, then give" if missing else "give"
    return paragraphs(
        f"**Nothing was started.** {code(f'/kernel {request.verb.value}')} would take {what} at {at}.",
        bullets([f"Result: {goes}.", f"GPU: {_gpu_time(request, estimate)}.", f"Language models: {asked}."]),
        f"**Missing:**\n\n{bullets(missing)}" if missing else "",
        f"**Next:** {first} the command without `--dry-run`.",
    )


ALL_KERNELS = {
    Verb.bench: "each kernel that the change touches",
    Verb.verify: "each kernel that the change touches",
    Verb.nightly: "every kernel that can be proved",
}


def _gpu_time(request: JobRequest, estimate: Estimate) -> str:
    minutes = counted(math.ceil(estimate.gpu_minutes), "GPU minute")
    price = f" (${estimate.gpu_dollars:.2f})" if estimate.gpu_dollars is not None else ""
    if estimate.has_gpu is False:
        return "no host that answered recently has one, so kernels run in Triton's interpreter and nothing is timed"
    if not estimate.gpu_minutes:
        return "nothing is timed; proofs and tests run there"
    if request.verb is Verb.nightly:
        return f"no kernel is started after {minutes} in total{price}"
    if request.verb is Verb.bisect:
        return f"at most {minutes} of timing for each commit that it finds, where all commits build{price}"
    return f"at most {minutes} of timing, besides proofs, tests and the library's benchmark script{price}"


def reply_unreadable_link(url: str, why: str = "") -> str:
    """Answer a create whose link, on the right host, leads to no file that the bot can read."""
    told = f" ({inline(why, 120)})" if why else ""
    return (
        f"{code(url, 200)} could not be read{told}. Check that the file is there at that commit and that the bot may read the "
        "repository, or paste the code as a fenced Python block."
    )


def reply_decision(
    result: DecisionResult, decision: Decision, given_sha: str, job: JobView | None = None
) -> str | None:
    """Answer a review or its command; None where nothing needs to be said, since it was answered before."""
    stage = f"`{result.stage.value}`" if result.stage else "the stage"
    if result.outcome is DecisionOutcome.duplicate:
        return None
    if result.outcome is DecisionOutcome.accepted:
        return f"Approved: {stage} is done." if decision is Decision.approve else f"Understood: {stage} runs again."
    if result.outcome is DecisionOutcome.stale:
        waits = code(f"/kernel approve {result.sha[:12]}") if result.sha else "the commit that the checkpoint names"
        return (
            f"That names commit {code(given_sha[:12])}, but the checkpoint of {stage} is at another one. "
            f"Nothing was decided. Look at the latest commit, then reply {waits}."
        )
    if result.outcome is DecisionOutcome.attempts_used:
        return (
            f"{stage} has used all its attempts, so it does not run again. Approve the result, "
            f"cancel with `/kernel cancel`, or give a new {again(job) if job is not None else 'command'}."
        )
    return reply_nothing_waits(job)


def reply_nothing_waits(job: JobView | None = None) -> str:
    """Answer a decision where no checkpoint waits for one."""
    if job is None:
        return "No job waits for a decision here, so nothing was decided."
    stopped = job.state in (JobState.failed, JobState.cancelled)
    next_step = " `/kernel retry` resumes it." if stopped else ""
    return f"Job {code(job.job_id)} does not wait for a decision: {_is_now(job)}. Nothing was decided.{next_step}"


def reply_unknown_job(job_id: str, known: Sequence[JobView] = ()) -> str:
    """Answer a command that names a job which this repository does not have."""
    return paragraphs(f"There is no job {code(job_id)} in this repository.", _list(known))


def reply_no_job(verb: Verb) -> str:
    """Answer a command about a job where there is none in this conversation."""
    return (
        f"No job belongs to this conversation, so there is nothing to {verb.value}. `/kernel create NAME` starts one."
    )


def reply_which_job(verb: Verb, jobs: Sequence[JobView]) -> str:
    """Answer a command that fits more than one job."""
    text = f"More than one job belongs to this conversation. Name one, such as {code(f'/kernel {verb.value} {jobs[0].job_id}')}:"
    return paragraphs(text, _list(jobs))


def reply_jobs(jobs: Sequence[tuple[JobView, Links]]) -> str:
    """Answer ``/kernel status``: where each job is."""
    if not jobs:
        return "No job belongs to this conversation. `/kernel create NAME` starts one."
    return bullets([f"{job_line(job, links)}{_where(job, links)}" for job, links in jobs])


def reply_explain(
    kernel: str, states: Sequence[KernelState], jobs: Sequence[tuple[JobView, Links]], of_jobs: int
) -> str:
    """Answer ``/kernel explain``: the newest number on each GPU model, and the last of ``of_jobs`` jobs."""
    if not states and not jobs:
        how = f"`/kernel nightly {kernel}` measures it, if the repository has it." if kernel.isidentifier() else ""
        return paragraphs(f"Nothing is known about {code(kernel)}: no job was about it, and no night measured it.", how)
    header = ("GPU", "pass, sizes", "time", "share of the floor", "commit", "values", "regressions")
    rows = [
        (
            inline(state.gpu),
            inline(f"{state.timed_pass}, {state.workload}"),
            duration_us(state.time_us),
            percent(state.floor_share),
            code(state.commit[:12]),
            "wrong" if state.wrong_values else "right",
            str(state.confirmed_changes),
        )
        for state in states
    ]
    count = f", the last {len(jobs)} of {of_jobs}" if of_jobs > len(jobs) else ""
    return paragraphs(
        f"**{code(kernel)}**",
        table(header, rows, numeric=(2, 3, 6)) if rows else "No night has measured it.",
        f"Jobs{count}:" if jobs else "No job was about it.",
        bullets([f"{job_line(job, links)}{_where(job, links)}" for job, links in jobs]),
    )


def reply_cancel(job: JobView, *, done: bool) -> str:
    """Answer ``/kernel cancel``."""
    if done:
        return f"Job {code(job.job_id)} is cancelled; {left_behind(job)}."
    return f"Job {code(job.job_id)} has ended already ({_is_now(job)}), so there is nothing to cancel."


def reply_retry(job: JobView, *, done: bool, fresh: bool = False) -> str:
    """Answer ``/kernel retry``; ``fresh``: it starts over from its base as that is now."""
    if done:
        base = f"starts over from {code(job.request.base_ref)} as it is now"
        how = base if fresh else f"goes on from {current_stage(job)}"
        return f"Job {code(job.job_id)} {how}."
    if job.artifacts_removed:
        return f"Job {code(job.job_id)} ended long ago, and its files have been removed. Give a new {again(job)}."
    if job.state is JobState.cancelled:
        return f"Job {code(job.job_id)} was cancelled and cannot be resumed. Give a new {again(job)}."
    return f"Only a job that stopped can be retried, and job {code(job.job_id)} did not: {_is_now(job)}."


def reply_known(job: JobView, links: Links) -> str:
    """Answer a command that is carried out already."""
    return f"This is already job {link(code(job.job_id), links.job_page)}: {_is_now(job)}."


def reply_failure(failure: Failure) -> str:
    """Answer a command that could not become a job."""
    fix = f"**Next:** {sentence(failure.fix)}" if failure.fix else ""
    log = code_block(failure.log, "text") if failure.log and failure.log.strip() else ""
    return paragraphs(f"{_capital(reason(failure))} Nothing was done.", fix, folded("Log", log))


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def reply_configuration(line: int | None, message: str, fix: str) -> str:
    """Answer a command in a repository whose configuration cannot be read."""
    where = f", line {line}" if line is not None else ""
    return f"{FROM_CONFIGURATION}{where}: {sentence(message)}. Nothing was done. **Next:** {sentence(fix)}"


def reply_moved(given_sha: str, head_sha: str) -> str:
    """Answer a command on a pull request that got commits while it was carried out."""
    old = f" from {code(given_sha[:12])}" if given_sha else ""
    return (
        f"The pull request moved{old} to {code(head_sha[:12])} after this command, so nothing was done. "
        "Give it again if you mean the new commit."
    )


def _list(jobs: Sequence[JobView]) -> str:
    many = [f"{code(job.job_id)}: {code(job.request.kernel)}, {_is_now(job)}" for job in jobs[:10]]
    more = f"and {counted(len(jobs) - 10, 'more job')}" if len(jobs) > 10 else ""
    return bullets([*many, *([more] if more else [])])


def _is_now(job: JobView) -> str:
    words = {
        JobState.queued: "it is queued",
        JobState.running: f"{current_stage(job)} runs",
        JobState.waiting: f"{current_stage(job)} waits for a review",
        JobState.done: "it is done",
        JobState.failed: f"it stopped in {current_stage(job)}",
        JobState.cancelled: "it was cancelled",
    }
    return words[job.state]


def _where(job: JobView, links: Links) -> str:
    return f", on {pull_link(job, links)}" if job.pull_number is not None else ""
