"""The page of a fused model in headless Chromium: it shows changes as they come, and a phone's width is enough."""

from __future__ import annotations

import functools
import html
import json
import re
import shutil
import socket
import subprocess
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
import uvicorn
from fastapi import FastAPI, Request
from fastapi.responses import HTMLResponse, Response

from gpu_runner.contracts import Status
from service.addresses import Addresses
from service.pages.routes import Pages, add_pages
from tests.service.io.test_fused_pages import fused, names, verdict
from workers.contracts import JobState, JobView

CHROMIUM = next(
    (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None
)
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed")
PHONE_WIDTH = 390
# Loads the page in a frame as wide as a phone, waits until it shows no more changes, and says of it what the test asks.
LOOK = """<!doctype html><iframe id="f" %s style="width:%dpx;height:800px;border:0" src="/jobs/abcdefgh"></iframe>
<pre id="told"></pre><script>
const frame = document.getElementById("f");
const look = () => {
  const page = frame.contentDocument, root = page.documentElement;
  for (const part of page.querySelectorAll("details.part")) part.open = true;
  const tops = [...page.querySelectorAll(".beside")].map((pair) => [...pair.children].map((one) => one.offsetTop));
  document.getElementById("told").textContent = JSON.stringify({
    scroll: root.scrollWidth, client: root.clientWidth, drawn: page.querySelector("svg.cut").getBoundingClientRect().width,
    proved: page.querySelectorAll("svg.cut .proved").length, state: page.querySelector(".state").textContent,
    stacked: tops.every(([one, other]) => one < other), pairs: tops.length,
  });
};
frame.onload = () => { const timer = setInterval(() => {
  if (frame.contentDocument.querySelector(".state").textContent !== "running") { clearInterval(timer); look(); }
}, 100); };
</script>"""


@contextmanager
def served(states: Callable[[], JobView], held: dict[str, bytes], frame: str = "") -> Iterator[str]:
    """The pages of one job on loopback, and a page that looks at it."""
    app = FastAPI()
    addresses = Addresses("https://bot.example", "https://github.example")
    add_pages(app, Pages(lambda: (), lambda _: states(), held.__getitem__, addresses, None, cancel=lambda _: True))
    app.get("/look")(lambda: HTMLResponse(LOOK % (frame, PHONE_WIDTH)))

    @app.middleware("http")
    async def framed(request: Request, call: Callable[[Request], Awaitable[Response]]) -> Response:
        """The page's own policy, but that the page that looks at it may frame it."""
        answer = await call(request)
        policy = answer.headers.get("content-security-policy", "")
        answer.headers["content-security-policy"] = policy.replace("frame-ancestors 'none'", "frame-ancestors 'self'")
        return answer

    listener = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, log_config=None, access_log=False, timeout_graceful_shutdown=1))
    thread = threading.Thread(target=server.run, args=([listener],), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()
        listener.close()


def looked_at(url: str, profile: Path) -> dict[str, object]:
    """What the page that looks says after some seconds."""
    command = [str(CHROMIUM), "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={profile}"]
    command += ["--virtual-time-budget=20000", "--dump-dom", f"{url}/look"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    told = re.search(r'<pre id="told">(.+?)</pre>', done.stdout, re.DOTALL)
    assert told, done.stdout[-2000:]
    found: dict[str, object] = json.loads(html.unescape(told[1]))
    return found


@functools.cache
def proved() -> tuple[JobView, dict[str, bytes]]:
    """A job with the sources of one part and a verdict on each."""
    sources = {
        f"kernels_out/{names()[0]}/{file}.py": f"# {file} {'long ' * 60}\n".encode()
        for file in ("problem", "candidate")
    }
    return fused(**sources, **{f"kernels_out/{name}/verdict.json": verdict(Status.passed) for name in names()})


def shown() -> dict[str, object]:
    """What a page says of it at the end."""
    return {"state": "done", "proved": len(names()), "stacked": True, "pairs": 1}


def test_parts_fill_as_they_are_proved_on_a_phone(tmp_path: Path) -> None:
    (begun, _), (job, held) = fused(), proved()
    asked: list[int] = []

    def states() -> JobView:
        # Three looks at a cut job, some at its proved parts, then the end; the page itself asks too.
        asked.append(1)
        return begun if len(asked) <= 3 else job if len(asked) <= 6 else replace(job, state=JobState.done)

    with served(states, held) as url:
        found = looked_at(url, tmp_path / "profile")
    assert found["scroll"] == found["client"] and 0 < float(str(found["drawn"])) <= PHONE_WIDTH
    assert shown().items() <= found.items() and len(asked) > 6


def test_without_javascript_the_page_has_it_all(tmp_path: Path) -> None:
    # A frame that may not run scripts.
    job, held = proved()
    with served(lambda: replace(job, state=JobState.done), held, 'sandbox="allow-same-origin"') as url:
        assert shown().items() <= looked_at(url, tmp_path / "profile").items()
