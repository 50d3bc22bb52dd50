"""Loops that numba compiles, and nothing else: imported only where they run, so that NumPy alone needs no numba."""
