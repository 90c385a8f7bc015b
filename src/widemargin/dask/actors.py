"""Parts on the workers of a cluster, which may die.

A part is an actor: it stays on its worker with its examples and its variables, a message reaches it in some
milliseconds, and only what is small travels. The replies come in the order of the parts, whoever is faster. Large ones
wait with their parts until the driver has a hand free: it holds two of them at a time, however many parts there are.

When a worker dies, its parts are made again on others: Dask brings their examples back from what they were made of, the
parts go back to the states that were last gathered, and the messages since then are told them again. A part's replies
depend on its state and the messages alone, so training goes on with the same bits.
"""

from __future__ import annotations

import copy
import itertools
import logging
import math
import signal
import threading
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from distributed import KilledWorker, get_worker

from ..core.interrupts import safe_place
from ..problems.parts import Parts

LOGGER = logging.getLogger("widemargin")
#: Messages after which the states of the parts are gathered, so that no more have to be told again.
GATHERED_EVERY = 16
#: States of more bytes than this, all parts together, stay where they are; then all messages are told again.
MOST_BYTES = 2**30
#: Replies of more bytes wait with their parts; of these the driver has so many at a time, one on its way among them.
SMALL, AT_ONCE = 2**16, 2
#: Seconds between two looks at whether the worker of a part that has not replied is still there.
LOOK = 1.0
#: Times that one part is made again in a row before training gives up.
MOST_TIMES = 8

_NUMBERS = itertools.count()


class Uninterrupted:
    """Leaves Ctrl-C to the driver while fits go on.

    A terminal sends it to all processes that were started from it. Workers would end, and their parts with them.
    """

    fits: ClassVar[set[str]] = set()
    before: ClassVar[Any] = None

    @classmethod
    def begin(cls, fit: str) -> None:
        """A fit begins; called where the worker's loop runs, which is its main thread if it is a process."""
        if threading.current_thread() is threading.main_thread():
            if not cls.fits:
                cls.before = signal.signal(signal.SIGINT, signal.SIG_IGN)
            cls.fits.add(fit)

    @classmethod
    def end(cls, fit: str) -> None:
        """A fit has ended."""
        if fit in cls.fits:
            cls.fits.discard(fit)
            if not cls.fits:
                signal.signal(signal.SIGINT, cls.before)


@dataclass
class Waiting:
    """Stands for a large reply that waits with its part, and says how many bytes it takes."""

    size: int


class Holder:
    """The actor: holds one part on its worker, and its last reply if that is large."""

    def __init__(
        self, examples: tuple, kind: Callable[[tuple], Any], make: Callable[..., Any], number: int, fit: str, small: int
    ) -> None:
        self.small, self.reply = small, None
        self.part = make(kind(examples), number)
        get_worker().loop.add_callback(Uninterrupted.begin, fit)  # on workers that came late, too

    def tell(self, method: str, message: tuple) -> Any:
        """The part's reply to a message; of a large one its size."""
        reply = getattr(self.part, method)(*message)
        size = size_of(reply)
        if size <= self.small:
            return reply
        self.reply = reply
        return Waiting(size)

    def hand_over(self) -> Any:
        """The reply that waits."""
        reply, self.reply = self.reply, None
        return reply

    def state(self) -> dict[str, np.ndarray]:
        """The part's state."""
        return self.part.state()

    def size(self) -> int:
        """Bytes of the part's state."""
        return size_of(self.part.state())

    def tell_again(self, state: dict | None, messages: list[tuple[str, tuple]]) -> None:
        """Go back to a state, and from there on through messages."""
        if state is not None:
            self.part.restore(state)
        for method, message in messages:
            self.tell(method, message)


def size_of(value: Any) -> int:
    """Bytes of the numbers in a message, a reply or a state."""
    if isinstance(value, Waiting):
        return value.size
    if isinstance(value, np.ndarray):
        return value.nbytes
    if isinstance(value, dict):
        return sum(map(size_of, value.values()))
    return sum(map(size_of, value)) if isinstance(value, (tuple, list)) else 8


class Lost(Exception):
    """A part's worker is gone."""


def _lost_too_often(k: int) -> RuntimeError:
    return RuntimeError(
        f"part {k} was lost {MOST_TIMES} times in a row: look at the workers' memory and logs, or cut the data into "
        "smaller chunks"
    )


