"""The command line: ``app`` with all its commands, and ``main``, which runs it."""

from service.cli import byhand, jobs, processes, recordings, replays, upkeep
from service.cli.console import app

__all__ = ["app", "byhand", "jobs", "main", "processes", "recordings", "replays", "upkeep"]


def main() -> None:
    """Run the console command."""
    app()
