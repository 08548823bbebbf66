"""The command line: ``app`` with all its commands, and ``main``, which runs it."""

import sys

from service.cli import byhand, histories, jobs, processes, recordings
from service.cli.console import EXIT_REFUSED, app, say
from service.settings import variables
from workers.environment import (
    keep_loopback_direct,
    keep_temporary_folder,
    shed_others,
    unknown_keys,
    unknown_variables,
    unread_env_file,
    wrong_env_file,
)
from workers.observability import configure, log

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
    if not {"--help", "--version"} & set(sys.argv):
        _check_names()
    app()


def _check_names() -> None:
    """Name what is set and is no setting: passed over in the environment, which others write too, and an error in our file."""
    names = variables()
    for name, fix in unknown_variables(names).items():
        log.warning("unknown_setting", variable=name, fix=fix)
    wrong = wrong_env_file()
    if problems := unknown_keys(names) if wrong is None else (wrong,):
        say("a setting cannot be used:\n" + "\n".join(f"- {problem}" for problem in problems))
        sys.exit(EXIT_REFUSED)
