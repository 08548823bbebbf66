"""From a comment to its commands, and back. Pure."""

from __future__ import annotations

import itertools
import re
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from service.commands.command import Command, CommandError, ErrorCode, ParsedComment
from service.commands.grammar import (
    FILLERS,
    GPU_MODELS,
    JOB_ID,
    MAX_COMMANDS,
    MAX_KERNELS,
    OPTION_NAMES,
    PREFIX,
    PROSE,
    REF,
    SHA,
    VERBS,
    Argument,
    ArgumentKind,
    Option,
    Rule,
    ValueKind,
    meant_verb,
    nearest,
    rule_of,
    verb_of,
)
from service.commands.markdown import (
    COMMAND_LINE,
    PROBLEM_MARKS,
    CommandLines,
    choose_problem,
    find_problem_block,
    normalise,
    outline,
)
from service.commands.values import (
    ABOUT,
    CommandWord,
    NameFault,
    OptionWord,
    ProblemPlace,
    check_name,
    existing_name,
    given_options,
    read_option,
    read_source,
    read_value,
    split_words,
)
from workers.contracts import ProblemKind, ProblemText, Verb

TRUE = ("", "true", "yes", "on", "1")
FALSE = ("false", "no", "off", "0")
NAME_FIRST = "The name stands behind the command, as in `/kernel create reglu`, and words about it behind the name."


class _RefusedCommandError(Exception):
    def __init__(self, error: CommandError) -> None:
        super().__init__(error.code.value)
        self.error = error


@dataclass
class _ArgumentReader:
    """The words that are still to be read, and the options so far."""

    rule: Rule
    words: list[CommandWord]
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
    ) -> _RefusedCommandError:
        return _RefusedCommandError(CommandError(code, word[:200], self.rule.verb, about, nearest, choices, reason))


def read_arguments(rule: Rule, words: list[CommandWord], rest: str, below: str, host: str) -> Command | CommandError:
    """Read a command's words. ``rest`` is the line after the verb as it was typed, ``below`` what follows the line."""
    reading = _ArgumentReader(rule, list(words))
    try:
        if rule.arguments and rule.arguments[0].kind is ArgumentKind.text:
            return _read_text(reading, rest, below)
        _take_options(reading)
        if "help" in reading.options:
            return Command(Verb.help, topic=rule.verb)
        return READERS.get(rule.arguments[0].kind, _read_simple)(reading, below, host)
    except _RefusedCommandError as refused:
        return refused.error


def _read_text(reading: _ArgumentReader, rest: str, below: str) -> Command:
    text = "\n\n".join(part for part in (rest, below) if part.strip())
    if not text:
        raise reading.refuse(ErrorCode.missing_argument, about=reading.rule.arguments[0].usage)
    return Command(reading.rule.verb, text=text)


def _take_options(reading: _ArgumentReader) -> None:
    left: list[CommandWord] = []
    words = deque(reading.words)
    while words:
        word = words.popleft()
        given = read_option(word)
        option = _known_option(reading, given) if given else None
        if given is None or (option is None and given.name != "help"):
            left.append(word)
            continue
        if given.name in reading.options:
            raise reading.refuse(ErrorCode.repeated_option, word.text, about=f"--{given.name}")
        value = given.value
        if option is not None and option.value_wanted and value is None:
            value = _following(reading.rule, option, words)
        reading.options[given.name] = _value(reading, option, (value or "").strip().strip("`")) if option else ""
    reading.words = left


def _following(rule: Rule, option: Option, words: deque[CommandWord]) -> str:
    """Take the value behind an option: one word, and of a target or scope without quotes as many as read as one."""
    there = list(itertools.takewhile(lambda word: _is_value(rule, word), words))
    texts = [" ".join(word.text for word in there[:count]) for count in range(len(there) + 1)]
    most = len(there) if option.kind in (ValueKind.target, ValueKind.scope) else 1
    count = next((count for count in range(most, 1, -1) if _reads(option, texts[count])), min(1, len(there)))
    for _ in range(count):
        words.popleft()
    return texts[count]


def _reads(option: Option, text: str) -> bool:
    try:
        read_value(option, text)
    except ValueError:
        return False
    return True


def _is_value(rule: Rule, word: CommandWord) -> bool:
    """Tell a value from the next option; ``H=4096`` is a value where the command has no option of that name."""
    option = None if word.quoted else read_option(word)
    return option is None or (not option.dashed and rule.option(option.name) is None)


