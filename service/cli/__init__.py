"""The command line: ``app`` with all its commands, and ``main``, which runs it."""

import sys

from service.cli import byhand, histories, jobs, processes, recordings
from service.cli.console import app, say
from workers.environment import keep_loopback_direct, keep_temporary_folder, shed_others, unread_env_file
from workers.observability import configure

__all__ = ["app", "byhand", "histories", "jobs", "main", "processes", "recordings"]


def main() -> None:
    """Run the console command."""
    serving = sys.argv[1:2] in (["serve"], ["web"], ["work"])
    if serving:
        shed_others()
    # What a command prints is its own; beside it only what an operator has to know.
    configure("INFO" if serving else "WARNING", json=serving)
    keep_temporary_folder()
    keep_loopback_direct()
    if (unread := unread_env_file()) is not None:
        say(unread)
    app()
