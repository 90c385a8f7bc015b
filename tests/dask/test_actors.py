"""Parts as actors: what drivers keep of them, and what is left of them where they could not be made."""

import itertools
import weakref

import numpy as np
import pytest

pytest.importorskip("distributed")

from widemargin.dask import actors
from widemargin.dask.actors import DaskParts


class Part:
    """Counts what it is told; its state takes 800 bytes."""

    def __init__(self, problem):
        self.problem, self.told = problem, np.zeros(100)

    def state(self):
        return {"told": self.told.copy()}

    def restore(self, state):
        self.told = np.array(state["told"])

    def hear(self, numbers):
        self.told[0] += 1.0
        return self.problem, self.told[0]


class Maker:
    complete, weighs = True, False

    def __call__(self, problem, number):
        return Part(problem)


class Weighing(Maker):
    weighs = True


def asked(monkeypatch):
    """The numbers of messages, by kind, that parts are sent from now on."""
    counts, replies = {}, DaskParts._replies

    def counted(self, which, method, *message):
        counts[method] = counts.get(method, 0) + 1
        return replies(self, which, method, *message)

    monkeypatch.setattr(DaskParts, "_replies", counted)
    return counts


def test_two_drivers_that_are_alike_have_parts_of_their_own(client, monkeypatch):
    made = []
    for number in range(2):  # as two processes that were forked from one
        monkeypatch.setattr(actors, "_NUMBERS", itertools.count())
        monkeypatch.setattr(actors, "id", lambda _: 1, raising=False)
        made.append(DaskParts(client, client.scatter([number], hash=False), int, Maker()))
    assert [parts.ask("hear", 0.0) for parts in made] == [[(0, 1.0)], [(1, 1.0)]]
    for parts in made:
        parts.close()


def test_workers_are_let_go_where_parts_cannot_be_made(client, monkeypatch):
    told = []
    monkeypatch.setattr(client, "run", lambda function, name, **options: told.append((function.__name__, name)))
    with pytest.raises(ValueError, match="invalid literal"):
        DaskParts(client, client.scatter(["no number"], hash=False), int, Maker())
    (begin, name), (end, other) = told
    assert (begin, end) == ("begin", "end")
    assert name == other


def test_states_that_are_too_large_are_measured_once_and_stay_where_they_are(client, monkeypatch):
    monkeypatch.setattr(actors, "GATHERED_EVERY", 2)
    monkeypatch.setattr(actors, "MOST_BYTES", 799)
    counts, parts = asked(monkeypatch), DaskParts(client, client.scatter([0], hash=False), int, Maker())
    for number in range(8):
        assert parts.ask("hear", 0.0) == [(0, number + 1.0)]
    parts.close()
    assert counts == {"tell": 8, "size": 1}


@pytest.mark.parametrize("restored", [False, True])
def test_messages_are_weighed_from_the_last_gathered_states_on(client, monkeypatch, restored):
    monkeypatch.setattr(actors, "GATHERED_EVERY", 2)
    counts, parts = asked(monkeypatch), DaskParts(client, client.scatter([0], hash=False), int, Weighing())
    for _ in range(3):
        parts.ask("hear", np.zeros(60))  # two of them take more than the state
    assert counts["state"] == 1
    if restored:
        parts.restore(parts.states())
    for _ in range(8):
        parts.ask("hear", np.zeros(1))
    assert counts["state"] == 1 + restored
    assert len(parts.since) == 9 - restored
    parts.close()


class Wide(Part):
    """Replies with numbers of its own and how often it was told something."""

    def hear(self, numbers):
        self.told[0] += 1.0
        return self.problem + numbers, np.array([self.problem * self.told[0]])


class Widening(Maker):
    looks = ("look",)

    def __call__(self, problem, number):
        return Wide(problem)


def test_the_driver_holds_two_replies_at_a_time_and_adds_them_in_order(client, rng, monkeypatch):
    monkeypatch.setattr(actors, "SMALL", 64)
    parts, given = 9, rng.normal(size=9)
    made = DaskParts(client, client.scatter(given.tolist(), hash=False), float, Widening())
    here, asked, most = [], [], []
    call, reply = DaskParts._call, DaskParts._reply

    def called(self, k, method, *message):
        asked.extend([k] if method == "hand_over" else [])
        return call(self, k, method, *message)

    def replied(self, k, promise):
        found = reply(self, k, promise)
        if isinstance(found, tuple):
            here.append(weakref.ref(found[0]))
            asked.remove(k)
            most.append(
                sum(each() is not None for each in here) + len(asked)
            )  # those that are here, and those on their way
        return found

    monkeypatch.setattr(DaskParts, "_call", called)
    monkeypatch.setattr(DaskParts, "_reply", replied)
    numbers = rng.normal(size=50)
    totals = made.sums("hear", numbers, least=1)
    np.testing.assert_array_equal(totals[0], given.min() + numbers)
    assert totals[1] == np.cumsum(given)[-1]  # the same bits: one after the other
    assert len(most) == parts
    assert max(most[2:]) == 2  # beside the sums, which the first reply is until there is another
    assert made.bytes_received == parts * 51 * 8
    assert (made.trips, len(made.since)) == (1, 1)
    made.close()


def test_parts_that_are_lost_with_replies_that_wait_say_the_same_again(client, rng, monkeypatch):
    given, numbers = rng.normal(size=4), rng.normal(size=50)
    found = []
    for small in (10**6, 64):
        monkeypatch.setattr(actors, "SMALL", small)
        made = DaskParts(client, client.scatter(given.tolist(), hash=False), float, Widening())
        call, lost = DaskParts._call, set()

        def called(self, k, method, *message, call=call, lost=lost):
            if method == "hand_over" and (k, self.trips) not in lost and (k + self.trips) % 2:
                lost.add((k, self.trips))
                return None
            return call(self, k, method, *message)

        with monkeypatch.context() as patch:
            patch.setattr(DaskParts, "_call", called)
            found.append([made.sums("hear", numbers) for _ in range(3)])
        assert made.lost == len(lost) == (0 if small > 64 else 6)
        made.close()
    for one, other in zip(*found, strict=True):
        np.testing.assert_array_equal(one[0], other[0])
        np.testing.assert_array_equal(one[1], other[1])


def test_a_part_that_fails_while_it_is_looked_at_says_why():
    class Failed:
        """Fails between the look at its result and that at its status."""

        status = "error"

        def result(self, timeout=None):
            raise TimeoutError if timeout else ValueError("what was wrong")

    parts = DaskParts.__new__(DaskParts)
    parts.futures = [Failed()]
    with pytest.raises(ValueError, match="what was wrong"):
        parts._made(0)
