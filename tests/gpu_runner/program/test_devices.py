"""What host code is told of a device that is not there."""

import ast

from gpu_runner.peaks import GPUS
from gpu_runner.program.devices import Device
from gpu_runner.program.load import load_module

CORES = """
import functools
import triton


@functools.cache
def cores(default=20):
    try:
        return int(triton.runtime.driver.active.utils.get_device_properties(0).get("num_vectorcore", default))
    except Exception:
        return default
"""


def test_the_vector_cores_of_an_npu_are_as_many_as_the_device_has_multiprocessors() -> None:
    for count in (1, 7):
        device = Device(next(iter(GPUS)), count, is_compiling=False)
        _, find = load_module({"m.py": ast.parse(CORES)}, [""], ["m.py"], "m", device)
        assert find("cores")() == count
        assert device.was_asked
