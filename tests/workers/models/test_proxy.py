"""A configured proxy is used, with its password, and one of the environment is not."""

from __future__ import annotations

import base64
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import httpx2
import pytest
from pydantic import SecretStr

from tests.workers.models import openai_server
from tests.workers.models.kinds import DATA, question
from workers.models.openai_api import OpenAIProvider
from workers.models.protocol import Endpoint, ModelError, Trouble


class _Forwards(BaseHTTPRequestHandler):
    seen: list[tuple[str, str | None]]

    def do_POST(self) -> None:
        self.seen.append((self.path, self.headers.get("proxy-authorization")))
        body = self.rfile.read(int(self.headers["content-length"]))
        headers = {name: self.headers[name] for name in ("content-type", "authorization")}
        answer = httpx2.post(self.path, content=body, headers=headers, trust_env=False)
        self.send_response(answer.status_code)
        self.send_header("content-type", answer.headers["content-type"])
        self.send_header("content-length", str(len(answer.content)))
        self.end_headers()
        self.wfile.write(answer.content)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


def test_question_goes_through_the_configured_proxy_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    seen: list[tuple[str, str | None]] = []
    proxy = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Forwards,), {"seen": seen}))
    Thread(target=proxy.serve_forever, args=(0.02,), daemon=True).start()
    address = SecretStr(f"http://mona:p%40ss@127.0.0.1:{proxy.server_address[1]}")
    with openai_server.openai_server() as server:
        server.next(openai_server.call("propose", DATA), openai_server.call("propose", DATA))
        for given in (address, None):
            endpoint = Endpoint(
                "openai", openai_server.MODEL, server.base_url, SecretStr(openai_server.KEY), proxy=given
            )
            assert OpenAIProvider(endpoint).ask(question(), 20.0, lambda: False).data == DATA
        password = "Basic " + base64.b64encode(b"mona:p@ss").decode()
        assert seen == [(f"{server.base_url}/chat/completions", password)]
    proxy.shutdown()
    proxy.server_close()


def test_proxy_that_is_not_there_is_a_trouble_that_may_pass_and_names_no_password() -> None:
    endpoint = Endpoint(
        "openai", "m", "http://model.example/v1", SecretStr("k"), proxy=SecretStr("http://u:pass@127.0.0.1:9")
    )
    with pytest.raises(ModelError) as told:
        OpenAIProvider(endpoint).ask(question(), 5.0, lambda: False)
    assert told.value.trouble is Trouble.unreachable
    assert "pass" not in str(told.value)
