"""Room on the GPU for those who are compared: contenders lie there side by side, and what eager keeps may be most of it."""

from __future__ import annotations

from collections.abc import Mapping

from gpu_runner.benchmark import notes
from gpu_runner.benchmark.contender import Contender
from gpu_runner.benchmark.lineup import BASELINES, CONTROL
from gpu_runner.benchmark.material import Material
from gpu_runner.benchmark.remarks import Remarks

NO_ROOM = "there was no memory for it beside the others"
LESSER = (
    *BASELINES,
    CONTROL,
)  # in the order in which they leave; without a control the noise is taken from one process alone


def prepare(contender: Contender, material: Material) -> None:
    """Have a contender lay out a workload."""
    contender.prepare(material.call, list(material.secrets), material.places)


def make_room(material: Material, contenders: Mapping[str, Contender], remarks: Remarks) -> None:
    """Prepare again who found no memory while the reference was at work; eager makes room, then ``torch.compile``."""
    short = [one for one in contenders.values() if one.short]
    for one in short:
        one.release()
    for one in short:
        _again(one, material)
        while one.short and (other := _lesser(one, contenders)) is not None:
            other.set_aside(NO_ROOM)
            _again(one, material)
        if one.short and one.name in LESSER:
            one.set_aside(NO_ROOM)
    remarks.say(notes.aside(material.workload, [one.name for one in contenders.values() if one.error == NO_ROOM]))


def _again(one: Contender, material: Material) -> None:
    prepare(one, material)
    if one.short:
        one.release()


def _lesser(one: Contender, contenders: Mapping[str, Contender]) -> Contender | None:
    """Give who matters least of those that lie on the GPU and matter less than this contender."""
    less = LESSER[: LESSER.index(one.name)] if one.name in LESSER else LESSER
    there = (contenders[name] for name in less if name in contenders)
    return next((other for other in there if other.error is None), None)
