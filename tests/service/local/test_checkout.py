"""What a folder is told that no job can run on, with the fix."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from service.local.checkout import Checkout
from tests.service.local.checkouts import checked_out
from workers.contracts import FailureCode, FileChange, UserFacingError


def test_a_folder_that_is_no_repository_and_one_without_a_commit(tmp_path: Path) -> None:
    with pytest.raises(UserFacingError) as none:
        Checkout(tmp_path).head()
    assert none.value.failure.message == f"{tmp_path} is no git repository"
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    with pytest.raises(UserFacingError) as empty:
        Checkout(tmp_path).head()
    assert empty.value.failure.message == f"{tmp_path} has no commit yet"
    assert "git commit" in empty.value.failure.fix


def test_a_commit_of_a_file_without_a_single_reading_is_refused(tmp_path: Path) -> None:
    checkout = Checkout(checked_out(tmp_path, {"a.py": b"x = 1\n"}))
    with pytest.raises(UserFacingError) as caught:
        checkout.commit("new", checkout.head(), (FileChange("a.py", "# coding: utf-7\n"),), "more")
    assert caught.value.failure.code is FailureCode.refused
    assert checkout.resolve("refs/heads/new") is None
