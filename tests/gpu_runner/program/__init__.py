"""The evaluator, and what it refuses."""
