"""Reading a repository: what it is, who may write to it, a file."""

from __future__ import annotations

from urllib.parse import quote

import structlog
from github.ContentFile import ContentFile

from service.github.errors import ConflictError, ForbiddenError, MissingError
from service.github.records import RepositoryInfo
from service.github.session import RepositoryCalls

log = structlog.get_logger(__name__)

MAX_TEXT_BYTES = 512 * 1024


class RepositoryReads(RepositoryCalls):
    """Reads of one repository."""

    def info(self) -> RepositoryInfo:
        """Give the repository."""

        def read() -> RepositoryInfo:
            found = self._session.github.get_repo(self.full_name)
            return RepositoryInfo(found.full_name, found.default_branch, bool(found.private), found.html_url)

        return self._call(read)

    def permission(self, login: str) -> str:
        """Give a person's permission: ``admin``, ``write``, ``read`` or ``none``."""
        try:
            return self._call(lambda: self._repository.get_collaborator_permission(login))
        except MissingError:
            return "none"

    def in_team(self, login: str, organisation: str, slug: str) -> bool:
        """Tell whether a person is in a team; false also where the bot may not see the organisation's members."""
        path = f"/orgs/{quote(organisation)}/teams/{quote(slug)}/memberships/{quote(login)}"
        requester = self._session.github.requester
        try:
            _, found = self._call(lambda: requester.requestJsonAndCheck("GET", path))
        except MissingError:
            return False
        except ForbiddenError as error:
            log.warning("team_not_read", team=f"{organisation}/{slug}", error=str(error))
            return False
        return isinstance(found, dict) and found.get("state") == "active"

    def text(self, path: str, ref: str) -> str | None:
        """Give a file's text at a commit or branch; None where there is no such file.

        Raises:
            ConflictError: it is a folder, no UTF-8 text, or larger than 512 KiB.
        """
        if not is_safe_path(path):
            return None
        try:
            found = self._call(lambda: self._repository.get_contents(path, ref=ref))
        except MissingError:
            return None
        if not isinstance(found, ContentFile) or found.type != "file":
            raise ConflictError(f"`{path}` is not a file")
        if found.size > MAX_TEXT_BYTES:
            raise ConflictError(f"`{path}` is larger than {MAX_TEXT_BYTES // 1024} KiB")
        try:
            return self._call(lambda: found.decoded_content).decode("utf-8")
        except (UnicodeDecodeError, AssertionError) as error:
            raise ConflictError(f"`{path}` is not UTF-8 text") from error


def is_safe_path(path: str) -> bool:
    """Tell whether a path names something inside a repository: dot segments would reach other parts of the API."""
    parts = path.split("/")
    return bool(path) and not any(part in {"", ".", ".."} for part in parts) and not any(c in path for c in "\\\0?#")
