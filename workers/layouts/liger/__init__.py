"""The layout of Liger-Kernel and of libraries in its form."""
