"""Answers to lines that start with ``/kernel`` and are no command. Pure."""

from __future__ import annotations

from collections.abc import Callable

from service.commands.command import CommandError, ErrorCode
from service.commands.grammar import MAX_COMMANDS, rule_of
from service.conversation.markdown import bullets, paragraphs
from service.escape import code, inline, sentence

SAMPLES = {
    "--gpu": "--gpu sm_90",
    "--variants": "--variants 4",
    "--scope": "--scope large",
    "--target": '--target "forward < 0.3 ms @ H=4096"',
    "--against": "--against main",
}


def reply_command_errors(errors: tuple[CommandError, ...]) -> str:
    """Give one answer to all that was wrong in a comment."""
    told = [_told(error) for error in errors]
    if len(told) == 1:
        return told[0]
    return paragraphs("Some lines of this comment could not be carried out:", bullets(told))


def _told(error: CommandError) -> str:
    line = f"{code(error.raw, 160)}: " if error.raw and error.code is not ErrorCode.too_many else ""
    return f"{line}{WORDS[error.code](error)}"


def _too_many(error: CommandError) -> str:
    return (
        f"There are {inline(error.word)} commands in this comment, and at most {MAX_COMMANDS} are taken from one. "
        "None was carried out; give them in several comments."
    )


def _in_quote(error: CommandError) -> str:
    return "this line belongs to the quote above it, so it was not carried out. Put an empty line before it."


def _unknown_verb(error: CommandError) -> str:
    choices = ", ".join(f"`{choice}`" for choice in error.choices)
    return f"there is no command {code(error.word)}.{_meant(error)} There are: {choices}. `/kernel help` explains them."


def _unknown_option(error: CommandError) -> str:
    verb = error.verb.value if error.verb else "this command"
    choices = ", ".join(f"`{choice}`" for choice in error.choices)
    there = f"Its options: {choices}." if choices else "It has no options."
    return f"`{verb}` has no option {code(error.word)}.{_meant(error)} {there}"


def _repeated_option(error: CommandError) -> str:
    return f"`{error.about}` stands there twice. Say it once."


def _missing_value(error: CommandError) -> str:
    if error.about == "from":
        return "`from` needs a path or a link after it, such as `from src/model.py:MLP`."
    example = SAMPLES.get(error.about, "")
    return f"`{error.about}` needs a value{_choices(error) or (example and f', such as {code(example)}')}."


def _unknown_value(error: CommandError) -> str:
    reason = f" {sentence(error.reason)}" if error.reason else ""
    choices = _choices(error)
    return f"{code(error.word)} is no value for `{error.about}`{choices}.{_meant(error)}{reason}"


def _missing_argument(error: CommandError) -> str:
    if error.verb is None:
        return "something is missing."
    rule = rule_of(error.verb)
    return f"`{error.about}` is missing. The form is `{rule.usage}`, for example `{rule.example}`."


def _unexpected_word(error: CommandError) -> str:
    reason = f" {sentence(error.reason)}" if error.reason else ""
    form = f" The form is `{rule_of(error.verb).usage}`." if error.verb and not reason else ""
    return f"{code(error.word)} does not belong there.{_meant(error)}{reason}{'' if error.nearest else form}"


def _bad_name(error: CommandError) -> str:
    return f"{code(error.word)} cannot be the name of a kernel. {sentence(error.reason)}{_meant(error)}"


def _bad_path(error: CommandError) -> str:
    return f"{code(error.word)} is not a path in this repository. {sentence(error.reason)}"


def _bad_link(error: CommandError) -> str:
    return (
        f"{code(error.word, 200)} is not a link to a file. "
        f"Such a link looks like {code(f'https://{_host(error)}/OWNER/NAME/blob/COMMIT/PATH#L1-L20')}."
    )


def _wrong_host(error: CommandError) -> str:
    return (
        f"{code(error.word, 200)} is on another host, and only links to {code(_host(error))} are followed. "
        "Paste the code as a fenced Python block instead."
    )


def _two_problems(error: CommandError) -> str:
    return f"there are two problems, {code(error.word, 200)} and the Python block. Leave one of them out."


WORDS: dict[ErrorCode, Callable[[CommandError], str]] = {
    ErrorCode.too_many: _too_many,
    ErrorCode.in_quote: _in_quote,
    ErrorCode.unknown_verb: _unknown_verb,
    ErrorCode.unknown_option: _unknown_option,
    ErrorCode.repeated_option: _repeated_option,
    ErrorCode.missing_value: _missing_value,
    ErrorCode.unknown_value: _unknown_value,
    ErrorCode.missing_argument: _missing_argument,
    ErrorCode.unexpected_word: _unexpected_word,
    ErrorCode.bad_name: _bad_name,
    ErrorCode.bad_path: _bad_path,
    ErrorCode.bad_link: _bad_link,
    ErrorCode.wrong_host: _wrong_host,
    ErrorCode.two_problems: _two_problems,
}


def _meant(error: CommandError) -> str:
    return f" Did you mean {code(error.nearest)}?" if error.nearest else ""


def _choices(error: CommandError) -> str:
    return f": {' or '.join(f'`{choice}`' for choice in error.choices)}" if error.choices else ""


def _host(error: CommandError) -> str:
    return error.choices[0] if error.choices else "this host"
