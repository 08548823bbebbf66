"""From the text of a comment to commands and typed errors. Pure: nothing here raises, whatever people write."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace

from service.commands.arguments import read_arguments
from service.commands.command import Command, CommandError, ErrorCode, ParsedComment
from service.commands.grammar import MAX_COMMANDS, VERBS, meant_verb, rule_of, verb_of
from service.commands.markdown import (
    PREFIX,
    PROBLEM_MARKS,
    Outline,
    choose_problem,
    find_problem_block,
    normalise,
    outline,
)
from service.commands.words import split_words
from workers.contracts import ProblemKind, ProblemText, Verb

MAX_LINE = 2_000
MAX_RAW = 200
TAKES_PROBLEM = (Verb.create, Verb.optimize, Verb.tune, Verb.profile)  # and modify, which takes words too


@dataclass(frozen=True)
class Found:
    """One command line with its surroundings."""

    number: int  # from 0
    line: str
    rest: str  # what follows ``/kernel`` on the line
    below: str  # what people read between this command and the next
    block: str | None  # the Python block between this command and the next


def parse_comment(body: str, previous_body: str | None = None, *, host: str = "github.com") -> ParsedComment:
    """Find the commands of a comment; on an edit only in lines that the previous body does not have.

    ``host`` is the one whose links are followed, with its port where it has one.
    """
    if not any(PREFIX.match(line) for line in normalise(body).split("\n")):
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
    """Give a command's problem: what it says itself, else the block of the issue, else its words.

    An issue about a kernel that exists may well show how it is used; for ``optimize`` only what reads like a problem is one.
    """
    if command.problem.kind not in (ProblemKind.missing, ProblemKind.words):
        return command.problem
    if command.verb is not Verb.create and not PROBLEM_MARKS.search(find_problem_block(issue_body) or ""):
        return command.problem
    block = find_problem_block(issue_body)
    return command.problem if block is None else ProblemText(ProblemKind.block, block)


def _fresh_lines(read: Outline, previous_body: str | None) -> set[int]:
    known = Counter(line.rstrip() for line in normalise(previous_body or "").split("\n"))
    fresh = set()
    for number, line in enumerate(read.lines):
        if known[line.rstrip()] > 0:
            known[line.rstrip()] -= 1
        else:
            fresh.add(number)
    return fresh


def _quoted(read: Outline, number: int) -> CommandError:
    # A line without its own ">" right below a quote belongs to it; its author meant a command, and would wait in vain.
    raw = read.lines[number].strip()[:MAX_RAW]
    return CommandError(ErrorCode.in_quote, word=raw, line=number + 1, raw=raw)


def _found(read: Outline, number: int) -> Found:
    end = next((other for other in read.commands if other > number), len(read.lines))
    below = "\n".join(line for n, line in enumerate(read.lines) if number < n < end and n not in read.hidden)
    block = choose_problem((fence for fence in read.fences if number < fence.line < end), last=False)
    line = read.lines[number]
    prefix = PREFIX.match(line)
    return Found(number, line, line[prefix.end() if prefix else 0 :].strip(), below.strip("\n").rstrip(), block)


def _parse_line(found: Found, host: str) -> Command | CommandError:
    words = split_words(found.rest[:MAX_LINE])
    if not words:
        return _placed(Command(Verb.help), found)
    first = words[0]
    word = first.text.lower().strip(".,:;!?")
    verb = verb_of(word)
    if verb is None:
        meant = "help" if word.lstrip("-") in ("help", "") else meant_verb(word)
        error = CommandError(ErrorCode.unknown_verb, word=first.text, nearest=meant, choices=VERBS)
        return _placed(error, found)
    rest = "".join(found.rest.split(maxsplit=1)[1:])
    outcome = read_arguments(rule_of(verb), words[1:], rest, found.below, host)
    if isinstance(outcome, Command) and verb is Verb.modify:
        outcome = _with_target(outcome, found.block)
    elif isinstance(outcome, Command) and verb in TAKES_PROBLEM:
        outcome = _with_block(outcome, found.block)
    return _placed(outcome, found)


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


def _placed(outcome: Command | CommandError, found: Found) -> Command | CommandError:
    return replace(outcome, line=found.number + 1, raw=found.line.strip()[:MAX_RAW])
