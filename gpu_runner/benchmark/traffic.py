"""Asks the reference what tensors a workload has, without computing on them."""

from __future__ import annotations

import math
from typing import Any

from gpu_runner.benchmark.roofline import Traffic
from gpu_runner.errors import ChildError
from gpu_runner.verify.cases import Case
from gpu_runner.verify.inputs import DTYPES, shape_of
from gpu_runner.verify.truth import Oracle


def traffic_of(oracle: Oracle, case: Case) -> Traffic | None:
    """Give the bytes of a workload's tensors; None where the reference does not run on shapes alone."""
    if oracle.form.name == "kernelbench":
        asked = oracle.asked(case)
        inputs = [_of_tensor(name, tensor) for name, tensor in asked.inputs.items()]
        meta: dict[str, Any] = {"order": list(asked.form.order), "scalars": dict(asked.scalars)}
    else:
        inputs = [_of_spec(oracle, case, place) for place in range(len(oracle.problem.inputs))]
        scalars = {spec.name: spec.default for spec in oracle.problem.scalars if spec.default is not None}
        meta = {"order": list(oracle.form.order), "scalars": scalars | dict(case.scalars)}
    meta |= {"form": oracle.form.name, "keywords": list(oracle.form.keywords), "inputs": inputs}
    meta["parameters"] = list(oracle.form.parameters)
    try:
        facts = oracle.session.call("traffic", meta).meta
    except ChildError:
        return None
    numbers: dict[str, Any] = {
        name: facts.get(name) for name in ("inputs", "outputs", "upstream", "gradients", "saved")
    }
    if not all(type(number) is int and number >= 0 for number in numbers.values()):
        return None
    whole = facts.get("whole")
    numbers["inputs"] -= _never_read(oracle, case, numbers["outputs"], whole if isinstance(whole, list) else [])
    return Traffic(**numbers, is_loss=bool(facts.get("is_loss")))


def _never_read(oracle: Oracle, case: Case, output_bytes: int, whole: list[Any]) -> int:
    """Give the bytes of tables that need not be read: of one that is only indexed, no more than the output holds."""
    indexed = {spec.high for spec in oracle.problem.inputs if isinstance(spec.high, str)}
    spared = 0
    for spec in oracle.problem.inputs:
        if indexed & set(spec.dims) and spec.name not in whole:
            size = math.prod(shape_of(spec, case.size_of)) * DTYPES[spec.dtype or case.dtype].itemsize
            spared += max(0, size - output_bytes)
    return spared


def _of_spec(oracle: Oracle, case: Case, place: int) -> dict[str, Any]:
    spec = oracle.problem.inputs[place]
    dtype = spec.dtype or case.dtype
    wants = spec.grad and DTYPES[dtype].is_floating_point
    return {"name": spec.name, "shape": list(shape_of(spec, case.size_of)), "dtype": dtype, "grad": wants}


def _of_tensor(name: str, tensor: Any) -> dict[str, Any]:
    dtype = str(tensor.dtype).removeprefix("torch.")
    return {"name": name, "shape": list(tensor.shape), "dtype": dtype, "grad": False}
