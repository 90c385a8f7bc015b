"""New processes for tests: one that does not end is ended, and no answer is taken for another's."""

import os
import socket
import subprocess
from functools import cache

import pytest

import fresh

ENDLESS = "import time; time.sleep(600)"

forked = pytest.mark.skipif(not fresh.FORKS, reason="needs processes that are forked")


@pytest.fixture(params=[pytest.param(True, marks=forked), False], ids=["forked", "started"])
def forks(request, monkeypatch):
    monkeypatch.setattr(fresh, "FORKS", request.param)


@pytest.mark.usefixtures("forks")
def test_a_process_that_does_not_end_in_time_is_ended_and_told():
    process = fresh.Process(ENDLESS, limit=0.2)
    with pytest.raises(subprocess.TimeoutExpired):
        process.communicate()
    assert process.poll() not in (None, 0)


@pytest.mark.usefixtures("forks")
def test_a_process_can_be_killed():
    process = fresh.Process(ENDLESS)
    process.kill()
    assert process.communicate().returncode != 0
    process.kill()


#: A process whose child holds a pipe open and, if it outlives its parent, writes to it.
PARENT = """
import os, sys, time
with open(sys.argv[1], "w") as pipe:
    if os.fork() == 0:
        time.sleep(5)
        pipe.write("alive")
        pipe.flush()
        os._exit(0)
    time.sleep(600)
"""


@forked
def test_what_a_process_has_started_ends_with_it(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    pipe = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    with os.fdopen(pipe) as file:
        with pytest.raises(subprocess.TimeoutExpired):
            fresh.run(PARENT, tmp_path / "pipe", limit=1.0)
        os.set_blocking(pipe, True)
        assert file.read() == ""  # to the end of the last that holds it


@forked
def test_an_answer_that_nobody_waited_for_is_not_taken_for_the_next(monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(socket.socket, "recv", interrupted)
        with pytest.raises(KeyboardInterrupt):
            fresh.run("print(1)")
    assert [fresh.run(f"print({k})").stdout for k in (2, 3)] == ["2\n", "3\n"]


@forked
def test_a_process_of_another_server_is_told_and_the_server_goes_on():
    with pytest.raises(ChildProcessError):
        fresh._asked(f"poll {os.getpid()}")
    assert fresh.run("print(4)").stdout == "4\n"


@forked
def test_a_server_that_has_ended_is_told_in_a_sentence(monkeypatch):
    ours, theirs = socket.socketpair()
    theirs.shutdown(socket.SHUT_WR)
    monkeypatch.setattr(fresh, "_server", cache(lambda: ours))
    with pytest.raises(RuntimeError, match="the process that forks others has ended, asked to wait 7"):
        fresh._asked("wait 7")
    assert ours.fileno() == -1
    theirs.close()
