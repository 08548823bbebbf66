"""The same kernel asked for in every way that there is."""

# ruff: noqa: E501 (messages stand here as they are sent)

from __future__ import annotations

import pytest
from inline_snapshot import snapshot

from tests.conversations.conftest import Open
from tests.conversations.talk import REPOSITORY, Talk
from tests.few import few
from tests.recorded.libraries import REGLU, create
from workers.contracts import JobState, ProblemKind


def in_the_comment(talk: Talk) -> None:
    talk.ask(create("reglu", REGLU))


def in_the_body_of_the_issue(talk: Talk) -> None:
    talk.ask("/kernel create reglu", issue=f"We need this:\n\n```python\n{REGLU}```\n")


def in_an_issue_that_is_itself_the_command(talk: Talk) -> None:
    talk.issue(create("reglu", REGLU))
    talk.settle()


def from_a_path(talk: Talk) -> None:
    talk.ask("/kernel create reglu from problems/reglu.py")


def from_a_permalink(talk: Talk) -> None:
    sha = talk.hub.head(REPOSITORY)
    lines = len(REGLU.splitlines())
    url = f"{talk.hub.world.base_url}/{REPOSITORY}/blob/{sha}/problems/reglu.py#L1-L{lines}"
    talk.ask(f"/kernel create reglu from {url}")


@pytest.mark.parametrize(
    ("way", "kind"),
    few(
        [
            (in_the_comment, ProblemKind.block),
            (in_the_body_of_the_issue, ProblemKind.block),
            (in_an_issue_that_is_itself_the_command, ProblemKind.block),
            (from_a_path, ProblemKind.path),
            (from_a_permalink, ProblemKind.permalink),
        ],
        [(in_an_issue_that_is_itself_the_command, ProblemKind.block), (from_a_permalink, ProblemKind.permalink)],
    ),
)
def test_every_way_to_ask_leads_to_the_same_checkpoint(talk: Talk, way: object, kind: ProblemKind) -> None:
    assert callable(way)
    way(talk)
    job = talk.job()
    assert (job.state, job.request.problem.kind) == (JobState.waiting, kind)
    assert talk.glance(1) == snapshot("""\
**`reglu`: analyze is done and waits for your review** on [pull request 2](https://hub/octo/kernels/pull/2).
**Next:** approve or request changes on commit `COMMIT1`; the checkpoint's comment says what each does.\
""")
    assert talk.glance(talk.pull()) == snapshot("""\
**`reglu` is understood:** tier 1, element-wise, nearest to `scale`.
**Next:** review [`COMMIT1`](https://hub/octo/kernels/commit/COMMIT1) on [pull request 2](https://hub/octo/kernels/pull/2), and approve it or request changes.\
""")


@pytest.mark.long  # in `make test` the grammar has tests of its own
def test_words_that_people_type_are_understood(open_talk: Open) -> None:
    talk = open_talk()
    talk.ask(create("`reglu`", REGLU, "—author=compiler layout=plain"))
    assert talk.job().request.options.layout == "plain"
    assert talk.glance(1) == snapshot("""\
**`reglu`: analyze is done and waits for your review** on [pull request 2](https://hub/octo/kernels/pull/2).
**Next:** approve or request changes on commit `COMMIT1`; the checkpoint's comment says what each does.\
""")
    talk.skip(talk.pull())
