"""Instructions that Numba has no words for, in LLVM's language."""
