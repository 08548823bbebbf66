"""The Python API of the hub: what a test or the demo sets up, does, and looks at."""

from __future__ import annotations

import secrets
import shutil
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from deploy.localhub import checks, payloads, pulls, talk, webhooks
from deploy.localhub import state as stored
from deploy.localhub.conversation import Entry, conversation
from deploy.localhub.git import CommitData, CommitSignature, patch
from deploy.localhub.operations import Faults
from deploy.localhub.state import (
    App,
    CheckRun,
    Comment,
    Delivery,
    Hook,
    Installation,
    Issue,
    Repository,
    Review,
    Token,
    User,
)
from deploy.localhub.webhooks import Deliveries, Order
from deploy.localhub.world import RequestRecord, World, utc_now

# What a bot of this kind asks for; an app that is given less learns what GitHub says then.
DEFAULT_PERMISSIONS: dict[str, str] = {
    "contents": "write",
    "issues": "write",
    "pull_requests": "write",
    "checks": "write",
    "metadata": "read",
}
DEFAULT_EVENTS: tuple[str, ...] = (
    "issue_comment",
    "issues",
    "pull_request",
    "pull_request_review",
    "pull_request_review_comment",
    "check_run",
    "push",
    "repository",
)
_SKIPPED_FOLDERS = frozenset({".git", "__pycache__", ".pytest_cache", ".ruff_cache"})


