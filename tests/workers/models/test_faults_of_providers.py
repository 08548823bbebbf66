"""Whatever a provider does wrong ends in one error of ours, with what was paid, and without key, prompt or answer."""

from __future__ import annotations

import gzip
import json
import logging
import threading
import time
import traceback
import zlib
from collections.abc import Callable, Iterator

import pytest

from tests.workers.models.kinds import ANSWER, DATA, FORM, KINDS, PROMPT, Kind, question
from tests.workers.models.protocol_server import ProtocolServer, Reply
from workers.models.ledger import most_of
from workers.models.protocol import ModelError, Question, Trouble

NOT_CANCELLED = lambda: False  # noqa: E731


@pytest.fixture(params=KINDS, ids=lambda kind: kind.name)
def kind(request: pytest.FixtureRequest) -> Kind:
    return request.param  # type: ignore[no-any-return]


@pytest.fixture
def server(kind: Kind) -> Iterator[ProtocolServer]:
    with kind.serve() as serving:
        yield serving


@pytest.fixture(autouse=True)
def nothing_is_told(caplog: pytest.LogCaptureFixture, kind: Kind) -> Iterator[None]:
    """No key, prompt or answer reaches the log, at the level of a person who looks for a fault."""
    caplog.set_level(logging.DEBUG)
    yield
    told = "\n".join(f"{record.getMessage()} {record.exc_info}" for record in caplog.get_records("call"))
    for secret in (kind.key, PROMPT, ANSWER):
        assert secret not in told


def failed(
    kind: Kind, server: ProtocolServer, asked: Question | None = None, timeout_s: float = 20.0, **timeouts: float
) -> ModelError:
    with pytest.raises(ModelError) as told:
        kind.provider(server.base_url, **timeouts).ask(asked or question(), timeout_s, NOT_CANCELLED)
    error = told.value
    assert error.provider == kind.name
    # Not even as the cause: whoever prints the chain would print the headers of the request.
    assert (error.__cause__, error.__context__) == (None, None)
    printed = "".join(traceback.format_exception(error)) + repr(error) + repr(vars(error))
    for secret in (kind.key, PROMPT, ANSWER):
        assert secret not in printed
    return error


@pytest.mark.parametrize(
    ("status", "word", "trouble"),
    [
        (400, "invalid_request_error", Trouble.rejected),
        (401, "authentication_error", Trouble.unauthorised),
        (402, "billing_error", Trouble.unauthorised),
        (403, "permission_error", Trouble.unauthorised),
        (404, "not_found_error", Trouble.rejected),
        (413, "request_too_large", Trouble.too_long),
        (422, "unprocessable", Trouble.rejected),
        (429, "rate_limit_error", Trouble.rate_limited),
        (500, "api_error", Trouble.failing),
        (502, "bad_gateway", Trouble.failing),
        (503, "unavailable", Trouble.overloaded),
        (504, "timeout_error", Trouble.failing),
        (529, "overloaded_error", Trouble.overloaded),
    ],
)
def test_a_status_is_told_in_a_word(
    kind: Kind, server: ProtocolServer, status: int, word: str, trouble: Trouble
) -> None:
    server.next(kind.error(status, word, f"{kind.key} {PROMPT}"))
    error = failed(kind, server)
    assert error.trouble is trouble
    assert f"status {status}" in str(error)
    assert word in str(error)
    assert error.request_id == kind.request_id
    assert len(server.asked) == 1, "the SDK asked again by itself"


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "17"}, 17.0),
        ({"retry-after": "0.5"}, 0.5),
        ({"date": "Wed, 21 Oct 2026 07:28:00 GMT", "retry-after": "Wed, 21 Oct 2026 07:29:30 GMT"}, 90.0),
        ({"date": "Wed, 21 Oct 2026 07:28:00 GMT", "retry-after": "Wed, 21 Oct 2026 07:20:00 GMT"}, 0.0),
        ({"retry-after-ms": "1500", "retry-after": "2"}, 1.5),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "-3"}, None),
        ({"retry-after": "nan"}, None),
        ({}, None),
    ],
)
def test_the_wish_to_be_left_alone_is_kept(
    kind: Kind, server: ProtocolServer, headers: dict[str, str], seconds: float | None
) -> None:
    server.next(kind.error(429, "rate_limit_error", headers=headers))
    assert failed(kind, server).retry_after_s == seconds


