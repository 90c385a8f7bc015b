"""Kernels, their values in blocks, and stores of vectors with coefficients."""
