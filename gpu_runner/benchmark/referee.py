"""The reference's child during a contest: it gives the shapes and the true values of a workload, and is restarted where it ends."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from gpu_runner.benchmark import notes
from gpu_runner.benchmark.checks import Rows, bent, prove
from gpu_runner.benchmark.contender import FAILURES
from gpu_runner.benchmark.material import Material, make_material
from gpu_runner.benchmark.notes import Remarks
from gpu_runner.contracts.benchmark import Pass
from gpu_runner.contracts.envelope import RunnerError
from gpu_runner.contracts.problem import Workload
from gpu_runner.messages import OpenDevice
from gpu_runner.verify.cases import Case
from gpu_runner.verify.truth import BadProblem, Oracle

# A child whose reference answers in place of the runner's own code gives values of any form.
UNUSABLE = (RunnerError, BadProblem, KeyError, IndexError, TypeError, ValueError)


@dataclass
class Referee:
    """``reopen`` starts the child again; ``reason`` is why the last workload was left out."""

    oracle: Oracle
    reopen: Callable[[], Oracle]
    passes: tuple[Pass, ...]
    remarks: Remarks
    reason: BaseException | None = None
    _doubtful: bool = False  # whether the child may have ended

    def material(self, case: tuple[Workload, Case]) -> Material | None:
        """What a workload is measured on; None where the reference does not run on it."""
        try:
            self._revive()
            return make_material(self.oracle, *case, self.passes)
        except UNUSABLE as error:
            self.reason, self._doubtful = error, True
            self.remarks.lack(f"{case[0].label()} was left out: the reference does not run on it: {error}")
            return None

    def prove(self, material: Material) -> dict[Pass, Rows]:
        """The true values of each pass's secret rows, for the passes that have any."""
        proved: dict[Pass, Rows] = {}
        try:
            self._revive()
            for timed_pass in material.secrets:
                proved[timed_pass] = prove(self.oracle.session, material, timed_pass)
                self.remarks.add(notes.rough(material.workload, proved[timed_pass].kind))
        except UNUSABLE as error:
            self._doubtful = True
            self.remarks.lack(f"{material.workload.label()}: the results of the timed runs were not checked: {error}")
        return proved

    def bent(self, material: Material, timed_pass: Pass, rows: Rows) -> Rows:
        """The rows widened by what half precision may make of them (``checks.bent``); unchanged where the child cannot be asked."""
        try:
            self._revive()
            return bent(self.oracle.session, material, timed_pass, rows)
        except UNUSABLE:
            self._doubtful = True
            return rows

    def _revive(self) -> None:
        """Start the child again where it has ended.

        Raises:
            RunnerError, BadProblem: it does not start.
        """
        if not self._doubtful:
            return
        try:
            self.oracle.session.call(OpenDevice())
        except FAILURES:
            self.oracle = self.reopen()
        self._doubtful = False