def _known_option(reading: _ArgumentReader, given: OptionWord) -> Option | None:
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


def _value(reading: _ArgumentReader, option: Option, text: str) -> str:
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
        named = option.choices or tuple((option.value or "").lower().split("|"))
        # A model's number is near to that of many others.
        generations = tuple(name for name in GPU_MODELS if name.isalpha())
        meant = nearest(text, generations if option.kind is ValueKind.architecture else named)
        raise reading.refuse(
            ErrorCode.unknown_value, text, about=about, nearest=meant, choices=option.choices, reason=str(error)
        ) from error


def _read_named(reading: _ArgumentReader, below: str, host: str) -> Command:
    verb, argument = reading.rule.verb, reading.rule.arguments[0]
    _drop_fillers(reading.words)
    unnamed = not reading.words or (not argument.required and reading.words[0].text.lower() == ABOUT)
    if unnamed and argument.required:
        raise reading.refuse(ErrorCode.missing_argument, about="NAME")
    if not unnamed and reading.words[0].raw.lower() in PROSE:
        raise reading.refuse(ErrorCode.bad_name, reading.words[0].text, about="NAME", reason=NAME_FIRST)
    name = None if unnamed else _name(reading, reading.words[0], argument.kind)
    others = reading.words if unnamed else reading.words[1:]
    if verb is Verb.bisect:
        return Command(verb, name, commits=_range(reading, others), options=given_options(reading.options))
    if verb is Verb.modify:
        text = _words(others, below)
        if not text.strip():
            raise reading.refuse(ErrorCode.missing_argument, about="TEXT")
        return Command(verb, name, text=text, options=given_options(reading.options))
    source = read_source(others, host)
    if isinstance(source, CommandError):
        raise _RefusedCommandError(replace(source, verb=verb))
    options = given_options(reading.options)
    if isinstance(source, ProblemPlace):
        return Command(verb, name, problem=source.problem, permalink=source.permalink, options=options)
    if verb is not Verb.create:
        # The kernel is there already, so words beside its name can only be a mistake; what stands below is talk.
        if others and not all(word.raw.lower() in FILLERS for word in others):
            raise _unexpected(reading, others)
        return Command(verb, name, options=options)
    described = [] if all(word.raw.lower() in FILLERS for word in others) else others
    text = _words(described, below)
    problem = ProblemText(ProblemKind.words, text) if text else ProblemText(ProblemKind.missing)
    return Command(verb, name, problem=problem, options=options)


def _drop_fillers(words: list[CommandWord]) -> None:
    """Leave out what stands before a name in a sentence, as in ``create a kernel called reglu``; in backticks it is a name."""
    while len(words) > 1 and words[0].raw.lower() in FILLERS and words[1].text.lower() != ABOUT:
        del words[0]


def _range(reading: _ArgumentReader, words: list[CommandWord]) -> tuple[str, str]:
    if not words:
        raise reading.refuse(ErrorCode.missing_argument, about="GOOD..BAD")
    if len(words) > 1:
        raise _unexpected(reading, words[1:])
    text = words[0].text.strip("`")
    good, _, bad = text.partition("..")
    if not (REF.fullmatch(good) and REF.fullmatch(bad)):
        reason = "Name two commits, branches or tags with two dots between them, such as `1f2e3d4..main`."
        raise reading.refuse(ErrorCode.unknown_value, text, about="GOOD..BAD", reason=reason)
    return good, bad


def _unexpected(reading: _ArgumentReader, words: list[CommandWord]) -> _RefusedCommandError:
    """Refuse words that belong nowhere; an option without its dashes, such as ``gpu h100``, is what was probably meant."""
    option = reading.rule.option(words[0].text.lower())
    if option is None:
        return reading.refuse(ErrorCode.unexpected_word, words[0].text)
    value = f" {words[1].text[:60]}" if option.value_wanted and len(words) > 1 else ""
    return reading.refuse(ErrorCode.unexpected_word, words[0].text, nearest=f"--{option.name}{value}")


def _words(others: list[CommandWord], below: str) -> str:
    return "\n\n".join(part for part in (" ".join(word.raw for word in others), below) if part.strip())


