"""Real git on disk: bare repositories, driven by git's own plumbing commands, and its smart HTTP protocol."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shutil
import subprocess
import tempfile
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

_PERSON = re.compile(r"^(?P<name>.*?) ?<(?P<email>[^>]*)> (?P<seconds>\d+) (?P<zone>[+-]\d{4})$")


@dataclass(frozen=True)
class CommitSignature:
    """Who made a commit, and when."""

    name: str
    email: str
    at: datetime

    def raw(self) -> str:
        """As a line of a commit object holds it; what would break the line is taken out, as git does."""
        name = re.sub(r"[<>\n\0]", "", self.name).strip() or "unknown"
        email = re.sub(r"[<>\n\0]", "", self.email).strip()
        return f"{name} <{email}> {int(self.at.timestamp())} {self.at.strftime('%z') or '+0000'}"


@dataclass(frozen=True)
class CommitData:
    """A commit; ``sha`` is empty for one that is yet to be written."""

    tree: str
    parents: tuple[str, ...]
    message: str
    author: CommitSignature
    committer: CommitSignature
    sha: str = ""

    def raw(self) -> bytes:
        """The content of the commit object."""
        lines = [f"tree {self.tree}", *(f"parent {parent}" for parent in self.parents)]
        lines += [f"author {self.author.raw()}", f"committer {self.committer.raw()}", "", self.message]
        return "\n".join(lines).encode("utf-8", "surrogateescape")


@dataclass(frozen=True)
class GitTreeEntry:
    """An entry of a tree; ``sha`` None removes it. ``size`` None for what is no blob."""

    path: str
    mode: str
    type: str
    sha: str | None
    size: int | None = None


def parse_commit(sha: str, raw: bytes) -> CommitData:
    """A commit from the content of its object; headers that are not used here, such as signatures, are skipped."""
    head, _, message = raw.decode("utf-8", "surrogateescape").partition("\n\n")
    fields: dict[str, list[str]] = {}
    for line in head.split("\n"):
        key, _, value = line.partition(" ")
        fields.setdefault(key, []).append(value)
    return CommitData(
        tree=fields["tree"][0],
        parents=tuple(fields.get("parent", [])),
        message=message,
        author=_parse_signature(fields["author"][0]),
        committer=_parse_signature(fields["committer"][0]),
        sha=sha,
    )


def _parse_signature(text: str) -> CommitSignature:
    match = _PERSON.match(text)
    if match is None:
        return CommitSignature("unknown", "", datetime.fromtimestamp(0, UTC))
    zone = match["zone"]
    offset = timedelta(hours=int(zone[1:3]), minutes=int(zone[3:5])) * (-1 if zone[0] == "-" else 1)
    at = datetime.fromtimestamp(int(match["seconds"]), timezone(offset))
    return CommitSignature(match["name"], match["email"], at)


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


# What these say of objects that are named by their ids never changes, since nothing prunes them.
_FIXED_WORDS = {"cat-file", "diff", "ls-tree", "merge-base", "rev-list", "rev-parse", "blob", "commit", "tag", "tree"}
_FIXED_NAME = re.compile(r"^\^?[0-9a-f]{40}(\^\{commit\})?$")
_MOST_ANSWERS, _MOST_BYTES = 10_000, 1 << 16
_answers: dict[tuple[Path, tuple[str, ...]], bytes] = {}


def _is_fixed(arguments: tuple[str, ...]) -> bool:
    """Whether the answer to a command hangs on objects alone, and on no ref; behind ``--`` there are paths."""
    words = arguments[: arguments.index("--")] if "--" in arguments else arguments
    return all(word.startswith("-") or word in _FIXED_WORDS or _FIXED_NAME.match(word) for word in words)


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
        key = (self.path, arguments)
        is_fixed = index is None and _is_fixed(arguments)
        if is_fixed and key in _answers:
            return _answers[key]
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
        if is_fixed and done.returncode == 0:
            self._keep(arguments, done.stdout)
        return done.stdout

    def _keep(self, arguments: tuple[str, ...], answer: bytes) -> None:
        if len(answer) <= _MOST_BYTES:
            if len(_answers) >= _MOST_ANSWERS:
                _answers.clear()
            _answers[self.path, arguments] = answer

    def refs(self) -> dict[str, str]:
        """Every ref with the object that it names."""
        lines = self.run("for-each-ref", "--format=%(objectname) %(refname)").decode().splitlines()
        return {name: sha for sha, _, name in (line.partition(" ") for line in lines)}

    def ref(self, name: str) -> str | None:
        """The object of a full ref name such as ``refs/heads/main``."""
        if not is_safe_ref(name):
            return None
        if name.startswith("refs/"):
            loose = b""
            with contextlib.suppress(OSError):
                loose = (self.path / name).read_bytes().strip()
            if _SHA.match(sha := loose.decode("latin-1")):
                return sha
            if not loose and not (self.path / "packed-refs").exists():
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
        if self.kind(sha) == "commit":
            return sha
        said = self.run("rev-parse", "--verify", "--quiet", f"{sha}^{{commit}}", accept=(0, 1, 128)).decode().strip()
        return said or None

    def kind(self, sha: str) -> str | None:
        """blob, tree, commit or tag; None for an id that is not here."""
        if not _SHA.match(sha):
            return None
        return self.run("cat-file", "-t", sha, accept=(0, 128)).decode().strip() or None

    def write_object(self, kind: str, content: bytes) -> str:
        """Write a loose object and give its id."""
        whole = f"{kind} {len(content)}\0".encode() + content
        sha = hashlib.sha1(whole, usedforsecurity=False).hexdigest()
        path = self.path / "objects" / sha[:2] / sha[2:]
        if not path.exists():
            path.parent.mkdir(exist_ok=True)
            with tempfile.NamedTemporaryFile(dir=path.parent, prefix="tmp_obj_", delete=False) as written:
                written.write(zlib.compress(whole, 1))
            Path(written.name).chmod(0o444)
            Path(written.name).replace(path)
        self._keep(("cat-file", "-t", sha), f"{kind}\n".encode())
        self._keep(("cat-file", kind, sha), content)
        return sha

    def read_object(self, kind: str, sha: str) -> bytes:
        """The content of an object."""
        return self.run("cat-file", kind, sha)

    def commit(self, sha: str) -> CommitData:
        """A commit."""
        return parse_commit(sha, self.read_object("commit", sha))

    def write_commit(self, commit: CommitData) -> str:
        """Write a commit object: the same content gives the same id."""
        return self.write_object("commit", commit.raw())

    def tree_entries(self, tree: str, path: str = "", recursive: bool = False) -> list[GitTreeEntry]:
        """The entries of a tree, or of a folder in it, with paths from the root."""
        flags = ["-r", "-t"] if recursive else []
        where = ["--", f"{path}/"] if path else []
        listing = self.run("--literal-pathspecs", "ls-tree", "-z", "-l", *flags, tree, *where)
        return [_parse_entry(line) for line in listing.split(b"\0") if line]

    def entry(self, tree: str, path: str) -> GitTreeEntry | None:
        """The entry at a path."""
        if not is_safe_path(path):
            return None
        listing = self.run("--literal-pathspecs", "ls-tree", "-z", "-l", tree, "--", path)
        return _parse_entry(listing.split(b"\0")[0]) if listing else None

    def file(self, revision: str, path: str) -> bytes | None:
        """The content of a file at a commit; None where there is none."""
        found = self.entry(revision, path)
        return self.read_object("blob", found.sha) if found and found.type == "blob" and found.sha else None

    def write_tree(self, entries: Iterable[GitTreeEntry], base: str | None = None) -> str:
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
        return self.write_tree([GitTreeEntry(path, "100644", "blob", written.get(path)) for path in files], base)

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


def _parse_entry(line: bytes) -> GitTreeEntry:
    head, _, path = line.decode("utf-8", "surrogateescape").partition("\t")
    mode, kind, sha, size = head.split()
    return GitTreeEntry(path, mode, kind, sha, None if size == "-" else int(size))


_STATUS = {"A": "added", "D": "removed", "M": "modified", "T": "changed", "R": "renamed", "C": "copied"}


@dataclass(frozen=True)
class DiffFile:
    """A file that differs; ``patch`` holds its hunks, None for a binary file; counts are lines."""

    path: str
    previous_path: str | None
    status: str
    sha: str
    additions: int = 0
    deletions: int = 0
    patch: str | None = None


def changed_files(repository: BareRepository, base: str, head: str) -> list[DiffFile]:
    """The files that differ between two commits or trees, in git's order."""
    listing = repository.run("diff", "-M", "--no-ext-diff", "-z", "--raw", "--no-abbrev", base, head)
    files = _parse_raw(listing.decode("utf-8", "surrogateescape").split("\0"))
    if not files:
        return []
    text = repository.run("diff", "-M", "--no-ext-diff", "--no-color", base, head).decode("utf-8", "replace")
    sections = ("\n" + text).split("\ndiff --git ")[1:]
    return [_with_hunks(file, section) for file, section in zip(files, sections, strict=True)]


