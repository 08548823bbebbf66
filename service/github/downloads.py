"""What is too large for one answer in memory without a bound: a repository's tarball, and the files of a gist."""

from __future__ import annotations

import json
import math
import time
import urllib.parse
from dataclasses import dataclass
from typing import Any

import requests

from service.github.errors import ConflictError, from_answer
from service.github.git_data import MAX_TEXT_BYTES
from service.github.session import RepositoryCalls

CONNECT_S = 10.0
READ_S = 30.0
WHOLE_S = 120.0
CHUNK_BYTES = 1 << 20
MAX_GIST_BYTES = 8 << 20  # of the answer, which has every file of the gist


class Downloads(RepositoryCalls):
    """Fetches with bounds on size and time."""

    def fetch(self, link: str, limit_bytes: int, what: str) -> bytes:
        """What lies at an address; ``what`` names it in errors, such as ``the archive``.

        Raises:
            ConflictError: it is larger than the limit, or the address is not one to fetch from.
        """
        requester = self._session.github.requester
        scheme = urllib.parse.urlsplit(requester.base_url).scheme
        if urllib.parse.urlsplit(link).scheme not in {"https", scheme}:
            raise ConflictError(f"GitHub named an address for {what} that is not https")
        end_s = min(time.monotonic() + WHOLE_S, self._deadline_s or math.inf)
        return self._call(lambda: _download(link, limit_bytes, self._headers(link), end_s, what))

    def _headers(self, link: str) -> dict[str, str]:
        # The credentials go to the API's own origin only; elsewhere the address itself is the permission.
        requester = self._session.github.requester
        auth = requester.auth
        if auth is None or _origin(link) != _origin(requester.base_url):
            return {}
        return {"Authorization": f"{auth.token_type} {auth.token}"}


def _origin(url: str) -> tuple[str, str | None, int | None]:
    parts = urllib.parse.urlsplit(url)
    return parts.scheme, parts.hostname, parts.port


def _download(link: str, limit_bytes: int, headers: dict[str, str], end_s: float, what: str) -> bytes:
    content = bytearray()
    # ``auth`` keeps requests from looking for credentials of this host in a .netrc file.
    with (
        requests.Session() as session,
        session.get(
            link, headers=headers, stream=True, timeout=(CONNECT_S, READ_S), auth=lambda request: request
        ) as answer,
    ):
        if answer.status_code != 200:
            raise from_answer(answer.status_code, f"{what} could not be fetched", answer.headers, time.time())
        for chunk in answer.iter_content(CHUNK_BYTES):
            content += chunk
            if len(content) > limit_bytes:
                raise ConflictError(f"{what} is larger than {limit_bytes >> 20} MiB")
            if time.monotonic() > end_s:
                raise requests.Timeout(f"{what} took too long")
    return bytes(content)


class Snapshots(Downloads):
    """The archive of one repository."""

    def archive_link(self, sha: str) -> str:
        """The address of the tarball at a commit; GitHub's holds a token of its own and is valid for minutes."""
        return self._call(lambda: self._repository.get_archive_link("tarball", sha))

    def tarball(self, sha: str, limit_bytes: int) -> bytes:
        """Fetch the tarball at a commit.

        Raises:
            ConflictError: it is larger than the limit, or the address is not one to fetch from.
        """
        return self.fetch(self.archive_link(sha), limit_bytes, "the repository's archive")


@dataclass(frozen=True)
class GistFile:
    """A file of a gist. ``version`` is the id in the address of its raw text, which that of a revision may be, too."""

    name: str
    text: str
    version: str


class Gists(Downloads):
    """Gists, which belong to no repository; whoever has the address of one may read it."""

    def files(self, gist: str, revision: str | None) -> tuple[GistFile, ...]:
        """The files of a gist, at a revision where one is named; the address of a raw file names the version of the file instead.

        Raises:
            MissingError: there is no such gist, or no such revision.
            ConflictError: it is larger than 8 MiB, or a file of it than 512 KiB.
        """
        newest = self._read(gist)
        if revision is None:
            return newest
        return tuple(file for file in newest if file.version == revision) or self._read(f"{gist}/{revision}")

    def _read(self, name: str) -> tuple[GistFile, ...]:
        base = self._session.github.requester.base_url
        content = self.fetch(f"{base}/gists/{name}", MAX_GIST_BYTES, "the gist")
        parsed = self._call(lambda: json.loads(content))
        files = parsed.get("files") if isinstance(parsed, dict) else None
        if not isinstance(files, dict):
            raise ConflictError("GitHub's answer names no files of the gist")
        return tuple(_gist_file(name, each) for name, each in files.items() if isinstance(each, dict))


def _gist_file(name: str, entry: dict[str, Any]) -> GistFile:
    text = (
        str(entry.get("content") or "").encode("utf-8", "replace").decode()
    )  # JSON may hold half of a pair of surrogates
    if entry.get("truncated") or len(text) > MAX_TEXT_BYTES:
        raise ConflictError(f"`{name}` is larger than {MAX_TEXT_BYTES // 1024} KiB")
    raw = urllib.parse.urlsplit(str(entry.get("raw_url") or "")).path.split("/raw/")
    return GistFile(name, text, raw[-1].partition("/")[0] if len(raw) > 1 else "")
