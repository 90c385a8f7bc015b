"""What estimators have in common: labels, checks, runs, binary problems, certificates, files."""
