"""Recorded jobs that asked a model, for tests to replay and for docs/models.md to take its figures from.

No provider can be reached where this is developed: the answers are written by hand (``written``), and a local server that speaks
Anthropic's protocol gives them to the real command line. ``python -m tests.recorded.models`` records the jobs anew.
"""
