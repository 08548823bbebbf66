"""The installations of the fault tests."""

from tests.faults.conftest import install

__all__ = ["install"]
