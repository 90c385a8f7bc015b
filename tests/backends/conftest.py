"""Tests of the code for GPUs: on one, or, where torch is installed, on the CPU by Triton's interpreter."""

import os

import pytest

from widemargin import backends

LACKING = backends.lacking()
if LACKING:
    os.environ.setdefault("TRITON_INTERPRET", "1")


@pytest.fixture
def device():
    """torch's name of the device that the solver is tested on."""
    pytest.importorskip("torch")
    pytest.importorskip("triton")
    return "cpu" if LACKING else "cuda"


@pytest.fixture
def gpu():
    """Skips where there is no GPU."""
    if LACKING:
        pytest.skip(f"this test needs {LACKING}")
