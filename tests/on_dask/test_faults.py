"""Workers that die: a real cluster of two processes, of which one is killed at every message."""

import os
import signal
from multiprocessing import forkserver

import numpy as np
import pytest

dask, da = pytest.importorskip("dask"), pytest.importorskip("dask.array")

from distributed import Client, LocalCluster  # noqa: E402

from widemargin import StochasticBatchPerceptron  # noqa: E402
from widemargin import dask as on_dask  # noqa: E402
from widemargin.dask import actors  # noqa: E402


@pytest.fixture(scope="module")
def processes():
    """A client of two workers in processes of their own, which a nanny starts again.

    They are forked from a process that has imported all: a worker by itself takes three seconds of the processor for
    that, each time. None of them compiles what another has compiled before.
    """
    forkserver.set_forkserver_preload(["distributed.nanny", "widemargin.dask", "widemargin.solvers.sbp_parts"])
    forkserver.ensure_running()  # before Dask asks for other modules
    with (
        dask.config.set({"distributed.worker.multiprocessing-method": "forkserver"}),
        LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        yield client


def killer(client, most, monkeypatch):
    """Have a worker that holds parts killed at each of so many messages, while it works; returns who was."""
    told, killed = actors.DaskParts._call, []

    def call(self, k, method, *message):
        reply = told(self, k, method, *message)
        if method == "tell" and self.trips == len(killed) < most and k == len(self.actors) - 1:
            client.wait_for_workers(2)
            pids = client.run(os.getpid, on_error="ignore")
            # parts that replied before their worker died have not been missed yet; where all are such, any worker does
            holders = [actor._address for actor in self.actors if actor is not None and actor._address in pids]
            holders = holders or list(pids)
            killed.append(holders[self.trips % len(holders)])
            os.kill(pids[killed[-1]], signal.SIGKILL)
        return reply

    monkeypatch.setattr(actors.DaskParts, "_call", call)
    return killed


@pytest.mark.parametrize(("solver", "messages"), [("admm", 3), ("interior", 4)])
def test_a_worker_killed_at_every_message_changes_no_bit(processes, rng, monkeypatch, solver, messages):
    X, y = rng.normal(size=(120, 5)), rng.choice([0, 1], 120)
    given = da.from_array(X, chunks=(40, 5)), da.from_array(y, chunks=40)
    options = {"random_state": 1, "tol": 0, "max_iter": 3, "client": processes, "solver": solver}
    plain = on_dask.LinearSVC(**options).fit(*given)
    monkeypatch.setattr(actors, "GATHERED_EVERY", 2)  # so that states are gathered on the way, too
    killed = killer(processes, messages, monkeypatch)
    model = on_dask.LinearSVC(**options).fit(*given)
    assert len(killed) == messages
    assert model.traffic_["lost"] >= messages
    np.testing.assert_array_equal(model.coef_, plain.coef_)
    np.testing.assert_array_equal(model.intercept_, plain.intercept_)
    assert model.certificate_ == plain.certificate_


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_worker_killed_at_every_message_changes_no_bit_of_a_kernel_machine(processes, rng, monkeypatch):
    X = rng.normal(size=(120, 3))
    y = (X[:, 0] * X[:, 1] > 0.0).astype(int)
    given, messages = (da.from_array(X, chunks=(40, 3)), da.from_array(y, chunks=40)), 6
    options = {
        "random_state": 1,
        "tol": 0,
        "max_iter": 1,
        "client": processes,
        "solver": StochasticBatchPerceptron(nu=0.02),
    }
    plain = on_dask.SVC(**options).fit(*given)
    monkeypatch.setattr(actors, "GATHERED_EVERY", 2)  # so that states are gathered on the way, too
    killed = killer(processes, messages, monkeypatch)
    model = on_dask.SVC(**options).fit(*given)
    assert len(killed) == messages
    assert model.traffic_["lost"] >= messages
    for name in ("support_", "dual_coef_", "intercept_"):
        np.testing.assert_array_equal(getattr(model, name), getattr(plain, name))
    assert model.certificate_ == plain.certificate_
