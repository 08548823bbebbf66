"""Who a request comes from, and whether it may do what it asks for."""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass
from datetime import timedelta

import jwt
from fastapi.security.utils import get_authorization_scheme_param
from jwt.types import Options

from deploy.localhub.operations import Access, ApiError, RouteRow, forbidden, not_found, unauthorized
from deploy.localhub.state import App, Installation, Repository, Token
from deploy.localhub.world import Actor, World

_LONGEST_JWT = timedelta(minutes=10)
_CLOCK_DRIFT = timedelta(seconds=60)
_LEVELS = ("none", "read", "write", "admin")


@dataclass(frozen=True)
class Viewer:
    """A request's author. ``app`` alone: a JWT; with ``installation``: its token; ``actor`` alone: a personal token."""

    actor: Actor | None = None
    app: App | None = None
    installation: Installation | None = None
    token: Token | None = None

    @property
    def login(self) -> str | None:
        """The user's login; None for nobody and for an app itself."""
        return self.actor.login if self.actor else None


def identify(world: World, authorization: str) -> Viewer:
    """The viewer of an Authorization header. Raises: ApiError 401 for a credential that is none or has expired."""
    scheme, credential = get_authorization_scheme_param(authorization.strip())
    if not scheme:
        return Viewer()
    if scheme.lower() == "basic":
        return _viewer_of_token(world, _password(credential))
    if scheme.lower() not in ("bearer", "token") or not credential:
        raise unauthorized()
    return _viewer_of_jwt(world, credential) if credential.count(".") == 2 else _viewer_of_token(world, credential)


def _password(credential: str) -> str:
    try:
        user, _, password = base64.b64decode(credential, validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError) as error:
        raise unauthorized() from error
    return password if password not in ("", "x-oauth-basic") else user


def _viewer_of_token(world: World, value: str) -> Viewer:
    token = world.state.tokens.get(value)
    if token is None or (token.expires_at is not None and token.expires_at <= world.clock()):
        raise unauthorized()
    if token.installation_id is None:
        return Viewer(actor=world.actor(token.login or ""), token=token)
    installation = world.state.installations.get(token.installation_id)
    if installation is None:
        raise unauthorized()
    app = world.state.apps[installation.app_id]
    return Viewer(Actor(world.user(app.bot_login), app), app, installation, token)


def _viewer_of_jwt(world: World, encoded: str) -> Viewer:
    """Source: GitHub docs, "Generating a JSON web token for a GitHub App": RS256, iat in the past, exp within 10 minutes."""
    try:
        issuer = str(jwt.decode(encoded, options={"verify_signature": False}).get("iss", ""))
        app = next((one for one in world.state.apps.values() if issuer in (str(one.id), one.client_id)), None)
        if app is None:
            raise unauthorized("'Issuer' claim ('iss') must be an Integer that names an app")
        # Times are checked below against the hub's own clock, which a test may move.
        options: Options = {"verify_exp": False, "verify_iat": False, "require": ["iat", "exp", "iss"]}
        claims = jwt.decode(encoded, app.public_key_pem, algorithms=["RS256"], options=options)
        issued, expires = float(claims["iat"]), float(claims["exp"])
    except (jwt.PyJWTError, ValueError, TypeError) as error:
        raise unauthorized("A JSON web token could not be decoded") from error
    now = world.clock().timestamp()
    if issued > now + _CLOCK_DRIFT.total_seconds():
        raise unauthorized(
            "'Issued at' claim ('iat') must be an Integer representing the time that the assertion was issued"
        )
    if expires <= now:
        raise unauthorized("'Expiration time' claim ('exp') must be a numeric value representing the future time")
    if expires > now + (_LONGEST_JWT + _CLOCK_DRIFT).total_seconds() or expires - issued > 660:
        raise unauthorized("'Expiration time' claim ('exp') is too far in the future")
    return Viewer(app=app)


