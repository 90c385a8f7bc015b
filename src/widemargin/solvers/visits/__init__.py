"""Kernel solvers that visit one example at a time."""
