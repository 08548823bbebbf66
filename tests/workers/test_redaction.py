"""Secrets are taken out of what leaves, and nothing else is."""

from __future__ import annotations

import base64
import html
import json
import re
import time
from pathlib import Path
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.redaction import know, redact, redacted, redacted_event, secret_in

ROOT = Path(__file__).resolve().parents[2]
A = "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8s9T0u1V2w3X4"
PEM = "-----BEGIN RSA PRIVATE KEY-----\nMIIEowIBAAKCAQEA\nabc+/=\n-----END RSA PRIVATE KEY-----"


@pytest.mark.parametrize(
    ("kind", "secret"),
    [
        ("GitHub token", f"ghp_{A[:36]}"),
        ("GitHub token", f"ghs_{A[:36]}"),
        ("GitHub token", f"ghs_123456_eyJ{A}.eyJ{A}.{A}"),
        ("API key", "sk-test1234abcd5678"),
        ("API key", f"ya29.{A}"),
        ("API key", f"whsec_{A[:32]}"),
        ("API key", f"AccountKey={A}=="),
        ("API key", f"hooks.slack.com/services/T0000/B0000/{A[:24]}"),
        ("token in a URL", "?token=ab"),
        ("GitHub token", f"github_pat_{A}"),
        ("API key", f"123456789:AA{A[:33]}"),
        ("GitLab token", f"glpat-{A[:20]}"),
        ("Anthropic key", f"sk-ant-api03-{A}"),
        ("API key", f"sk-proj-{A}"),
        ("API key", f"sk-{A}"),
        ("API key", f"hf_{A[:34]}"),
        ("API key", f"AIza{A[:35]}"),
        ("API key", f"xoxb-{A[:24]}"),
        ("API key", f"sk_live_{A[:24]}"),
        ("API key", f"npm_{A[:36]}"),
        *(
            ("API key", f"{start}{A[:40]}")
            for start in (
                "r8_",
                "pplx-",
                "csk-",
                "tgp_v1_",
                "fw_",
                "rpa_",
                "pcsk_",
                "hvs.",
                "xapp-1-",
                "ATATT3",
                "glsa_",
            )
        ),
        *(
            ("API key", f"{start}{A[:40]}")
            for start in ("lin_api_", "ntn_", "figd_", "sntrys_", "tskey-auth-", "dp.pt.")
        ),
        *(("API key", f"{start}{A[:32]}") for start in ("GOCSPX-", "dckr_oat_", "pscale_tkn_", "xoxe.")),
        *(("API key", f"{start}{32 * 'a'}") for start in ("dapi", "shpat_")),
        ("API key", f"lsv2_pt_{32 * 'a'}_{10 * 'b'}"),
        ("API key", f"sbp_{40 * 'a'}"),
        ("API key", f"NRAK-{27 * 'A'}"),
        ("API key", f"ops_eyJ{A}"),
        ("API key", f"AGE-SECRET-KEY-1{58 * 'Q'}"),
        ("API key", f"M{A[:23]}.{A[:6]}.{A[:27]}"),
        ("AWS key", "AKIAIOSFODNN7EXAMPLE"),
        ("AWS key", "aws_secret_access_key = wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"),
        ("named secret", f"SecretAccessKey': '{A[:40]}"),
        ("named secret", f"AWS_SESSION_TOKEN=IQoJb3JpZ2luX2Vj{A}{A}"),
        ("named secret", f'MISTRAL_API_KEY="{A[:32]}'),
        ("named secret", "PRIVATE-TOKEN: OtSqfMlLDZIPgRVOwKE8"),
        ("named secret", f'"auth": "{base64.b64encode(b"bot:hunter22hunter22").decode()}'),
        ("named secret", f"bearer {A[:40]}"),
        ("token before a host", f"https://{A[:40]}@github.com/octocat/hello.git"),
        ("password for curl", "curl -s -u bot:hunter2hunter https://example.com"),
        ("password in .netrc", "machine github.com login bot password hunter22"),
        ("private key of PuTTY", f"Private-Lines: 2\n{A}\n{A[:20]}=="),
        *(("GitLab token", f"{start}-{A[:24]}") for start in ("glagent", "gloas", "glimt", "glffct")),
        ("GitLab token", f"glpat-{A[:27]}.01.a1b2c3d4e"),
        ("GitLab token", f"GR1348941{A[:20]}"),
        *(("API key", f"{start}{40 * 'a'}") for start in ("bkua_", "pul-")),
        *(("API key", f"{start}{A[:40]}") for start in ("phx_", "sb_secret_", "sq0csp-", "hvb.")),
        ("API key", f"ATBB{A[:32]}"),
        ("API key", f"SK{32 * 'b'}"),
        ("API key", f"abc8Q~{A[:34]}"),
        ("API key", f"hooks.slack.com/workflows/T0000/A0000/1/{A[:24]}"),
        ("API key", f"discord.com/api/webhooks/123456789012345678/{A}{A[:20]}"),
        ("web token", f"eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.{A[:43]}"),
        ("authorization", f"Authorization: Bearer {A}"),
        ("authorization", f"authorization': 'token {A}"),
        ("password in a URL", "postgresql://bot:hunter22@"),
        ("password in a URL", "redis://:hunter22@"),
        ("authorization", f"('Authorization', 'Basic {base64.b64encode(b'x-access-token:abcdef').decode()}"),
        ("private key", PEM),
        ("private key", PEM.replace("\n", "\\n")),
        ("private key", PEM.partition("-----END")[0]),
        ("private key", PEM.replace("RSA ", "OPENSSH ")),
        ("private key", PEM.replace("RSA ", "")),
    ],
)
def test_a_secret_is_replaced_by_a_word_for_its_kind(kind: str, secret: str) -> None:
    text, counts = redacted(f"before {secret} after")
    assert text.startswith("before ")
    assert "[redacted: " in text
    assert secret not in text
    assert text.endswith("after")
    assert counts == {kind: 1}