class HubSetup:
    """What is there before anybody says a word."""

    world: World

    def add_user(self, login: str, name: str | None = None, type: str = "User") -> User:
        """Add a user, or give the one that is there; ``type`` User, Bot or Organization."""
        with self.world.lock:
            found = self.world.find_user(login)
            if found is not None:
                return found
            number = self.world.state.new_id()
            user = User(number, login, type, name or login, f"{number}+{login}@users.noreply.localhub.invalid")
            self.world.state.users[login.lower()] = user
            return user

    def add_team(self, organisation: str, slug: str, *members: str) -> None:
        """Add a team of an organisation, or change who is in it."""
        with self.world.lock:
            for member in members:
                self.add_user(member)
            self.world.state.teams[f"{organisation}/{slug}".lower()] = [member.lower() for member in members]

    def add_token(self, login: str, value: str | None = None, scopes: Sequence[str] | None = None) -> str:
        """A personal token of a user, with all scopes or with some."""
        with self.world.lock:
            name = value or f"ghp_{secrets.token_hex(18)}"
            token = Token(name, login=self.world.actor(login).login, scopes=None if scopes is None else list(scopes))
            self.world.state.tokens[token.value] = token
            return token.value

    def revoke_installation_tokens(self) -> None:
        """No token of an installation is good any more, as after its hour; an app may ask for new ones."""
        with self.world.lock:
            tokens = self.world.state.tokens
            for value in [value for value, token in tokens.items() if token.installation_id is not None]:
                del tokens[value]

    def add_app(
        self,
        slug: str,
        owner: str,
        public_key_pem: str,
        hook_url: str | None = None,
        hook_secret: str = "",
        permissions: Mapping[str, str] | None = None,
        events: Sequence[str] = DEFAULT_EVENTS,
        app_id: int | None = None,
    ) -> App:
        """Register an app with its bot user ``slug[bot]``; it hears a ping. Raises: ValueError for another scheme than HTTP."""
        if hook_url is not None and not hook_url.startswith(("http://", "https://")):
            message = f"the webhook of {slug} must be an http or https URL, not {hook_url!r}"
            raise ValueError(message)
        with self.world.lock:
            bot = self.add_user(f"{slug}[bot]", type="Bot")
            self.add_user(owner)
            app = App(
                id=app_id or self.world.state.new_id(),
                slug=slug,
                name=slug,
                owner=owner,
                public_key_pem=public_key_pem,
                permissions=dict(permissions or DEFAULT_PERMISSIONS),
                events=list(events),
                bot_login=bot.login,
                hook_url=hook_url,
                hook_secret=hook_secret,
                created_at=self.world.clock(),
            )
            self.world.state.apps[app.id] = app
            webhooks.ping(self.world, app)
            return app

    def install(self, app: App, account: str, repos: Sequence[str] | None = None) -> Installation:
        """Install an app on an account, on all of its repositories or on some; it hears of that."""
        with self.world.lock:
            chosen = None if repos is None else [self.world.repository(name).id for name in repos]
            permissions = dict(app.permissions) | {"metadata": "read"}
            number = self.world.state.new_id()
            installation = Installation(number, app.id, account, permissions, chosen, self.world.clock())
            self.world.state.installations[number] = installation
            webhooks.emit_installation(self.world, installation, "created", self.world.actor(account))
            return installation

    def create_repository(
        self,
        owner: str,
        name: str,
        files: Mapping[str, bytes] | None = None,
        from_folder: Path | None = None,
        private: bool = False,
        default_branch: str = "main",
        description: str = "",
        message: str = "Initial commit",
    ) -> Repository:
        """Make a repository with one commit that holds these files, or those of a folder."""
        with self.world.lock:
            self.add_user(owner)
            now = self.world.clock()
            number = self.world.state.new_id()
            repository = Repository(number, owner, name, private, default_branch, description, now, now)
            git = self.world.git(repository)
            git.create(default_branch)
            self.world.state.repositories[number] = repository
            content = dict(files or {}) | (_files_of(from_folder) if from_folder is not None else {})
            if content:
                user = self.world.user(owner)
                who = CommitSignature(user.name, user.email, now)
                sha = git.write_commit(CommitData(git.write_files(content), (), message, who, who))
                git.update_ref(f"refs/heads/{default_branch}", sha)
            return repository

    def rename(self, repo: str, full_name: str, by: str) -> None:
        """Rename a repository, or give it to another owner; the old name leads to it from then on, and hooks hear of it."""
        with self.world.lock:
            repository = self.world.repository(repo)
            owner, name = repository.owner, repository.name
            repository.former_names.append(repository.full_name.lower())
            new_owner, _, repository.name = full_name.partition("/")
            repository.owner = self.add_user(new_owner).login
            changes: dict[str, Any] = {"repository": {"name": {"from": name}}}
            if owner != repository.owner:
                changes = {"owner": {"from": {"user": payloads.user(self.world, self.world.user(owner))}}}
            action = "renamed" if owner == repository.owner else "transferred"
            webhooks.emit(self.world, repository, "repository", action, {"changes": changes}, self.world.actor(by))

    def fork(self, repo: str, by: str) -> Repository:
        """A copy of a repository under somebody else's name; pull requests can come from it."""
        with self.world.lock:
            parent = self.world.repository(repo)
            copy = self.create_repository(
                self.world.actor(by).login, parent.name, default_branch=parent.default_branch, private=parent.private
            )
            copy.parent_id = parent.id
            source, target = self.world.git(parent), self.world.git(copy)
            target.run("fetch", "--quiet", str(source.path), "+refs/heads/*:refs/heads/*")
            return copy

    def add_collaborator(self, repo: str, login: str, role: str = "write") -> None:
        """Give somebody a role: read, triage, write, maintain or admin; ``none`` takes it away."""
        with self.world.lock:
            collaborators = self.world.repository(repo).collaborators
            collaborators.pop(login, None)
            if role != "none":
                collaborators[self.add_user(login).login] = role

    def add_hook(self, repo: str, url: str, secret: str, events: Sequence[str] = ("*",)) -> Hook:
        """A webhook of one repository, as a bot with a personal token uses it."""
        with self.world.lock:
            hook = Hook(self.world.state.new_id(), url, secret, list(events))
            self.world.repository(repo).hooks.append(hook)
            return hook


def _files_of(folder: Path) -> dict[str, bytes]:
    found = {}
    for path in sorted(folder.rglob("*")):
        relative = path.relative_to(folder)
        if path.is_file() and not path.is_symlink() and not _SKIPPED_FOLDERS & set(relative.parts):
            found[relative.as_posix()] = path.read_bytes()
    return found


