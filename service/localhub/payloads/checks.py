"""Check runs and their annotations. Pure."""

from __future__ import annotations

from service.localhub.payloads.apps import app
from service.localhub.payloads.people import Json, iso, node_id
from service.localhub.state import Annotation, CheckRun, Repository
from service.localhub.world import World


def check_run(world: World, repository: Repository, item: CheckRun) -> Json:
    """A check run with its output and the pull requests of its commit."""
    url = f"{world.api_url}/repos/{repository.full_name}/check-runs/{item.id}"
    html_url = f"{world.base_url}/{repository.full_name}/runs/{item.id}"
    return {
        "id": item.id,
        "name": item.name,
        "node_id": node_id("check_run", item.id),
        "head_sha": item.head_sha,
        "external_id": item.external_id,
        "url": url,
        "html_url": html_url,
        "details_url": item.details_url or html_url,
        "status": item.status,
        "conclusion": item.conclusion,
        "started_at": iso(item.started_at),
        "completed_at": iso(item.completed_at),
        "output": {
            "title": item.title,
            "summary": item.summary,
            "text": item.text,
            "annotations_count": len(item.annotations),
            "annotations_url": f"{url}/annotations",
        },
        "check_suite": {"id": item.id, "head_sha": item.head_sha},
        "app": app(world, world.state.apps[item.app_id]),
        "pull_requests": [
            {
                "id": issue.pull.id,
                "number": issue.number,
                "url": f"{world.api_url}/repos/{repository.full_name}/pulls/{issue.number}",
                "head": {"ref": issue.pull.head_ref, "sha": issue.pull.head_sha},
                "base": {"ref": issue.pull.base_ref, "sha": issue.pull.base_sha},
            }
            for issue in repository.issues.values()
            if issue.pull and issue.state == "open" and issue.pull.head_sha == item.head_sha
        ],
    }


def annotation(world: World, repository: Repository, run: CheckRun, item: Annotation) -> Json:
    """A remark on lines of a file."""
    return {
        "path": item.path,
        "blob_href": f"{world.base_url}/{repository.full_name}/blob/{run.head_sha}/{item.path}",
        "start_line": item.start_line,
        "start_column": None,
        "end_line": item.end_line,
        "end_column": None,
        "annotation_level": item.level,
        "title": item.title,
        "message": item.message,
        "raw_details": item.raw_details,
    }
