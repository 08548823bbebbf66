"""What ``/kernel help`` answers, from the grammar table. Pure."""

from __future__ import annotations

from service.commands.grammar import GRAMMAR, MAX_COMMANDS, Argument, Option, Rule, rule_of
from service.conversation.markdown import bullets, paragraphs, table
from workers.contracts import Verb


def help_text(verb: Verb | None = None) -> str:
    """Give all commands in short, or one of them in full."""
    if verb is not None:
        return _one(rule_of(verb))
    rows = [(_span(rule.usage), rule.summary) for rule in GRAMMAR]
    return paragraphs(
        "**A line that starts with `/kernel` is a command.** For one of them in full: `/kernel help create`.",
        table(("command", "what it does"), rows),
        "Commands in code blocks, quotes and HTML are only text. Of more than "
        f"{MAX_COMMANDS} commands in one comment none is carried out. "
        "They need write permission, or a line in `.github/kernelsmith.toml`.",
    )


def _one(rule: Rule) -> str:
    return paragraphs(
        f"**{rule.verb.value}**: {rule.summary}",
        f"```\n{rule.usage}\n```",
        bullets([_argument(argument) for argument in rule.arguments] + [_option(option) for option in rule.options]),
        f"Below it may stand {rule.then}." if rule.then else "",
        f"Example: `{rule.example}`",
    )


def _argument(argument: Argument) -> str:
    return f"`{argument.usage}`{'' if argument.required else ' (optional)'}: {argument.summary}"


def _option(option: Option) -> str:
    default = f"; by default {option.default}" if option.default else ""
    return f"`{option.usage}`: {option.summary}{default}"


def _span(usage: str) -> str:
    return "`" + usage.replace("|", "\\|") + "`"
