"""Real git on disk: bare repositories, driven by git's own plumbing commands."""

from service.localhub.git.bare import BareRepository, GitError, is_safe_path, is_safe_ref
from service.localhub.git.changes import ChangedFile, changed_files, patch
from service.localhub.git.objects import CommitData, Signature, TreeEntry

__all__ = [
    "BareRepository",
    "ChangedFile",
    "CommitData",
    "GitError",
    "Signature",
    "TreeEntry",
    "changed_files",
    "is_safe_path",
    "is_safe_ref",
    "patch",
]
