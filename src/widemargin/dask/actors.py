"""Parts of a problem on the workers of a cluster, which may die.

A part is a Dask actor: it stays on its worker with its examples and variables, a message takes some milliseconds, and
only small data travels. Replies are returned in the order of the parts. Large replies wait at their parts, and the
driver fetches them one after the other, so that it never holds more than two.

When a worker dies, its parts are made again on other workers. Dask computes their examples again, the parts go back to
the states that were last gathered, and they get all later messages again. Replies depend on a part's state and on the
messages only, so training continues with the same bits.
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

from ..core.threads.interrupts import safe_place
from ..problems.parts import Parts

LOGGER = logging.getLogger("widemargin")
#: Messages between two times that the states of the parts are gathered. Only later messages must be repeated.
GATHERED_EVERY = 16
#: The most bytes of all states together that are gathered. Beyond it all messages are repeated instead.
MOST_BYTES = 2**30
#: The most bytes of a reply that is sent at once. Larger replies wait at their parts.
SMALL = 2**16
#: Large replies that the driver holds at a time, including the one on its way.
AT_ONCE = 2
#: Seconds between two checks whether the worker of a part that has not replied is alive.
LOOK = 1.0
#: How often in a row a part is made again before training fails.
MOST_TIMES = 8

_NUMBERS = itertools.count()


class Uninterrupted:
    """Lets workers ignore Ctrl-C during fits, so that only the driver stops.

    A terminal sends Ctrl-C to all processes that were started from it. Workers would end, and their parts with them.
    """

    fits: ClassVar[set[str]] = set()
    before: ClassVar[Any] = None

    @classmethod
    def begin(cls, fit: str) -> None:
        """A fit begins. Called in the thread of the worker's loop, the main thread if the worker is a process."""
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
    """Replaces a large reply that waits at its part, and says how many bytes the reply has."""

    size: int