@pytest.mark.parametrize("end", ["\n-----END RSA PRIVATE KEY-----", ""], ids=["whole", "cut off"])
@pytest.mark.parametrize("start", ["", "-", "> ", "   "], ids=["plain", "removed in a diff", "quoted", "indented"])
def test_nothing_of_an_encrypted_key_stays(start: str, end: str) -> None:
    lines = f"-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,0A1B\n\n{A}\n{A[:20]}{end}"
    text, _ = redacted("\n".join(start + line for line in lines.split("\n")))
    assert A not in text
    assert A[:20] not in text


def test_two_keys_are_two() -> None:
    text, counts = redacted(f"{PEM}\nbetween\n{PEM}\nghp_{A[:36]} ghp_{A[:36]}")
    assert counts == {"private key": 2, "GitHub token": 2}
    assert "between" in text


@pytest.mark.parametrize("unseen", ["\u200b", "\u00ad", "\ufeff", "\u2060"])
def test_a_secret_is_replaced_although_invisible_characters_stand_in_it(unseen: str) -> None:
    token, phrase = f"ghp_{A[:36]}", "my pass phrase"
    text, counts = redacted(f"a {unseen.join(token)} b {phrase[:4]}{unseen}{phrase[4:]}", [phrase])
    assert text == "a [redacted: GitHub token] b [redacted: configured secret]"
    assert counts == {"GitHub token": 1, "configured secret": 1}
    assert (
        redacted(f"{phrase[:4]}{unseen}{phrase[4:]}", [f"my{unseen} pass phrase"])[0] == "[redacted: configured secret]"
    )


def test_configured_values_are_replaced_whatever_they_look_like() -> None:
    text, counts = redacted("x my pass phrase y my pass phrase 2", ["my pass phrase", "my pass phrase 2", "x", ""])
    assert text == "x [redacted: configured secret] y [redacted: configured secret]"
    assert counts == {"configured secret": 2}


