"""Pieces of work on threads: all are done when the call returns, errors are raised, forked processes have their own."""

import os
import threading

import pytest

from widemargin.core.sharing import share


def test_all_pieces_are_done_on_threads_of_their_own():
    together, found = threading.Barrier(4, timeout=60), []

    def work(k):
        together.wait()  # nobody goes on before all four are here
        found.append((k, threading.get_ident()))

    share(work, [(k,) for k in range(4)])
    assert sorted(k for k, _ in found) == [0, 1, 2, 3]
    assert len({thread for _, thread in found}) == 4
    assert dict(found)[0] == threading.get_ident()
    share(work, [])


@pytest.mark.parametrize("bad", [0, 1])
def test_an_error_of_a_piece_is_raised_when_the_others_have_ended(bad):
    raised, found = threading.Event(), []

    def work(k):
        if k == bad:
            raised.set()
            raise OSError("no room")
        raised.wait(60)
        found.append(k)

    with pytest.raises(OSError, match="no room"):
        share(work, [(0,), (1,)])
    assert found == [1 - bad]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.filterwarnings("ignore:This process")
def test_a_forked_process_has_threads_of_its_own():
    found = []
    share(found.append, [(0,), (1,)])
    child = os.fork()
    if child == 0:
        thread = threading.Thread(target=share, args=(found.append, [(2,), (3,)]), daemon=True)
        thread.start()
        thread.join(60)
        os._exit(0 if sorted(found) == [0, 1, 2, 3] else 1)
    assert os.waitpid(child, 0)[1] == 0