class DaskParts(Parts):
    """Parts of the examples as actors.

    Parameters
    ----------
    client : distributed.Client
    examples : futures of (X, y, weights), one for each part
    kind : makes the problem of a part of its examples
    make : makes a part of its problem and number; ``make.complete`` says whether a part's state is all of it between
        any two messages. If not, states are not gathered on the way, and all messages are told again. ``make.looks``
        are messages that leave the state as it is; where ``make.weighs``, states are only gathered when the messages
        since take more bytes

    Attributes
    ----------
    trips, bytes_sent, bytes_received, lost : messages to all parts, what they took, and parts that were made again
    """

    def __init__(self, client: Any, examples: list, kind: Callable[[tuple], Any], make: Any) -> None:
        self.client, self.examples, self.kind, self.make = client, examples, kind, make
        #: Bytes of all states, where they were asked for; of how many messages since the bytes are known, and these.
        self.size: int | None = None
        self.weighed = self.weight = 0
        self.trips = self.bytes_sent = self.bytes_received = self.lost = 0
        #: The states last gathered (None: as made), and the messages since.
        self.gathered: list[Any] = [None] * len(examples)
        self.since: list[tuple[str, tuple]] = []
        self.actors: list[Any] = [None] * len(examples)
        self.futures: list[Any] = [None] * len(examples)
        self.name = uuid.uuid4().hex  # drivers of one cluster must not take each other's parts
        try:
            client.run(Uninterrupted.begin, self.name, on_error="ignore")
            self._make(range(len(examples)))
        except BaseException:  # nobody else knows of these parts
            self.close()
            raise

    def __len__(self) -> int:
        return len(self.actors)

    def each(self, method: str, *message: Any) -> Iterator[Any]:
        """The replies of all parts to one message, in their order; of large ones :data:`AT_ONCE` are here at a time."""
        if len(self.since) >= GATHERED_EVERY and self.make.complete and self._is_worth_it():
            self._gather(MOST_BYTES)
        message = copy.deepcopy(message)  # solvers change their arrays in place, and a message may be told again
        replies = self._replies(range(len(self)), "tell", method, message)
        self.trips += 1
        self.bytes_sent += len(replies) * size_of(message)
        self.bytes_received += sum(map(size_of, replies))
        try:
            yield from self._handed_over(replies, method, message)
        finally:
            if method not in getattr(self.make, "looks", ()):
                self.since.append((method, message))

    def states(self) -> list[dict[str, np.ndarray]]:
        """The states of all parts, in their order."""
        if not self.make.complete:
            return self._replies(range(len(self)), "state")
        self._gather(math.inf)
        return list(self.gathered)

    def restore(self, states: list[dict[str, np.ndarray]]) -> None:
        """Take the parts back to their states."""
        if len(states) != len(self.actors):
            raise ValueError(
                f"the checkpoint has {len(states)} parts, and the data {len(self.actors)}: give the data in the same "
                "chunks"
            )
        self.gathered, self.since, self.weighed, self.weight = list(states), [], 0, 0
        self._tell_again(range(len(states)))

    def close(self) -> None:
        """Let the parts go."""
        self.actors, self.futures = [None] * len(self.actors), [None] * len(self.actors)
        self.client.run(Uninterrupted.end, self.name, on_error="ignore")

    def _is_worth_it(self) -> bool:
        """Whether the messages since the states were gathered take more bytes than these, where that matters."""
        if not getattr(self.make, "weighs", False):
            return True
        self.weight += sum(map(size_of, self.since[self.weighed :]))
        self.weighed = len(self.since)
        return self.weight > self._size()

    def _size(self) -> int:
        """Bytes of all states, which stay as large as they are: asked for once."""
        if self.size is None:
            self.size = sum(self._replies(range(len(self)), "size"))
        return self.size

    def _gather(self, most: float) -> None:
        """Have the states of the parts here; if they are too large, messages are kept on instead."""
        fits = most == math.inf or self._size() <= most
        if fits and (self.since or self.gathered[0] is None):
            self.gathered, self.since, self.weighed, self.weight = self._replies(range(len(self)), "state"), [], 0, 0

    # -- parts that come and go

    def _replies(self, which: Any, method: str, *message: Any) -> list[Any]:
        """What the actors of some parts answer, though workers die meanwhile."""
        replies: dict[int, Any] = {}
        wanted = which
        for _ in range(MOST_TIMES):
            calls = {k: self._call(k, method, *message) for k in wanted}
            wanted = []
            for k, call in calls.items():
                try:
                    replies[k] = self._reply(k, call)
                except Lost:
                    wanted.append(k)
            if not wanted:
                return [replies[k] for k in which]
            self.lost += len(wanted)
            LOGGER.warning("%d of %d parts were lost with their workers: made again", len(wanted), len(self.actors))
            self._make(wanted)
            self._tell_again(wanted)
        raise _lost_too_often(wanted[0])

    def _handed_over(self, replies: list[Any], method: str, message: tuple) -> Iterator[Any]:
        """The replies, where those that wait come when they are wanted."""
        wait = [k for k, reply in enumerate(replies) if isinstance(reply, Waiting)]
        calls: dict[int, Any] = {}
        for k, reply in enumerate(replies):
            if not isinstance(reply, Waiting):
                yield reply
                continue
            for ahead in wait[:AT_ONCE]:
                if ahead not in calls:
                    calls[ahead] = self._call(ahead, "hand_over")
            wait.remove(k)
            try:
                found = self._reply(k, calls.pop(k))
            except Lost:
                found = self._told_anew(k, method, message)
            yield found
            del found

    def _told_anew(self, k: int, method: str, message: tuple) -> Any:
        """The reply of a part that was lost while its reply waited."""
        for _ in range(MOST_TIMES):
            self.actors[k] = None  # to be made again: one that has heard a message must not hear it twice
            self._replies([k], "tell", method, message)
            try:
                return self._reply(k, self._call(k, "hand_over"))
            except Lost:
                continue
        raise _lost_too_often(k)

    def _tell_again(self, which: Any) -> None:
        """Bring parts that were made anew to where the others are; one that is lost again is found out by the next."""
        calls = {k: self._call(k, "tell_again", self.gathered[k], self.since) for k in which}
        for k, call in calls.items():
            try:
                self._reply(k, call)
            except Lost:
                self.actors[k] = None

    def _make(self, which: Any) -> None:
        """Make parts, each where its examples are."""
        for k in which:
            given = self.examples[k], self.kind, self.make, k, self.name, SMALL
            name = f"widemargin-part-{k}-{self.name}-{next(_NUMBERS)}"
            self.futures[k] = self.client.submit(Holder, *given, actor=True, key=name)
        for k in which:
            self.actors[k] = None
            try:
                actor = self._made(k)
                # an actor's stand-in asks the default client of the process, which may be that of another cluster
                actor._client, actor._future = self.client, self.futures[k]
                self.actors[k] = actor
            except KilledWorker as error:
                raise RuntimeError(
                    f"the examples of part {k} end every worker that they come to: cut the data into smaller chunks, "
                    "or give workers more memory"
                ) from error
            except (RuntimeError, CancelledError) as error:  # Dask's word for a worker that went meanwhile
                if "lost" not in str(error) and not isinstance(error, CancelledError):
                    raise

    def _made(self, k: int) -> Any:
        """The stand-in of a part's actor, when it is made; if no worker is left, whoever waits is told."""
        told = False
        while True:
            safe_place()
            try:
                return self.futures[k].result(timeout=LOOK)
            except TimeoutError:
                if self.futures[k].status == "error":  # meanwhile, or by a time limit of its own
                    return self.futures[k].result()
            if not told and not self.client.scheduler_info()["workers"]:
                LOGGER.warning("the cluster has no workers: training goes on when one comes")
                told = True

    def _call(self, k: int, method: str, *message: Any) -> Any:
        """An answer that is to come; None where there is nobody to give it."""
        try:
            return None if self.actors[k] is None else getattr(self.actors[k], method)(*message)
        except RuntimeError:  # the worker is known to be gone
            return None

    def _reply(self, k: int, call: Any) -> Any:
        """An answer, or Lost. Connections that end without a word are found out by looking now and then."""
        while call is not None:
            safe_place()
            try:
                return call.result(timeout=LOOK)
            except TimeoutError:
                if self.futures[k].status != "finished":
                    break
            except OSError:
                break
        raise Lost
