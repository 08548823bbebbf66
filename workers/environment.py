"""A door: what of this process's environment another program may see. What is not named here is not passed on."""

from __future__ import annotations

import os
import re
import sys
import tempfile
from collections.abc import Collection
from difflib import get_close_matches
from pathlib import Path

from dotenv import dotenv_values

SECRET_NAME = re.compile(
    r"(?:^|_)(?:TOKEN|SECRETS?|(?:PG)?PASSWORD|PASSWD|API_?KEY|PRIVATE_KEY|ACCESS_KEY|ACCOUNT_KEY|CONNECTION_STRING)$",
    re.IGNORECASE,
)
# Where programs, certificates and libraries are.
_PLAIN = re.compile(
    r"PATH|HOME|USER|LOGNAME|SHELL|LANG|LANGUAGE|LC_\w+|TZ|TERM|TMPDIR|VIRTUAL_ENV|PYTHON\w*|XDG_\w+|SSL_CERT_(FILE|DIR)|"
    r"(REQUESTS|CURL)_CA_BUNDLE|LD_LIBRARY_PATH|CUDA_\w+|NVIDIA_\w+|TRITON_\w+|\w+_NUM_THREADS|KERNELSMITH_FORK_CHILDREN"
)
GIT = re.compile(
    r"GIT_(AUTHOR|COMMITTER)_(NAME|EMAIL|DATE)|GIT_CONFIG_(GLOBAL|SYSTEM|NOSYSTEM)|GIT_CEILING_DIRECTORIES"
)
PIP = re.compile(r"PIP_\w+|(HTTPS?|ALL|NO)_PROXY", re.IGNORECASE)  # an index and a proxy may need a password of theirs


# A file by this name alone: a `.env` in the working folder may be another's, such as that of a checkout.
ENV_FILE = "KERNELSMITH_ENV_FILE"
ENV_FILE_ENCODING = "utf-8-sig"  # some editors begin a file with a byte order mark


def env_file() -> str | None:
    """The file of settings that is named; an empty variable names none."""
    return os.environ.get(ENV_FILE) or None


def wrong_env_file() -> str | None:
    """What is wrong with the file that KERNELSMITH_ENV_FILE names; None where it can be read, or none is named."""
    file = env_file()
    if file is None:
        return None
    if Path(file).is_fifo():
        return f"{ENV_FILE} names a pipe, and is read more than once: name a file"
    try:
        Path(file).read_text(ENV_FILE_ENCODING)
    except OSError:
        return f"{ENV_FILE} names no file that can be read"
    except UnicodeDecodeError as error:
        return f"{ENV_FILE} names a file that is no UTF-8 text from byte {error.start} on"
    return None


PREFIX = "KERNELSMITH_"
FORK_CHILDREN = "KERNELSMITH_FORK_CHILDREN"  # of the runner, which reads no file
MOST_SHOWN = 80  # characters of a wrong name


def unknown_variables(settings: Collection[str]) -> dict[str, str]:
    """The variables of the environment that are named like a setting and are none, each with what to do about it."""
    known = {*settings, ENV_FILE, FORK_CHILDREN}
    return {_shown(name): _fix(name, known) for name in sorted(os.environ) if _is_unknown(name, known)}


def unknown_keys(settings: Collection[str]) -> tuple[str, ...]:
    """What the file that KERNELSMITH_ENV_FILE names sets and no setting is, a sentence each."""
    file = env_file()
    if file is None or wrong_env_file() is not None:
        return ()
    names = sorted(dotenv_values(file, encoding=ENV_FILE_ENCODING, interpolate=False))
    alone = [name for name in names if name.upper() in (ENV_FILE, FORK_CHILDREN)]
    unknown = [name for name in names if name not in alone and _is_unknown(name, settings)]
    return (
        *(f"{_shown(name)} is no setting. {_fix(name, settings)}" for name in unknown),
        *(f"{name} is read from the environment alone: set it there" for name in alone),
    )


def _is_unknown(name: str, known: Collection[str]) -> bool:
    return name.upper().startswith(PREFIX) and name.upper() not in known


def _shown(name: str) -> str:
    plain = "".join(char if char.isprintable() else "?" for char in name[:MOST_SHOWN])
    return plain if len(name) <= MOST_SHOWN else f"{plain}..."


