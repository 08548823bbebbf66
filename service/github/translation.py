"""Where PyGithub's errors become ours: one boundary around every request."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from service.github.errors import FOREIGN, translate


@contextmanager
def translated() -> Iterator[None]:
    """Raise what goes wrong inside as a ``GitHubError``; what has nothing to do with GitHub goes on as it is.

    Raises:
        GitHubError: GitHub, or the way to it, is at fault.
    """
    try:
        yield
    except FOREIGN as error:
        raise translate(error, time.time()) from error
