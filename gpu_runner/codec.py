"""The form of a frame between parent and child: a fixed header, bounded JSON, tensors as raw bytes. Pure; never pickle.

A frame is ``HEADER | JSON | inline bytes``; tensors larger than ``INLINE_BYTES`` follow out of band (see ``channel``), and the
frame only says how large they are. Every length is checked against a limit before anything is allocated for it.
"""

from __future__ import annotations

import json
import math
import re
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from gpu_runner.buffers import ITEM_BYTES, Buffer, span_bytes
from gpu_runner.errors import ProtocolError

MAGIC = b"KSmF"
VERSION = 1
HEADER = struct.Struct(">4sHH16sIQ")  # magic, version, kind, nonce, bytes of JSON, bytes inline
NONCE_BYTES = 16
MAX_JSON_BYTES = 8 * 2**20
MAX_JSON_VALUES = 500_000
MAX_JSON_DEPTH = 64
MAX_STRING_CHARS = 2**20
MAX_KEY_CHARS = 4096
MAX_TENSORS = 1024
MAX_TENSOR_BYTES = 2**36
INLINE_BYTES = 2**20  # a tensor up to this size travels in the frame
MAX_INLINE_BYTES = MAX_TENSORS * INLINE_BYTES


# What no text of a program has: halves of surrogate pairs, and the character that a database refuses.
_UNPRINTABLE = re.compile("[\ud800-\udfff\0]")
_SHORT_STRING = re.compile(rb'"[^"]{0,%d}"' % MAX_KEY_CHARS)
_LONG_NUMBER = re.compile(rb"\d{20}")  # may be 2^64
_INNERMOST = re.compile(rb"\[\]|\{\}")
_NO_BRACKETS = bytes(byte for byte in range(256) if byte not in b"[]{}")
_ENCODED = re.compile(rb"\\u(?:[dD][89a-fA-F]|0000)|\xed[\xa0-\xbf]")


@dataclass(frozen=True)
class Bounds:
    """What a frame may hold beyond the fixed limits; the parent has narrower ones for what a child answers."""

    tensor_bytes: int  # of all tensors
    expanded: bool = True  # tensors may have more elements than memory, by strides of 0 or ones that overlap
    printable: bool = False  # halves of surrogate pairs and NUL become replacement characters


OWN = Bounds(2**37)


class FrameKind(IntEnum):
    plan = 1  # parent to child: how to lock itself in
    ready = 2  # child to parent: locked in
    call = 3  # parent to child
    answer = 4  # child to parent
    error = 5  # child to parent: the handler raised


@dataclass(frozen=True)
class Header:
    """The fixed part of a frame."""

    kind: FrameKind
    nonce: bytes
    json_bytes: int
    inline_bytes: int


@dataclass(frozen=True)
class Shape:
    """One tensor as the frame describes it, before its bytes are there."""

    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int
    nbytes: int

    @property
    def inline(self) -> bool:
        """Whether its bytes are in the frame."""
        return self.nbytes <= INLINE_BYTES

    def filled(self, data: bytes | bytearray | memoryview) -> Buffer:
        return Buffer(self.dtype, self.shape, self.strides, data, self.offset)


def encode(kind: FrameKind, nonce: bytes, meta: dict[str, Any], tensors: Sequence[Buffer]) -> bytes:
    """A frame's header, JSON and inline bytes; large tensors are left to the channel.

    Raises:
        ValueError: it would be beyond the limits, or ``meta`` has no JSON form.
    """
    table = [[t.dtype, list(t.shape), list(t.strides), t.offset] for t in tensors]
    try:
        text = json.dumps({"meta": meta, "tensors": table}, allow_nan=True).encode()
    except (TypeError, RecursionError) as error:
        raise ValueError(f"the frame's metadata has no JSON form: {error}") from error
    sizes = [memoryview(t.data).nbytes for t in tensors]
    if len(text) > MAX_JSON_BYTES or len(sizes) > MAX_TENSORS or sum(sizes) > OWN.tensor_bytes:
        raise ValueError("the frame is larger than its limits")
    inline = [memoryview(t.data).cast("B") for t, size in zip(tensors, sizes, strict=True) if 0 < size <= INLINE_BYTES]
    header = HEADER.pack(MAGIC, VERSION, kind, nonce, len(text), sum(part.nbytes for part in inline))
    return b"".join([header, text, *inline])


def parse_header(data: bytes, expected_nonce: bytes | None = None) -> Header:
    """Read the fixed part of a frame; None as nonce takes any.

    Raises:
        ProtocolError: it is no frame of this protocol, not for this call, or too large.
    """
    if len(data) != HEADER.size:
        raise ProtocolError("the frame ends within its header")
    magic, version, kind, nonce, json_bytes, inline_bytes = HEADER.unpack(data)
    if magic != MAGIC or version != VERSION:
        raise ProtocolError("what came is no frame")
    if expected_nonce is not None and nonce != expected_nonce:
        raise ProtocolError("the frame does not answer this call")
    if kind not in set(FrameKind):
        raise ProtocolError(f"unknown kind of frame {kind}")
    if json_bytes > MAX_JSON_BYTES or inline_bytes > MAX_INLINE_BYTES:
        raise ProtocolError("the frame is larger than its limits")
    return Header(FrameKind(kind), nonce, json_bytes, inline_bytes)


