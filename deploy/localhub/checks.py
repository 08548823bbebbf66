"""Check runs: made and changed by apps, asked for again by people."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from deploy.localhub import payloads
from deploy.localhub.operations import forbidden, invalid, not_found, unprocessable
from deploy.localhub.state import CheckRun, Repository
from deploy.localhub.webhooks import emit
from deploy.localhub.world import Actor, World

STATUSES = ("queued", "in_progress", "completed", "waiting", "requested", "pending")
CONCLUSIONS = ("action_required", "cancelled", "failure", "neutral", "success", "skipped", "stale", "timed_out")
_MOST_ACTIONS = 3
_ACTION_LENGTHS = {"label": 20, "description": 40, "identifier": 20}
_MAX_OUTPUT_CHARACTERS = 65_535


def create_check_run(world: World, repository: Repository, actor: Actor, given: Mapping[str, Any]) -> CheckRun:
    """Make a check run on a commit. Raises: ApiError 403 for who is no app, 422."""
    if actor.app is None:
        raise forbidden("You must authenticate via a GitHub App.")
    name, sha = given.get("name"), given.get("head_sha")
    if not isinstance(name, str) or not name:
        raise invalid("CheckRun", "name", "missing_field")
    if not isinstance(sha, str) or world.git(repository).kind(sha) != "commit":
        raise unprocessable(f"No commit found for SHA: {sha}")
    run = CheckRun(
        id=world.state.new_id(),
        app_id=actor.app.id,
        name=name,
        head_sha=sha,
        status="queued",
        conclusion=None,
        started_at=world.clock(),
        completed_at=None,
        external_id="",
        details_url=None,
    )
    _change(world, run, given)
    repository.check_runs.append(run)
    tell(world, repository, run, "completed" if run.status == "completed" else "created", actor)
    return run


def rerequest(world: World, repository: Repository, run: CheckRun, actor: Actor) -> None:
    """What the re-run button does."""
    tell(world, repository, run, "rerequested", actor)


def press(world: World, repository: Repository, run: CheckRun, identifier: str, actor: Actor) -> None:
    """What a button of the app's own does. Raises: ApiError 404 where the run has none of this identifier."""
    if identifier not in {action.get("identifier") for action in run.actions}:
        raise not_found()
    tell(world, repository, run, "requested_action", actor, requested_action={"identifier": identifier})


def find_check_run(repository: Repository, check_run_id: int) -> CheckRun:
    """A check run by its id. Raises: ApiError 404."""
    for run in repository.check_runs:
        if run.id == check_run_id:
            return run
    raise not_found()


def tell(world: World, repository: Repository, run: CheckRun, action: str, actor: Actor, **extra: Any) -> None:
    """Send ``check_run``."""
    parts = {"check_run": payloads.check_run(world, repository, run)}
    emit(world, repository, "check_run", action, parts | extra, actor)


def _change(world: World, run: CheckRun, given: Mapping[str, Any]) -> None:
    status, conclusion = given.get("status", run.status), given.get("conclusion", run.conclusion)
    if status not in STATUSES:
        raise invalid("CheckRun", "status", "invalid")
    if conclusion is not None and conclusion not in CONCLUSIONS:
        raise invalid("CheckRun", "conclusion", "invalid")
    if conclusion is not None:
        status = "completed"
    if status == "completed" and conclusion is None:
        raise unprocessable('Invalid request.\n\nNo subschema in "anyOf" matched. "conclusion" wasn\'t supplied.')
    output, actions = given.get("output"), given.get("actions") or run.actions
    for action in actions:
        if any(not 0 < len(action.get(name) or "") <= most for name, most in _ACTION_LENGTHS.items()):
            raise unprocessable(
                "Invalid request.\n\nA label, description or identifier of an action is missing or too long."
            )
    if len(actions) > _MOST_ACTIONS:
        raise unprocessable("Invalid request.\n\nNo more than 3 items are allowed in actions.")
    if output is not None:
        _change_output(run, output)
    run.status, run.conclusion, run.actions = status, conclusion, actions
    run.name = given.get("name") or run.name
    run.external_id = given.get("external_id") or run.external_id
    run.details_url = given.get("details_url") or run.details_url
    run.started_at = _time(given.get("started_at")) or run.started_at
    finished = _time(given.get("completed_at")) or run.completed_at or world.clock()
    run.completed_at = finished if status == "completed" else None


def _change_output(run: CheckRun, output: Mapping[str, Any]) -> None:
    title, summary, text = output.get("title"), output.get("summary"), output.get("text")
    if not title or summary is None:
        raise unprocessable('Invalid request.\n\n"title" and "summary" weren\'t supplied to "output".')
    if max(len(summary), len(text or "")) > _MAX_OUTPUT_CHARACTERS:
        raise unprocessable(f"Invalid request.\n\nOnly {_MAX_OUTPUT_CHARACTERS} characters are allowed.")
    run.title, run.summary, run.text = title, summary, text


def _time(given: object) -> datetime | None:
    if not isinstance(given, str):
        return None
    try:
        return datetime.fromisoformat(given)
    except ValueError as error:
        raise unprocessable("Invalid request.\n\nNot a date-time in ISO 8601.") from error
