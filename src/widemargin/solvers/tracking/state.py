"""The state of the tracker: one record of arrays, each declared once, with its schema.

From the declarations in :class:`TrackerState` follow what a file may hold, the arrays of an empty state, the arrays
that grow with the number of slots, and the tuple that compiled steps take (:class:`Held`).

A *slot* is a place for one vector. A slot whose vector leaves is free and takes a later one. Compiled steps check no
bounds, so the law below refuses files whose lists of slots, flags and numbers contradict each other.
"""

from __future__ import annotations

from collections import namedtuple
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, cast

import numpy as np

from ...files import savable
from ...history import Counters
from ...schemas import Array, Whole, arrays_of, blank
from .. import protocol

#: Number of slots of a new state. Numbers of slots are powers of 2.
FIRST_SLOTS = 256
#: Stages of an example: it arrives, PROCESS and REPROCESS steps follow, and an old vector may have to leave.
ARRIVE, WORK, FORGET = 0, 1, 2
#: The named integers of a state, which are an array of int64 in files.
#: count: slots that were ever used; spare: free slots among them; live: slots with a vector.
#: position: the next example; known: examples of the problem that were seen; kept: those that are remembered.
#: stage, output, step: where the loop stands with the example at hand; new: the slot of that example, or −1.
#: draws: REPROCESS steps without pairs, each of which may draw a random number; visits: examples;
#: updates: changes of a β; evals: kernel values asked for.
#: waiting: slots on the list of that name; came: examples that ever came; wrong: those that were predicted wrongly.
NUMBERS = (
    "count", "spare", "live", "position", "known", "kept", "stage", "output", "step", "new", "draws", "visits",
    "updates", "evals", "waiting", "came", "wrong",
)  # fmt: skip
PROGRESS = np.dtype([(name, np.int64) for name in NUMBERS])

BySlot = Annotated[np.ndarray, Array("outputs", "slots")]
SlotBars = Annotated[np.ndarray, Array("outputs", "slots", finite="inf")]
SlotList = Annotated[np.ndarray, Array("slots", dtype=np.int64, low=0, high="slots-1")]
SlotFlags = Annotated[np.ndarray, Array("slots", dtype=np.bool_)]
Outputs = Annotated[np.ndarray, Array("outputs")]
OutputEnds = Annotated[np.ndarray, Array("outputs", finite="inf")]


def progress_of(numbers: np.ndarray) -> Any:
    """The integers by their names, in the memory of ``numbers``."""
    return numbers.view(PROGRESS)[0]


def _law(state: Any, sizes: dict[str, int]) -> str | None:
    """What slots, lists of slots and integers must say of each other: loops go by all of them."""
    at, slots, outputs = progress_of(state.numbers), sizes["slots"], sizes["outputs"]
    count, known, spare, waiting = (int(number) for number in (at["count"], at["known"], at["spare"], at["waiting"]))
    live = state.live[:count]
    if slots and (slots < FIRST_SLOTS or slots & (slots - 1)):
        return f"it has {slots} slots, and not a power of 2 from {FIRST_SLOTS} on"
    if not (0 <= count <= slots and 0 <= at["position"] <= known <= sizes.get("n", known)):
        return f"numbers say {count} slots of {slots} and {known} examples of {sizes.get('n', known)}"
    if not (0 <= spare == count - live.sum() and not state.live[count:].any() and at["live"] == live.sum()):
        return f"numbers say {at['live']} vectors and {spare} free slots, and live {live.sum()} of {count}"
    if not np.array_equal(np.sort(state.spare[:spare]), np.flatnonzero(~live)):
        return "spare lists other slots than those without a vector"
    if not (0 <= waiting <= slots) or not np.array_equal(np.sort(state.waiting[:waiting]), np.flatnonzero(state.waits)):
        return "waiting lists other slots than waits"
    if waiting and state.waiting[:waiting].max() >= count:
        return "waiting lists slots that were never used"
    if (state.example[:count] >= max(known, 1)).any():
        return f"example has {state.example[:count].max()}, and {known} examples are known"
    at_rest = int(at["stage"] == ARRIVE)  # no example is at hand
    if not (-1 <= at["new"] < max(count, at_rest) and 0 <= at["stage"] <= FORGET):
        return f"numbers say slot {at['new']} is new, at stage {at['stage']}"
    if not (0 <= at["output"] < outputs and 0 <= at["step"] <= state.trail.shape[1]):
        return f"numbers say output {at['output']} at step {at['step']}"
    shares = np.append(state.beta[:, :count] * live, state.owed[:, None], axis=1)
    if state.owed.any() and (np.abs(shares.sum(axis=1)) > 1e-6 * np.abs(shares).sum(axis=1)).any():
        return f"owed holds {state.owed.max():.6g}, which the coefficients do not lack"
    q, last = int(at["output"]), state.trailed
    if at["stage"] == WORK and (last[q] > 2 * at["step"] or last[q + 1 :].any()):
        return "trailed counts more steps than were taken"
    return None


