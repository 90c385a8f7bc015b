"""SIMBA: linear machines learnt from single rows and columns."""
