"""The supervisor on a GPU host: claims GPU requests and runs ``python -m gpu_runner`` for each, with nothing secret in reach."""
