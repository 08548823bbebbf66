"""What can be done: each action checks, changes the state, and tells the webhooks. Routes, pages and the Python API share it."""