def test_a_question_that_is_too_long_is_known_by_the_message(kind: Kind, server: ProtocolServer) -> None:
    message = "prompt is too long: 205118 tokens > 200000 maximum"
    server.next(kind.error(400, "invalid_request_error", message))
    assert failed(kind, server).trouble is Trouble.too_long


def test_an_error_page_is_no_answer(kind: Kind, server: ProtocolServer) -> None:
    server.next(
        Reply((b"<html>" + PROMPT.encode(),), 502, {"content-type": "text/html"}),
        Reply((b"<html>login",), 200, {"content-type": "text/html"}),
    )
    assert failed(kind, server).trouble is Trouble.failing
    assert failed(kind, server).trouble is Trouble.malformed


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ({"detail": "tool_choice is not supported"}, '"tool_choice is not supported"'),
        (
            {"detail": [{"loc": ["body", "seed"], "msg": "unexpected value"}, {"msg": "too large"}]},
            '"unexpected value; too large"',
        ),
    ],
)
def test_what_a_refusal_by_fastapi_says_is_shown(
    kind: Kind, server: ProtocolServer, body: dict[str, object], told: str
) -> None:
    server.next(Reply((json.dumps(body).encode(),), 400, {"content-type": "application/json"}))
    error = failed(kind, server)
    assert error.trouble is Trouble.rejected
    assert told in str(error)


def test_a_redirect_is_not_followed(kind: Kind, server: ProtocolServer) -> None:
    server.next(Reply((), 307, {"location": f"{server.base_url}/elsewhere"}))
    error = failed(kind, server)
    assert error.trouble is Trouble.rejected
    assert len(server.asked) == 1


def test_nobody_there(kind: Kind) -> None:
    with kind.serve() as gone:
        pass
    error = failed(kind, gone)
    assert error.trouble is Trouble.unreachable
    assert "could not be reached" in str(error)
    assert "127.0.0.1" not in str(error)  # it reaches comments


@pytest.mark.parametrize("count", [0, 1, 4])
def test_a_connection_that_is_reset(kind: Kind, server: ProtocolServer, count: int) -> None:
    server.next(Reply(kind.text(ANSWER), reset_after=count))
    assert failed(kind, server, question(None)).trouble is Trouble.unreachable


@pytest.mark.parametrize("count", [0, 1, 4])
def test_a_connection_that_ends_too_early(kind: Kind, server: ProtocolServer, count: int) -> None:
    server.next(Reply(kind.text(ANSWER), drop_after=count))
    assert failed(kind, server, question(None)).trouble is Trouble.unreachable


def test_a_stream_that_ends_without_its_end(kind: Kind, server: ProtocolServer) -> None:
    server.next(Reply(kind.text(ANSWER)[:3]))
    error = failed(kind, server, question(None))
    assert error.trouble is Trouble.unreachable
    assert "broke off" in str(error)


def test_no_first_byte(kind: Kind, server: ProtocolServer) -> None:
    server.next(Reply(hang_before_headers=True))
    began = time.monotonic()
    error = failed(kind, server, quiet_s=0.4)
    assert error.trouble is Trouble.overdue
    assert "nothing came for 0.4 s" in str(error)
    assert time.monotonic() - began < 5
    assert server.asked[0].left.wait(5)


