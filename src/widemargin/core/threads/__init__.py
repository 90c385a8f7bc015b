"""What goes on beside a loop: signals, and the threads of BLAS."""
