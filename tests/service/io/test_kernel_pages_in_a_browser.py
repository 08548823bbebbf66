"""The exported pages in headless Chromium: the chart answers the pointer, and a phone's width is enough."""

from __future__ import annotations

import functools
import html
import json
import re
import shutil
import subprocess
import threading
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from service.pages.export import export_pages
from tests.service.io.test_kernel_pages import change, keep
from tests.workers.nightly.numbers import KEY, REPOSITORY
from tests.workers.store.fixtures import database_url, world
from tests.workers.store.worlds import World

__all__ = ["database_url", "world"]
CHROMIUM = next(
    (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None
)
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed")
PHONE_WIDTH = 390

# Loads a page in a frame as wide as a phone, and says of it what the test asks; the frame is of the same origin.
LOOK = """<!doctype html><iframe id="f" style="width:%dpx;height:800px;border:0" src="%s"></iframe><pre id="told"></pre><script>
const frame = document.getElementById("f");
frame.onload = () => {
  const page = frame.contentDocument, root = page.documentElement, plot = page.querySelector("svg.plot");
  const told = {scroll: root.scrollWidth, client: root.clientWidth, hint: !!page.querySelector(".hint")};
  if (plot) {
    const box = page.querySelector("#chart svg.field").getBoundingClientRect();
    const at = {clientX: box.left + box.width / 2, clientY: box.top + box.height / 2, bubbles: true, pointerType: "mouse"};
    plot.dispatchEvent(new frame.contentWindow.PointerEvent("pointermove", at));
    told.cursor = page.querySelector(".cursor") && page.querySelector(".cursor").getAttribute("visibility");
  }
  document.getElementById("told").textContent = JSON.stringify(told);
};
</script>"""


@pytest.fixture
def site(world: World, tmp_path: Path) -> Iterator[tuple[Path, str]]:
    """An export, and the address at which it is served on loopback."""
    keep(world, KEY)
    change(world)
    folder = tmp_path / "site"
    export_pages(folder, REPOSITORY, "https://github.example/acme/kernels", 20, 3)

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(folder)))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield folder, f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


def looked_at(site: tuple[Path, str], page: str, profile: Path) -> dict[str, object]:
    folder, url = site
    (folder / f"look-{page}").write_text(LOOK % (PHONE_WIDTH, page))  # an address of its own: the browser keeps pages
    command = [str(CHROMIUM), "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={profile}"]
    command += ["--virtual-time-budget=5000", "--dump-dom", f"{url}/look-{page}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    told = re.search(r'<pre id="told">(.+?)</pre>', done.stdout, re.DOTALL)
    assert told, done.stdout[-2000:]
    found: dict[str, object] = json.loads(html.unescape(told[1]))
    return found


def test_every_page_fits_a_phone_and_the_chart_answers_the_pointer(site: tuple[Path, str], tmp_path: Path) -> None:
    folder, _ = site
    compare = next(folder.glob("compare-*.html"))
    history = next(page for page in folder.glob("*.html") if 'id="chart"' in page.read_text())
    for page in (folder / "index.html", history, compare):
        told = looked_at(site, page.name, tmp_path / "profile")
        assert told["scroll"] == told["client"], f"{page.name} is wider than a phone"
        assert told["hint"] == (page == history)
        if page == history:
            assert told["cursor"] == "visible", "the point under the pointer is named"
