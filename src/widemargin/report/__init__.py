"""Comparisons of solvers on one's own data: the runs, the table, and a page of its own."""