@savable("Tracker.State", law=_law)
@dataclass
class TrackerState(protocol.State):
    """Where a stream stands. Arrays have a row for each output, a column for each slot, or both."""

    #: Seed of the random numbers.
    seed: Annotated[int, Whole(0, 2**63)]
    #: Coefficients, e = y − f, and the box low ≤ β ≤ high.
    beta: BySlot
    e: BySlot
    low: Annotated[np.ndarray, Array("outputs", "slots", high=0.0)]
    high: Annotated[np.ndarray, Array("outputs", "slots", low=0.0)]
    #: 0 where β can rise, else −∞; 0 where β can fall, else +∞.
    up: SlotBars
    down: SlotBars
    #: The example in a slot, and whether there is one.
    example: Annotated[np.ndarray, Array("slots", dtype=np.int64, low=0)]
    live: SlotFlags
    #: Stack of the free slots; list of the slots whose vectors may have become useless, and whether a slot is on it.
    spare: SlotList
    waits: SlotFlags
    waiting: SlotList
    #: K(x, x).
    diagonal: Annotated[np.ndarray, Array("slots", low=0.0)]
    #: Largest e of the β that can rise, and smallest e of those that can fall.
    top: OutputEnds
    bottom: OutputEnds
    #: What Σ β lacks after a vector was forgotten; Σ C of the examples kept; Σ C [1 − y z]₊ for the scores
    #: z = f + b, each at the time of its visit.
    owed: Outputs
    mass: Outputs
    losses: Outputs
    #: Steps of the example at hand, the first ``trailed`` entries: the slot, and the change of β times the number of
    #: iterates before it. ``steps`` is the number of iterates in the mean.
    trail_slot: Annotated[np.ndarray, Array("outputs", "steps", dtype=np.int64, low=0, high="slots-1")]
    trail: Annotated[np.ndarray, Array("outputs", "steps")]
    trailed: Annotated[np.ndarray, Array("outputs", dtype=np.int64, low=0, high="steps")]
    steps: Annotated[np.ndarray, Array("outputs", dtype=np.int64, low=0)]
    #: The integers that :data:`PROGRESS` names.
    numbers: Annotated[np.ndarray, Array(len(NUMBERS), dtype=np.int64, low=-1, high=2**53)]
    #: How far the rows have reached, on which the way to compute distances depends.
    reach: float = 0.0
    #: With a linear kernel Σ β x, with the constant's entry last; else without entries.
    w: Annotated[np.ndarray, Array((1, "outputs"), (0, "d+1"), 1)] = field(default_factory=lambda: np.zeros((1, 0, 1)))
    counters: Counters = field(default_factory=Counters)

    @classmethod
    def empty(cls, outputs: int, seed: int) -> TrackerState:
        """The state before the first example, without slots."""
        arrays: dict[str, Any] = blank(TrackerState, {"outputs": outputs, "slots": 0, "steps": 0})
        arrays["top"][:], arrays["bottom"][:] = -np.inf, np.inf
        return cls(seed, **arrays)

    def make_room(self, vectors: int, steps: int) -> None:
        """Have slots for at least so many vectors, in place, and a trail for PROCESS and so many REPROCESS steps of an
        example, of which each may change two β.
        """
        sizes = {"slots": 0, "steps": 2 * (1 + steps)}
        if vectors > self.example.size:
            sizes["slots"] = max(FIRST_SLOTS, 1 << (vectors - 1).bit_length())
        for name, array in ARRAYS.items():
            old = getattr(self, name)
            more = sizes.get(array.shape[-1], 0) - old.shape[-1]
            if more > 0:
                setattr(self, name, np.pad(old, [(0, 0)] * (old.ndim - 1) + [(0, more)]))

    @property
    def progress(self) -> Any:
        """The integers by their names."""
        return progress_of(self.numbers)

    @property
    def held(self) -> Any:
        """The arrays, for compiled steps."""
        return Held(*(getattr(self, name) for name in HELD), self.numbers.view(PROGRESS))

    @property
    def count(self) -> int:
        """Number of slots that were ever used."""
        return int(self.progress["count"])

    @property
    def online_error(self) -> float:
        """The share of the examples that were predicted wrongly when they came."""
        return float(self.progress["wrong"]) / max(1, int(self.progress["came"]))

    @property
    def vectors(self) -> np.ndarray:
        """The slots of the vectors, by the numbers of their examples."""
        slots = np.flatnonzero(self.live[: self.count])
        return slots[np.argsort(self.example[slots], kind="stable")]

    def again(self) -> TrackerState:
        """Another object over the same arrays and workspace."""
        new = replace(self, counters=replace(self.counters))
        new.workspace = self.workspace  # type: ignore[misc]
        return new


#: The schemas of the arrays by name.
ARRAYS = arrays_of(TrackerState)
HELD = [name for name in ARRAYS if name != "numbers"]
#: The arrays as compiled steps take them, which change them in place; ``progress[0]`` is the record of named integers.
Held: Any = cast(Any, namedtuple)("Held", [*HELD, "progress"])
