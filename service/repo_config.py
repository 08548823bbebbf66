"""What a repository says of itself in .github/kernelsmith.toml, read from the default branch only. Pure."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any

from service.commands.command import GivenOptions
from service.commands.grammar import LAYOUTS, REF, architecture
from service.escape import clip
from workers.contracts import AuthorName, Goal, JobOptions, parse_scope
from workers.redaction import redact

PATH = ".github/kernelsmith.toml"
MAX_BYTES = 64 * 1024
MOST_DOTS = 200  # in a line
MOST_SHOWN = 80  # characters of a wrong value
TIME = re.compile(r"(?:[01]\d|2[0-3]):[0-5]\d")
MOST_GPUS = 8
# Those of users that an enterprise manages end in an underscore and its short code.
LOGIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,38}")
TEAM = re.compile(r"@(?P<organisation>[A-Za-z0-9](?:[A-Za-z0-9-]{0,38}))/(?P<slug>[a-z0-9](?:[a-z0-9_-]{0,99}))")


class RepoConfigError(ValueError):
    """A configuration that cannot be used: what is wrong, on which line, and the fix."""

    def __init__(self, message: str, line: int | None, fix: str) -> None:
        super().__init__(message)
        self.message = message
        self.line = line
        self.fix = fix


@dataclass(frozen=True)
class LimitsConfig:
    """Bounds on what may be asked for."""

    jobs_per_day_per_person: int = 20
    gpu_minutes_per_day: int = 240
    gpu_minutes_per_day_per_person: int = 240


@dataclass(frozen=True)
class NightlyConfig:
    """When nights start by themselves, and where they are reported; without both, none does."""

    at: str | None = None  # HH:MM, UTC
    issue: int | None = None
    gpus: tuple[str, ...] = ()  # a night for each of these architectures; empty: one, on whatever is there


@dataclass(frozen=True)
class RepoConfig:
    """The configuration, with a default for everything that is not said."""

    layout: str | None = None  # None: detected from the repository
    author: AuthorName = AuthorName.auto
    allow: tuple[str, ...] = ()
    ban: tuple[str, ...] = ()
    base_branch: str | None = None  # None: the default branch
    conventional_commits: bool = False
    gpu: str | None = None  # None: whatever is there
    limits: LimitsConfig = field(default_factory=LimitsConfig)
    nightly: NightlyConfig = field(default_factory=NightlyConfig)

    @property
    def teams(self) -> tuple[tuple[str, str], ...]:
        """The teams of ``allow``: organisation and name."""
        matches = (TEAM.fullmatch(item) for item in self.allow)
        return tuple((team["organisation"], team["slug"]) for team in matches if team is not None)


@dataclass(frozen=True)
class Key:
    """One key: ``read`` gives its value, None where it is not one."""

    name: str  # with its table, such as "limits.gpu_minutes_per_day"
    wanted: str
    default: str
    summary: str
    read: Callable[[Any], Any]


def _read_layout(value: Any) -> str | None:
    return value if value in LAYOUTS else None


def _read_author(value: Any) -> AuthorName | None:
    return AuthorName(value) if value in set(AuthorName) else None


def _read_logins(value: Any) -> tuple[str, ...] | None:
    good = isinstance(value, list) and len(value) <= 500 and all(_is_login(item) for item in value)
    return tuple(value) if good else None


def _read_people(value: Any) -> tuple[str, ...] | None:
    good = isinstance(value, list) and len(value) <= 500 and all(_is_login(item) or _is_team(item) for item in value)
    return tuple(value) if good else None


def _is_team(value: Any) -> bool:
    return isinstance(value, str) and TEAM.fullmatch(value) is not None


def _is_login(value: Any) -> bool:
    return isinstance(value, str) and LOGIN.fullmatch(value) is not None


def _read_branch(value: Any) -> str | None:
    return value if isinstance(value, str) and REF.fullmatch(value) else None


def _read_gpu(value: Any) -> str | None:
    return architecture(value) if isinstance(value, str) else None


def _read_count(value: Any) -> int | None:
    # In Python True is a whole number too; here it is a mistake.
    return value if type(value) is int and 0 <= value <= 1_000_000 else None


def _read_time(value: Any) -> str | None:
    return value if isinstance(value, str) and TIME.fullmatch(value) else None


def _read_issue(value: Any) -> int | None:
    return value if type(value) is int and 0 < value < 2**31 else None


def _read_gpus(value: Any) -> tuple[str, ...] | None:
    named = [_read_gpu(item) for item in value] if isinstance(value, list) and 0 < len(value) <= MOST_GPUS else []
    gpus = tuple(dict.fromkeys(item for item in named if item is not None))
    return gpus if gpus and None not in named else None


_DEFAULTS = LimitsConfig()
_LAYOUT_WORDS = " or ".join(f'"{name}"' for name in LAYOUTS)
_AUTHOR_WORDS = " or ".join(f'"{name.value}"' for name in AuthorName)
KEYS: tuple[Key, ...] = (
    Key("layout", _LAYOUT_WORDS, "detected", "how kernels live in the repository", _read_layout),
    Key("author", _AUTHOR_WORDS, '"auto"', "who writes kernels", _read_author),
    Key(
        "allow",
        'a list of logins and teams such as ["octocat", "@octo-org/kernels"]',
        "[]",
        "who may give commands without write permission; a team needs the App's permission Members: read",
        _read_people,
    ),
    Key(
        "ban",
        'a list of logins such as ["octocat"]',
        "[]",
        "who may give no command and decide nothing, whatever permission they have",
        _read_logins,
    ),
    Key("base_branch", "the name of a branch", "the default branch", "where pull requests go", _read_branch),
    Key(
        "conventional_commits",
        "true or false",
        "false",
        "whether commits and pull requests are named `feat(reglu): ...`, `perf(rms_norm): ...` and so on",
        lambda value: value if isinstance(value, bool) else None,
    ),
    Key("gpu", 'an architecture such as "sm_90"', "any available", "the GPU to measure on", _read_gpu),
    Key(
        "limits.jobs_per_day_per_person",
        "a whole number from 0",
        str(_DEFAULTS.jobs_per_day_per_person),
        "jobs that one person may start in 24 hours",
        _read_count,
    ),
    Key(
        "limits.gpu_minutes_per_day",
        "a whole number from 0",
        str(_DEFAULTS.gpu_minutes_per_day),
        "minutes of GPU time for the whole repository in 24 hours",
        _read_count,
    ),
    Key(
        "limits.gpu_minutes_per_day_per_person",
        "a whole number from 0",
        str(_DEFAULTS.gpu_minutes_per_day_per_person),
        "minutes of GPU time that the jobs of one person may take in 24 hours",
        _read_count,
    ),
    Key("nightly.at", 'a time in UTC such as "02:17"', "never", "when a night starts by itself", _read_time),
    Key(
        "nightly.issue",
        "the number of an issue",
        "none",
        "where such nights are reported; needed for them",
        _read_issue,
    ),
    Key(
        "nightly.gpus",
        'a list of architectures such as ["sm_90", "sm_100"]',
        "`gpu`",
        "one night for each of them, side by side",
        _read_gpus,
    ),
)
TABLES: dict[str, type[Any]] = {"limits": LimitsConfig, "nightly": NightlyConfig}


def parse_repo_config(source: str | bytes) -> RepoConfig:
    """Read a configuration.

    Raises:
        RepoConfigError: it is no TOML, has a key that does not exist, or a value of the wrong kind.
    """
    text = _text(source)
    deep = next((number for number, line in enumerate(text.split("\n"), 1) if line.count(".") > MOST_DOTS), None)
    if deep is not None:  # tomllib takes the square of their number
        raise RepoConfigError(
            f"cannot be read: more than {MOST_DOTS} dots", deep, "Keep only the keys that the docs name."
        )
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        match = re.search(r"\(at line (\d+)", str(error))
        line = int(match[1]) if match else text.count("\n") + 1
        reason = re.sub(r" \(at .*\)$", "", str(error))[:200]
        raise RepoConfigError(f"not TOML: {reason}", line, "Correct the line.") from error
    except (ValueError, RecursionError) as error:
        reason = "it is nested too deeply" if isinstance(error, RecursionError) else "a number has too many digits"
        raise RepoConfigError(f"cannot be read: {reason}", None, "Keep only the keys that the docs name.") from error
    return _config(text, document)


def _config(text: str, document: dict[str, Any]) -> RepoConfig:
    values: dict[str, Any] = {}
    for name, value in document.items():
        if name in TABLES:
            if not isinstance(value, dict):
                raise RepoConfigError(
                    f"`{name}` cannot be {_shown(value)}", _line_of(text, name), f"It is a table: `[{name}]`."
                )
            values |= {f"{name}.{key}": _value(text, f"{name}.{key}", item) for key, item in value.items()}
        else:
            values[name] = _value(text, name, value)
    plain = {name: value for name, value in values.items() if "." not in name}
    tables: dict[str, Any] = {
        table: kind(**{n.removeprefix(f"{table}."): v for n, v in values.items() if n.startswith(f"{table}.")})
        for table, kind in TABLES.items()
    }
    return RepoConfig(**plain, **tables)


def job_options(given: GivenOptions, config: RepoConfig) -> JobOptions:
    """A command's options, with the repository's own where the command says nothing."""
    standard = JobOptions()
    scope, regime = parse_scope(given.scope or standard.scope.value)
    return JobOptions(
        author=given.author or config.author,
        layout=given.layout or config.layout,
        auto=given.auto,
        gpu=given.gpu or config.gpu,
        goal=given.goal or Goal.balanced,
        scope=scope,
        regime=regime,
        conventional_commits=config.conventional_commits,
        variants=given.variants or standard.variants,
        target=given.target,
        against=given.against,
        candidates=given.candidates or standard.candidates,
        repairs=given.repairs or standard.repairs,
        choose=given.choose or standard.choose,
        profile=given.profile,
        to=given.to,
        ported_from=given.ported_from or standard.ported_from,
    )


def configuration_table() -> str:
    """The keys as a markdown table for the docs."""
    rows = [f"| `{key.name}` | {key.wanted} | {key.default} | {key.summary} |" for key in KEYS]
    return "\n".join(["| key | value | default | is |", "| --- | --- | --- | --- |", *rows]) + "\n"


def _text(source: str | bytes) -> str:
    if len(source) > MAX_BYTES:
        raise RepoConfigError("larger than 64 KiB", None, "Keep only the keys that the docs name.")
    if isinstance(source, str):
        return source.removeprefix("\ufeff")
    try:
        return source.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = source[: error.start].count(b"\n") + 1
        raise RepoConfigError("not UTF-8 text", line, "Save the file as UTF-8.") from error


def _shown(value: object) -> str:
    try:
        text = repr(value)
    except ValueError:  # a hexadecimal number may have more digits than Python writes
        return "a number with so many digits"
    # Redacted before it is cut: half of a token has no shape any more.
    return clip(redact(text), MOST_SHOWN)


def _value(text: str, name: str, value: Any) -> Any:
    key = next((key for key in KEYS if key.name == name), None)
    line = _line_of(text, name)
    if key is None:
        names = [key.name for key in KEYS]
        near = _same_word(name) or get_close_matches(name, [*names, *TABLES], n=1, cutoff=0.6)
        fix = f"Did you mean `{near[0]}`?" if near else f"Known keys: {', '.join(f'`{n}`' for n in names)}."
        raise RepoConfigError(f"unknown key `{clip(redact(name), MOST_SHOWN)}`", line, fix)
    read = key.read(value)
    if read is None:
        raise RepoConfigError(f"`{name}` cannot be {_shown(value)}", line, f"It is {key.wanted}.")
    return read


def _same_word(name: str) -> list[str]:
    # A key outside of its table, or in one where it does not belong; or only the beginning of one.
    word = name.rpartition(".")[2]
    same = [key.name for key in KEYS if key.name.rpartition(".")[2] == word]
    return same or [key.name for key in KEYS if "." in name and key.name.startswith(name)]


def _line_of(text: str, name: str) -> int | None:
    """The line on which a key is set, where it stands as people write it; tomllib does not keep it."""
    wanted, table = name.split("."), list[str]()
    for number, line in enumerate(text.split("\n"), start=1):
        begin, sign, value = line.partition("=")
        if line.lstrip().startswith("["):
            table = path = _path(line.partition("#")[0].strip().strip("[]"))
        elif sign:
            path = table + _path(begin)
        else:
            continue
        is_inline = value.lstrip().startswith("{") and wanted[: len(path)] == path
        if path[: len(wanted)] == wanted or is_inline:
            return number
    return None


def _path(key: str) -> list[str]:
    return [part.strip().strip("\"'") for part in key.split(".")]