@pytest.mark.parametrize(
    "text",
    [
        "https://github.com/linkedin/Liger-Kernel/issues/1",
        "http://localhost:8000/x@y",
        "git@github.com:octocat/hello.git",
        "sk-learn, task-sk-1, risk-averse-behaviour",
        "tl.load(x_ptr + offsets, mask=mask, other=0.0)  # eyJ is not a token",
        "the token is masked; authorization: none",
        "token = hidden_states_of_layer_12_and_13; key = attention_weights_2048_x_4096",
        "one token 1234567890123456789012; the secret https://github.com/a1/b2/blob/main/c3.py",
        "authorization: the header that GitHub wants",
        "git clone https://x@localhost/y; login as somebody; password of the pages",
        "def password(user: str, secret: str) -> None: ...",
        "hf_hub_download, ghp_, AKIA",
        "a family \U0001f468\u200d\U0001f469\u200d\U0001f467 and soft\u00adhyphens",
        "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----",
        "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    ],
)
def test_honest_text_stays_as_it_is(text: str) -> None:
    assert redacted(text) == (text, {})


def test_the_projects_own_source_stays_as_it_is() -> None:
    """Kernels, references and prompts are what is sent; a word lost in them is a fault that nobody would find."""
    for path in sorted((ROOT / "workers").rglob("*.py")) + sorted((ROOT / "gpu_runner").rglob("*.py")):
        text = path.read_text()
        found, counts = redacted(text)
        assert (found, dict(counts)) == (text, {}), path


@pytest.mark.parametrize(
    "text",
    [
        "-----BEGIN PRIVATE KEY-----" * 8000,
        "-----BEGIN PRIVATE KEY-----\n" + "A" * 300_000,
        "eyJ" + "A" * 300_000,
        "eyJAAAAAAAAA.eyJ" * 20_000,
        "a://" * 60_000,
        "a" * 300_000 + "://",
        "sk-" * 80_000,
        "authorization: " * 20_000,
        "aws_secret_access_key = " * 12_000,
        "ghp_" * 60_000,
        "curl " * 60_000,
        "login a password " * 20_000,
        "token='a1B" * 30_000,
        "://a1" * 60_000,
        "Private-Lines: 5\n" + "AAAA\n" * 60_000,
        "-----BEGIN PRIVATE KEY-----Version: a" * 8_000,
    ],
    ids=lambda text: text[:24],
)
def test_no_text_makes_it_slow(text: str) -> None:
    began = time.perf_counter()
    redacted(text)
    assert time.perf_counter() - began < 3.0


@given(st.text(max_size=60), st.text(max_size=60))
def test_a_token_is_found_between_any_words(before: str, after: str) -> None:
    token = "ghp_" + A[:36]
    text, _ = redacted(f"{before} {token} {after}")
    assert token not in text


SPECIAL = "p&<'\"\\ä\n/%x" + "y" * 8


@pytest.mark.parametrize(
    "form",
    [
        SPECIAL,
        repr(SPECIAL),
        json.dumps(SPECIAL),
        json.dumps(SPECIAL, ensure_ascii=False),
        quote(SPECIAL),
        quote(SPECIAL, safe=""),
        html.escape(SPECIAL),
        quote_plus(SPECIAL),
        re.sub("%..", lambda match: match[0].lower(), quote(SPECIAL)),
        quote(quote(SPECIAL)),
        str(SPECIAL.encode()),
        json.dumps(json.dumps({"a": json.dumps(SPECIAL)})),
        repr([repr(SPECIAL)]),
        html.escape(json.dumps(SPECIAL)),
        html.escape(html.escape(SPECIAL)),
        SPECIAL[0] + "".join(f"&#{ord(character)};" for character in SPECIAL[1:9]) + SPECIAL[9:],
        SPECIAL.replace("/", "\\/"),
    ],
)
def test_a_value_that_this_process_holds_is_found_in_each_form_in_which_it_is_written(form: str) -> None:
    assert "yyyy" in redact(form)
    know([SPECIAL, "short"])
    assert "yyyy" not in redact(form)
    assert redact("short") == "short"


@pytest.mark.parametrize("before", ["", "x:", "bot:", "x-access-token:"])
def test_a_value_that_this_process_holds_is_found_in_base64_whatever_stands_before_it(before: str) -> None:
    know(["Zu kurz ist keine Losung"])
    shown = redact(base64.b64encode(f"{before}Zu kurz ist keine Losung and more".encode()).decode())
    assert base64.b64encode(b"kurz ist keine").decode()[4:12] not in shown
    assert "configured secret" in shown


def test_a_value_that_this_process_holds_is_found_in_base64_of_either_alphabet_and_in_lines() -> None:
    secret = "???>>>~~~ÿÿÿ" * 6
    know([secret])
    encoded = f"x:{secret}".encode()
    for form in (
        base64.urlsafe_b64encode(encoded),
        base64.encodebytes(encoded),
        repr(base64.encodebytes(encoded)).encode(),
    ):
        shown = redact(form.decode())
        assert "configured secret" in shown and len(shown) < 60


def test_known_values_slow_no_text() -> None:
    know(["p&<'\"\\ä\n/%x\\\\\\\\" * 4, "correct horse battery", PEM, *(f"{A}{number}" for number in range(20))])
    for text in ("\\" * 300_000, "&amp;" * 60_000, "%25" * 100_000, "p&" * 150_000, "correct+" * 40_000):
        began = time.thread_time()  # of this thread alone: a busy machine is no fault of the code
        redact(text)
        assert time.thread_time() - began < 3.0


def test_each_line_of_a_private_key_that_this_process_holds_is_secret() -> None:
    line = "QmFzZTY0" * 8
    know([f"-----BEGIN KEY-----\n{line}\n-----END KEY-----"])
    assert line not in redact(f"it read {line!r}")


def test_nothing_nested_keeps_its_secrets() -> None:
    know(["correct horse battery"])
    key, event = f"sk-{A}", {"a": 0}
    event |= {  # type: ignore[dict-item]
        "deep": [{"x": ({"y": {f"in a key {key}": [key, "correct horse battery"]}},)}],
        "password": "hunter22",
        "headers": [("Authorization", "hunter22"), (b"X-Api-Key", b"hunter22")],
        "more": {"api_key": ["hunter22", {"x": "hunter22"}], "Set-Cookie": "hunter22"},
        "dsn": "host=db password=hunter22 user=bot",
        "shown": {"a": repr({"client_secret": "hunter22"}), "b": "Bearer hunter22", "c": 'password="hunter22"'},
        "error": RuntimeError(f"wrong: {key}"),
        "bytes": key.encode(),
        "request": "GET / x-api-key: hunter22\nCookie: hunter22 client_secret: hunter22 password: hunter22",
        "address": "https://example.org/?api-key=hunter22&subscription-key=hunter22",
        "tokens": 1200,
    }
    clean = redacted_event(event)
    assert isinstance(clean, dict)
    told = json.dumps(clean)
    for secret in (key, "hunter22", "horse"):
        assert secret not in told
    assert (clean["tokens"], clean["a"]) == (1200, 0)
    assert "host=db" in told
    assert "user=bot" in told


def test_a_secret_that_reads_like_a_headers_name_is_none() -> None:
    know(["pages-password-1"])
    assert redacted_event(["pages-password-1", 7]) == ["[redacted: configured secret]", 7]
    assert "pages-password-1" not in str(redacted_event({"pair": ("pages-password-1", {"pages-password-1": 1})}))


def test_what_refers_to_itself_or_cannot_be_shown_is_logged_all_the_same() -> None:
    class Broken:
        def __repr__(self) -> str:
            raise RuntimeError

    round_trip: dict[str, object] = {}
    round_trip["again"] = round_trip
    assert "..." in json.dumps(redacted_event({"a": round_trip}))
    assert redacted_event([Broken()]) == ["<Broken>"]


def test_the_first_secret_of_a_text_is_named_with_its_line() -> None:
    assert secret_in(f"/kernel help\n\nit is sk-ant-{A}, ghp_{A}") == ("Anthropic key", 3)
    assert secret_in("/kernel help") is None
    know(["correct horse battery"])
    assert secret_in("correct horse battery") == ("configured secret", 1)
