"""Where data comes from."""

from .chunks import ChunkedSource, Generated
from .sources import FourierFeatures, Remembering

__all__ = ["ChunkedSource", "FourierFeatures", "Generated", "Remembering"]
