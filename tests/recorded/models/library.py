"""The library that the recorded jobs work on: a miniature of liger, in one commit that has the same name wherever it is made."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from tests.conversations.modifying import LIGER
from tests.conversations.test_optimizing_with_a_model import STEADY
from tests.workers.stages.library import PATH

GATED = '''\
"""A gated unit with a sigmoid on the gate."""

import torch


def reference(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return (a.float() * torch.sigmoid(1.702 * a.float())).to(b.dtype) * b


INPUTS = {"a": "T I", "b": "T I"}
WORKLOADS = [{"T": 4096, "I": 11008}, {"T": 16, "I": 11008}]
DTYPES = ["bfloat16"]
CALL = "LigerGELUMulFunction.apply(a, b)"
'''
FILES: dict[str, bytes] = LIGER | {PATH: STEADY.encode(), ".kernelsmith/problems/geglu.py": GATED.encode()}
# A commit's name hangs on its author and its time too.
SOMEBODY = ("-c", "user.name=somebody", "-c", "user.email=somebody@example.com", "-c", "commit.gpgsign=false")
AT = "2026-01-02T03:04:05Z"


def make_library(folder: Path, source: Path | None = None) -> None:
    """Write the library, or a copy of the one in another folder, into a new folder and commit it."""
    if source is not None:
        shutil.copytree(source, folder, ignore=shutil.ignore_patterns(".git", "__pycache__"))
    for path, content in FILES.items() if source is None else ():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(content)
    for arguments in (("init", "-q", "-b", "main"), ("add", "-A"), ("commit", "-q", "-m", "The library")):
        dated = ["env", f"GIT_AUTHOR_DATE={AT}", f"GIT_COMMITTER_DATE={AT}", "GIT_CONFIG_GLOBAL=/dev/null"]
        subprocess.run([*dated, "git", "-C", str(folder), *SOMEBODY, *arguments], check=True)
