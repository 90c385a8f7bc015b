"""Losses, the best bias for scores, water levels, sizes of steps."""
