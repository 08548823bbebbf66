"""Makes what differs from run to run the same, and folds what a person sees folded."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field

MARK = re.compile(r"\n*<!-- kernelsmith:[^>]* -->\s*$")
DATE = re.compile(r"\b20\d\d-[01]\d-[0-3]\d\b(?! \d\d:)")
DIGEST = re.compile(r"(?<![0-9a-f])[0-9a-f]{64}(?![0-9a-f])")
COMMIT = re.compile(r"(?<![0-9a-f])(?:[0-9a-f]{40}|[0-9a-f]{12}|[0-9a-f]{7})(?![0-9a-f])")
FOLD = re.compile(r"<(/?)details>(?:<summary>(.*?)</summary>)?")


@dataclass
class Normal:
    """Remembers which names it gave, so that one commit has one name in a whole conversation."""

    hub_url: str
    jobs: Callable[[], list[str]]
    commits: list[str] = field(default_factory=list)

    def __call__(self, text: str) -> str:
        """Give a text as it is in every run."""
        text = MARK.sub("", text).replace(self.hub_url, "https://hub").replace(self.hub_url.split("//")[1], "hub")
        text = COMMIT.sub(self._named, DATE.sub("DATE", DIGEST.sub("DIGEST", text)))
        for number, job in enumerate(self.jobs(), 1):
            text = text.replace(job, f"JOB{number}")
        return text.strip()

    def _named(self, match: re.Match[str]) -> str:
        sha = match[0]
        if sha[:7] not in self.commits:
            if len(sha) == 7:
                return sha  # Any word or number of seven letters may look like this.
            self.commits.append(sha[:7])
        return f"COMMIT{self.commits.index(sha[:7]) + 1}"


def folded(body: str) -> str:
    """Give a comment as it is seen before anything is unfolded."""
    shown, depth, end = "", 0, 0
    for match in FOLD.finditer(body):
        opens = not match[1]
        if opens and depth == 0:
            shown += body[end : match.start()] + f"▸ {match[2]}"
        depth += 1 if opens else -1
        end = match.end()
        assert depth >= 0
    assert depth == 0, "what is folded ends somewhere"
    return shown + body[end:]


def gist(body: str, lines: int = 2) -> str:
    """Give the first lines of a comment that say something."""
    return "\n".join([line for line in body.splitlines() if line.strip()][:lines])