class HubActs:
    """What people do. A person's role is not asked for here: a test says who may, the API and the pages check."""

    world: World

    def open_issue(self, repo: str, by: str, title: str, body: str = "") -> Issue:
        """Open an issue."""
        with self.world.lock:
            return talk.open_issue(self.world, self.world.repository(repo), self.world.actor(by), title, body)

    def open_pull(
        self, repo: str, by: str, head: str, title: str, body: str = "", base: str | None = None, draft: bool = False
    ) -> Issue:
        """Open a pull request from ``branch`` or ``owner:branch``."""
        with self.world.lock:
            repository = self.world.repository(repo)
            target = base or repository.default_branch
            return pulls.open_pull(self.world, repository, self.world.actor(by), title, body, head, target, draft)

    def comment(self, repo: str, number: int, by: str, body: str) -> Comment:
        """Write a comment on an issue or pull request."""
        with self.world.lock:
            repository = self.world.repository(repo)
            issue = self.world.issue(repository, number)
            return talk.add_comment(self.world, repository, issue, self.world.actor(by), body)

    def edit_comment(self, repo: str, comment_id: int, by: str, body: str) -> Comment:
        """Change a comment."""
        with self.world.lock:
            repository = self.world.repository(repo)
            issue, comment = talk.find_comment(repository, comment_id)
            talk.edit_comment(self.world, repository, issue, comment, self.world.actor(by), body)
            return comment

    def set_issue_state(self, repo: str, number: int, by: str, state: str) -> None:
        """Close or reopen an issue or pull request."""
        with self.world.lock:
            repository = self.world.repository(repo)
            issue = self.world.issue(repository, number)
            talk.set_state(self.world, repository, issue, self.world.actor(by), state)

    def react(self, repo: str, comment_id: int, by: str, content: str) -> None:
        """Leave a reaction on a comment."""
        with self.world.lock:
            _, comment = talk.find_comment(self.world.repository(repo), comment_id)
            talk.react(self.world, comment.reactions, self.world.actor(by), content)

    def review(
        self,
        repo: str,
        number: int,
        by: str,
        state: str,
        body: str = "",
        comments: Sequence[Mapping[str, Any]] = (),
        commit_id: str | None = None,
    ) -> Review:
        """Review: ``state`` APPROVE, REQUEST_CHANGES or COMMENT; ``comments`` with ``path``, ``line`` and ``body``."""
        with self.world.lock:
            repository = self.world.repository(repo)
            issue = self.world.issue(repository, number)
            actor = self.world.actor(by)
            return pulls.review(self.world, repository, issue, actor, state, body, comments, commit_id)

    def set_draft(self, repo: str, number: int, by: str, draft: bool) -> None:
        """Turn a pull request into a draft, or mark it as ready."""
        with self.world.lock:
            repository = self.world.repository(repo)
            pulls.set_draft(self.world, repository, self.world.issue(repository, number), self.world.actor(by), draft)

    def push(
        self,
        repo: str,
        branch: str,
        by: str,
        changes: Mapping[str, bytes | str | None],
        message: str = "Change files",
        force_from: str | None = None,
    ) -> str:
        """Commit files on a branch (None removes one), and give the commit; ``force_from`` rewrites history from there."""
        content = {path: text.encode() if isinstance(text, str) else text for path, text in changes.items()}
        with self.world.lock:
            repository, actor = self.world.repository(repo), self.world.actor(by)
            return pulls.commit_files(self.world, repository, actor, branch, content, message, force_from)

    def delete_branch(self, repo: str, branch: str, by: str) -> None:
        """Delete a branch; a pull request from it is closed."""
        with self.world.lock:
            pulls.delete_ref(self.world, self.world.repository(repo), self.world.actor(by), f"refs/heads/{branch}")

    def merge(self, repo: str, number: int, by: str) -> str:
        """Merge a pull request, and give the merge commit."""
        with self.world.lock:
            repository = self.world.repository(repo)
            return pulls.merge(self.world, repository, self.world.issue(repository, number), self.world.actor(by))

    def press_check(self, repo: str, check_run_id: int, identifier: str, by: str) -> None:
        """Press a button that the app put on a check run."""
        with self.world.lock:
            repository = self.world.repository(repo)
            run = checks.find_check_run(repository, check_run_id)
            checks.press(self.world, repository, run, identifier, self.world.actor(by))

    def rerequest_check(self, repo: str, check_run_id: int, by: str) -> None:
        """Press the re-run button of a check run."""
        with self.world.lock:
            repository = self.world.repository(repo)
            run = checks.find_check_run(repository, check_run_id)
            checks.rerequest(self.world, repository, run, self.world.actor(by))


