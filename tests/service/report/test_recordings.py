"""What a recording took, as the command line tells it."""

# ruff: noqa: E501 (tables stand here as they are printed)
from __future__ import annotations

from inline_snapshot import snapshot

from service.report.console import recording_section
from tests.workers.models.test_recording import QUESTION
from tests.workers.models.test_recording_use import ASKED, DECLINED, PRICE, REPAIRED
from workers.models.recording import use_of


def test_each_request_has_a_row_and_each_purpose_a_sum() -> None:
    assert recording_section(use_of([ASKED, REPAIRED, DECLINED], {})) == snapshot("""\
| question | purpose | provider | model | outcome | tokens in | from the cache | to the cache | tokens out | seconds | dollars | characters | of which stable | answered |
| --- | --- | --- | --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |
| a94aa2f599b0 | `generate` | `anthropic` | `model-1` | `overloaded` | 0 | 0 | 0 | 0 | – | – | 148 | 135 | – |
| a94aa2f599b0 | `generate` | `anthropic` | `model-1` | `answered` | 1 | 3 | 4 | 2 | 1.5 | 0.0000 | 148 | 135 | 24 |
| 873bdd666f87 | `repair` | `openai` | `model-2` | `answered` | 10 | 0 | 0 | 20 | 2.5 | – | 140 | 135 | 24 |
| ecc10294c7a1 | `generate` | `anthropic` | – | `refused` | 7 | 0 | 0 | 1 | – | – | 137 | 135 | – |

In sums:

| purpose | questions | requests | tokens in | from the cache | to the cache | tokens out | seconds | dollars | characters | of which stable | answered |
| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |
| `generate` | 2 | 3 | 8 | 3 | 4 | 3 | 1.5 | 0.0000 | 285 | 270 | 24 |
| `repair` | 1 | 1 | 10 | 0 | 0 | 20 | 2.5 | – | 140 | 135 | 24 |
| all | 3 | 4 | 18 | 3 | 4 | 23 | 4.0 | 0.0000 | 425 | 405 | 48 |

Tokens are the providers' counts; tokens out include thinking, and tokens in exclude cache reads and writes. Stable characters are the prefix that a question shares with others of the job. 1 question of 3 allowed up to 2,000 tokens of thinking. 3 requests without a price are not in the dollars.\
""")


def test_what_was_priced_in_whole_needs_no_word_about_prices() -> None:
    told = recording_section(use_of([REPAIRED], {"model-2": PRICE}))
    assert "0.0003" in told
    assert "price" not in told


def test_without_any_price_the_setting_is_named() -> None:
    assert "No model has a price: set `KERNELSMITH_MODEL_PRICES`." in recording_section(use_of([DECLINED], {}))


def test_an_empty_recording_is_told() -> None:
    assert recording_section(use_of([], {})) == "The recording has no questions."


def test_no_word_of_a_question_or_an_answer_is_told() -> None:
    told = recording_section(use_of([ASKED], {}))
    assert QUESTION.system[0].text not in told
    assert "softmax" not in told