class Holder:
    """The actor: one part on its worker, with its last reply if that is large."""

    def __init__(
        self, examples: tuple, kind: Callable[[tuple], Any], make: Callable[..., Any], number: int, fit: str, small: int
    ) -> None:
        self.small, self.reply = small, None
        self.part = make(kind(examples), number)
        get_worker().loop.add_callback(Uninterrupted.begin, fit)  # also on workers that join later

    def tell(self, method: str, message: tuple) -> Any:
        """The part's reply to a message, or the size of a large reply."""
        reply = getattr(self.part, method)(*message)
        size = size_of(reply)
        if size <= self.small:
            return reply
        self.reply = reply
        return Waiting(size)

    def hand_over(self) -> Any:
        """The large reply that waits."""
        reply, self.reply = self.reply, None
        return reply

    def state(self) -> dict[str, np.ndarray]:
        """The part's state."""
        return self.part.state()

    def size(self) -> int:
        """Bytes of the part's state."""
        return size_of(self.part.state())

    def tell_again(self, state: dict | None, messages: list[tuple[str, tuple]]) -> None:
        """Go back to a state, and repeat the messages since then."""
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
        #: Bytes of all states, once they are known.
        self.size: int | None = None
        #: Bytes of the messages since the last gathering.
        self.weight = 0
        self.trips = self.bytes_sent = self.bytes_received = self.lost = 0
        #: The states that were last gathered (None if none were), and the messages since then.
        self.gathered: list[Any] = [None] * len(examples)
        self.since: list[tuple[str, tuple]] = []
        self.actors: list[Any] = [None] * len(examples)
        self.futures: list[Any] = [None] * len(examples)
        self.name = uuid.uuid4().hex  # drivers of one cluster must not take each other's parts
        try:
            client.run(Uninterrupted.begin, self.name, on_error="ignore")
            self._make(range(len(examples)))
        except BaseException:  # nobody else would close these parts
            self.close()
            raise

    def __len__(self) -> int:
        return len(self.actors)

    def each(self, method: str, *message: Any) -> Iterator[Any]:
        """The replies of all parts to a message, in their order; large ones :data:`AT_ONCE` at a time."""
        due = len(self.since) >= GATHERED_EVERY and self.make.complete
        # where bytes matter, states are only fetched when the messages since the last time take more
        if due and (not getattr(self.make, "weighs", False) or self.weight > self._size()):
            self._gather(MOST_BYTES)
        message = copy.deepcopy(message)  # solvers change their arrays in place, and a message may be repeated
        replies, size = self._replies(range(len(self)), "tell", method, message), size_of(message)
        self.trips += 1
        self.bytes_sent += len(replies) * size
        self.bytes_received += sum(map(size_of, replies))
        self.since.append((method, message))  # a part that is lost while its reply waits is told this again, too
        self.weight += size
        try:
            yield from self._handed_over(replies)
        finally:
            if method in getattr(self.make, "looks", ()):
                self.since.pop()
                self.weight -= size

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
        self.gathered, self.since, self.weight = list(states), [], 0
        self._tell_again(range(len(states)))

    def close(self) -> None:
        """Release the parts."""
        self.actors, self.futures = [None] * len(self.actors), [None] * len(self.actors)
        self.client.run(Uninterrupted.end, self.name, on_error="ignore")

    def _size(self) -> int:
        """Bytes of all states. They do not change, so they are asked for once."""
        if self.size is None:
            self.size = sum(self._replies(range(len(self)), "size"))
        return self.size

    def _gather(self, most: float) -> None:
        """Fetch the states of the parts, unless they are too large. Then messages are kept instead."""
        fits = most == math.inf or self._size() <= most
        if fits and (self.since or self.gathered[0] is None):
            self.gathered, self.since, self.weight = self._replies(range(len(self)), "state"), [], 0

    # -- parts whose workers die

    def _replies(self, which: Any, method: str, *message: Any) -> list[Any]:
        """The answers of the actors of some parts, even if workers die meanwhile."""
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
        raise RuntimeError(
            f"part {wanted[0]} was lost {MOST_TIMES} times in a row: look at the workers' memory and logs, or cut the "
            "data into smaller chunks"
        )

    def _handed_over(self, replies: list[Any]) -> Iterator[Any]:
        """The replies; large ones are fetched when they are needed."""
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
                self.actors[k] = None  # make it again, because an actor hands a reply over once
                (found,) = self._replies([k], "hand_over")
            yield found
            del found

    def _tell_again(self, which: Any) -> None:
        """Bring new parts to the state of the others. If one is lost again, the next call finds out."""
        calls = {k: self._call(k, "tell_again", self.gathered[k], self.since) for k in which}
        for k, call in calls.items():
            try:
                self._reply(k, call)
            except Lost:
                self.actors[k] = None

    def _make(self, which: Any) -> None:
        """Make parts on the workers that have their examples."""
        for k in which:
            given = self.examples[k], self.kind, self.make, k, self.name, SMALL
            name = f"widemargin-part-{k}-{self.name}-{next(_NUMBERS)}"
            self.futures[k] = self.client.submit(Holder, *given, actor=True, key=name)
        for k in which:
            self.actors[k] = None
            try:
                actor = self._made(k)
                # an actor's proxy would use the default client of the process, perhaps that of another cluster
                actor._client, actor._future = self.client, self.futures[k]
                self.actors[k] = actor
            except KilledWorker as error:
                raise RuntimeError(
                    f"the examples of part {k} end every worker that they come to: cut the data into smaller chunks, "
                    "or give workers more memory"
                ) from error
            except (RuntimeError, CancelledError) as error:  # Dask says so that a worker has died meanwhile
                if "lost" not in str(error) and not isinstance(error, CancelledError):
                    raise

    def _made(self, k: int) -> Any:
        """Wait for the proxy of a part's actor; if no worker is left, a log message says so."""
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
        """Call an actor: the future of its answer, or None if its worker is gone."""
        try:
            return None if self.actors[k] is None else getattr(self.actors[k], method)(*message)
        except RuntimeError:  # Dask knows that the worker is gone
            return None

    def _reply(self, k: int, call: Any) -> Any:
        """Wait for an answer, or raise Lost. Regular checks find workers that die without closing their connection."""
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