def test_a_stall_in_mid_stream_ends_with_what_was_paid(kind: Kind, server: ProtocolServer) -> None:
    server.next(Reply(kind.text(ANSWER), hang_after=2))
    asked = question(None, most_tokens=500, thinking_tokens=300)
    error = failed(kind, server, asked, quiet_s=0.4)
    assert error.trouble is Trouble.overdue
    # The one has said what it read, of the other it is known by the length of the question; thought may have been had in silence.
    read = 100 if kind.name == "anthropic" else most_of(asked, None).input_tokens
    assert error.usage.input_tokens == read
    assert 300 <= error.usage.output_tokens <= 300 + len(ANSWER)
    assert server.asked[0].left.wait(5)


def test_bytes_that_trickle_do_not_move_the_end(kind: Kind, server: ProtocolServer) -> None:
    server.next(Reply((kind.text(ANSWER)[0],) + (b": still there\n\n",) * 3, hang_after=4))
    began = time.monotonic()
    error = failed(kind, server, question(None), timeout_s=0.6)
    assert error.trouble is Trouble.overdue
    assert "no whole answer within 0.6 s" in str(error)
    assert time.monotonic() - began < 5


@pytest.mark.parametrize("count", [None, 1, 3])
def test_cancelling_ends_the_request_even_while_nothing_comes(
    kind: Kind, server: ProtocolServer, count: int | None
) -> None:
    hanging = Reply(hang_before_headers=True) if count is None else Reply(kind.text(ANSWER), hang_after=count)
    server.next(hanging)
    cancelled = threading.Event()
    timer = threading.Timer(0.3, cancelled.set)
    timer.start()
    began = time.monotonic()
    with pytest.raises(ModelError) as told:
        kind.provider(server.base_url).ask(question(None), 60.0, cancelled.is_set)
    timer.join()
    assert told.value.trouble is Trouble.cancelled
    assert time.monotonic() - began < 5
    assert server.asked[0].left.wait(5), "the request went on"


def test_what_is_cancelled_before_is_not_sent(kind: Kind, server: ProtocolServer) -> None:
    with pytest.raises(ModelError) as told:
        kind.provider(server.base_url).ask(question(), 60.0, lambda: True)
    assert told.value.trouble is Trouble.cancelled
    assert server.asked == []


@pytest.mark.parametrize(
    "piece",
    [
        b"event: content_block_delta\ndata: {not json\n\n",
        b"event: content_block_delta\ndata: [1, 2]\n\n",
        b'event: content_block_delta\ndata: "text"\n\n',
        b"event: content_block_delta\ndata: 7\n\n",
        b'event: content_block_delta\ndata: {"type": "content_block_delta", "choices": 3}\n\n',
        b'event: content_block_delta\ndata: {"type": "content_block_delta", "index": 0, "delta": 1, "choices": [1]}\n\n',
        b'event: message_start\ndata: {"type": "message_start", "choices": [{"index": 0, "delta": {"content": 4}}]}\n\n',
        b'event: x\ndata: {"type": "content_block_delta", "choices": ' + b"[" * 10_000 + b"]" * 10_000 + b"}\n\n",
        b"event: content_block_delta\ndata: \xff\xfe\n\n",
    ],
    ids=["no json", "list", "string", "number", "no fields", "wrong fields", "wrong start", "deep", "no utf-8"],
)
def test_events_that_are_none(kind: Kind, server: ProtocolServer, piece: bytes) -> None:
    whole = kind.text(ANSWER)
    server.next(Reply((whole[0], piece, *whole[1:])))
    assert failed(kind, server, question(None)).trouble is Trouble.malformed


def test_what_is_no_http_at_all(kind: Kind) -> None:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as listener:

        def talk() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(b"SSH-2.0-OpenSSH_9.6\r\n\r\n")
                connection.recv(65536)

        thread = threading.Thread(target=talk, daemon=True)
        thread.start()
        address = ProtocolServer(f"http://127.0.0.1:{listener.getsockname()[1]}", lambda _: None, lambda _: Reply())
        assert failed(kind, address).trouble is Trouble.malformed
        thread.join(5)


