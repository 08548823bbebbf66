"""The same server with an application that reads a body and answers: what a webhook costs beyond HTTP is held against it."""

from __future__ import annotations

import sys

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from service.server import run


async def echo(request: Request) -> JSONResponse:
    return JSONResponse({"bytes": len(await request.body())}, status_code=202)


if __name__ == "__main__":
    run(Starlette(routes=[Route("/webhook", echo, methods=["POST"])]), "127.0.0.1", int(sys.argv[1]))
