"""The prompts: files beside this module, each with a version, and how one is filled in. Reads its own files and nothing else."""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from importlib import resources
from string import Template

from workers.authors.llm.protocol import Task

SYSTEM = "system"
LANGUAGE = "language"  # written by tests.workers.authors.llm.language from the runner's tables and the installed Triton
EXAMPLES = "examples"
PARAGRAPH = "\n\n"
FIRST_LINE = re.compile(r"<!-- (?P<name>[a-z]+), version (?P<version>[1-9][0-9]*) -->")


class PromptError(ValueError):
    """A prompt file is not in its form: a fault of the program."""


@dataclass(frozen=True)
class Prompt:
    """A prompt as its file has it. Whoever changes the text raises the version: answers are kept by what was asked."""

    name: str
    version: int
    text: str

    @property
    def start(self) -> str:
        """The text without its last paragraph: what is the same whatever is filled in there."""
        return self.text.rpartition(PARAGRAPH)[0]

    def filled_end(self, **values: str) -> str:
        """The last paragraph, filled as the whole text is.

        Raises:
            KeyError: a value is missing.
        """
        return Template(self.text.rpartition(PARAGRAPH)[2]).substitute(values)

    def filled(self, **values: str) -> str:
        """The text with each ``$name`` replaced; what is put in is not looked through again.

        Raises:
            KeyError: a value is missing.
        """
        return Template(self.text).substitute(values)


@functools.cache
def prompt(name: str) -> Prompt:
    """Read a prompt: one of those that all tasks share, or the name of a task.

    Raises:
        PromptError: the first line is not its name and version.
    """
    text = resources.files(__package__).joinpath("prompts", f"{name}.md").read_text(encoding="utf-8")
    first, _, rest = text.partition("\n")
    match = FIRST_LINE.fullmatch(first)
    if match is None or match["name"] != name:
        message = f"the first line of the prompt {name} is not its name and version"
        raise PromptError(message)
    return Prompt(name, int(match["version"]), rest.strip("\n"))


def versions() -> dict[str, int]:
    """The version of every prompt by its name, for records of what was asked."""
    return {name: prompt(name).version for name in (SYSTEM, LANGUAGE, EXAMPLES, *(task.value for task in Task))}
