"""How a run of a stage is cut short. These are no errors: a stage's own ``except Exception`` must not catch them."""

from __future__ import annotations


class Interruption(BaseException):
    """The run ends here; the stage is run again from its start when it can go on."""


class Suspended(Interruption):
    """The stage waits for a GPU request."""

    def __init__(self, request_id: str) -> None:
        super().__init__(request_id)
        self.request_id = request_id


class Begun(Interruption):
    """What was tried meanwhile waits for a GPU request; the stage goes on with something else."""

    def __init__(self, request_id: str) -> None:
        super().__init__(request_id)
        self.request_id = request_id


class LeaseLost(Interruption):
    """Another worker has the attempt, or the job was cancelled: nothing that this run does may be kept."""
