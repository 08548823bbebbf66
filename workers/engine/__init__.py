"""The engine: carries a job from stage to stage so that any process may be killed at any moment."""
