"""Clusters of two processes on which workers die, come late, go, and run out of memory, and users lose patience."""

import contextlib
import multiprocessing
import os
import signal
import time

import numpy as np
import pytest

da = pytest.importorskip("dask.array")

import dask  # noqa: E402
from distributed import Client, LocalCluster  # noqa: E402
from distributed.core import Status  # noqa: E402
from distributed.utils import get_mp_context  # noqa: E402

import widemargin  # noqa: E402
from widemargin import dask as on_dask  # noqa: E402
from widemargin.dask import actors  # noqa: E402

#: What a process of a worker has imported before it starts: a worker that died is there again at once.
IMPORTED = ["distributed.nanny", "pandas", "widemargin.dask"]
IMPORTED += [f"widemargin.solvers.{name}" for name in ("consensus", "interior", "sbp.parts")]

#: Processes that were killed.
KILLED: set = set()


@contextlib.contextmanager
def two_processes(settings=None, **options):
    """A client of two workers in processes of their own, which a nanny starts again."""
    settings = {
        # a worker that is dead when Dask looks after another death of it, 15 s later, would be given up
        "distributed.deploy.lost-worker-timeout": "1 hour",
        "distributed.comm.timeouts.connect": "10 s",  # to workers that are dead: half a minute else
        **(settings or {}),
    }
    if "forkserver" in multiprocessing.get_all_start_methods():
        settings["distributed.worker.multiprocessing-method"] = "forkserver"
    with dask.config.set(settings):
        context = get_mp_context()
        if hasattr(context, "set_forkserver_preload"):
            context.set_forkserver_preload(IMPORTED)
        with (
            LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, **options) as made,
            Client(made, set_as_default=False) as client,
        ):
            yield client


@pytest.fixture(scope="module")
def processes():
    """The cluster of most tests here."""
    with two_processes() as client:
        yield client


