"""What the doctor says of cuTile."""

from __future__ import annotations

import importlib.metadata

import pytest

from gpu_runner import doctor


@pytest.mark.parametrize(
    ("versions", "is_whole"),
    [
        ({"nvidia-cuda-tileiras": "13.5.37", "nvidia-cuda-nvcc": "13.5.37", "nvidia-nvvm": "13.5.40"}, True),
        ({"nvidia-cuda-tileiras": "13.5.37", "nvidia-cuda-nvcc": "13.0.88", "nvidia-nvvm": "13.5.37"}, False),
        ({"nvidia-cuda-tileiras": "13.5.37"}, False),
    ],
)
def test_a_compiler_of_cutile_that_is_not_whole_is_named(
    monkeypatch: pytest.MonkeyPatch, versions: dict[str, str], is_whole: bool
) -> None:
    def version(package: str) -> str:
        if package not in versions:
            raise importlib.metadata.PackageNotFoundError(package)
        return versions[package]

    monkeypatch.setattr(importlib.metadata, "version", version)
    problems = doctor._compiler_of_tiles()
    assert problems == [] if is_whole else "pip install 'kernelsmith[cutile]'" in problems[0]
