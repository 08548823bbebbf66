"""The words of one command, read by its rule. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from service.commands.command import Command, CommandError, ErrorCode
from service.commands.grammar import (
    JOB_ID,
    MAX_KERNELS,
    OPTION_NAMES,
    SHA,
    VERBS,
    Argument,
    ArgumentKind,
    Option,
    Rule,
    meant_verb,
    nearest,
    verb_of,
)
from service.commands.names import NameFault, check_name, existing_name
from service.commands.source import ABOUT, Source, read_source
from service.commands.values import given_options, read_value
from service.commands.words import OptionWord, Word, read_option
from workers.contracts import ProblemKind, ProblemText, Verb

TRUE = ("", "true", "yes", "on", "1")
FALSE = ("false", "no", "off", "0")


class _RefusedError(Exception):
    def __init__(self, error: CommandError) -> None:
        super().__init__(error.code.value)
        self.error = error


@dataclass
class _Reading:
    """The words that are still to be read, and the options so far."""

    rule: Rule
    words: list[Word]
    options: dict[str, str] = field(default_factory=dict)

    def refuse(
        self,
        code: ErrorCode,
        word: str = "",
        *,
        about: str = "",
        nearest: str | None = None,
        choices: tuple[str, ...] = (),
        reason: str = "",
    ) -> _RefusedError:
        return _RefusedError(CommandError(code, word[:200], self.rule.verb, about, nearest, choices, reason))


def read_arguments(rule: Rule, words: list[Word], rest: str, below: str, host: str) -> Command | CommandError:
    """Read a command's words. ``rest`` is the line after the verb as it was typed, ``below`` what follows the line."""
    reading = _Reading(rule, list(words))
    try:
        if rule.arguments and rule.arguments[0].kind is ArgumentKind.text:
            return _read_text(reading, rest, below)
        _take_options(reading)
        if "help" in reading.options:
            return Command(Verb.help, topic=rule.verb)
        return READERS.get(rule.arguments[0].kind, _read_simple)(reading, below, host)
    except _RefusedError as refused:
        return refused.error


def _read_text(reading: _Reading, rest: str, below: str) -> Command:
    text = "\n\n".join(part for part in (rest, below) if part.strip())
    if not text:
        raise reading.refuse(ErrorCode.missing_argument, about="TEXT")
    return Command(reading.rule.verb, text=text)


def _take_options(reading: _Reading) -> None:
    left: list[Word] = []
    words = iter(reading.words)
    for word in words:
        given = read_option(word)
        option = _known_option(reading, given) if given else None
        if given is None or (option is None and given.name != "help"):
            left.append(word)
            continue
        if given.name in reading.options:
            raise reading.refuse(ErrorCode.repeated_option, word.text, about=f"--{given.name}")
        value = given.value
        if option is not None and option.value_wanted and value is None:
            following = next(words, None)
            value = following.text if following and _is_value(reading.rule, following) else ""
        reading.options[given.name] = _value(reading, option, (value or "").strip().strip("`")) if option else ""
    reading.words = left


def _is_value(rule: Rule, word: Word) -> bool:
    """Tell a value from the next option; ``H=4096`` is a value where the command has no option of that name."""
    option = None if word.quoted else read_option(word)
    return option is None or (not option.dashed and rule.option(option.name) is None)


def _known_option(reading: _Reading, given: OptionWord) -> Option | None:
    option = reading.rule.option(given.name)
    if option or (given.dashed and given.name == "help"):
        return option
    names = tuple(option.name for option in reading.rule.options)
    meant = nearest(given.name, names)
    if not given.dashed and reading.rule.verb in (Verb.create, Verb.modify) and meant is None:
        return None  # "alpha=0.5" among words
    elsewhere = given.name in OPTION_NAMES
    reason = f"`{reading.rule.verb.value}` does not take it." if elsewhere and not names else ""
    raise reading.refuse(
        ErrorCode.unknown_option,
        f"--{given.name}" if given.dashed else given.name,
        nearest=f"--{meant}" if meant else None,
        choices=tuple(f"--{name}" for name in names),
        reason=reason,
    )


def _value(reading: _Reading, option: Option, text: str) -> str:
    about = f"--{option.name}"
    if not option.value_wanted:
        if text.lower() not in TRUE + FALSE:
            raise reading.refuse(ErrorCode.unknown_value, text, about=about, choices=("true", "false"))
        return "" if text.lower() in FALSE else "true"
    if not text:
        raise reading.refuse(ErrorCode.missing_value, about=about, choices=option.choices)
    try:
        return read_value(option, text)
    except ValueError as error:
        meant = nearest(text, option.choices or tuple((option.value or "").lower().split("|")))
        raise reading.refuse(
            ErrorCode.unknown_value, text, about=about, nearest=meant, choices=option.choices, reason=str(error)
        ) from error


