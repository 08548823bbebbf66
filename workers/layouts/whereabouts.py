"""A kernel that stands in a repository, found by any form of its name. Pure."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping

from workers.contracts import Failure, FailureCode, UserFacingError
from workers.layouts.calls import defined_functions
from workers.layouts.protocol import Standing

MOST_NAMED = 8
SHOWN = re.compile(r"[A-Za-z0-9_.\-]{1,60}")


def found_name(wanted: str, kernels: Mapping[str, str], sources: Mapping[str, str], prefix: str = "") -> str:
    """Give the name of a kernel by its name, its class's or its function's, in whatever spelling.

    ``kernels`` are names and paths, ``sources`` the text of each by name.

    Raises:
        UserFacingError: there is none; the nearest names are in the cure.
    """
    if wanted in kernels:
        return wanted
    key = _key(wanted, prefix)
    spelled = {_key(name, prefix): name for name in sorted(kernels, reverse=True)}
    if key in spelled:
        return spelled[key]
    for name in sorted(kernels):
        if key in {_key(function, prefix) for function in defined_functions(sources[name])}:
            return name
    raise _no_such_kernel(wanted, key, spelled)


def in_order_of_use(functions: tuple[str, ...], users: Iterable[str]) -> tuple[str, ...]:
    """Give a file's Functions, those first that the library's other files name; ``users`` are their texts, the main one first."""
    ranked: dict[str, None] = {}
    for text in users:
        ranked |= {name: None for name in functions if re.search(rf"\b{name}\b", text)}
    return (*ranked, *(name for name in functions if name not in ranked))


def missing_files(standing: Standing, suite: str, script: str) -> tuple[Failure, ...]:
    """Give the files that an optimize job needs and that are not there; ``suite`` and ``script`` are where they would be."""
    missing: list[Failure] = []
    if standing.suite is None:
        missing.append(missing_suite(standing, suite))
    if standing.script is None:
        message = f"`{standing.name}` has no benchmark script `{script}`"
        cure = "Add one, as the library's other kernels have it: its sizes are what a change is measured on."
        missing.append(Failure(FailureCode.missing, message, cure))
    return tuple(missing)


def missing_suite(standing: Standing, suite: str) -> Failure:
    """Give why a kernel without a test file cannot be changed; ``suite`` is where it would be."""
    message = f"`{standing.name}` has no test file `{suite}`"
    cure = "Add one that holds the kernel against PyTorch: no change is proposed that it does not pass."
    return Failure(FailureCode.missing, message, cure)


def required(path: str | None, what: str, standing: Standing) -> str:
    """Give a path that must be there.

    Raises:
        UserFacingError: it is not.
    """
    if path is None:
        cure = f"Add the {what} of `{standing.name}` and give the command again."
        raise UserFacingError(Failure(FailureCode.missing, f"`{standing.name}` has no {what}", cure))
    return path


def first_there(candidates: Iterable[str], files: Mapping[str, bytes]) -> str | None:
    """Give the first path that is a file."""
    return next((path for path in candidates if path in files), None)


def _key(name: str, prefix: str) -> str:
    plain = re.sub(r"[^a-z0-9]", "", name.lower().removesuffix(".py"))
    plain = plain.removeprefix(prefix) or plain
    return plain.removesuffix("function") or plain


def _no_such_kernel(wanted: str, key: str, spelled: Mapping[str, str]) -> UserFacingError:
    near = [spelled[k] for k in difflib.get_close_matches(key, spelled, n=3, cutoff=0.6)]
    near += [name for k, name in sorted(spelled.items()) if len(key) > 2 and key in k and name not in near][:3]
    shown = f"`{wanted}`" if SHOWN.fullmatch(wanted) else "of that name"
    if near:
        cure = f"The nearest names: {', '.join(f'`{name}`' for name in near)}."
    elif spelled:
        some = sorted(spelled.values())[:MOST_NAMED]
        more = f" and {len(spelled) - len(some)} more" if len(spelled) > len(some) else ""
        cure = f"The kernels there: {', '.join(f'`{name}`' for name in some)}{more}."
    else:
        cure = "The repository has no kernel that is known; `/kernel create` makes one."
    return UserFacingError(Failure(FailureCode.missing, f"there is no kernel {shown} in the repository", cure))
