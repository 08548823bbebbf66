"""Keeping untrusted code in: a plan made by the parent, carried out by the child on itself before anything untrusted loads."""

from gpu_runner.sandbox.enter import enter
from gpu_runner.sandbox.plan import SandboxPlan, environment, make_plan

__all__ = ["SandboxPlan", "enter", "environment", "make_plan"]
