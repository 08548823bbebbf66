"""The layout of a repository whose kernels are plans with a tiling, kept in versions."""
