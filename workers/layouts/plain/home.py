"""Where a small library keeps its kernels, tests and benchmarks. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import PurePosixPath

from workers.tree import Tree

KERNEL = re.compile(r"^@triton\.jit|^@triton\.autotune|^import triton\b", re.MULTILINE)
ELSEWHERE = frozenset(
    {"test", "tests", "bench", "benchmark", "benchmarks", "doc", "docs", "example", "examples", "scripts"}
)


@dataclass(frozen=True)
class Home:
    """Folders of a library; ``root`` is what goes on ``sys.path``, ``package`` the kernels' dotted name below it."""

    kernels: str
    root: str
    package: str
    tests: str
    benchmarks: str

    def module(self, name: str) -> str:
        """Give the import name of a kernel's module."""
        return f"{self.package}.{name}"


def kernel_folders(tree: Tree) -> tuple[str, ...]:
    """Give the folders with Triton kernels, tests and the like left out."""
    found = dict.fromkeys(
        str(PurePosixPath(path).parent)
        for path in tree.paths(suffix=".py")
        if _is_importable(path) and KERNEL.search(tree.read(path) or "")
    )
    return tuple(found)


def home_of(tree: Tree) -> Home:
    """Give the folders: the one that holds Triton kernels where there is one, else ``kernels``."""
    folders = kernel_folders(tree)
    named = [folder for folder in folders if PurePosixPath(folder).name == "kernels"]
    kernels = folders[0] if len(folders) == 1 else named[0] if len(named) == 1 else "kernels"
    inside = PurePosixPath(kernels)
    root, package = (
        ("src", inside.parts[1:]) if inside.parts[0] == "src" and len(inside.parts) > 1 else (".", inside.parts)
    )
    tests = next((folder for folder in ("tests", "test") if tree.exists(folder)), "tests")
    benchmarks = next((folder for folder in ("benchmarks", "benchmark", "bench") if tree.exists(folder)), "benchmarks")
    return Home(kernels, root, ".".join(package), tests, benchmarks)


def _is_importable(path: str) -> bool:
    folders = PurePosixPath(path).parts[:-1]
    return bool(folders) and all(folder.isidentifier() and folder not in ELSEWHERE for folder in folders)
