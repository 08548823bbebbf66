"""Every sentence that the bot says: pure functions from contracts to markdown, the same answer for the same facts."""

from service.conversation.checkpoint import checkpoint_comment, checkpoint_sha
from service.conversation.checks import CheckRunOutput, check_run_output
from service.conversation.command_errors import reply_command_errors
from service.conversation.commits import commit_message
from service.conversation.comparing import (
    reply_fork_needs_writer,
    reply_no_change,
    reply_no_comparison,
    reply_no_pull,
)
from service.conversation.conclusion import Conclusion
from service.conversation.help import help_text
from service.conversation.links import Links
from service.conversation.markers import NO_JOB, Kind, Marker, find_marker, marker, signed
from service.conversation.pull_request import pull_request_body, pull_request_title
from service.conversation.replies import (
    reply_cancel,
    reply_configuration,
    reply_decision,
    reply_dry_run,
    reply_empty_create,
    reply_failure,
    reply_jobs,
    reply_known,
    reply_limit,
    reply_moved,
    reply_no_job,
    reply_no_permission,
    reply_nothing_waits,
    reply_retry,
    reply_secret,
    reply_unknown_job,
    reply_unreadable_link,
    reply_which_job,
    reply_words_without_model,
)
from service.conversation.report import report_comment
from service.conversation.status import status_comment

__all__ = [
    "NO_JOB",
    "CheckRunOutput",
    "Conclusion",
    "Kind",
    "Links",
    "Marker",
    "check_run_output",
    "checkpoint_comment",
    "checkpoint_sha",
    "commit_message",
    "find_marker",
    "help_text",
    "marker",
    "pull_request_body",
    "pull_request_title",
    "reply_cancel",
    "reply_command_errors",
    "reply_configuration",
    "reply_decision",
    "reply_dry_run",
    "reply_empty_create",
    "reply_failure",
    "reply_fork_needs_writer",
    "reply_jobs",
    "reply_known",
    "reply_limit",
    "reply_moved",
    "reply_no_change",
    "reply_no_comparison",
    "reply_no_job",
    "reply_no_permission",
    "reply_no_pull",
    "reply_nothing_waits",
    "reply_retry",
    "reply_secret",
    "reply_unknown_job",
    "reply_unreadable_link",
    "reply_which_job",
    "reply_words_without_model",
    "report_comment",
    "signed",
    "status_comment",
]