def patch(repository: BareRepository, base: str, head: str) -> str:
    """Statistics and a binary-safe diff that `git apply` takes; bytes that are no UTF-8 are kept as surrogates."""
    flags = ("-M", "--no-ext-diff", "--no-color", "--binary", "--full-index", "--patch-with-stat")
    return repository.run("diff", *flags, base, head).decode("utf-8", "surrogateescape")


def _parse_raw(fields: list[str]) -> list[DiffFile]:
    files, at = [], 0
    while at < len(fields) and fields[at].startswith(":"):
        _, _, old_sha, new_sha, letter = fields[at].split(" ")
        letter = letter[0]
        moved = letter in "RC"
        previous = fields[at + 1] if moved else None
        path = fields[at + 2] if moved else fields[at + 1]
        sha = old_sha if letter == "D" else new_sha
        files.append(DiffFile(path, previous, _STATUS.get(letter, "changed"), sha))
        at += 3 if moved else 2
    return files


def _with_hunks(file: DiffFile, section: str) -> DiffFile:
    start = section.find("\n@@ ")
    if start < 0:
        return file if "\nBinary files " in section else replace(file, patch="")
    hunks = section[start + 1 :].removesuffix("\n")
    lines = hunks.split("\n")
    added = sum(line.startswith("+") for line in lines)
    removed = sum(line.startswith("-") for line in lines)
    return replace(file, additions=added, deletions=removed, patch=hunks)