def drawn(rng, n=120, d=5):
    X, y = rng.normal(size=(n, d)), rng.choice([0, 1], n)
    return X, y, (da.from_array(X, chunks=(n // 3, d)), da.from_array(y, chunks=n // 3))


def same_bits(one, other):
    np.testing.assert_array_equal(one.coef_, other.coef_)
    np.testing.assert_array_equal(one.intercept_, other.intercept_)
    assert one.certificate_ == other.certificate_


def holds_the_optimum(certificate, X, y):
    """The optimum of one machine lies between the two values of a certificate."""
    best = widemargin.LinearSVC(tol=1e-6, max_iter=20000).fit(X, y).certificate_
    assert certificate.dual <= best.primal * (1.0 + 1e-9)
    assert best.dual <= certificate.primal * (1.0 + 1e-9)


def while_told(monkeypatch, when, what):
    """Have ``what(parts)`` done while the last part works on a message, where ``when(parts, method)`` says so, and once
    for each method and number of messages.
    """
    told, done = actors.DaskParts._call, set()

    def call(self, k, method, *message):
        reply = told(self, k, method, *message)
        if k == len(self.actors) - 1 and (method, self.trips) not in done and when(self, method):
            done.add((method, self.trips))
            what(self)
        return reply

    monkeypatch.setattr(actors.DaskParts, "_call", call)
    return done


def processes_of(client):
    """The processes of the workers by address, when all are at work: one that dies before is not started again."""
    while True:
        found, known = list(client.cluster.workers.values()), client.scheduler_info()["workers"]
        pids = {n.worker_address: n.pid for n in found if n.process and n.process.status == Status.running}
        if set(pids) == set(known) and len(pids) == len(found) and not {None, *KILLED} & set(pids.values()):
            return pids
        time.sleep(0.01)


def kill_one(client, parts, number):
    """Kill a worker that holds parts, in turns."""
    pids = processes_of(client)
    # parts that replied before their worker died have not been missed yet; where all are such, any worker does
    holders = [actor._address for actor in parts.actors if actor is not None and actor._address in pids] or list(pids)
    KILLED.add(pids[holders[number % len(holders)]])
    os.kill(pids[holders[number % len(holders)]], signal.SIGKILL)


@pytest.mark.parametrize("solver", ["admm", "interior"])
def test_a_worker_killed_at_every_message_of_a_fit_changes_no_bit(processes, rng, monkeypatch, solver):
    """All kinds of messages are among those of two rounds, and workers die before a state is gathered and after."""
    _, _, given = drawn(rng)
    options = {"random_state": 1, "tol": 0, "max_iter": 2, "client": processes, "solver": solver}
    plain = on_dask.LinearSVC(**options).fit(*given)
    monkeypatch.setattr(actors, "GATHERED_EVERY", 2)  # so that states are gathered on the way, too

    def told(parts, method):
        """Each message, and now and then what is told again to parts that were lost."""
        return method == "tell" or (parts.trips % 4 == 1 and method in ("tell_again", "state"))

    killed = while_told(monkeypatch, told, lambda parts: kill_one(processes, parts, len(killed)))
    model = on_dask.LinearSVC(**options).fit(*given)
    assert {trip for method, trip in killed if method == "tell"} == set(range(plain.traffic_["trips"]))
    assert model.traffic_["lost"] >= plain.traffic_["trips"]
    same_bits(model, plain)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_worker_killed_at_the_first_messages_changes_no_bit_of_a_kernel_machine(processes, rng, monkeypatch):
    X = rng.normal(size=(120, 3))
    y = (X[:, 0] * X[:, 1] > 0.0).astype(int)
    given, messages = (da.from_array(X, chunks=(40, 3)), da.from_array(y, chunks=40)), 6
    solver = widemargin.StochasticBatchPerceptron(nu=0.02)
    options = {"random_state": 1, "tol": 0, "max_iter": 1, "client": processes, "solver": solver}
    plain = on_dask.SVC(**options).fit(*given)
    monkeypatch.setattr(actors, "GATHERED_EVERY", 2)  # so that states are gathered on the way, too

    def told(parts, method):
        return method == "tell" and parts.trips < messages

    killed = while_told(monkeypatch, told, lambda parts: kill_one(processes, parts, len(killed)))
    model = on_dask.SVC(**options).fit(*given)
    assert len(killed) == messages
    assert model.traffic_["lost"] >= messages
    for name in ("support_", "dual_coef_", "intercept_"):
        np.testing.assert_array_equal(getattr(model, name), getattr(plain, name))
    assert model.certificate_ == plain.certificate_


@pytest.mark.parametrize("solver", ["admm", "interior"])
def test_workers_that_come_late_and_workers_that_go_change_no_bit(processes, rng, monkeypatch, solver):
    _, _, given = drawn(rng)
    options = {"random_state": 1, "tol": 0, "max_iter": 8, "client": processes, "solver": solver}
    plain = on_dask.LinearSVC(**options).fit(*given)
    first, came = set(processes_of(processes)), []

    def come_and_go(parts):
        """A third worker comes while parts work; later one of the first is let go, as a cluster is made smaller."""
        if parts.trips == 2:
            processes.cluster.scale(3)
            processes.wait_for_workers(3)
            came.extend(set(processes_of(processes)) - first)
        else:
            kill_one(processes, parts, 0)

    while_told(monkeypatch, lambda parts, method: method == "tell" and parts.trips in (2, 6), come_and_go)
    try:
        model = on_dask.LinearSVC(**options).fit(*given)
    finally:
        processes.cluster.scale(2)
        while len(processes_of(processes)) > 2:  # workers go when they have time
            time.sleep(0.01)
    assert len(came) == 1
    same_bits(model, plain)


@pytest.mark.parametrize("solver", ["admm", "interior"])
def test_an_interrupted_fit_has_a_model_and_the_cluster_goes_on(processes, rng, monkeypatch, solver):
    X, y, given = drawn(rng)
    options = {"random_state": 1, "client": processes, "solver": solver}
    pressed = []

    def press(parts):
        """Ctrl-C, which a terminal sends to all processes."""
        pressed.append(parts.trips)
        for pid in processes_of(processes).values():
            os.kill(pid, signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)

    while_told(monkeypatch, lambda parts, method: method == "tell" and parts.trips == 4, press)
    model = on_dask.LinearSVC(**options, tol=0).fit(*given)
    assert model.stop_reason_ == "interrupted"
    assert pressed == [4]
    holds_the_optimum(model.certificate_, X, y)
    assert model.predict(given[0]).compute(scheduler=processes).shape == y.shape
    one, other = (on_dask.LinearSVC(**options, tol=0, max_iter=5).fit(*given) for _ in range(2))
    same_bits(one, other)


@pytest.mark.parametrize("solver", ["admm", "interior"])
def test_a_time_limit_leaves_a_model_with_its_certificate(processes, rng, solver):
    X, y, given = drawn(rng)
    model = on_dask.LinearSVC(random_state=1, client=processes, solver=solver, max_seconds=1e-9, tol=0).fit(*given)
    assert model.stop_reason_ == "max_seconds"
    assert model.certificate_.primal <= 1.0  # that of w = 0
    holds_the_optimum(model.certificate_, X, y)


def test_parts_that_workers_keep_on_disk_are_the_same_examples(processes, rng):
    """A worker that may keep a kilobyte in memory keeps every partition on disk."""
    _, _, given = drawn(rng)
    limits = {"target": 2.0**-20, "spill": False, "pause": False, "terminate": False}
    settings = {f"distributed.worker.memory.{name}": value for name, value in limits.items()}
    with two_processes(settings, memory_limit=2**30) as client:
        for solver in ("admm", "interior"):
            options = {"random_state": 1, "tol": 0, "max_iter": 4, "solver": solver}
            spilled = []

            def look(progress, spilled=spilled):
                spilled.append(sum(client.run(lambda dask_worker: len(dask_worker.data.slow)).values()))

            model = on_dask.LinearSVC(**options, client=client, callbacks=look).fit(*given)
            assert min(spilled) >= 3
            same_bits(model, on_dask.LinearSVC(**options, client=processes).fit(*given))
