"""What a folder is told that no job can run on, with the cure."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from service.local.checkout import Checkout
from workers.contracts import UserFacingError


def test_a_folder_that_is_no_repository_and_one_without_a_commit(tmp_path: Path) -> None:
    with pytest.raises(UserFacingError) as none:
        Checkout(tmp_path).head()
    assert none.value.failure.message == f"{tmp_path} is no git repository"
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    with pytest.raises(UserFacingError) as empty:
        Checkout(tmp_path).head()
    assert empty.value.failure.message == f"{tmp_path} has no commit yet"
    assert "git commit" in empty.value.failure.cure