def _read_names(reading: _ArgumentReader, _below: str, _host: str) -> Command:
    words = [replace(word, text=part) for word in reading.words for part in word.text.split(",") if part.strip("`")]
    names = tuple(dict.fromkeys(_name(reading, word, ArgumentKind.kernel) for word in words))
    if len(names) > MAX_KERNELS:
        reason = f"One command takes at most {MAX_KERNELS} kernels."
        raise reading.refuse(ErrorCode.unexpected_word, names[MAX_KERNELS], reason=reason)
    return Command(reading.rule.verb, names=names, options=given_options(reading.options))


def _name(reading: _ArgumentReader, word: CommandWord, kind: ArgumentKind) -> str:
    name = word.text.strip("`").rstrip(".,:;!?").strip("`").replace("\\_", "_")
    checked = existing_name(name) if kind is ArgumentKind.kernel else check_name(name) or name
    if isinstance(checked, NameFault):
        fault = checked
        raise reading.refuse(ErrorCode.bad_name, name, about="NAME", nearest=fault.suggestion, reason=fault.reason)
    return checked


def _read_simple(reading: _ArgumentReader, _below: str, _host: str) -> Command:
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


def _read_model(reading: _ArgumentReader, _below: str, host: str) -> Command:
    verb, words = reading.rule.verb, reading.words
    if not words:
        return Command(verb, options=given_options(reading.options))
    source = read_source(words if words[0].text.lower() == ABOUT else [CommandWord(ABOUT, ABOUT), *words], host)
    if not isinstance(source, ProblemPlace):
        assert source is not None, "what stands behind `from` is a source or refused"
        raise _RefusedCommandError(replace(source, verb=verb))
    options = given_options(reading.options)
    return Command(verb, problem=source.problem, permalink=source.permalink, options=options)


def _with_argument(reading: _ArgumentReader, verb: Verb, argument: Argument, word: str) -> Command:
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


READERS: dict[ArgumentKind, Callable[[_ArgumentReader, str, str], Command]] = {
    ArgumentKind.name: _read_named,
    ArgumentKind.kernel: _read_named,
    ArgumentKind.kernels: _read_names,
    ArgumentKind.model: _read_model,
}


MAX_LINE = 2_000
MAX_RAW = 200
# and modify, which takes words too
TAKES_PROBLEM = (Verb.create, Verb.optimize, Verb.tune, Verb.profile, Verb.port, Verb.fuse)


@dataclass(frozen=True)
class FoundCommand:
    """One command line with its surroundings."""

    number: int  # from 0
    line: str
    rest: str  # what follows ``/kernel`` on the line
    below: str  # what people read between this command and the next
    block: str | None  # the Python block between this command and the next


def may_hold_command(body: str) -> bool:
    """Whether a line of a comment begins like a command; where it stands is for ``parse_comment`` to see."""
    return any(COMMAND_LINE.match(line) for line in normalise(body).split("\n"))


def parse_comment(body: str, previous_body: str | None = None, *, host: str = "github.com") -> ParsedComment:
    """Find the commands of a comment; on an edit only in lines that the previous body does not have.

    ``host`` is the one whose links are followed, with its port where it has one.
    """
    if not may_hold_command(body):
        return ParsedComment()
    read = outline(body)
    fresh = _fresh_lines(read, previous_body)
    numbers = [number for number in read.commands if number in fresh]
    quoted = tuple(_quoted(read, number) for number in read.quoted if number in fresh)
    if len(numbers) > MAX_COMMANDS:
        error = CommandError(ErrorCode.too_many, word=str(len(numbers)), line=numbers[0] + 1)
        return ParsedComment(errors=(error,))
    outcomes = [_parse_line(_found(read, number), host) for number in numbers]
    if len(read.commands) == 1 and len(outcomes) == 1:
        outcomes[0] = _with_block_above(outcomes[0], body)
    commands = tuple(item for item in outcomes if isinstance(item, Command))
    errors = tuple(item for item in outcomes if isinstance(item, CommandError))
    return ParsedComment(commands, errors + quoted)


def resolve_problem(command: Command, issue_body: str) -> ProblemText:
    """A command's problem: what it says itself, else the block of the issue, else its words.

    An issue about a kernel that exists may well show how it is used; for ``optimize`` only what reads like a problem is one.
    """
    if command.problem.kind not in (ProblemKind.missing, ProblemKind.words):
        return command.problem
    if command.verb is not Verb.create and not PROBLEM_MARKS.search(find_problem_block(issue_body) or ""):
        return command.problem
    block = find_problem_block(issue_body)
    return command.problem if block is None else ProblemText(ProblemKind.block, block)


