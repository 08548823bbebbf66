"""Snapshots: a repository's tarball at a commit, streamed and bounded."""

from __future__ import annotations

import math
import time
import urllib.parse

import requests

from service.github.errors import ConflictError, from_answer
from service.github.session import RepositoryCalls

CONNECT_S = 10.0
READ_S = 30.0
WHOLE_S = 120.0
CHUNK_BYTES = 1 << 20


class Snapshots(RepositoryCalls):
    """The archive of one repository."""

    def archive_link(self, sha: str) -> str:
        """Give the address of the tarball at a commit; GitHub's holds a token of its own and is valid for minutes."""
        return self._call(lambda: self._repository.get_archive_link("tarball", sha))

    def tarball(self, sha: str, limit_bytes: int) -> bytes:
        """Fetch the tarball at a commit.

        Raises:
            ConflictError: it is larger than the limit, or the address is not one to fetch from.
        """
        link = self.archive_link(sha)
        requester = self._session.github.requester
        scheme = urllib.parse.urlsplit(requester.base_url).scheme
        if urllib.parse.urlsplit(link).scheme not in {"https", scheme}:
            raise ConflictError("GitHub named an address for the archive that is not https")
        end_s = min(time.monotonic() + WHOLE_S, self._deadline_s or math.inf)
        return self._call(lambda: _download(link, limit_bytes, self._headers(link), end_s))

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


def _download(link: str, limit_bytes: int, headers: dict[str, str], end_s: float) -> bytes:
    content = bytearray()
    # ``auth`` keeps requests from looking for credentials of this host in a .netrc file.
    with (
        requests.Session() as session,
        session.get(
            link, headers=headers, stream=True, timeout=(CONNECT_S, READ_S), auth=lambda request: request
        ) as answer,
    ):
        if answer.status_code != 200:
            raise from_answer(answer.status_code, "the archive could not be fetched", answer.headers, time.time())
        for chunk in answer.iter_content(CHUNK_BYTES):
            content += chunk
            if len(content) > limit_bytes:
                raise ConflictError(f"the repository's archive is larger than {limit_bytes >> 20} MiB")
            if time.monotonic() > end_s:
                raise requests.Timeout("the archive took too long")
    return bytes(content)
