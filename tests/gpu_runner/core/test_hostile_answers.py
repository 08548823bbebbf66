"""What a child announces is bounded before any of it is read: shapes, labels, JSON, memory files, and text."""

from __future__ import annotations

import fcntl
import json
import os
import socket
import time
from collections.abc import Callable

import pytest
import torch

from gpu_runner import codec
from gpu_runner.buffers import Buffer
from gpu_runner.channel import Channel, Deadline
from gpu_runner.codec import Bounds, FrameKind, Header
from gpu_runner.contracts import Limits
from gpu_runner.errors import ChildError, ProtocolError
from gpu_runner.messages import CallMain
from gpu_runner.session import ChildSession

pytestmark = pytest.mark.every_turn

NONCE = bytes(range(16))
LIMITS = Limits(time_s=60, step_s=20, memory_bytes=2**30)
NARROW = Bounds(2**24, expanded=False)
SEALS = fcntl.F_SEAL_SEAL | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE


def parse(meta: object, table: object = ()) -> object:
    text = json.dumps({"meta": meta, "tensors": table}).encode()
    return codec.parse_body(Header(FrameKind.answer, NONCE, len(text), 0), text, NARROW)


def nested(depth: int) -> object:
    found: object = 1
    for _ in range(depth):
        found = [found]
    return found


@pytest.mark.parametrize(
    "row",
    [
        ["float32", [2**17, 2**17], [0, 0], 0],  # 2^34 elements of four bytes
        ["float32", [4096, 4096], [1, 1], 0],
        ["float32", [2, 2], [0, 1], 0],
        ["uint8", [2**25], [1], 0],
        ["float32", [float("nan")], [1], 0],
        ["float32", [float("inf")], [1], 0],
        ["float32", [-1], [1], 0],
        ["float32", [10**30], [1], 0],
        ["float32", [0, 2**47, 2**47], [1, 1, 1], 0],
        ["float32", [1] * 17, [1] * 17, 0],
        ["float32", [4], [1], -1],
        ["float32", [4], [1], 2**47],
        ["float32", nested(50), [1], 0],
        [10**6, [4], [1], 0],
        ["float32", [4], [1]],
    ],
)
def test_an_impossible_or_expanded_tensor_is_refused_by_its_description(row: list) -> None:
    with pytest.raises(ProtocolError):
        parse({}, [row])


@pytest.mark.parametrize(
    "meta",
    [
        {"a": nested(80)},
        {"a": nested(900)},
        lambda: {"a": [[]] * 600_000},
        lambda: {str(n): 0 for n in range(600_000)},
        {"a": "x" * (2**20 + 1)},
        {"x" * 5000: 1},
        {"a": 10**40},
        {"a": -(10**40)},
    ],
    ids=["deep", "very deep", "many values", "many keys", "long string", "long key", "large", "negative"],
)
def test_metadata_beyond_its_bounds_is_refused(meta: dict | Callable[[], dict]) -> None:
    with pytest.raises(ProtocolError):
        parse(meta() if callable(meta) else meta)  # what is large is made where it is needed


def test_many_empty_lists_are_refused_before_they_are_made() -> None:
    text = b'{"meta": {"a": [' + b"[]," * 2_600_000 + b'[]]}, "tensors": []}'
    begin = time.monotonic()
    with pytest.raises(ProtocolError, match="too many values"):
        codec.parse_body(Header(FrameKind.answer, NONCE, len(text), 0), text)
    assert time.monotonic() - begin < 0.5


def test_characters_that_no_database_takes_are_replaced() -> None:
    meta, _ = codec.parse_body(
        Header(FrameKind.answer, NONCE, 0, 0),
        b'{"meta": {"a\\u0000": ["\\ud800", "\\ud83d\\ude00", "\xed\xa0\x80"]}, "tensors": []}',
        Bounds(0, printable=True),
    )
    assert meta == {"a\ufffd": ["\ufffd", "\U0001f600", "\ufffd"]}


def _memory(size: int, fill: int | None, seals: int = SEALS) -> int:
    handle = os.memfd_create("tensor", os.MFD_ALLOW_SEALING)
    if fill is None:
        os.truncate(handle, size)
    else:
        os.write(handle, bytes(fill))
    fcntl.fcntl(handle, fcntl.F_ADD_SEALS, seals)
    return handle


SIZE = 2 * codec.INLINE_BYTES