COMPRESSED: dict[str, tuple[str, Callable[[bytes], bytes]]] = {
    "gzip": ("gzip", gzip.compress),
    "old name": ("X-Gzip", gzip.compress),
    "members": ("gzip", lambda text: gzip.compress(text[:99]) + gzip.compress(text[99:])),
    "deflate": ("deflate", zlib.compress),
    "deflate without a header": ("deflate", lambda text: zlib.compress(text, wbits=-zlib.MAX_WBITS)),
    "named and empty": ("", lambda text: text),
}


@pytest.mark.parametrize("cut", [1, 7, 10_000])
@pytest.mark.parametrize("form", COMPRESSED)
def test_answer_that_is_compressed_unasked_is_read(kind: Kind, server: ProtocolServer, form: str, cut: int) -> None:
    encoding, compress = COMPRESSED[form]
    whole = compress(b"".join(kind.calls(("propose", json.dumps(DATA)))))
    pieces = tuple(whole[at : at + cut] for at in range(0, len(whole), cut))
    server.next(Reply(pieces, headers={"content-encoding": encoding}))
    assert kind.provider(server.base_url).ask(question(), 20.0, NOT_CANCELLED).data == DATA
    assert server.asked[0].headers["accept-encoding"] == "identity"


def test_few_bytes_that_unfold_without_end_are_ended(kind: Kind, server: ProtocolServer) -> None:
    server.next(Reply((gzip.compress(b"data: " + b"x" * 200_000_000),), headers={"content-encoding": "gzip"}))
    error = failed(kind, server)
    assert error.trouble is Trouble.malformed
    assert "larger than" in str(error)


@pytest.mark.parametrize(("encoding", "body"), [("br", b"x"), ("gzip", b"this is no gzip")])
def test_other_compression_is_refused(kind: Kind, server: ProtocolServer, encoding: str, body: bytes) -> None:
    server.next(Reply((body,), headers={"content-encoding": encoding}))
    error = failed(kind, server)
    assert error.trouble is Trouble.malformed
    assert "compressed" in str(error)


@pytest.mark.parametrize(
    "media_type", ["application/json", "application/vnd.relay+json", "text/plain; charset=utf-8", ""]
)
def test_answer_that_is_no_stream_is_read_whole(kind: Kind, server: ProtocolServer, media_type: str) -> None:
    server.next(Reply((kind.whole("propose", DATA),), headers={"content-type": media_type}))
    answer = kind.provider(server.base_url).ask(question(), 20.0, NOT_CANCELLED)
    assert (answer.data, answer.usage) == (DATA, kind.usage)


@pytest.mark.parametrize(
    ("body", "trouble"),
    [
        ({"error": {"type": "overloaded_error", "message": "m"}}, Trouble.overloaded),
        ({"error": {"type": "invalid_request_error", "message": "no such model"}}, Trouble.rejected),
        ({"choices": 3, "content": 3}, Trouble.malformed),
        ({}, Trouble.unreachable),
        ([], Trouble.malformed),
    ],
)
def test_whole_answer_that_is_none_ends_in_one_error(
    kind: Kind, server: ProtocolServer, body: object, trouble: Trouble
) -> None:
    server.next(Reply((json.dumps(body).encode(),), headers={"content-type": "application/json"}))
    assert failed(kind, server).trouble is trouble


@pytest.mark.parametrize(
    ("message", "told"),
    [
        ("max_tokens: 44000 > 8192, the limit of this model", '"max_tokens: 44000 ? 8192, the limit of this model"'),
        ("Unsupported parameter: 'reasoning_effort'", "\"Unsupported parameter: 'reasoning_effort'\""),
        ("see https://relay.internal:8443/x?key=1 or 10.0.0.7:80", '"see (address) or (address)"'),
        ("relay.internal:8443 says no", '"(address) says no"'),
        (f"{PROMPT}{PROMPT}", ': "..."'),
        (f"@mona `x` <b> [a](b) #1 {'y' * 400}", "\"?mona 'x' ?b? ?a?(b) ?1 y"),
    ],
)
def test_request_that_is_not_taken_is_told_with_what_the_provider_said(
    kind: Kind, server: ProtocolServer, message: str, told: str
) -> None:
    server.next(kind.error(400, "invalid_request_error", message))
    error = failed(kind, server)
    assert told in str(error)
    assert len(str(error)) < 450


