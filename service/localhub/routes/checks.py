"""Check runs."""

from __future__ import annotations

from service.localhub import payloads
from service.localhub.actions import checks
from service.localhub.errors import unprocessable
from service.localhub.routes.call import Call, Handler, Reply
from service.localhub.state import CheckRun


def create_check_run(call: Call) -> Reply:
    """Make a check run."""
    run = checks.create_check_run(call.world, call.repo, call.actor, call.body)
    return Reply(payloads.check_run(call.world, call.repo, run), 201)


def get_check_run(call: Call) -> Reply:
    """One check run."""
    return Reply(payloads.check_run(call.world, call.repo, _run(call)))


def update_check_run(call: Call) -> Reply:
    """Change a check run."""
    run = _run(call)
    checks.update_check_run(call.world, call.repo, run, call.actor, call.body)
    return Reply(payloads.check_run(call.world, call.repo, run))


def list_check_run_annotations(call: Call) -> Reply:
    """Its remarks on lines."""
    run = _run(call)
    return call.page(run.annotations, lambda item: payloads.annotation(call.world, call.repo, run, item))


def list_check_runs(call: Call) -> Reply:
    """The check runs of a commit or branch; of each name and app the latest, unless ``filter=all``."""
    sha = call.world.git(call.repo).resolve(call.params["ref"])
    if sha is None:
        raise unprocessable(f"No commit found for SHA: {call.params['ref']}")
    name, status, app_id = (call.query.get(key) for key in ("check_name", "status", "app_id"))
    runs = [run for run in reversed(call.repo.check_runs) if run.head_sha == sha]
    runs = [run for run in runs if name in (None, run.name) and status in (None, run.status)]
    runs = [run for run in runs if app_id in (None, str(run.app_id))]
    if call.query.get("filter") != "all":
        runs = list({(run.app_id, run.name): run for run in reversed(runs)}.values())
    return call.page(runs, lambda run: payloads.check_run(call.world, call.repo, run), "check_runs")


def _run(call: Call) -> CheckRun:
    return checks.find_check_run(call.repo, call.params["check_run_id"])


HANDLERS: dict[str, Handler] = {
    "create_check_run": create_check_run,
    "get_check_run": get_check_run,
    "update_check_run": update_check_run,
    "list_check_run_annotations": list_check_run_annotations,
    "list_check_runs": list_check_runs,
}
