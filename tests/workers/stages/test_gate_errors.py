"""What a GPU host says of itself: a sentence, and the end of its log apart from it."""

from __future__ import annotations

import pytest

from gpu_runner.contracts import PRINTED, Action, GpuResult
from workers.contracts import UserFacingError
from workers.stages import gate


def test_what_a_runner_printed_is_a_log_and_no_part_of_the_sentence() -> None:
    error = f"the runner was killed after 660 s and wrote no result{PRINTED}verify: T=1\nverify: T=2"
    with pytest.raises(UserFacingError) as caught:
        gate._payload(GpuResult("r", Action.verify, None, error=error))
    failure = caught.value.failure
    assert failure.message.endswith("prove the candidate: the runner was killed after 660 s and wrote no result")
    assert failure.log == "verify: T=1\nverify: T=2"
