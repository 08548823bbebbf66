"""Where the service listens: an address that cannot be had is named with the fix before anything is started."""

from __future__ import annotations

import socket

import pytest
from typer.testing import CliRunner

from service.cli import processes
from service.cli.console import EXIT_ENVIRONMENT, app
from service.server import AddressError, check_address

SETTINGS = {
    "KERNELSMITH_WEBHOOK_SECRETS": "0123456789abcdef0123",
    "KERNELSMITH_TOKEN": "a-token",
    "KERNELSMITH_API_URL": "http://127.0.0.1:9",
}


@pytest.mark.parametrize("command", ["serve", "web"])
def test_a_port_in_use_ends_the_command_with_the_fix(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "end_on_signals", lambda: pytest.fail("it goes on"))
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        found = CliRunner().invoke(app, [command], env=SETTINGS | {"KERNELSMITH_PORT": str(port)})
    assert found.exit_code == EXIT_ENVIRONMENT
    assert f"port {port} of 127.0.0.1 cannot be listened on (it is in use)" in found.output
    assert "KERNELSMITH_PORT" in found.output


def test_an_address_that_is_none_of_this_machine_is_named() -> None:
    with pytest.raises(AddressError, match=r"port 0 of 192\.0\.2\.1 cannot be listened on"):
        check_address("192.0.2.1", 0)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1"])
def test_an_address_that_is_free_is_let_go_again(host: str) -> None:
    if host == "::1" and not socket.has_ipv6:
        pytest.skip("this machine has no IPv6")
    for _ in range(2):
        check_address(host, 0)
