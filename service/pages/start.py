"""A command put together from a form, as the text of a new issue on GitHub. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import quote, urlencode

from service.commands.grammar import PREFIX, ArgumentKind, Rule, rule_of
from service.commands.parser import parse_comment
from service.dispatch.payloads import REPOSITORY
from service.escape import longest_run
from service.report.replies import reply_command_errors
from workers.contracts import Verb

# What begins a job from an issue; `verify` needs a pull request, and the others need a job.
STARTING = (
    *(Verb.create, Verb.fuse, Verb.optimize, Verb.modify, Verb.port, Verb.tune, Verb.profile, Verb.bench),
    *(Verb.nightly, Verb.bisect),
)
# GitHub refuses an address of more than 8 KiB; what is longer than this is copied by hand.
LONGEST_LINK = 7000
PROBLEM = "problem"
REPOSITORY_FIELD = "repository"
BAD_REPOSITORY = "Name the repository as `owner/name`."


@dataclass(frozen=True)
class Field:
    """One field of the form: a line, a choice, a box to tick (``choices`` None) or, where it is ``long``, several lines."""

    name: str
    label: str
    hint: str
    choices: tuple[str, ...] | None = ()
    default: str = ""
    required: bool = False
    long: bool = False


@dataclass(frozen=True)
class Draft:
    """What was put together; with ``errors``, sentences in Markdown, there is no issue to open."""

    repository: str
    title: str
    body: str
    errors: tuple[str, ...]

    def link(self, html_url: str) -> tuple[str, bool]:
        """Where GitHub opens the issue, and whether the text is in that address; it is not where it is too long for one."""
        address = f"{html_url}/{quote(self.repository)}/issues/new?{urlencode({'title': self.title}, quote_via=quote)}"
        whole = f"{address}&{urlencode({'body': self.body}, quote_via=quote)}"
        return (whole, True) if len(whole) <= LONGEST_LINK else (address, False)


def fields_of(rule: Rule) -> tuple[Field, ...]:
    """The fields of a command: its arguments, its options, and where it takes one the problem."""
    arguments = [
        Field(
            f"argument-{number}",
            argument.usage.removeprefix("from "),
            argument.summary,
            required=argument.required,
            long=argument.kind is ArgumentKind.text,
        )
        for number, argument in enumerate(rule.arguments)
    ]
    options = [
        Field(
            option.name,
            f"--{option.name}",
            option.summary,
            option.choices if option.value_wanted else None,
            option.default,
        )
        for option in rule.options
    ]
    code = [Field(PROBLEM, "Python", f"below the command: {rule.then}", long=True)] if rule.then else []
    return (*arguments, *code, *options)


def drafted(verb: Verb, given: Mapping[str, str], host: str) -> Draft:
    """The issue that says a command; ``given`` are the fields by name, ``host`` the one whose links may be followed."""
    rule = rule_of(verb)
    words = [PREFIX, verb.value]
    for number, argument in enumerate(rule.arguments):
        if value := given.get(f"argument-{number}", "").strip():
            lead = "from " if argument.kind is ArgumentKind.source else ""
            words.append(lead + (value if argument.kind is ArgumentKind.text else _line(value)))
    spoken = next((n for n, argument in enumerate(rule.arguments) if argument.kind is ArgumentKind.text), None)
    options = [_option(option.name, given, flag=not option.value_wanted) for option in rule.options]
    at = len(words) if spoken is None or not given.get(f"argument-{spoken}", "").strip() else len(words) - 1
    words[at:at] = [option for option in options if option]  # before words that may go on below
    body = " ".join(words)
    if rule.then and (code := given.get(PROBLEM, "").replace("\r\n", "\n").strip("\n")):
        fence = "`" * max(3, longest_run(code) + 1)
        body += f"\n\n{fence}python\n{code}\n{fence}"
    repository = given.get(REPOSITORY_FIELD, "").strip()
    parsed = parse_comment(body, host=host)
    errors: tuple[str, ...] = () if REPOSITORY.fullmatch(repository) else (BAD_REPOSITORY,)
    if parsed.errors or len(parsed.commands) != 1:
        errors += (
            reply_command_errors(parsed.errors) if parsed.errors else "These are several commands; ask for one.",
        )
    title = (
        f"{verb.value.capitalize()} {_line(given.get('argument-0', ''))}" if rule.arguments else verb.value.capitalize()
    )
    return Draft(repository, title.strip()[:120], body, errors)


def _option(name: str, given: Mapping[str, str], *, flag: bool) -> str:
    value = _line(given.get(name, ""))
    if flag or not value:
        return f"--{name}" if value else ""
    return f'--{name} "{value}"' if " " in value else f"--{name} {value}"


def _line(text: str) -> str:
    return " ".join(text.split())
