"""A cluster for the tests, in this process, which starts at once."""

import pytest


@pytest.fixture(scope="module")
def client():
    """A cluster in this process. It ends with its file: even idle it takes a thirtieth of a processor."""
    distributed = pytest.importorskip("distributed")
    with distributed.Client(
        processes=False, n_workers=2, threads_per_worker=1, dashboard_address=None, set_as_default=True
    ) as client:
        yield client
