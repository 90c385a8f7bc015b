"""Streams as a pipe gives them."""

import io


class Once(io.RawIOBase):
    """A stream that cannot go back."""

    def __init__(self, data):
        self.inner = io.BytesIO(data)

    def readable(self):
        return True

    def readinto(self, buffer):
        return self.inner.readinto(buffer)
