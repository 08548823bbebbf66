"""GitHub's JSON shapes, as far as PyGithub and a bot read them. Pure: the world is read and never changed."""

from service.localhub.payloads.apps import app, delivery, hook_config, installation, short_installation
from service.localhub.payloads.checks import annotation, check_run
from service.localhub.payloads.git_objects import branch, changed_file, commit, contents, git_commit, git_ref, git_tree
from service.localhub.payloads.issues import comment, event, issue, label, reaction
from service.localhub.payloads.people import iso, node_id, permission, short_repository, user
from service.localhub.payloads.pulls import pull, review, review_comment
from service.localhub.payloads.repositories import repository

__all__ = [
    "annotation",
    "app",
    "branch",
    "changed_file",
    "check_run",
    "comment",
    "commit",
    "contents",
    "delivery",
    "event",
    "git_commit",
    "git_ref",
    "git_tree",
    "hook_config",
    "installation",
    "iso",
    "issue",
    "label",
    "node_id",
    "permission",
    "pull",
    "reaction",
    "repository",
    "review",
    "review_comment",
    "short_installation",
    "short_repository",
    "user",
]
