"""The Python API, first part: users, tokens, apps, repositories and who may do what in them."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path

from service.localhub import webhooks
from service.localhub.git import CommitData, Signature
from service.localhub.state import App, Hook, Installation, Repository, Token, User
from service.localhub.world import World

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

    def add_token(self, login: str, value: str | None = None) -> str:
        """A personal token of a user."""
        with self.world.lock:
            token = Token(value or f"ghp_{secrets.token_hex(18)}", login=self.world.actor(login).login)
            self.world.state.tokens[token.value] = token
            return token.value

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
                who = Signature(user.name, user.email, now)
                sha = git.write_commit(CommitData(git.write_files(content), (), message, who, who))
                git.update_ref(f"refs/heads/{default_branch}", sha)
            return repository

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
