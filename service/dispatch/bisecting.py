"""`/kernel bisect`: the commits of a range, each with its snapshot, for a job to search."""

from __future__ import annotations

from service.commands.command import Command
from service.dispatch.context import CommandContext
from service.dispatch.starting import job_of, limit_reply, origin, submit
from service.github.records import CommitInfo
from service.repo_config import job_options
from service.report.nightly import reply_no_range, reply_range_too_long
from workers.contracts import JobRequest, ProblemKind, ProblemText, RangeCommit

MOST_COMMITS = 32  # of a range: the repository is fetched at each of them
MOST_TITLE = 200


def bisect(context: CommandContext, command: Command) -> str | None:
    """Start to search a range; give the answer where no job is started."""
    key = context.key(command)
    if job_of(context, key) is not None:
        return None
    refused = context.config_reply or limit_reply(context)
    if refused is not None:
        return refused
    good, bad = command.commits or ("", "")
    line = context.github.git.line(good, bad)
    if not line:
        return reply_no_range(good, bad)
    if len(line) > MOST_COMMITS:
        return reply_range_too_long(command.name or "", good, bad, len(line), MOST_COMMITS)
    # A dry run looks at the newest commit alone.
    dry_run = command.options.dry_run
    commits = tuple(_with_snapshot(context, commit, fetched=not dry_run or commit is line[-1]) for commit in line)
    request = JobRequest(
        key=key,
        verb=command.verb,
        kernel=command.name or "",
        origin=origin(context),
        base_ref=context.repository.default_branch,
        base_sha=commits[-1].sha,
        snapshot=commits[-1].snapshot,
        problem=ProblemText(ProblemKind.missing),
        options=job_options(command.options, context.config),
        commits=commits,
    )
    return submit(context, request, dry_run=dry_run)


def _with_snapshot(context: CommandContext, commit: CommitInfo, *, fetched: bool) -> RangeCommit:
    title = (commit.message.splitlines() or [""])[0][:MOST_TITLE]
    merges = commit.parents[1] if len(commit.parents) > 1 else None
    snapshot = context.desk.snapshot(context.github, commit.sha) if fetched else ""
    return RangeCommit(commit.sha, snapshot, title, merges)
