"""Loops that numba compiles; imported only where `kernels.choice` takes them."""
