"""A command as a person could have typed it. Pure; parsing what it gives, gives the command again."""

from __future__ import annotations

import re

from service.commands.command import Command
from service.commands.grammar import PREFIX
from workers.contracts import ProblemKind


def render(command: Command) -> str:
    """Give the comment that says a command."""
    words = [PREFIX, command.verb.value, command.name, *command.names, _source(command), *_options(command)]
    words += [command.job, command.sha]
    line = " ".join(word for word in [*words, command.topic and command.topic.value] if word)
    if command.text:
        line = f"{line}\n\n{command.text}"
    if command.problem.kind is ProblemKind.words:
        return f"{line}\n\n{command.problem.text}"
    if command.problem.kind is ProblemKind.block:
        runs = [len(run) for run in re.findall(r"`+", command.problem.text)]
        fence = "`" * max([3, *(run + 1 for run in runs)])
        return f"{line}\n\n{fence}python\n{command.problem.text}{fence}"
    return line


def _source(command: Command) -> str:
    problem = command.problem
    if problem.kind is ProblemKind.path:
        return f"from {problem.path}" + (f":{problem.symbol}" if problem.symbol else "")
    return f"from {problem.url}" if problem.kind is ProblemKind.permalink else ""


def _options(command: Command) -> list[str]:
    given = command.options
    pairs = (
        ("author", given.author and given.author.value),
        ("layout", given.layout),
        ("gpu", given.gpu),
        ("goal", given.goal and given.goal.value),
        ("scope", f'"{given.scope}"' if given.scope else None),
        ("variants", given.variants),
        ("target", f'"{given.target}"' if given.target else None),
        ("against", given.against),
        ("candidates", given.candidates),
        ("repairs", given.repairs),
        ("choose", given.choose and given.choose.value),
    )
    asked = (("--profile", given.profile), ("--auto", given.auto), ("--dry-run", given.dry_run))
    flags = [name for name, is_given in asked if is_given]
    return [f"--{name} {value}" for name, value in pairs if value] + flags
