"""Git data, contents, archives and permissions through PyGithub."""

from __future__ import annotations

import io
import tarfile
import urllib.error
import urllib.request
from datetime import UTC, datetime

import pytest
from github import GithubException, InputGitAuthor, InputGitTreeElement, UnknownObjectException
from github.GitCommit import GitCommit
from github.Repository import Repository

from tests.service.localhub.conftest import FILES, Place


def commit_file(repo: Repository, parent: str, path: str, text: str, message: str = "Add a file") -> GitCommit:
    start = repo.get_git_commit(parent)
    blob = repo.create_git_blob(text, "utf-8")
    tree = repo.create_git_tree([InputGitTreeElement(path, "100644", "blob", sha=blob.sha)], start.tree)
    return repo.create_git_commit(message, tree, [start])


def test_a_commit_is_made_on_an_expected_parent(place: Place) -> None:
    repo = place.repo()
    main = repo.get_git_ref("heads/main").object.sha
    commit = commit_file(repo, main, "src/deep/new.py", "x = 1\n")
    repo.create_git_ref("refs/heads/kernelsmith/new", commit.sha)
    assert repo.get_git_ref("heads/kernelsmith/new").object.sha == commit.sha
    assert place.hub.read_file("acme/lib", "kernelsmith/new", "src/deep/new.py") == b"x = 1\n"
    assert place.hub.read_file("acme/lib", "kernelsmith/new", "data/rows.csv") == FILES["data/rows.csv"]
    assert [parent.sha for parent in commit.parents] == [main]


def test_a_branch_that_a_person_moved_is_not_overwritten(place: Place) -> None:
    repo = place.repo()
    main = repo.get_git_ref("heads/main").object.sha
    repo.create_git_ref("refs/heads/work", main)
    commit = commit_file(repo, main, "a.py", "a = 1\n")
    theirs = place.hub.push("acme/lib", "work", "alice", {"b.py": "b = 1\n"})
    with pytest.raises(GithubException) as refused:
        repo.get_git_ref("heads/work").edit(commit.sha, force=False)
    assert refused.value.status == 422
    assert refused.value.data["message"] == "Update is not a fast forward"
    assert place.hub.head("acme/lib", "work") == theirs
    repo.get_git_ref("heads/work").edit(commit.sha, force=True)
    assert place.hub.head("acme/lib", "work") == commit.sha


def test_a_ref_that_exists_is_not_made_again(place: Place) -> None:
    repo = place.repo()
    main = repo.get_git_ref("heads/main").object.sha
    with pytest.raises(GithubException) as refused:
        repo.create_git_ref("refs/heads/main", main)
    assert (refused.value.status, refused.value.data["message"]) == (422, "Reference already exists")


@pytest.mark.parametrize(
    "name", ["main", "refs/heads/a..b", "refs/heads/-x y", "refs/heads/../x", "refs/x", "refs/pull/1/head"]
)
def test_a_name_that_is_no_ref_is_refused(place: Place, name: str) -> None:
    repo = place.repo()
    with pytest.raises(GithubException) as refused:
        repo.create_git_ref(name, repo.get_git_ref("heads/main").object.sha)
    assert refused.value.status == 422


@pytest.mark.parametrize("path", ["../x", "/etc/x", "a//b", ".git/config", "a/.GIT/x", "a/./b"])
def test_a_path_that_leaves_the_tree_is_refused(place: Place, path: str) -> None:
    repo = place.repo()
    with pytest.raises(GithubException) as refused:
        commit_file(repo, repo.get_git_ref("heads/main").object.sha, path, "x")
    assert refused.value.status == 422


def test_a_tree_entry_without_a_sha_removes_the_file(place: Place) -> None:
    repo = place.repo()
    main = repo.get_git_commit(repo.get_git_ref("heads/main").object.sha)
    tree = repo.create_git_tree([InputGitTreeElement("README.md", "100644", "blob", sha=None)], main.tree)
    assert sorted(entry.path for entry in repo.get_git_tree(tree.sha, recursive=True).tree if entry.type == "blob") == [
        "data/rows.csv",
        "src/ops.py",
    ]