def parse_body(header: Header, text: bytes, bounds: Bounds = OWN) -> tuple[dict[str, Any], tuple[Shape, ...]]:
    """Read a frame's JSON: the metadata and the tensors it announces.

    Raises:
        ProtocolError: it is no such JSON, or a tensor is impossible or too large.
    """
    try:
        body = _parsed(text, bounds.printable)
        meta, table = body["meta"], body["tensors"]
        if not isinstance(meta, dict) or not isinstance(table, list) or len(table) > MAX_TENSORS:
            raise ProtocolError("the frame's metadata is not of its form")
        shapes = tuple(_shape(row, bounds.expanded) for row in table)
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise ProtocolError(f"the frame's metadata cannot be read: {type(error).__name__}") from error
    if sum(s.nbytes for s in shapes) > bounds.tensor_bytes:
        raise ProtocolError("the tensors are larger than the limits")
    if sum(s.nbytes for s in shapes if s.inline) != header.inline_bytes:
        raise ProtocolError("the frame's length does not fit its tensors")
    return meta, shapes


def _parsed(text: bytes, printable: bool) -> Any:
    """Parse JSON whose size, depth, strings and numbers are bounded; its number of values is, before any is made.

    Raises:
        ProtocolError: it is beyond a bound. ValueError, RecursionError: it is no JSON.
    """
    if sum(text.count(mark) for mark in (b",", b"[", b"{")) > 2 * MAX_JSON_VALUES:
        raise ProtocolError("the frame's metadata has too many values")
    body = json.loads(text)
    if not _is_plain(text):
        _check(body)
    return _printable(body) if printable and _ENCODED.search(text) else body


def _is_plain(text: bytes) -> bool:
    """Whether JSON is within every bound by its text alone, which is seen ten times as fast as by its values."""
    if b"\\" in text:  # a quote may not be the end of a string
        return False
    bare = _SHORT_STRING.sub(b"", text)
    brackets = bare.translate(None, _NO_BRACKETS)
    values = 2 * (bare.count(b",") + len(brackets))
    for _ in range(MAX_JSON_DEPTH):
        if not brackets:
            break
        brackets = _INNERMOST.sub(b"", brackets)
    return not (brackets or values > MAX_JSON_VALUES or b'"' in bare or _LONG_NUMBER.search(bare))


def _check(body: Any) -> None:
    left, values = [(body, 0)], 0
    while left:
        item, depth = left.pop()
        inner = [*item.keys(), *item.values()] if isinstance(item, dict) else item if isinstance(item, list) else ()
        values += len(inner)
        if depth > MAX_JSON_DEPTH or values > MAX_JSON_VALUES:
            raise ProtocolError("the frame's metadata is nested too deeply, or has too many values")
        if isinstance(item, dict) and any(len(key) > MAX_KEY_CHARS for key in item):
            raise ProtocolError("a key of the frame's metadata is too long")
        if isinstance(item, str) and len(item) > MAX_STRING_CHARS:
            raise ProtocolError("a string of the frame's metadata is too long")
        if isinstance(item, int) and abs(item) >= 2**64:
            raise ProtocolError("a number of the frame's metadata is too large")
        left += [(value, depth + 1) for value in inner if isinstance(value, dict | list | str | int)]


def _printable(value: Any) -> Any:
    if isinstance(value, str):
        return _UNPRINTABLE.sub("\ufffd", value)
    if isinstance(value, list):
        return [_printable(item) for item in value]
    if isinstance(value, dict):
        return {_printable(key): _printable(item) for key, item in value.items()}
    return value


def _shape(row: Any, expanded: bool) -> Shape:
    dtype, shape, strides, offset = row
    if not isinstance(dtype, str) or not isinstance(shape, list) or not isinstance(strides, list):
        raise ProtocolError("a tensor's description is not of its form")
    nbytes = span_bytes(dtype, shape, strides, offset)
    # An expanded tensor spans few bytes and has many elements; whoever reads it will want them all.
    elements = math.prod(max(size, 1) for size in shape)
    if nbytes > MAX_TENSOR_BYTES or elements * ITEM_BYTES[dtype] > MAX_TENSOR_BYTES:
        raise ProtocolError("a tensor is larger than the limit")
    if not expanded and 0 not in shape and elements * ITEM_BYTES[dtype] > nbytes:
        raise ProtocolError("a tensor has more elements than memory")
    return Shape(dtype, tuple(shape), tuple(strides), offset, nbytes)
