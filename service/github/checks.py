"""Check runs: one per thing that a job says of a commit."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from github.CheckRun import CheckRun
from github.GithubObject import NotSet

from service.github.records import CheckInfo
from service.github.session import RepositoryCalls

MAX_CHECKS = 300


@dataclass(frozen=True)
class Button:
    """A button on a check run. GitHub takes 20 characters of the label and the identifier, and 40 of the description."""

    label: str
    description: str
    identifier: str


@dataclass(frozen=True)
class CheckText:
    """What a check run shows, and how it ended."""

    title: str
    summary: str
    conclusion: str
    details_url: str
    buttons: tuple[Button, ...] = ()


class Checks(RepositoryCalls):
    """Check runs of one repository."""

    def find(self, sha: str, external_id: str) -> CheckInfo | None:
        """Give the check run on a commit with an id of ours; None where there is none."""
        commit = self._repository.get_commit(sha)
        found = self._listed(lambda: commit.get_check_runs(filter="all"), MAX_CHECKS)
        return next((info for info in map(_info, found) if info.external_id == external_id), None)

    def create(self, name: str, sha: str, external_id: str, text: CheckText) -> int:
        """Make a check run; give its id."""
        return self._call(
            lambda: (
                self._repository.create_check_run(
                    name=name,
                    head_sha=sha,
                    external_id=external_id,
                    details_url=text.details_url or NotSet,
                    status="in_progress" if text.conclusion is None else "completed",
                    conclusion=NotSet if text.conclusion is None else text.conclusion,
                    output={"title": text.title, "summary": text.summary},
                    actions=[asdict(button) for button in text.buttons] or NotSet,
                ).id
            )
        )


def _info(found: CheckRun) -> CheckInfo:
    return CheckInfo(found.id, found.name, found.head_sha, found.external_id or "", found.status, found.conclusion)
