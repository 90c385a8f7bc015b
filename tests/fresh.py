"""New processes of Python that cost little: forked from one that has imported the libraries, and nothing of ours.

Importing Numba, SciPy and scikit-learn takes two seconds of processor time. A process from here is as new to this
package as one that is started: none of its modules is there, and environment, folder, streams and arguments are those
asked for. Tests of what a process imports besides, or of how one is started, start their own. Where forks are not to be
had, or not to be trusted with the system's own libraries, processes are started as ever.
"""

import atexit
import gc
import multiprocessing
import os
import pickle
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from contextlib import suppress
from functools import cache
from importlib import import_module, invalidate_caches
from pathlib import Path
from types import ModuleType

#: What estimators and the command import, where it is installed.
LIBRARIES = ("numba.np.arrayobj", "scipy.sparse.linalg", "sklearn.model_selection", "rich.progress", "typer")

#: Seconds after which a process that does not end is ended, unless it is given others: some compile much, on a busy
#: machine.
LIMIT = 600

FORKS = hasattr(os, "fork") and sys.platform != "darwin"

#: Runs the command, as ``python -m widemargin`` does.
COMMAND = "import runpy; runpy.run_module('widemargin', run_name='__main__', alter_sys=True)"


class Process:
    """A new process that runs a script, as ``python -c`` does.

    Parameters
    ----------
    script : str
        The source.
    *arguments : object
        What ``sys.argv`` has behind its first entry.
    input : bytes
        What a pipe to standard input holds.
    cwd : path, optional
        The folder to run in, by default that of this process.
    limit : float
        Seconds after which it is ended.
    **environment : str
        Changes to the environment of this process.
    """

    def __init__(self, script, *arguments, input=b"", cwd=None, limit=LIMIT, **environment):
        self._out, self._err = tempfile.TemporaryFile(), tempfile.TemporaryFile()  # noqa: SIM115
        asked = {
            "script": script, "arguments": ["-c", *map(str, arguments)], "cwd": os.fspath(cwd or os.getcwd()),
            "environment": {**os.environ, **environment}, "limit": limit,
        }  # fmt: skip
        self.limit = limit
        read, write = os.pipe()
        self.pid = (_forked if FORKS else _started)(asked, read, self._out.fileno(), self._err.fileno())
        os.close(read)
        self.returncode = None
        self._writer = threading.Thread(target=_write, args=(write, input), daemon=True)
        self._writer.start()

    def poll(self):
        """How the process ended, as of :class:`subprocess.Popen`; None while it runs."""
        if self.returncode is None:
            self.returncode = _asked(f"poll {self.pid}") if FORKS else _STARTED[self.pid].poll()
        return self.returncode

    def communicate(self):
        """Wait for the end; returns what :func:`subprocess.run` does, with texts, and raises what it does."""
        if self.returncode is None:
            try:
                self.returncode = _asked(f"wait {self.pid}") if FORKS else _STARTED[self.pid].wait(self.limit)
            except BaseException:
                self.kill()
                raise
        told = []
        for stream in (self._out, self._err):
            with stream as file:
                file.seek(0)
                told.append(file.read().decode())
        if FORKS and self.returncode == -signal.SIGALRM:
            with suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)  # what it has started is not ended by its alarm
            raise subprocess.TimeoutExpired("-c", self.limit, *told)
        return subprocess.CompletedProcess("-c", self.returncode, *told)

    def kill(self):
        """End the process, with what it has started where it was forked; nothing if its end is known."""
        if self.returncode is not None:
            return
        if FORKS:
            for kill in (os.killpg, os.kill):  # it may not have come to have a group
                with suppress(ProcessLookupError):
                    kill(self.pid, signal.SIGKILL)
        else:
            _STARTED[self.pid].kill()
            _STARTED[self.pid].wait()


def run(script, *arguments, **how):
    """Run a script in a new process and wait for its end; parameters are those of :class:`Process`."""
    return Process(script, *arguments, **how).communicate()


