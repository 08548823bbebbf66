"""Addresses that a message points to, and links that cannot point anywhere else. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import quote, urlsplit

from service.escape import inline
from workers.contracts import Image

URL_SAFE = "/:?#@!$&'*+,;=%~-._"  # without the brackets, which would end a markdown link


@dataclass(frozen=True)
class Links:
    """Where the parts of one job can be seen. No address ends with a slash."""

    job_page: str  # of the service
    repository_url: str  # https://HOST/OWNER/NAME
    bot_login: str

    def pull(self, number: int) -> str:
        """Give the address of a pull request."""
        return f"{self.repository_url}/pull/{number}"

    def commit(self, sha: str) -> str:
        """Give the address of a commit."""
        return f"{self.repository_url}/commit/{quote(sha)}"

    def own(self, label: str, url: str) -> str:
        """Give a link where the address is in this repository, else only the label."""
        return link(label, url) if url.startswith(f"{self.repository_url}/") else label

    def file(self, sha: str, path: str) -> str:
        """Give the address of a file at a commit."""
        return f"{self.repository_url}/blob/{quote(sha)}/{quote(path)}"


def link(label: str, url: str) -> str:
    """Give a markdown link; only the label where the address is none of the web. ``label`` is markdown already."""
    return f"[{label}]({safe_url(url)})" if safe_url(url) else label


def image(alt: str, url: str) -> str:
    """Give a markdown image with its text form; only the text where the address is none of the web."""
    return f"![{inline(alt)}]({safe_url(url)})" if safe_url(url) else inline(alt)


def pictures(images: tuple[Image, ...], image_urls: Mapping[str, str]) -> str:
    """Give the images that can be seen."""
    return "\n".join(image(item.alt, image_urls[item.name]) for item in images if item.name in image_urls)


def safe_url(url: str) -> str:
    """Give an address that stays one inside of a markdown link; empty where it is not http or https."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return ""
    if parts.scheme not in ("http", "https") or not parts.netloc or len(url) > 2_000:
        return ""
    return quote(url, safe=URL_SAFE)