@pytest.mark.parametrize(
    "body",
    [
        {"error": "no tools here"},
        {"errors": [{"message": "no tools here", "code": 7003}]},
        [{"error": {"code": 400, "message": "no tools here", "status": "INVALID_ARGUMENT"}}],
        {"detail": {"message": "no tools here"}},
        {"error": {"message": "Provider returned error", "metadata": {"raw": "no tools here"}}},
        "<html><head><style>h1 {}</style></head><body><h1>400</h1><p>no tools here</p></body></html>",
    ],
    ids=["string", "errors", "list", "detail", "relay", "page"],
)
def test_what_was_wrong_is_found_wherever_a_server_says_it(kind: Kind, server: ProtocolServer, body: object) -> None:
    text, media_type = (body, "text/html") if isinstance(body, str) else (json.dumps(body), "application/json")
    server.next(Reply((text.encode(),), 400, {"content-type": media_type}))
    told = str(failed(kind, server))
    assert 'no tools here"' in told
    assert "<" not in told
    assert "h1" not in told


def test_what_a_provider_repeats_of_key_and_question_is_not_told(kind: Kind, server: ProtocolServer) -> None:
    server.next(kind.error(400, "invalid_request_error", f"{kind.key} cannot say: {PROMPT}, as the limit is 5"))
    assert str(failed(kind, server)).endswith(' cannot say: ..., as the limit is 5"')


@pytest.mark.parametrize(
    ("calls", "fault"),
    [
        ((), "does not call the tool propose"),
        ((("other", json.dumps(DATA)),), "calls another tool than propose"),
        ((("propose", json.dumps(DATA)),) * 2, "calls 2 tools"),
        ((("propose", '{"path": "a", "te'),), "it is not JSON"),
        ((("propose", "[]"),), "it is not a JSON object"),
        ((("propose", '{"path": "a"}'),), "at $ there is no text"),
        ((("propose", json.dumps(DATA | {"run": ANSWER})),), "a field that the form does not have"),
        ((("propose", json.dumps(DATA | {"text": ANSWER * 100})),), "at $.text maxLength 1000"),
        ((("propose", '{"path": ' + "[" * 10_000 + "]" * 10_000 + "}"),), "nested more than"),
        ((("propose", json.dumps(DATA | {"text": "x" * 3_000_000})),), "longer than 2000000 characters"),
    ],
    ids=["none", "other", "two", "cut", "list", "missing", "extra", "long", "deep", "huge"],
)
def test_a_tool_that_is_not_called_as_the_form_says(
    kind: Kind, server: ProtocolServer, calls: tuple[tuple[str, str], ...], fault: str
) -> None:
    server.next(Reply(kind.calls(*calls) if calls else kind.text("Here is the file: ...")))
    error = failed(kind, server)
    assert error.trouble is Trouble.malformed
    assert fault in str(error)
    if "longer" not in fault:
        assert error.usage == kind.usage


def test_an_answer_without_a_word_is_none(kind: Kind, server: ProtocolServer) -> None:
    server.next(Reply(kind.text(" \n")))
    error = failed(kind, server, question(None))
    assert error.trouble is Trouble.malformed
    assert "empty" in str(error)


def test_an_endless_answer_is_ended(kind: Kind, server: ProtocolServer) -> None:
    whole = kind.text("x" * 30_000)
    server.next(Reply((whole[0], *(whole[1:-3] * 100), *whole[-3:])))
    error = failed(kind, server, question(None))
    assert error.trouble is Trouble.malformed
    assert "longer than" in str(error)


