"""The version of this library; ``CITATION.cff`` has the same."""

__version__ = "0.2.0"
