"""Rows and columns of data, here or elsewhere."""
