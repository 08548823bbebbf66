"""A configured proxy is used, with its password; without one that of the environment, as other clients take it."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import httpx2
import pytest
from pydantic import SecretStr
from requests.utils import get_environ_proxies

from tests.workers.models import openai_server
from tests.workers.models.kinds import DATA, question
from workers.environment import keep_loopback_direct
from workers.models.openai_api import OpenAIProvider
from workers.models.protocol import Endpoint, ModelError, Trouble
from workers.models.settings import providers
from workers.settings import WrongSettingsError, environment_with, load_settings, secret_values


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


@dataclass
class Forwarding:
    """A proxy on this machine, and what went through it: the address, and the proxy's authorization."""

    address: str
    seen: list[tuple[str, str | None]]


@pytest.fixture
def forwarding() -> Iterator[Forwarding]:
    seen: list[tuple[str, str | None]] = []
    proxy = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Forwards,), {"seen": seen}))
    Thread(target=proxy.serve_forever, args=(0.02,), daemon=True).start()
    yield Forwarding(f"mona:p%40ss@127.0.0.1:{proxy.server_address[1]}", seen)
    proxy.shutdown()
    proxy.server_close()


@pytest.fixture(autouse=True)
def _no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


PASSWORD = "Basic " + base64.b64encode(b"mona:p@ss").decode()


def test_question_goes_through_the_configured_proxy_alone(
    monkeypatch: pytest.MonkeyPatch, forwarding: Forwarding
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    address = SecretStr(f"http://{forwarding.address}")
    with openai_server.openai_server() as server:
        server.next(openai_server.call("propose", DATA), openai_server.call("propose", DATA))
        for given in (address, None):
            endpoint = Endpoint(
                "openai", openai_server.MODEL, server.base_url, SecretStr(openai_server.KEY), proxy=given
            )
            assert OpenAIProvider(endpoint).ask(question(), 20.0, lambda: False).data == DATA
        assert forwarding.seen == [(f"{server.base_url}/chat/completions", PASSWORD)]


@pytest.mark.parametrize("name", ["HTTP_PROXY", "http_proxy", "ALL_PROXY"])
@pytest.mark.parametrize("scheme", ["http://", ""])
def test_proxy_of_the_environment_is_taken_unless_the_host_needs_none(
    monkeypatch: pytest.MonkeyPatch, forwarding: Forwarding, name: str, scheme: str
) -> None:
    monkeypatch.setenv(name, scheme + forwarding.address)
    with openai_server.openai_server() as server:
        monkeypatch.setenv("KERNELSMITH_OPENAI_MODEL", openai_server.MODEL)
        monkeypatch.setenv("KERNELSMITH_OPENAI_API_KEY", openai_server.KEY)
        monkeypatch.setenv("KERNELSMITH_OPENAI_BASE_URL", server.base_url)
        server.next(openai_server.call("propose", DATA), openai_server.call("propose", DATA))
        for _ in range(2):
            (provider,) = providers(load_settings())
            assert provider.ask(question(), 20.0, lambda: False).data == DATA
            monkeypatch.setenv("NO_PROXY", "example.org,127.0.0.0/8")
        assert forwarding.seen == [(f"{server.base_url}/chat/completions", PASSWORD)]
        assert {"p@ss", "p%40ss"} <= set(secret_values()), "it is taken out of what leaves the process"


def test_stages_that_ask_models_have_the_proxies_and_a_gpu_host_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy.example:3128")
    assert "HTTPS_PROXY" not in environment_with(load_settings()), "no model is configured"
    monkeypatch.setenv("KERNELSMITH_ANTHROPIC_MODEL", "m")
    monkeypatch.setenv("KERNELSMITH_ANTHROPIC_API_KEY", "k")
    assert environment_with(load_settings())["HTTPS_PROXY"] == "http://proxy.example:3128"
    assert "HTTPS_PROXY" not in environment_with(load_settings(), asks_models=False)
    monkeypatch.setenv("KERNELSMITH_ARTIFACTS_URL", "s3://bucket/of-artifacts")
    assert "HTTPS_PROXY" in environment_with(load_settings(), asks_models=False)


def test_proxy_that_models_cannot_be_asked_through_is_named_at_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALL_PROXY", "socks5://mona:secret@proxy.example:1080")
    load_settings()
    monkeypatch.setenv("KERNELSMITH_ANTHROPIC_MODEL", "m")
    monkeypatch.setenv("KERNELSMITH_ANTHROPIC_API_KEY", "k")
    with pytest.raises(WrongSettingsError, match="the proxy of the environment for https:// addresses") as told:
        load_settings()
    assert "mona" not in str(told.value)
    monkeypatch.setenv("NO_PROXY", "api.anthropic.com")
    load_settings()


@pytest.mark.parametrize("given", [{}, {"NO_PROXY": "a.example"}, {"no_proxy": "a.example"}, {"NO_PROXY": "*"}])
def test_what_listens_on_this_machine_is_asked_without_a_proxy(
    monkeypatch: pytest.MonkeyPatch, given: dict[str, str]
) -> None:
    for name, value in ({"ALL_PROXY": "http://proxy.example:3128"} | given).items():
        monkeypatch.setenv(name, value)
    keep_loopback_direct()
    through = [url for url in ADDRESSES if get_environ_proxies(url)]
    assert through == ([] if given.get("NO_PROXY") == "*" else [ADDRESSES[-1]])


ADDRESSES = ("http://127.0.0.1:8000/x", "http://localhost:1", "http://[::1]:8000", "https://api.github.com")


def test_proxy_that_is_not_there_is_a_trouble_that_may_pass_and_names_no_password() -> None:
    endpoint = Endpoint(
        "openai", "m", "http://model.example/v1", SecretStr("k"), proxy=SecretStr("http://u:pass@127.0.0.1:9")
    )
    with pytest.raises(ModelError) as told:
        OpenAIProvider(endpoint).ask(question(), 5.0, lambda: False)
    assert told.value.trouble is Trouble.unreachable
    assert "pass" not in str(told.value)
