"""Rendering a command and parsing it again gives the command."""

from __future__ import annotations

import keyword

from hypothesis import given
from hypothesis import strategies as st

from service.commands.command import Command, GivenOptions, Permalink, parse_permalink
from service.commands.grammar import LAYOUTS, TARGETS
from service.commands.parser import parse_comment, render
from workers.contracts import AuthorName, Goal, ProblemKind, ProblemText, Verb

NAMES = st.from_regex(r"[a-z][a-z0-9]{0,9}(_[a-z0-9]{1,5}){0,3}", fullmatch=True).filter(
    lambda name: not keyword.iskeyword(name)
)
PARAGRAPHS = st.lists(
    st.from_regex(r"[A-Za-z][A-Za-z0-9 ,.*_'—-]{0,40}[A-Za-z0-9]", fullmatch=True), min_size=1, max_size=3
)
TEXTS = PARAGRAPHS.map("\n\n".join)
CODE = st.lists(st.from_regex(r"[ -~]{0,40}", fullmatch=True), max_size=6).map(
    lambda lines: "".join(f"{x}\n" for x in lines)
)
PATHS = st.from_regex(r"([a-z][a-z0-9_]{0,8}/){0,3}[a-z][a-z0-9_]{0,8}\.py", fullmatch=True)
SYMBOLS = st.one_of(st.none(), st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,8}", fullmatch=True))
OPTIONS = st.builds(
    GivenOptions,
    author=st.one_of(st.none(), st.sampled_from(AuthorName)),
    layout=st.one_of(st.none(), st.sampled_from(LAYOUTS)),
    auto=st.booleans(),
    dry_run=st.booleans(),
    profile=st.booleans(),
    gpu=st.one_of(st.none(), st.sampled_from(["sm_80", "sm_90", "sm_100a", "interpreter"])),
)
GOALS = st.builds(
    GivenOptions,
    goal=st.one_of(st.none(), st.sampled_from(Goal)),
    scope=st.one_of(st.none(), st.sampled_from(["forward", "small", "backward, large", "H=4096, T=8"])),
    variants=st.one_of(st.none(), st.integers(1, 32)),
    target=st.one_of(st.none(), st.sampled_from(["forward < 0.3 ms @ H=4096", "full under 20 us", "backward<=1ms"])),
    auto=st.booleans(),
)
CHANGES = st.builds(
    GivenOptions,
    author=st.one_of(st.none(), st.sampled_from([AuthorName.llm, AuthorName.auto])),
    layout=st.one_of(st.none(), st.sampled_from(LAYOUTS)),
    candidates=st.one_of(st.none(), st.integers(1, 8)),
    repairs=st.one_of(st.none(), st.integers(1, 5)),
    auto=st.booleans(),
    profile=st.booleans(),
)
AGAINST = st.builds(GivenOptions, against=st.one_of(st.none(), st.sampled_from(["main", "v1.2.0", "topic/a-b"])))


def linked(path: str, options: GivenOptions, name: str) -> Command:
    url = f"https://github.com/o/r/blob/abcdef1/{path}#L1-L9"
    permalink = parse_permalink(url, "github.com")
    assert isinstance(permalink, Permalink)
    return Command(Verb.create, name, ProblemText(ProblemKind.permalink, url=url), permalink, options)


PROBLEMS = st.one_of(
    st.just(ProblemText(ProblemKind.missing)),
    st.builds(lambda text: ProblemText(ProblemKind.words, text), TEXTS),
    st.builds(lambda text: ProblemText(ProblemKind.block, text), CODE),
    st.builds(lambda path, symbol: ProblemText(ProblemKind.path, path=path, symbol=symbol), PATHS, SYMBOLS),
)
JOBS = st.one_of(st.none(), st.from_regex(r"[A-Za-z0-9][A-Za-z0-9_-]{0,20}", fullmatch=True))
COMMANDS = st.one_of(
    st.builds(
        lambda name, problem, options: Command(Verb.create, name, problem, options=options), NAMES, PROBLEMS, OPTIONS
    ),
    st.builds(linked, PATHS, OPTIONS, NAMES),
    st.builds(
        lambda name, problem, options: Command(Verb.optimize, name, problem, options=options),
        NAMES,
        PROBLEMS.filter(lambda problem: problem.kind is not ProblemKind.words),
        GOALS,
    ),
    st.builds(
        lambda name, text, code, options: Command(
            Verb.modify,
            name,
            ProblemText(ProblemKind.missing)
            if code is None
            else ProblemText(ProblemKind.block, f"def reference(x):\n    return x\n\n\n{code}"),
            options=options,
            text=text,
        ),
        NAMES,
        TEXTS,
        st.one_of(st.none(), CODE),
        CHANGES,
    ),
    st.builds(
        lambda name, problem, options: Command(Verb.port, name, problem, options=options),
        NAMES,
        PROBLEMS.filter(lambda problem: problem.kind is not ProblemKind.words),
        st.builds(GivenOptions, to=st.one_of(st.none(), st.sampled_from(TARGETS)), auto=st.booleans()),
    ),
    st.builds(
        lambda problem, options: Command(Verb.fuse, problem=problem, options=options),
        PROBLEMS.filter(lambda problem: problem.kind is not ProblemKind.words),
        st.builds(GivenOptions, auto=st.booleans(), dry_run=st.booleans()),
    ),
    st.builds(
        lambda names, options: Command(Verb.bench, names=tuple(names), options=options),
        st.lists(NAMES, max_size=4, unique=True),
        AGAINST,
    ),
    st.builds(lambda names: Command(Verb.nightly, names=tuple(names)), st.lists(NAMES, max_size=4, unique=True)),
    st.builds(lambda names: Command(Verb.verify, names=tuple(names)), st.lists(NAMES, max_size=4, unique=True)),
    st.builds(lambda verb, job: Command(verb, job=job), st.sampled_from([Verb.status, Verb.cancel, Verb.retry]), JOBS),
    st.builds(lambda sha: Command(Verb.approve, sha=sha), st.from_regex(r"[0-9a-f]{7,40}", fullmatch=True)),
    st.builds(lambda text: Command(Verb.revise, text=text), TEXTS),
    st.builds(lambda topic: Command(Verb.help, topic=topic), st.one_of(st.none(), st.sampled_from(Verb))),
)


@given(COMMANDS)
def test_a_rendered_command_is_parsed_to_itself(command: Command) -> None:
    parsed = parse_comment(render(command))
    assert parsed.errors == ()
    assert parsed.commands == (command,)


@given(st.lists(COMMANDS, min_size=1, max_size=5))
def test_several_commands_do_not_disturb_each_other(commands: list[Command]) -> None:
    parsed = parse_comment("\n\n".join(render(command) for command in commands))
    assert parsed.errors == ()
    assert parsed.commands == tuple(commands)
