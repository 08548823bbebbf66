"""Git's smart HTTP protocol, by git's own CGI program `git http-backend`."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

from service.localhub.git.bare import git_environment

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