@pytest.mark.parametrize(
    "make",
    [
        lambda: _memory(SIZE, None),
        lambda: _memory(SIZE, SIZE - 4096),
        lambda: _memory(SIZE, SIZE + 4096),
        lambda: _memory(SIZE, SIZE, fcntl.F_SEAL_WRITE),
        lambda: _memory(SIZE, SIZE, 0),
        lambda: os.open("/dev/zero", os.O_RDONLY),
        lambda: os.pipe()[0],
    ],
    ids=["sparse", "shorter", "longer", "not sealed against size", "not sealed", "device", "pipe"],
)
def test_a_memory_file_of_another_kind_or_size_is_refused(make: Callable[[], int]) -> None:
    ours, theirs = socket.socketpair()
    tensor = Buffer("uint8", (SIZE,), (1,), bytes(SIZE))
    with ours, theirs:
        ours.sendall(codec.encode(FrameKind.answer, NONCE, {}, [tensor]))
        handle = make()
        socket.send_fds(ours, [b"t"], [handle])
        os.close(handle)
        with pytest.raises(ProtocolError):
            Channel(theirs).receive(NONCE, Deadline(5))


def test_what_is_checked_is_checked_before_a_value_is_read() -> None:
    ours, theirs = socket.socketpair()
    seen: list[tuple[int, ...]] = []

    def check(kind: FrameKind, meta: dict, shapes: tuple[codec.Shape, ...]) -> None:
        seen.extend(shape.shape for shape in shapes)
        raise ProtocolError("not what was asked for")

    with ours, theirs:
        frame = codec.encode(FrameKind.answer, NONCE, {}, [Buffer("uint8", (64,), (1,), bytes(64))])
        ours.sendall(frame[:-64])  # the values never come
        with pytest.raises(ProtocolError, match="asked for"):
            Channel(theirs).receive(NONCE, Deadline(5), check=check)
    assert seen == [(64,)]


FORGE = """import gc, os, time
from gpu_runner import codec
from gpu_runner.buffers import Buffer
from gpu_runner.channel import Channel, Deadline
from gpu_runner.codec import FrameKind as Kind
import sys

def main(state, tensors):
    frame = sys._getframe(2)
    while "channel" not in frame.f_locals:
        frame = frame.f_back
    nonce = frame.f_locals["frame"].header.nonce
    {body}
    time.sleep(30)
"""


@pytest.mark.parametrize(
    "body",
    [
        "frame.f_locals['channel'].send(Kind.answer, nonce, {'reply': {}}, [Buffer('float32', (2**17, 2**17), (0, 0), bytes(4))])",
        "frame.f_locals['channel'].send(Kind.answer, nonce, {'reply': {'a' * 10**7: 1}}, [])",
        "frame.f_locals['channel']._sock.setblocking(True); frame.f_locals['channel']._sock.sendall("
        "codec.HEADER.pack(codec.MAGIC, 1, 4, nonce, 2**31, 0))",
    ],
    ids=["expanded", "long key", "long frame"],
)
def test_a_forged_answer_ends_its_call_alone(body: str) -> None:
    codec_limits = "codec.MAX_JSON_BYTES = 2**30\n    "
    source = FORGE.replace("{body}", codec_limits + body)
    begin = time.monotonic()
    with ChildSession("echo", LIMITS, files={"thing.py": source}) as session, pytest.raises(ProtocolError):
        session.call(CallMain("thing"))
    assert time.monotonic() - begin < 15


def test_an_honest_view_with_more_elements_than_memory_arrives() -> None:
    source = "import torch\ndef main(s, t):\n    return {}, [torch.arange(3.0).expand(4, 3)]\n"
    with ChildSession("echo", LIMITS, files={"thing.py": source}) as session:
        reply = session.call(CallMain("thing"))
    assert torch.equal(reply.tensors[0].to_torch(), torch.arange(3.0).expand(4, 3))


def test_an_errors_text_is_cut_and_printable() -> None:
    source = "def main(s, t):\n    raise ValueError('\\ud800\\0' + 'x' * 10**6)\n"
    with ChildSession("echo", LIMITS, files={"thing.py": source}) as session, pytest.raises(ChildError) as caught:
        session.call(CallMain("thing"))
    assert len(caught.value.message) <= 4000
    caught.value.message.encode()
    assert "\0" not in caught.value.message
