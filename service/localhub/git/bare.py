"""One bare repository: objects, refs and trees. No text from outside is ever read as a revision expression or an option."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path

from service.localhub.git.objects import CommitData, TreeEntry, parse_commit

_SHA = re.compile(r"^[0-9a-f]{40}$")
_SHORT_SHA = re.compile(r"^[0-9a-f]{7,40}$")
_BAD_REF = re.compile(r"[\x00-\x20\x7f~^:?*\[\\]|\.\.|@\{|//|/$|^/|\.lock(/|$)|(^|/)\.|\.$|^-")
ZERO = "0" * 40
_COMMAND_TIMEOUT_S = 120
_CONFIGURATION = (
    ("http", "receivepack", "true"),
    ("uploadpack", "allowAnySHA1InWant", "true"),
    ("gc", "auto", "0"),
    ("receive", "hideRefs", "refs/pull"),  # The head of a pull request moves with its branch and by nothing else.
)


class GitError(Exception):
    """A git command that failed, with what it said."""


def is_safe_ref(name: str) -> bool:
    """Whether git accepts it as the name of a ref. Source: git-check-ref-format(1)."""
    return bool(name) and name != "@" and not _BAD_REF.search(name)


def is_safe_path(path: str) -> bool:
    """Whether git would put it into a tree: relative, no empty, dot or .git component, no control character."""
    parts = path.split("/")
    return bool(path) and "\0" not in path and not any(p in ("", ".", "..") or p.lower() == ".git" for p in parts)


class BareRepository:
    """A bare repository in a folder."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def create(self, default_branch: str) -> None:
        """Make the folder a bare repository that serves pushes and any commit over HTTP, as GitHub does."""
        self.path.mkdir(parents=True, exist_ok=True)
        self.run("init", "--bare", "--quiet", f"--initial-branch={default_branch}", ".")
        with (self.path / "config").open("a") as config:
            config.write("".join(f"[{section}]\n\t{key} = {value}\n" for section, key, value in _CONFIGURATION))

    def run(
        self, *arguments: str, data: bytes = b"", index: str | None = None, accept: tuple[int, ...] = (0,)
    ) -> bytes:
        """Run git here, without the machine's or the user's configuration. Raises: GitError."""
        environment = git_environment(self.path)
        if index is not None:
            environment["GIT_INDEX_FILE"] = index
        done = subprocess.run(
            ["git", *arguments],
            cwd=self.path,
            input=data,
            capture_output=True,
            env=environment,
            timeout=_COMMAND_TIMEOUT_S,
            check=False,
        )
        if done.returncode not in accept:
            said = done.stderr.decode("utf-8", "replace").strip()
            raise GitError(f"git {arguments[0]} failed with {done.returncode}: {said}")
        return done.stdout

    def refs(self) -> dict[str, str]:
        """Every ref with the object that it names."""
        lines = self.run("for-each-ref", "--format=%(objectname) %(refname)").decode().splitlines()
        return {name: sha for sha, _, name in (line.partition(" ") for line in lines)}

    def ref(self, name: str) -> str | None:
        """The object of a full ref name such as ``refs/heads/main``."""
        if not is_safe_ref(name):
            return None
        said = self.run("show-ref", "--verify", "--hash", "--", name, accept=(0, 1, 128)).decode().strip()
        return said or None

    def update_ref(self, name: str, new: str, old: str | None = None) -> bool:
        """Compare and set: False where the ref is not at ``old`` any more (ZERO: must not exist; None: whatever it is)."""
        expected = () if old is None else (old,)
        try:
            self.run("update-ref", name, new, *expected)
        except GitError:
            return False
        return True

    def delete_ref(self, name: str) -> None:
        """Remove a ref."""
        self.run("update-ref", "-d", name)

    def resolve(self, name: str) -> str | None:
        """The commit of a branch, tag, full ref or commit id; never of an expression such as ``main~1``."""
        for candidate in (f"refs/heads/{name}", f"refs/tags/{name}", name, f"refs/{name}"):
            if candidate.startswith("refs/") and (sha := self.ref(candidate)):
                return self._peel(sha)
        return self._peel(name) if _SHORT_SHA.match(name) else None

    def _peel(self, sha: str) -> str | None:
        said = self.run("rev-parse", "--verify", "--quiet", f"{sha}^{{commit}}", accept=(0, 1, 128)).decode().strip()
        return said or None

    def kind(self, sha: str) -> str | None:
        """blob, tree, commit or tag; None for an id that is not here."""
        if not _SHA.match(sha):
            return None
        return self.run("cat-file", "-t", sha, accept=(0, 128)).decode().strip() or None

    def write_object(self, kind: str, content: bytes) -> str:
        """Write an object and give its id."""
        return self.run("hash-object", "-t", kind, "-w", "--stdin", data=content).decode().strip()

    def read_object(self, kind: str, sha: str) -> bytes:
        """The content of an object."""
        return self.run("cat-file", kind, sha)

    def commit(self, sha: str) -> CommitData:
        """A commit."""
        return parse_commit(sha, self.read_object("commit", sha))

    def write_commit(self, commit: CommitData) -> str:
        """Write a commit object: the same content gives the same id."""
        return self.write_object("commit", commit.raw())

    def tree_entries(self, tree: str, path: str = "", recursive: bool = False) -> list[TreeEntry]:
        """The entries of a tree, or of a folder in it, with paths from the root."""
        flags = ["-r", "-t"] if recursive else []
        where = ["--", f"{path}/"] if path else []
        listing = self.run("--literal-pathspecs", "ls-tree", "-z", "-l", *flags, tree, *where)
        return [_parse_entry(line) for line in listing.split(b"\0") if line]

    def entry(self, tree: str, path: str) -> TreeEntry | None:
        """The entry at a path."""
        if not is_safe_path(path):
            return None
        listing = self.run("--literal-pathspecs", "ls-tree", "-z", "-l", tree, "--", path)
        return _parse_entry(listing.split(b"\0")[0]) if listing else None

    def file(self, revision: str, path: str) -> bytes | None:
        """The content of a file at a commit; None where there is none."""
        found = self.entry(revision, path)
        return self.read_object("blob", found.sha) if found and found.type == "blob" and found.sha else None

    def write_tree(self, entries: Iterable[TreeEntry], base: str | None = None) -> str:
        """A tree with these entries on top of ``base``; an entry's path may have folders."""
        with tempfile.TemporaryDirectory(prefix="localhub-index-") as folder:
            index = str(Path(folder) / "index")
            if base is not None:
                self.run("read-tree", base, index=index)
            records = [
                f"{item.mode} {item.sha}\t{item.path}" if item.sha else f"0 {ZERO}\t{item.path}" for item in entries
            ]
            lines = "".join(record + "\0" for record in records).encode("utf-8", "surrogateescape")
            self.run("update-index", "-z", "--index-info", data=lines, index=index)
            return self.run("write-tree", index=index).decode().strip()

    def write_files(self, files: Mapping[str, bytes | None], base: str | None = None) -> str:
        """A tree with these files' contents on top of ``base``; None removes a file."""
        kept = {path: content for path, content in files.items() if content is not None}
        written = dict(zip(kept, self.write_blobs(kept.values()), strict=True))
        return self.write_tree([TreeEntry(path, "100644", "blob", written.get(path)) for path in files], base)

    def write_blobs(self, contents: Iterable[bytes]) -> list[str]:
        """Write many blobs by one process, since a library has hundreds of files."""
        stream = bytearray()
        for mark, content in enumerate(contents, start=1):
            stream += b"blob\nmark :%d\ndata %d\n%b\nget-mark :%d\n" % (mark, len(content), content, mark)
        return self.run("fast-import", "--quiet", data=bytes(stream) + b"done\n").decode().split() if stream else []

    def is_ancestor(self, older: str, newer: str) -> bool:
        """Whether ``newer`` can be reached from ``older`` by going forward only."""
        return self.merge_base(older, newer) == older

    def merge_base(self, one: str, other: str) -> str | None:
        """The commit where two histories parted."""
        return self.run("merge-base", one, other, accept=(0, 1)).decode().strip() or None

    def history(self, newest: str, exclude: str | None = None, path: str | None = None, limit: int = 1000) -> list[str]:
        """Commit ids, newest first; ``exclude`` leaves out what can be reached from it."""
        without = [f"^{exclude}"] if exclude else []
        where = [path] if path else []
        listing = self.run("--literal-pathspecs", "rev-list", f"--max-count={limit}", newest, *without, "--", *where)
        return listing.decode().split()

    def archive(self, sha: str, prefix: str) -> bytes:
        """A gzipped tarball of a commit under one top folder."""
        return self.run("archive", "--format=tar.gz", f"--prefix={prefix}/", sha)

    def fetch(self, other: BareRepository, source: str, target: str) -> None:
        """Make ``target`` a commit of another repository, or of this one."""
        if other.path == self.path:
            self.update_ref(target, source)
            return
        self.run("fetch", "--quiet", "--no-tags", str(other.path), f"+{source}:{target}")


def git_environment(home: Path) -> dict[str, str]:
    """An environment in which git knows nothing of this machine's users and cannot ask anybody anything."""
    return {
        "PATH": os.pathsep.join((str(Path(shutil.which("git") or "/usr/bin/git").parent), os.defpath)),
        "HOME": str(home),
        "LANG": "C",
        "LC_ALL": "C",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_COMMITTER_NAME": "localhub",
        "GIT_COMMITTER_EMAIL": "noreply@localhub.invalid",
        "GIT_DIR": str(home),
    }


def _parse_entry(line: bytes) -> TreeEntry:
    head, _, path = line.decode("utf-8", "surrogateescape").partition("\t")
    mode, kind, sha, size = head.split()
    return TreeEntry(path, mode, kind, sha, None if size == "-" else int(size))
