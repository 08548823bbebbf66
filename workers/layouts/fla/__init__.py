"""The layout of flash-linear-attention: a package for each operation, with its reference beside its kernels."""
