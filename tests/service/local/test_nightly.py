"""A night on a checkout: which commit it may measure, and that an interrupted one goes on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from service.local.asking import LocalJob, nightly_request, repository_name, stopped_comment
from service.local.checkout import Checkout
from tests.service.local.checkouts import checked_out, git
from tests.service.report.kernels_facts import VERIFY_DONE
from workers import inbox, runtime
from workers.contracts import JobOptions, UserFacingError, Verb
from workers.embedded import close, configure
from workers.stages.gate import NO_GPU
from workers.store import history


@pytest.fixture
def checkout(tmp_path: Path) -> Iterator[Checkout]:
    folder = checked_out(tmp_path / "library", {"kernel.py": b"number = 1\n"})
    (folder / "kernel.py").write_text("number = 2\n")
    git(folder, "commit", "-q", "-a", "-m", "later")
    configure(tmp_path / "state")
    yield Checkout(folder)
    close()


def asked(*kernels: str, fresh: bool = False) -> LocalJob:
    return LocalJob("nightly", "", JobOptions(auto=True), fresh, Verb.nightly, kernels=kernels)


def measured(checkout: Checkout, revision: str) -> None:
    with runtime.current().database.write() as session:
        history.add_commit(session, repository_name(checkout), revision, "0" * 64, 1.0)


def test_a_commit_before_the_one_that_was_measured_last_is_refused(checkout: Checkout) -> None:
    head, first = checkout.head(), git(checkout.folder, "rev-parse", "HEAD~1")
    measured(checkout, first)
    assert nightly_request(checkout, asked()).base_sha == head
    measured(checkout, head)
    git(checkout.folder, "checkout", "-q", first)
    with pytest.raises(UserFacingError, match=f"HEAD lies before {head[:12]}"):
        nightly_request(checkout, asked())


def test_a_commit_that_this_checkout_no_longer_has_stands_in_nobodys_way(checkout: Checkout) -> None:
    measured(checkout, "f" * 40)
    assert nightly_request(checkout, asked()).base_sha == checkout.head()


def test_an_interrupted_night_goes_on_and_another_one_is_new(checkout: Checkout) -> None:
    first = nightly_request(checkout, asked("geglu"))
    inbox.submit(first)
    assert nightly_request(checkout, asked("geglu")).key == first.key
    assert nightly_request(checkout, asked("geglu", fresh=True)).key != first.key
    assert nightly_request(checkout, asked()).key != first.key


def test_without_a_gpu_a_person_at_a_checkout_is_sent_to_a_machine_with_one() -> None:
    text = stopped_comment(NO_GPU, VERIFY_DONE)
    assert "this machine has no GPU" in text and "Run the same command on a machine with a GPU." in text
    assert "`/kernel" not in text and "kernelsmith work" not in text
