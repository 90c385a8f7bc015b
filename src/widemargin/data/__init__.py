"""Where data comes from."""

from .sources import FourierFeatures, Remembering

__all__ = ["FourierFeatures", "Remembering"]