def _read_named(reading: _Reading, below: str, host: str) -> Command:
    verb, argument = reading.rule.verb, reading.rule.arguments[0]
    unnamed = not reading.words or (not argument.required and reading.words[0].text.lower() == ABOUT)
    if unnamed and argument.required:
        raise reading.refuse(ErrorCode.missing_argument, about="NAME")
    name = None if unnamed else _name(reading, reading.words[0], argument.kind)
    others = reading.words if unnamed else reading.words[1:]
    if verb is Verb.modify:
        text = _words(others, below)
        if not text.strip():
            raise reading.refuse(ErrorCode.missing_argument, about="TEXT")
        return Command(verb, name, text=text, options=given_options(reading.options))
    source = read_source(others, host)
    if isinstance(source, CommandError):
        raise _RefusedError(replace(source, verb=verb))
    options = given_options(reading.options)
    if isinstance(source, Source):
        return Command(verb, name, problem=source.problem, permalink=source.permalink, options=options)
    if verb is not Verb.create:
        # The kernel is there already, so words beside its name can only be a mistake; what stands below is talk.
        if others:
            raise _unexpected(reading, others)
        return Command(verb, name, options=options)
    text = _words(others, below)
    problem = ProblemText(ProblemKind.words, text) if text else ProblemText(ProblemKind.missing)
    return Command(verb, name, problem=problem, options=options)


def _unexpected(reading: _Reading, words: list[Word]) -> _RefusedError:
    """Refuse words that belong nowhere; an option without its dashes, such as ``gpu h100``, is what was probably meant."""
    option = reading.rule.option(words[0].text.lower())
    if option is None:
        return reading.refuse(ErrorCode.unexpected_word, words[0].text)
    value = f" {words[1].text[:60]}" if option.value_wanted and len(words) > 1 else ""
    return reading.refuse(ErrorCode.unexpected_word, words[0].text, nearest=f"--{option.name}{value}")


def _words(others: list[Word], below: str) -> str:
    return "\n\n".join(part for part in (" ".join(word.raw for word in others), below) if part.strip())


def _read_names(reading: _Reading, _below: str, _host: str) -> Command:
    words = [replace(word, text=part) for word in reading.words for part in word.text.split(",") if part.strip("`")]
    names = tuple(dict.fromkeys(_name(reading, word, ArgumentKind.kernel) for word in words))
    if len(names) > MAX_KERNELS:
        reason = f"One command takes at most {MAX_KERNELS} kernels."
        raise reading.refuse(ErrorCode.unexpected_word, names[MAX_KERNELS], reason=reason)
    return Command(reading.rule.verb, names=names, options=given_options(reading.options))


def _name(reading: _Reading, word: Word, kind: ArgumentKind) -> str:
    name = word.text.strip("`").replace("\\_", "_")
    found = existing_name(name) if kind is ArgumentKind.kernel else check_name(name) or name
    if isinstance(found, NameFault):
        fault = found
        raise reading.refuse(ErrorCode.bad_name, name, about="NAME", nearest=fault.suggestion, reason=fault.reason)
    return found


def _read_simple(reading: _Reading, _below: str, _host: str) -> Command:
    verb = reading.rule.verb
    (argument,) = reading.rule.arguments
    words = [word.text.strip("`").strip(".,:;!?") for word in reading.words]
    if len(words) > 1:
        raise reading.refuse(ErrorCode.unexpected_word, reading.words[1].text)
    if not words:
        if argument.required:
            raise reading.refuse(ErrorCode.missing_argument, about=argument.usage)
        return Command(verb)
    return _with_argument(reading, verb, argument, words[0])


def _with_argument(reading: _Reading, verb: Verb, argument: Argument, word: str) -> Command:
    if argument.kind is ArgumentKind.sha:
        sha = word.lower()
        if not SHA.fullmatch(sha):
            reason = "A commit is named by 7 to 40 hexadecimal digits."
            raise reading.refuse(ErrorCode.unknown_value, word, about="SHA", reason=reason)
        return Command(verb, sha=sha)
    if argument.kind is ArgumentKind.job:
        if not JOB_ID.fullmatch(word):
            reason = "A job's id is letters, digits, `-` and `_`, as its status comment shows it."
            raise reading.refuse(ErrorCode.unknown_value, word, about="JOB", reason=reason)
        return Command(verb, job=word)
    topic = verb_of(word)
    if topic is None:
        raise reading.refuse(ErrorCode.unknown_verb, word, about="VERB", nearest=meant_verb(word), choices=VERBS)
    return Command(verb, topic=topic)


READERS: dict[ArgumentKind, Callable[[_Reading, str, str], Command]] = {
    ArgumentKind.name: _read_named,
    ArgumentKind.kernel: _read_named,
    ArgumentKind.kernels: _read_names,
}
