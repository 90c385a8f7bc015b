"""What parts reply, added up as it comes."""

import numpy as np
import pytest

from widemargin.problems.parts import LocalParts


class Part:
    """Replies with its own arrays."""

    def __init__(self, rng):
        self.own = tuple(rng.normal(size=(3, 4)))

    def say(self):
        return self.own


@pytest.mark.parametrize("n", [1, 2, 5])
@pytest.mark.parametrize("least", [0, 1, 2])
def test_replies_are_added_in_order_and_stay_what_the_parts_have(n, least, rng):
    parts = [Part(rng) for _ in range(n)]
    kept = [[entry.copy() for entry in part.own] for part in parts]
    found = LocalParts(parts).sums("say", least=least)
    for place, entry in enumerate(found):
        each = [own[place] for own in kept]
        np.testing.assert_array_equal(entry, np.min(each, axis=0) if place < least else sum(each[1:], each[0]))
    for part, own in zip(parts, kept, strict=True):
        np.testing.assert_array_equal(part.own, own)
