"""How far the compiler's kernels and their peers are from the hardware's limit; see ``__main__``."""
