"""The compiler author, on graphs that the capture action made. See `captured.py` for how to make them again."""
