"""One file per algorithm, whole: the mathematics, the compiled steps, the State and the Solver."""