def _write(pipe, content):
    with os.fdopen(pipe, "wb") as file:
        file.write(content)


#: Processes that were not forked.
_STARTED = {}


def _started(asked, *files):
    """The number of a new process that is started."""
    command = [sys.executable, "-c", asked["script"], *asked["arguments"][1:]]
    streams = dict(zip(("stdin", "stdout", "stderr"), files, strict=True))
    process = subprocess.Popen(command, cwd=asked["cwd"], env=asked["environment"], **streams)
    _STARTED[process.pid] = process
    return process.pid


def _forked(asked, *files):
    """The number of a new process that is forked."""
    with tempfile.NamedTemporaryFile() as request:
        pickle.dump(asked, request)
        request.flush()
        return _asked(f"start {request.name}", *files)


@cache
def _server():
    """A connection to the process that has imported the libraries; it ends when this process does."""
    ours, theirs = socket.socketpair()
    server = subprocess.Popen([sys.executable, __file__, str(theirs.fileno())], pass_fds=[theirs.fileno()])
    theirs.close()
    atexit.register(_end, ours, server)
    return ours


def _end(connection, server):
    connection.close()
    server.kill()  # others may hold the connection, forked from here
    server.wait()


def _asked(request, *files):
    """The server's answer. After a request that came to none there is another server: the answer may yet come."""
    connection = _server()
    try:
        socket.send_fds(connection, [request.encode()], files)
        answer = connection.recv(4096)
        if not answer:
            raise RuntimeError(f"the process that forks others has ended, asked to {request}: standard error tells why")
    except BaseException:
        connection.close()
        _server.cache_clear()
        raise
    found = pickle.loads(answer)
    if isinstance(found, OSError):
        raise found
    return found


# ---------------------------------------------------------------- the server


def serve(connection):
    """Answer requests; returns in new processes alone, with what each is asked for."""
    while True:
        request, files, *_ = socket.recv_fds(connection, 4096, 3)
        if not request:
            os._exit(0)
        word, _, given = request.decode().partition(" ")
        if word == "start":
            asked = pickle.loads(Path(given).read_bytes())
            answer = os.fork()
            if answer == 0:
                connection.close()
                os.setsid()  # what it starts can be ended with it
                for place, file in enumerate(files):
                    os.dup2(file, place)
                    os.close(file)
                return asked
            for file in files:
                os.close(file)
        else:
            try:
                pid, status = os.waitpid(int(given), os.WNOHANG if word == "poll" else 0)
                answer = os.waitstatus_to_exitcode(status) if pid else None
            except ChildProcessError as error:  # it is another server's
                answer = error
        connection.sendall(pickle.dumps(answer))


def become(asked, own):
    """Make this process what is asked for; ``own`` are the paths of modules that every process has."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.setitimer(signal.ITIMER_REAL, asked["limit"])
    os.chdir(asked["cwd"])
    multiprocessing.process.ORIGINAL_DIR = asked["cwd"]
    os.environ.clear()
    os.environ.update(asked["environment"])
    tempfile.tempdir = None
    sys.argv, sys.path = asked["arguments"], ["", *_paths(), *own]
    sys.dont_write_bytecode = bool(os.environ.get("PYTHONDONTWRITEBYTECODE"))
    sys.stdin, sys.stdout = open(0, encoding="utf-8", closefd=False), open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", 1, encoding="utf-8", closefd=False)  # noqa: SIM115
    invalidate_caches()
    import_module("numba").config.reload_config()
    sys.modules["__main__"] = main = ModuleType("__main__")
    return main


def _paths():
    return [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of a terminal's, pytest tells
    others = [path for path in sys.path[1:] if path not in _paths()]
    for library in LIBRARIES:
        with suppress(ImportError):
            import_module(library)
    assert "widemargin" not in sys.modules
    gc.freeze()
    asked = serve(socket.socket(fileno=int(sys.argv[1])))
    main = become(asked, others)
    exec(compile(asked["script"], "<string>", "exec"), vars(main))
