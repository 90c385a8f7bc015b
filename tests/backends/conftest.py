"""Tests of the code for GPUs: on one, or, where torch is installed, on the CPU by Triton's interpreter."""

import os

import pytest

try:
    import torch
except ImportError:
    torch = None
if torch is None or not torch.cuda.is_available():
    os.environ.setdefault("TRITON_INTERPRET", "1")  # before Triton is imported

from widemargin import backends

LACKING = backends.lacking()


def pytest_collection_modifyitems(items):
    """Without a GPU, fits by Triton's interpreter are run by ``make test-gpu`` only."""
    if LACKING and not os.environ.get("WIDEMARGIN_INTERPRET"):
        for item in items:
            if item.get_closest_marker("interpreted"):
                item.add_marker(pytest.mark.skip(reason="takes long without a GPU: make test-gpu runs it"))


@pytest.fixture
def device():
    """torch's name of the device that the solver is tested on."""
    pytest.importorskip("torch")
    pytest.importorskip("triton")
    return "cpu" if LACKING else "cuda"


@pytest.fixture
def stand_in(device, monkeypatch):
    """The device that ``device="cuda"`` means in a test: a GPU, or the host's memory in the place of one."""
    if LACKING:
        monkeypatch.setattr(backends, "GPU", "cpu")
        monkeypatch.setattr(backends, "lacking", lambda: "")
    return device


@pytest.fixture
def gpu():
    """Skips where there is no GPU."""
    if LACKING:
        pytest.skip(f"this test needs {LACKING}")
