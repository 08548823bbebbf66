"""Changes that leave their places, or weaken a test, are refused with their reason before anything of them is seen by others."""

from __future__ import annotations

import pytest

from tests.adversarial.changes import CHANGES
from workers.authors.llm.protocol import UnusableAnswer


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_is_refused_with_its_reason(name: str) -> None:
    attack = CHANGES[name]
    with pytest.raises(UnusableAnswer) as caught:
        attack.read()
    assert caught.value.fault is attack.fault
    assert attack.words in str(caught.value)