def _fresh_lines(read: CommandLines, previous_body: str | None) -> set[int]:
    known = Counter(line.rstrip() for line in normalise(previous_body or "").split("\n"))
    fresh = set()
    for number, line in enumerate(read.lines):
        if known[line.rstrip()] > 0:
            known[line.rstrip()] -= 1
        else:
            fresh.add(number)
    return fresh


def _quoted(read: CommandLines, number: int) -> CommandError:
    # A line without its own ">" right below a quote belongs to it; its author meant a command, and would wait in vain.
    raw = read.lines[number].strip()[:MAX_RAW]
    return CommandError(ErrorCode.in_quote, word=raw, line=number + 1, raw=raw)


def _found(read: CommandLines, number: int) -> FoundCommand:
    end = next((other for other in read.commands if other > number), len(read.lines))
    below = "\n".join(line for n, line in enumerate(read.lines) if number < n < end and n not in read.hidden)
    block = choose_problem((fence for fence in read.fences if number < fence.line < end), last=False)
    line = read.lines[number]
    prefix = COMMAND_LINE.match(line)
    return FoundCommand(number, line, line[prefix.end() if prefix else 0 :].strip(), below.strip("\n").rstrip(), block)


def _parse_line(command_line: FoundCommand, host: str) -> Command | CommandError:
    words = split_words(command_line.rest[:MAX_LINE])
    if not words:
        return _placed(Command(Verb.help), command_line)
    if len(words) > 1 and words[0].raw.lower() == "please":
        del words[0]
    first = words[0]
    word = first.text.lower().strip(".,:;!?")
    verb = verb_of(word)
    if verb is None:
        meant = "help" if word.lstrip("-") in ("help", "") else meant_verb(word, [each.text for each in words[1:]])
        error = CommandError(ErrorCode.unknown_verb, word=first.text, nearest=meant, choices=VERBS)
        return _placed(error, command_line)
    rest = command_line.rest.partition(first.raw)[2].lstrip()
    outcome = read_arguments(rule_of(verb), words[1:], rest, command_line.below, host)
    if isinstance(outcome, Command) and verb is Verb.modify:
        outcome = _with_target(outcome, command_line.block)
    elif isinstance(outcome, Command) and verb in TAKES_PROBLEM:
        outcome = _with_block(outcome, command_line.block)
    return _placed(outcome, command_line)


def _with_block(command: Command, block: str | None) -> Command | CommandError:
    if block is None:
        return command
    if command.problem.kind in (ProblemKind.path, ProblemKind.permalink):
        return CommandError(
            ErrorCode.two_problems, word=command.problem.path or command.problem.url or "", verb=command.verb
        )
    return replace(command, problem=ProblemText(ProblemKind.block, block))


def _with_target(command: Command, block: str | None) -> Command | CommandError:
    """A block that reads like a problem is one; any other belongs to the words."""
    if block is None or not PROBLEM_MARKS.search(block):
        return command
    start, end = command.text.find(block), command.text.find(block) + len(block)
    before, after = command.text[:start].rstrip("\n"), command.text[end:].lstrip()
    # Its two fences stand on lines of their own.
    opening, closing = before.rpartition("\n")[0].rstrip(), after.partition("\n")[2].strip("\n")
    text = command.text if start < 0 else "\n\n".join(part for part in (opening, closing) if part.strip())
    if not text.strip():
        return CommandError(ErrorCode.missing_argument, verb=command.verb, about="TEXT")
    return replace(command, text=text, problem=ProblemText(ProblemKind.block, block))


def _with_block_above(outcome: Command | CommandError, body: str) -> Command | CommandError:
    # With one command in the comment, code that was pasted above it can only be meant for it.
    if not isinstance(outcome, Command) or outcome.verb not in TAKES_PROBLEM:
        return outcome
    if outcome.problem.kind is ProblemKind.missing:
        block = find_problem_block(body)
        return outcome if block is None else replace(outcome, problem=ProblemText(ProblemKind.block, block))
    return outcome


def _placed(outcome: Command | CommandError, command_line: FoundCommand) -> Command | CommandError:
    return replace(outcome, line=command_line.number + 1, raw=command_line.line.strip()[:MAX_RAW])


def render(command: Command) -> str:
    """The comment that says a command."""
    spelled = "..".join(command.commits) if command.commits else None
    words = [PREFIX, command.verb.value, command.name, *command.names, spelled, _source(command), *_options(command)]
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
        ("to", given.to),
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