def test_an_event_without_an_end_is_ended(kind: Kind, server: ProtocolServer) -> None:
    server.next(Reply((kind.text(ANSWER)[0], b"data: ", *(b"x" * 500_000,) * 40)))
    error = failed(kind, server, question(None))
    assert error.trouble is Trouble.malformed
    assert "a piece of the answer is larger than 8 MiB" in str(error)


def test_an_answer_that_reached_its_limit_is_told_with_the_limit(kind: Kind, server: ProtocolServer) -> None:
    server.next(Reply(kind.stopped(kind.truncated)))
    error = failed(kind, server, question(None, most_tokens=777))
    assert error.trouble is Trouble.truncated
    assert "777 tokens" in str(error)
    assert error.usage == kind.usage


def test_a_model_that_declines(kind: Kind, server: ProtocolServer) -> None:
    server.next(Reply(kind.stopped(kind.refused)))
    error = failed(kind, server)
    assert error.trouble is Trouble.refused
    assert error.usage == kind.usage


def test_a_form_without_a_question(kind: Kind, server: ProtocolServer) -> None:
    with pytest.raises(ModelError) as told:
        kind.provider(server.base_url).ask(Question("x", (), (), FORM), 5.0, NOT_CANCELLED)
    assert told.value.trouble is Trouble.rejected


THINKS = question(None, most_tokens=500, thinking_tokens=300)
READ = most_of(THINKS, None).input_tokens


@pytest.mark.parametrize("count", [0, 1, 2, 4])
def test_stream_that_ends_early_costs_what_was_read_and_all_that_may_have_been_thought(
    kind: Kind, server: ProtocolServer, count: int
) -> None:
    server.next(Reply(kind.text(ANSWER), drop_after=count), Reply(kind.text(ANSWER)[:count]))
    for usage in (failed(kind, server, THINKS).usage, failed(kind, server, THINKS).usage):
        assert usage.input_tokens in (100, READ)
        assert 300 <= usage.output_tokens <= 300 + len(ANSWER)


def test_error_in_mid_stream_costs_what_came_before_it(kind: Kind, server: ProtocolServer) -> None:
    told = {"type": "error", "error": {"type": "overloaded_error", "message": "m"}}
    server.next(Reply((*kind.text(ANSWER)[:3], f"event: error\ndata: {json.dumps(told)}\n\n".encode())))
    error = failed(kind, server, THINKS)
    assert error.trouble is Trouble.overloaded
    assert error.usage.input_tokens in (100, READ)
    assert 300 < error.usage.output_tokens <= 300 + len(ANSWER)


@pytest.mark.parametrize(("word", "billed"), [("overloaded_error", False), ("api_error", True)])
def test_error_in_place_of_a_stream_costs_nothing_only_where_the_provider_had_no_time_for_it(
    kind: Kind, server: ProtocolServer, word: str, billed: bool
) -> None:
    told = {"type": "error", "error": {"type": word, "message": "m"}}
    server.next(Reply((f"event: error\ndata: {json.dumps(told)}\n\n".encode(),)))
    assert (failed(kind, server, THINKS).usage.input_tokens > 0) is billed


def test_refusal_that_nobody_counted_costs_what_it_said(kind: Kind, server: ProtocolServer) -> None:
    pieces = [piece.replace(b'"output_tokens": 42', b'"x": 1') for piece in kind.stopped(kind.refused)]
    server.next(Reply(tuple(piece for piece in pieces if b'"completion_tokens"' not in piece)))
    error = failed(kind, server, THINKS)
    assert error.trouble is Trouble.refused
    assert error.usage.input_tokens in (100, READ)
    assert error.usage.output_tokens >= 300


def test_filter_that_read_the_question_is_billed_for_it_and_a_busy_server_is_not(
    kind: Kind, server: ProtocolServer
) -> None:
    server.next(kind.error(400, "content_filter"), kind.error(529, "overloaded_error"))
    assert failed(kind, server, THINKS).usage.input_tokens == READ
    assert failed(kind, server, THINKS).usage.input_tokens == 0
