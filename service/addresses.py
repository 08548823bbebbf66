"""Addresses that the bot's comments and checks point to. Pure."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from urllib.parse import quote

from service.report.layout import Links


@dataclass(frozen=True)
class Addresses:
    """Where the service and GitHub are seen by people; both without a slash at the end."""

    public_url: str
    html_url: str

    def job(self, job_id: str) -> str:
        """The address of a job's page."""
        return f"{self.public_url}/jobs/{quote(job_id, safe='')}"

    def links(self, job_id: str, repository: str, bot_login: str) -> Links:
        """What the bot's texts about a job point to."""
        return Links(self.job(job_id), f"{self.html_url}/{repository}", bot_login)

    def pull(self, repository: str, number: int) -> str:
        """The address of a pull request."""
        return f"{self.html_url}/{repository}/pull/{number}"

    def raw(self, repository: str, sha: str) -> str:
        """The root under which the files of a commit can be seen as images."""
        return f"{self.html_url}/{repository}/raw/{sha}"


def is_loopback(host: str) -> bool:
    """Whether a host's name or address is of this machine alone, as far as its spelling shows."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