def test_the_same_commit_with_the_same_date_has_the_same_name(place: Place) -> None:
    repo = place.repo()
    main = repo.get_git_commit(repo.get_git_ref("heads/main").object.sha)
    who = InputGitAuthor("smith", "smith@localhub.invalid", datetime(2026, 1, 2, tzinfo=UTC).isoformat())
    one = repo.create_git_commit("Same", main.tree, [main], author=who, committer=who)
    other = repo.create_git_commit("Same", main.tree, [main], author=who, committer=who)
    assert one.sha == other.sha
    assert one.author.date == datetime(2026, 1, 2, tzinfo=UTC)


def test_files_are_read_at_a_commit_byte_for_byte(place: Place) -> None:
    repo = place.repo()
    main = repo.get_git_ref("heads/main").object.sha
    place.hub.push("acme/lib", "main", "alice", {"README.md": "changed\n"})
    assert repo.get_contents("README.md", ref=main).decoded_content == b"# lib\n"
    assert repo.get_contents("README.md").decoded_content == b"changed\n"
    assert repo.get_contents("data/rows.csv").decoded_content == b"a,b\r\n1,2\r\n"
    assert [entry.path for entry in repo.get_contents("src")] == ["src/ops.py"]
    assert {entry.path: entry.type for entry in repo.get_contents("")} == {
        "README.md": "file",
        "data": "dir",
        "src": "dir",
    }
    for path in ("nothing.py", "src/nothing.py", "../README.md"):
        with pytest.raises(UnknownObjectException):
            repo.get_contents(path)


@pytest.mark.parametrize("ref", ["main~1", "main^{tree}", "--help", "@{-1}", "main:README.md", "nothing"])
def test_an_expression_is_not_a_ref(place: Place, ref: str) -> None:
    with pytest.raises(GithubException) as refused:
        place.repo().get_contents("README.md", ref=ref)
    assert refused.value.status == 404


def test_an_archive_holds_the_tree_under_one_folder(place: Place) -> None:
    repo = place.repo()
    main = repo.get_git_ref("heads/main").object.sha
    link = repo.get_archive_link("tarball", main)
    with urllib.request.urlopen(link) as answer:
        content = io.BytesIO(answer.read())
    top = f"acme-lib-{main[:7]}"
    with tarfile.open(fileobj=content) as packed:
        files = {item.name: packed.extractfile(item).read() for item in packed if item.isfile()}
    assert files == {f"{top}/{path}": content for path, content in FILES.items()}


def test_an_archive_link_is_of_no_use_for_another_commit(place: Place) -> None:
    other = place.hub.push("acme/lib", "side", "alice", {"x": "y"})
    repo = place.repo()
    main = repo.get_git_ref("heads/main").object.sha
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(repo.get_archive_link("tarball", main).replace(main, other))
    assert refused.value.code == 404
    refused.value.close()


def test_histories_are_compared(place: Place) -> None:
    repo = place.repo()
    head = place.hub.push("acme/lib", "side", "alice", {"src/ops.py": "def one():\n    return 2\n"}, message="Two")
    place.hub.push("acme/lib", "main", "alice", {"other.py": ""})
    comparison = repo.compare("main", "side")
    assert (comparison.status, comparison.ahead_by, comparison.behind_by) == ("diverged", 1, 1)
    assert [file.filename for file in comparison.files] == ["src/ops.py"]
    assert repo.get_commit(head).files[0].patch == "@@ -1,2 +1,2 @@\n def one():\n-    return 1\n+    return 2"


@pytest.mark.parametrize(
    ("login", "permission", "role"),
    [
        ("acme", "admin", "admin"),
        ("alice", "write", "write"),
        ("bob", "read", "triage"),
        ("carol", "read", "read"),
        ("smith[bot]", "read", "read"),
    ],
)
def test_a_collaborators_permission_is_told(place: Place, login: str, permission: str, role: str) -> None:
    repo = place.repo()
    assert repo.get_collaborator_permission(login) == permission
    assert repo.get_collaborator_role_name(login) == role


def test_a_stranger_has_no_permission_in_a_private_repository(place: Place) -> None:
    place.hub.create_repository("acme", "secret", files={"a": b"b"}, private=True)
    place.hub.add_user("mallory")
    repo = place.as_app().get_repo("acme/secret")
    assert repo.get_collaborator_permission("mallory") == "none"
    with pytest.raises(UnknownObjectException):
        repo.get_collaborator_permission("nobody-of-this-name")
    with pytest.raises(UnknownObjectException):
        place.as_person("mallory").get_repo("acme/secret")
