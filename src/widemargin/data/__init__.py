"""Sources of data: files, arrays and generated examples, read in chunks or as a whole."""

from .chunks import ChunkedSource, Generated
from .opening import InMemory, open_data, write_data
from .sources import FourierFeatures, Remembering
from .training import train

__all__ = [
    "ChunkedSource",
    "FourierFeatures",
    "Generated",
    "InMemory",
    "Remembering",
    "open_data",
    "train",
    "write_data",
]
