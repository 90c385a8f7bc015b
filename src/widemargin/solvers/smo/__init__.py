"""SMO: the exact dual of kernel machines, for one problem and for all pairs of classes."""
