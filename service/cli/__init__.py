"""The command line: ``app`` with all its commands, and ``main``, which runs it."""

from service.cli import byhand, histories, jobs, processes, recordings, replays
from service.cli.console import app

__all__ = ["app", "byhand", "histories", "jobs", "main", "processes", "recordings", "replays"]


def main() -> None:
    """Run the console command."""
    app()