_TIMEOUT_S = 300


@dataclass(frozen=True)
class GitHttpRequest:
    """What the CGI program is told of a request; ``path_info`` such as ``/info/refs``."""

    method: str
    path_info: str
    query: str
    content_type: str
    content_encoding: str
    protocol: str
    remote_user: str | None
    body: bytes


@dataclass(frozen=True)
class GitHttpResponse:
    """What it answered."""

    status: int
    headers: dict[str, str]
    body: bytes


def serve(repository: Path, request: GitHttpRequest) -> GitHttpResponse:
    """Answer one request of a clone, fetch or push."""
    environment = git_environment(repository) | {
        "GIT_PROJECT_ROOT": str(repository.parent),
        "GIT_HTTP_EXPORT_ALL": "1",
        "PATH_INFO": f"/{repository.name}{request.path_info}",
        "REQUEST_METHOD": request.method,
        "QUERY_STRING": request.query,
        "CONTENT_TYPE": request.content_type,
        "CONTENT_LENGTH": str(len(request.body)),
        "HTTP_CONTENT_ENCODING": request.content_encoding,
        "GIT_PROTOCOL": request.protocol,
        "REMOTE_ADDR": "127.0.0.1",
    }
    environment.pop("GIT_DIR")
    if request.remote_user is not None:
        environment["REMOTE_USER"] = request.remote_user
    done = subprocess.run(
        ["git", "http-backend"],
        input=request.body,
        capture_output=True,
        env=environment,
        timeout=_TIMEOUT_S,
        check=False,
    )
    return _parse(done.stdout) if done.stdout else GitHttpResponse(500, {}, done.stderr)


def _parse(output: bytes) -> GitHttpResponse:
    head, _, body = output.partition(b"\r\n\r\n")
    status, headers = 200, {}
    for line in head.decode("latin-1").split("\r\n"):
        name, _, value = line.partition(":")
        if name.lower() == "status":
            status = int(value.split()[0])
        elif name:
            headers[name.strip()] = value.strip()
    return GitHttpResponse(status, headers, body)