def can_see(world: World, viewer: Viewer, repository: Repository) -> bool:
    """Whether a repository exists at all for a viewer."""
    if not repository.private:
        return True
    if viewer.installation is not None:
        return covers(viewer.installation, repository) and _in_token(viewer, repository)
    return viewer.login is not None and world.role(repository, viewer.login) != "none"


def covers(installation: Installation, repository: Repository) -> bool:
    """Whether an app is installed on a repository."""
    if installation.account.lower() != repository.owner.lower():
        return False
    return installation.repository_ids is None or repository.id in installation.repository_ids


def _in_token(viewer: Viewer, repository: Repository) -> bool:
    narrowed = viewer.token.repository_ids if viewer.token else None
    return narrowed is None or repository.id in narrowed


def allow(world: World, viewer: Viewer, operation: RouteRow, repository: Repository | None) -> None:
    """Let the request pass. Raises: ApiError 401, 403 or 404 as GitHub would."""
    if operation.access is Access.app:
        if viewer.app is None or viewer.installation is not None:
            raise unauthorized("A JSON web token could not be decoded")
        return
    if viewer.app is not None and viewer.installation is None:
        raise unauthorized("Bad credentials") if operation.access is not Access.anyone else forbidden()
    if operation.access is Access.person and (viewer.actor is None or viewer.app is not None):
        raise forbidden() if viewer.app else unauthorized("Requires authentication")
    if operation.access is Access.installation and viewer.installation is None:
        raise forbidden("You must authenticate with an installation access token in order to list repositories.")
    if repository is None:
        return
    if not can_see(world, viewer, repository):
        raise not_found()
    if operation.writes and viewer.actor is None:
        raise unauthorized("Requires authentication")
    if viewer.installation is not None:
        _allow_installation(viewer, operation, repository)
    elif viewer.login is not None:
        _allow_person(world, viewer.login, operation, repository)


def _allow_installation(viewer: Viewer, operation: RouteRow, repository: Repository) -> None:
    if viewer.installation is None or viewer.token is None or not operation.scopes:
        return
    inside = covers(viewer.installation, repository) and _in_token(viewer, repository)
    if not inside and not operation.writes:
        return  # A public repository can be read by anybody's token.
    granted = max(_LEVELS.index(viewer.token.permissions.get(scope, "none")) for scope in operation.scopes)
    if not inside or granted < _LEVELS.index("write" if operation.writes else "read"):
        raise forbidden()


def _allow_person(world: World, login: str, operation: RouteRow, repository: Repository) -> None:
    if operation.access is Access.app_only:
        raise forbidden("You must authenticate via a GitHub App.")
    if not world.has_role(repository, login, operation.role):
        raise forbidden(f"Must have {operation.role} rights to Repository.")


def may_write_code(world: World, viewer: Viewer, repository: Repository) -> bool:
    """Whether a viewer may push."""
    if viewer.installation is not None and viewer.token is not None:
        inside = covers(viewer.installation, repository) and _in_token(viewer, repository)
        return inside and viewer.token.permissions.get("contents") in ("write", "admin")
    return viewer.login is not None and world.has_role(repository, viewer.login, "write")


def require_workflows(viewer: Viewer) -> None:
    """Let a viewer write a workflow, which takes a permission or scope of its own. Raises: ApiError 403 or 404 as GitHub does."""
    token = viewer.token
    if viewer.installation is not None and (token is None or token.permissions.get("workflows") != "write"):
        raise forbidden("Resource not accessible by integration")
    if token is not None and token.scopes is not None and "workflow" not in token.scopes:
        raise not_found()


def require_author_or(world: World, viewer_login: str, author: str, repository: Repository, role: str) -> None:
    """Let the author pass, and whoever has at least ``role``. Raises: ApiError 403."""
    if viewer_login != author and not world.has_role(repository, viewer_login, role):
        raise ApiError(403, f"Must have {role} rights to Repository.")
