"""Compiled primitives that know no algorithm: rows, losses, kernels and their dispatch."""
