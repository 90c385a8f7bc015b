"""States of solvers whose variables lie with parts of the examples, perhaps in other processes."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from . import protocol


class HeldByParts(protocol.State):
    """A state of which the parts hold a share. The parts are in its workspace.

    Where the workspace was dropped, and in files, ``kept`` has the states of the parts instead.
    """

    kept: ClassVar[Any] = ()

    def live(self) -> Any:
        """The parts in the workspace."""
        raise NotImplementedError

    def made(self, place: Any, make: Any) -> Any:
        """New parts at a place, in the kept states if there are any."""
        parts = place.parts(make)
        if self.kept:
            parts.restore(list(self.kept))
        return parts

    def gathered(self) -> list[dict[str, np.ndarray]]:
        """The states of the parts in their order; none before the first message."""
        return list(self.kept if self.workspace is None else self.live().states())

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "kept": self.gathered()}

    _to_parts = __getstate__

    @classmethod
    def _from_parts(cls, kept: list[dict[str, np.ndarray]], **known: Any) -> Any:
        state = cls(**known)
        state.kept = kept  # type: ignore[misc]
        return state

    def drop_workspace(self) -> None:
        """Close the parts and keep their states."""
        if self.workspace is not None:
            parts, self.kept = self.live(), self.gathered()  # type: ignore[misc]
            parts.close()
        super().drop_workspace()
