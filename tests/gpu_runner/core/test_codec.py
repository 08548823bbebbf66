"""The frame codec and the channel: what is sent arrives, and nothing hostile is believed."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gpu_runner import codec
from gpu_runner.buffers import ITEM_BYTES, Buffer, span_bytes
from gpu_runner.channel import Channel, Closed, Deadline, Overdue
from gpu_runner.codec import HEADER, FrameKind
from gpu_runner.errors import ProtocolError

NONCE = bytes(range(16))

json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


@st.composite
def buffers(draw: st.DrawFn) -> Buffer:
    dtype = draw(st.sampled_from(sorted(ITEM_BYTES)))
    shape = tuple(draw(st.lists(st.integers(0, 5), max_size=4)))
    strides = tuple(draw(st.integers(0, 7)) for _ in shape)
    offset = draw(st.integers(0, 9)) if 0 not in shape else 0
    return Buffer(
        dtype,
        shape,
        strides,
        draw(st.binary(min_size=(n := span_bytes(dtype, shape, strides, offset)), max_size=n)),
        offset,
    )


@pytest.fixture
def pair() -> Iterator[tuple[Channel, Channel]]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield Channel(ours), Channel(theirs)


@settings(max_examples=60, deadline=None)
@given(st.dictionaries(st.text(max_size=8), json_values, max_size=4), st.lists(buffers(), max_size=5))
def test_what_is_sent_arrives_unchanged(meta: dict, tensors: list[Buffer]) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        Channel(ours).send(FrameKind.call, NONCE, meta, tensors)
        frame = Channel(theirs).receive(NONCE, Deadline(5))
    assert frame.meta == meta
    assert [(t.dtype, t.shape, t.strides, t.offset, bytes(t.data)) for t in frame.tensors] == [
        (t.dtype, t.shape, t.strides, t.offset, bytes(t.data)) for t in tensors
    ]


@settings(max_examples=60, deadline=None)
@given(st.lists(buffers(), max_size=3), st.data())
def test_a_frame_cut_anywhere_is_no_answer(tensors: list[Buffer], data: st.DataObject) -> None:
    whole = codec.encode(FrameKind.answer, NONCE, {"a": 1}, tensors)
    part = whole[: data.draw(st.integers(0, len(whole) - 1))]
    ours, theirs = socket.socketpair()
    with theirs:
        with ours:
            ours.sendall(part)
        with pytest.raises(Closed):
            Channel(theirs).receive(NONCE, Deadline(5))


@settings(max_examples=200, deadline=None)
@given(st.binary(min_size=HEADER.size, max_size=HEADER.size + 64))
def test_random_bytes_are_no_frame(noise: bytes) -> None:
    with pytest.raises(ProtocolError):
        codec.parse_header(noise[: HEADER.size], NONCE)


def test_a_frame_with_another_nonce_is_refused(pair: tuple[Channel, Channel]) -> None:
    pair[0].send(FrameKind.answer, bytes(16), {}, ())
    with pytest.raises(ProtocolError, match="does not answer this call"):
        pair[1].receive(NONCE, Deadline(5))


@pytest.mark.parametrize(("json_bytes", "inline_bytes"), [(2**32 - 1, 0), (2, 2**63), (codec.MAX_JSON_BYTES + 1, 0)])
def test_hostile_lengths_are_refused_before_anything_is_allocated(json_bytes: int, inline_bytes: int) -> None:
    header = HEADER.pack(codec.MAGIC, codec.VERSION, FrameKind.answer, NONCE, json_bytes, inline_bytes)
    with pytest.raises(ProtocolError, match="larger than its limits"):
        codec.parse_header(header, NONCE)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b'{"meta": {}}',
        b'{"meta": [], "tensors": []}',
        b'{"meta": {}, "tensors": [["float32", [4], [1], 0]]}',  # announces bytes that the header does not
        b'{"meta": {}, "tensors": [["float32", [-4], [1], 0]]}',
        b'{"meta": {}, "tensors": [["float32", [4], [-1], 0]]}',
        b'{"meta": {}, "tensors": [["float32", [1e3], [1], 0]]}',
        b'{"meta": {}, "tensors": [["float32", [true], [1], 0]]}',
        b'{"meta": {}, "tensors": [["complex1024", [4], [1], 0]]}',
        b'{"meta": {}, "tensors": [["float32", [1099511627776], [0], 0]]}',
        b'{"meta": {}, "tensors": [["float32", [281474976710655, 281474976710655], [1, 1], 0]]}',
        b"[" * 100_000,
    ],
)
def test_hostile_descriptions_of_tensors_are_refused(body: bytes) -> None:
    header = codec.Header(FrameKind.answer, NONCE, len(body), 0)
    with pytest.raises(ProtocolError):
        codec.parse_body(header, body)


def _deep(levels: int) -> object:
    value: object = "]["
    for level in range(levels):
        value = [value, "}"] if level % 2 else {"{": value}
    return value


_ends = st.one_of(
    st.integers(codec.MAX_JSON_DEPTH - 2, codec.MAX_JSON_DEPTH + 2).map(_deep),
    st.sampled_from(["k", '"', "\\", "["]).flatmap(
        lambda mark: st.integers(codec.MAX_KEY_CHARS - 2, codec.MAX_KEY_CHARS + 2).map(lambda size: {mark * size: 1})
    ),
    st.integers(2**64 - 2, 2**64 + 2) | st.integers(-(2**64) - 2, 2 - 2**64) | st.floats(),
    st.integers(codec.MAX_JSON_VALUES // 2 - 2, codec.MAX_JSON_VALUES // 2 + 2).map(lambda size: [0] * size),
    json_values,
)


@settings(max_examples=80, deadline=None)
@given(st.lists(_ends, max_size=3), st.booleans())
def test_what_is_within_bounds_by_its_text_is_so_by_its_values(values: list[object], is_ascii: bool) -> None:
    text = json.dumps({"meta": values}, ensure_ascii=is_ascii).encode(errors="surrogatepass")
    if codec._is_plain(text):
        codec._check(json.loads(text))


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(-(2**53), 2**53) | st.text(st.sampled_from("a[{, }]:é"), max_size=40), max_size=50))
def test_the_text_of_usual_metadata_is_enough(values: list[object]) -> None:
    assert codec._is_plain(json.dumps({"meta": {"values": values}}, ensure_ascii=False).encode())


def test_a_large_tensor_travels_as_a_sealed_file(pair: tuple[Channel, Channel]) -> None:
    tensor = torch.arange(2**19, dtype=torch.float64)
    pair[0].send(FrameKind.answer, NONCE, {}, [Buffer.from_torch(tensor)])
    frame = pair[1].receive(NONCE, Deadline(5), writable=True)
    copy = frame.tensors[0].to_torch()
    copy += 1
    assert torch.equal(copy, tensor + 1)
    assert float(tensor[0]) == 0.0


def test_memory_that_its_sender_could_still_change_is_refused() -> None:
    ours, theirs = socket.socketpair()
    size = codec.INLINE_BYTES * 2
    tensor = Buffer("uint8", (size,), (1,), bytes(size))
    with ours, theirs:
        handle = os.memfd_create("loose", os.MFD_ALLOW_SEALING)
        os.truncate(handle, size)
        ours.sendall(codec.encode(FrameKind.answer, NONCE, {}, [tensor]))
        socket.send_fds(ours, [b"t"], [handle])
        os.close(handle)
        with pytest.raises(ProtocolError, match="not sealed"):
            Channel(theirs).receive(NONCE, Deadline(5))


def test_an_ordinary_file_in_place_of_memory_is_refused(tmp_path: os.PathLike[str]) -> None:
    ours, theirs = socket.socketpair()
    tensor = Buffer("uint8", (codec.INLINE_BYTES * 2,), (1,), bytes(codec.INLINE_BYTES * 2))
    with ours, theirs, open("/dev/null", "rb") as file:
        ours.sendall(codec.encode(FrameKind.answer, NONCE, {}, [tensor]))
        socket.send_fds(ours, [b"t"], [file.fileno()])
        with pytest.raises(ProtocolError):
            Channel(theirs).receive(NONCE, Deadline(5))


def test_silence_ends_at_the_deadline(pair: tuple[Channel, Channel]) -> None:
    with pytest.raises(Overdue):
        pair[1].receive(NONCE, Deadline(0.05))


def test_bytes_that_do_not_fit_the_shape_are_refused() -> None:
    with pytest.raises(ValueError, match="needs 16 bytes"):
        Buffer("float32", (4,), (1,), bytes(15))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16", "int64", "bool"])
def test_a_strided_view_keeps_its_strides_and_values(dtype: str) -> None:
    base = torch.randint(0, 2, (6, 8)).to(getattr(torch, dtype))
    view = base[1:5, 1::3].t()
    buffer = Buffer.from_torch(view)
    assert buffer.strides == view.stride()
    assert torch.equal(buffer.to_torch(), view)


def test_empty_and_scalar_tensors_arrive() -> None:
    assert Buffer.from_torch(torch.empty(0, 3)).to_torch().shape == (0, 3)
    assert float(Buffer.from_torch(torch.tensor(2.5)).to_torch()) == 2.5
