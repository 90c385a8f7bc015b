"""Tracking: kernel machines that follow the optimum of a growing set of examples."""
