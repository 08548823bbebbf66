"""The command line: ``app`` with all its commands, and ``main``, which runs it."""

import sys

from service.cli import byhand, histories, jobs, processes, recordings
from service.cli.console import app
from workers.environment import keep_loopback_direct, keep_temporary_folder, shed_secrets

__all__ = ["app", "byhand", "histories", "jobs", "main", "processes", "recordings"]


def main() -> None:
    """Run the console command."""
    if sys.argv[1:2] in (["serve"], ["web"], ["work"]):
        shed_secrets()
    keep_temporary_folder()
    keep_loopback_direct()
    app()