class HubViews:
    """What a test or the demo looks at."""

    world: World

    def conversation(self, repo: str, number: int) -> list[Entry]:
        """Opening, comments, reviews, commits and events, in order."""
        with self.world.lock:
            repository = self.world.repository(repo)
            return conversation(self.world.git(repository), self.world.issue(repository, number))

    def check_runs(self, repo: str, sha: str | None = None) -> list[CheckRun]:
        """The check runs, oldest first, perhaps of one commit."""
        with self.world.lock:
            return [run for run in self.world.repository(repo).check_runs if sha in (None, run.head_sha)]

    def issue(self, repo: str, number: int) -> Issue:
        """An issue or pull request as it is stored; change it only through the methods here."""
        with self.world.lock:
            return self.world.issue(self.world.repository(repo), number)

    def pull_numbers(self, repo: str, state: str = "all") -> list[int]:
        """The numbers of the pull requests, oldest first."""
        with self.world.lock:
            found = self.world.repository(repo).issues.values()
            return [issue.number for issue in found if issue.pull and state in ("all", issue.state)]

    def head(self, repo: str, branch: str | None = None) -> str | None:
        """The commit at the tip of a branch; None for a branch that is not there."""
        with self.world.lock:
            repository = self.world.repository(repo)
            return self.world.git(repository).ref(f"refs/heads/{branch or repository.default_branch}")

    def branches(self, repo: str) -> dict[str, str]:
        """Every branch with the commit at its tip."""
        with self.world.lock:
            found = self.world.git(self.world.repository(repo)).refs()
            return {
                name.removeprefix("refs/heads/"): sha for name, sha in found.items() if name.startswith("refs/heads/")
            }

    def read_file(self, repo: str, ref: str, path: str) -> bytes | None:
        """A file at a branch or commit; None where there is none."""
        with self.world.lock:
            git = self.world.git(self.world.repository(repo))
            commit = git.resolve(ref)
            return git.file(commit, path) if commit else None

    def as_patch(self, repo: str, number: int) -> str:
        """The changes of a pull request as one mail-style patch for `git apply`; encode it with surrogateescape."""
        with self.world.lock:
            return mail_patch(self.world, self.world.repository(repo), number)


def mail_patch(world: World, repository: Repository, number: int) -> str:
    """All changes of a pull request as one mail: who, when, title, statistics, and a binary-safe diff."""
    issue, pull = world.pull(repository, number)
    git = world.git(repository)
    commit = git.commit(pull.head_sha)
    head = [
        f"From {pull.head_sha} Mon Sep 17 00:00:00 2001",
        f"From: {commit.author.name} <{commit.author.email}>",
        f"Date: {commit.author.at.strftime('%a, %d %b %Y %H:%M:%S %z')}",
        f"Subject: [PATCH] {issue.title}",
        "",
        "---",
    ]
    changes = patch(git, pulls.pull_base(world, repository, pull), pull.head_sha)
    return "\n".join(head) + "\n" + changes + "-- \nlocalhub\n"


class Hub(HubSetup, HubActs, HubViews):
    """GitHub on this machine. Methods may be called from any thread; ``repo`` is ``owner/name``, ``by`` a login."""

    def __init__(self, data_dir: Path | str, clock: Callable[[], datetime] = utc_now) -> None:
        folder = Path(data_dir).resolve()
        folder.mkdir(parents=True, exist_ok=True)
        state = stored.load(folder / "state.json")
        waiting = deque(one for one in state.deliveries if one.status_code is None)
        self.world = World(folder, state, clock, undelivered=waiting)
        self.deliveries = Deliveries(self.world)

    @property
    def faults(self) -> Faults:
        """What the next requests will meet."""
        return self.world.faults

    @property
    def errors(self) -> list[str]:
        """Tracebacks of what broke in the hub itself: a test that finds one has found a fault of the hub's."""
        with self.world.lock:
            return list(self.world.errors)

    @property
    def requests(self) -> list[RequestRecord]:
        """The API requests so far, oldest first."""
        with self.world.lock:
            return list(self.world.requests)

    def deliver_next(self, twice: bool = False) -> Delivery | None:
        """Deliver the webhook that happened first; more ways stand in ``deliveries``."""
        return self.deliveries.deliver_next(twice)

    def deliver_all(self, order: Order = "as_sent", twice: bool = False, seed: int = 0) -> list[Delivery]:
        """Deliver webhooks until none waits."""
        return self.deliveries.deliver_all(order, twice, seed)

    def save(self) -> None:
        """Write the state beside git's data, so that a new Hub on the same folder goes on from here."""
        with self.world.lock:
            stored.save(self.world.state, self.world.data_dir / "state.json")

    def remove(self) -> None:
        """Delete the data folder."""
        shutil.rmtree(self.world.data_dir, ignore_errors=True)
