"""Whatever a stream says is taken in or refused: no event breaks what listens to it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.workers.models.kinds import question
from workers.models import anthropic_api, openai_api
from workers.models.protocol import ModelError
from workers.models.responses import MOST_CALLS, StreamedAnswer, StreamError, conclude

KEYS = """
type index delta content_block message usage model id name input text partial_json thinking stop_reason choices content
refusal tool_calls function arguments finish_reason input_tokens output_tokens prompt_tokens prompt_tokens_details
cached_tokens completion_tokens cache_read_input_tokens
"""
WORDS = """
message_start content_block_start content_block_delta message_delta message_stop tool_use text text_delta
input_json_delta thinking_delta end_turn max_tokens refusal stop length propose
"""
FIELDS = st.sampled_from(KEYS.split())
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.sampled_from(WORDS.split()) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(FIELDS, inner, max_size=5),
    max_leaves=25,
)
EVENTS = st.lists(st.dictionaries(FIELDS, VALUES, max_size=6), max_size=6)
HEARERS = (anthropic_api.read_event, openai_api.read_chunk)


@pytest.mark.parametrize("hear", HEARERS, ids=["anthropic", "openai"])
@given(events=EVENTS)
def test_no_stream_breaks_its_listener(
    hear: Callable[[StreamedAnswer, Mapping[str, Any]], None], events: list[dict[str, Any]]
) -> None:
    heard = StreamedAnswer()
    for event in events:
        try:
            hear(heard, event)
        except StreamError:
            break
    assert all(isinstance(piece, str) for piece in heard.pieces)
    assert all(isinstance(count, int) and count >= 0 for count in vars(heard.usage).values())
    try:
        found = conclude(heard, question(most_tokens=10), "p")
    except ModelError as error:
        assert (error.__cause__, error.__context__) == (None, None)
    else:
        assert found is not None
        assert set(found) == {"path", "text"}


@pytest.mark.parametrize("hear", HEARERS, ids=["anthropic", "openai"])
def test_calls_without_end_are_refused(hear: Callable[[StreamedAnswer, Mapping[str, Any]], None]) -> None:
    heard = StreamedAnswer()
    with pytest.raises(StreamError, match=f"more than {MOST_CALLS} calls"):
        for index in range(MOST_CALLS + 1):
            block = {"type": "tool_use", "name": "propose", "input": {}}
            call = {"index": index, "function": {"name": "propose"}}
            hear(
                heard,
                {"type": "content_block_start", "index": index, "content_block": block}
                | {"choices": [{"index": 0, "delta": {"tool_calls": [call]}}]},
            )