def _fix(name: str, known: Collection[str]) -> str:
    words = [it.removeprefix(PREFIX) for it in sorted(known)]
    word = name.upper()[: len(PREFIX) + MOST_SHOWN].removeprefix(PREFIX)
    # What is put before a name, such as GITHUB_ before TOKEN, may be longer than the name.
    near = get_close_matches(word, words, n=1) or [it for it in words if word.endswith(f"_{it}")]
    return f"Did you mean {PREFIX}{near[0]}?" if near else "docs/settings.md names all settings."


def unread_env_file() -> str | None:
    """The sentence on a `.env` in the working folder that has settings, and that nothing reads; None where there is none."""
    file = Path(".env")
    try:
        has_settings = env_file() is None and file.is_file() and "KERNELSMITH_" in file.read_text("utf-8")
    except (OSError, UnicodeDecodeError):
        return None
    return (
        f"The .env here is not read, since it could be another's: {ENV_FILE}=.env has it read."
        if has_settings
        else None
    )


def unparsed_setting(error: str) -> str:
    """The sentence on a setting that holds a list or a table and is no JSON, by pydantic's error; its value may be a secret."""
    named = re.search(r'field "(\w+)"', error)
    variable = f"KERNELSMITH_{named[1].upper()}" if named is not None else "a setting"
    return f"""{variable} is no JSON: a list is written as '["a", "b"]', a table as '{{"a": "b"}}'"""


def plain_environment(more: re.Pattern[str] | None = None) -> dict[str, str]:
    """The environment for any program: no settings and nothing that could be a secret; and ``more`` that one needs."""
    return {
        name: value
        for name, value in os.environ.items()
        if (_PLAIN.fullmatch(name) and not SECRET_NAME.search(name)) or (more is not None and more.fullmatch(name))
    }


# What the clients of an artifact store and of PostgreSQL read by themselves. Others' keys begin with the same words.
S3 = re.compile(r"AWS_(?!BEARER_TOKEN)\w+")
GOOGLE = re.compile(r"GOOGLE_APPLICATION_CREDENTIALS|GOOGLE_CLOUD_PROJECT|GCLOUD_PROJECT|GCSFS_\w+")
AZURE = re.compile(r"AZURE_(STORAGE|CLIENT|TENANT)_\w+|AZURE_AUTHORITY_HOST|AZURE_FEDERATED_TOKEN_FILE")
FSSPEC = re.compile(r"FSSPEC_\w+")
LIBPQ = re.compile(r"PG(?!P_)[A-Z]\w+")
PROXY = re.compile(r"(?:HTTPS?|ALL|NO)_PROXY", re.IGNORECASE)
_SETTINGS = re.compile(r"KERNELSMITH_\w+|DATABASE_URL|REDIS_URL", re.IGNORECASE)  # as pydantic reads them


def any_of(*patterns: re.Pattern[str]) -> re.Pattern[str]:
    """A pattern for what any of these matches, each by its own rule for case."""
    return re.compile("|".join(f"(?{'i' if it.flags & re.IGNORECASE else ''}:{it.pattern})" for it in patterns))


def shed_others() -> None:
    """Re-execute this program without what it does not read, where its environment holds more than that.

    Deleting variables would not do: the environment of a process's start stays in ``/proc`` as long as it runs.
    """
    kept = plain_environment(any_of(_SETTINGS, S3, GOOGLE, AZURE, FSSPEC, LIBPQ, PROXY))
    if len(kept) < len(os.environ):
        os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], kept)  # noqa: S606 - the same program, no shell


def keep_loopback_direct() -> None:
    """Have whatever asks this machine itself do so without a proxy of the environment, which would ask another."""
    name = "no_proxy" if "no_proxy" in os.environ else "NO_PROXY"
    if (named := os.environ.get(name, "")) != "*":
        os.environ[name] = ",".join(filter(None, (named, "localhost,127.0.0.1,::1")))


def keep_temporary_folder() -> None:
    """Have ``tempfile`` stay with TMPDIR, or /tmp, while its disk is full: it would go on elsewhere, where nobody cleans up."""
    folder = os.environ.get("TMPDIR") or "/tmp"  # noqa: S108 - the folder, no file in it
    if Path(folder).is_dir() and os.access(folder, os.W_OK | os.X_OK):
        tempfile.tempdir = folder
