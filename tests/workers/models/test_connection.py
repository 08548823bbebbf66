"""The wire over TLS, as in production: a quiet stretch is borne, a cancelled one is not, a stranger's certificate is refused."""

from __future__ import annotations

import datetime
import ipaddress
import ssl
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from tests.workers.models import anthropic_server, openai_server
from tests.workers.models.kinds import ANTHROPIC, KINDS, Kind, question
from tests.workers.models.protocol_server import ProtocolServer, Reply, serving
from workers.models.client import POLL_S
from workers.models.protocol import ModelError, Trouble

CHECKS = {"anthropic": (anthropic_server.check, ""), "openai": (openai_server.check, "/v1")}


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate of this machine, signed by itself, with its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "loopback")])
    now = datetime.datetime.now(datetime.UTC)
    built = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), False)
        .sign(key, hashes.SHA256())
    )
    path = tmp_path_factory.mktemp("tls") / "both.pem"
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    path.write_bytes(private + built.public_bytes(serialization.Encoding.PEM))
    return path


@pytest.fixture(params=KINDS, ids=lambda kind: kind.name)
def kind(request: pytest.FixtureRequest) -> Kind:
    return request.param  # type: ignore[no-any-return]


@pytest.fixture
def server(kind: Kind, certificate: Path) -> Iterator[ProtocolServer]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    check, path = CHECKS[kind.name]
    with serving(check, lambda message: kind.error(400, "invalid_request_error", message), path, context) as it:
        yield it


@pytest.fixture
def trusted(certificate: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    context = ssl.create_default_context(cafile=certificate)
    monkeypatch.setattr("workers.models.client._certificates", lambda: context)


@pytest.mark.usefixtures("trusted")
def test_a_quiet_stretch_longer_than_a_look_up_loses_nothing(kind: Kind, server: ProtocolServer) -> None:
    server.next(Reply(kind.text("a text in pieces"), pause_s=POLL_S * 1.3))
    answer = kind.provider(server.base_url, quiet_s=5.0).ask(question(None), 30.0, lambda: False)
    assert answer.text == "a text in pieces"


@pytest.mark.usefixtures("trusted")
def test_cancelling_ends_a_request_that_waits(kind: Kind, server: ProtocolServer) -> None:
    server.next(Reply(kind.text("a text"), hang_after=1))
    cancelled = threading.Event()
    timer = threading.Timer(0.3, cancelled.set)
    timer.start()
    began = time.monotonic()
    with pytest.raises(ModelError) as told:
        kind.provider(server.base_url).ask(question(None), 60.0, cancelled.is_set)
    timer.join()
    assert told.value.trouble is Trouble.cancelled
    assert time.monotonic() - began < 5
    assert server.asked[0].left.wait(5)


def test_a_certificate_that_nobody_vouches_for_is_refused(kind: Kind, server: ProtocolServer) -> None:
    with pytest.raises(ModelError) as told:
        kind.provider(server.base_url).ask(question(None), 10.0, lambda: False)
    assert told.value.trouble is Trouble.rejected
    assert "a certificate that this host does not trust" in str(told.value)
    assert (told.value.__cause__, told.value.__context__) == (None, None)
    assert server.asked == []


def test_an_endpoint_without_a_proxy_uses_none_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    with ANTHROPIC.serve() as server:
        server.next(ANTHROPIC.say("yes"))
        answer = ANTHROPIC.provider(server.base_url).ask(question(None), 10.0, lambda: False)
    assert answer.text == "yes"
