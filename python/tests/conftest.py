"""What all tests share: nothing may stay open after a test."""

from __future__ import annotations

import faulthandler
import gc
import time
from collections.abc import Iterator

import pytest
from _pytest.faulthandler import fault_handler_stderr_fd_key

import dlx


def pytest_collection_finish(session: pytest.Session) -> None:
    """Show where a crash is. Leave out of each collection what is there before the tests: that takes most of its time."""
    # tvm_ffi, which the tests have imported by now, has replaced the handlers that pytest had set.
    faulthandler.disable()
    faulthandler.enable(session.config.stash[fault_handler_stderr_fd_key])
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def nothing_stays_open() -> Iterator[None]:
    gc.collect()
    before = dlx._live()
    yield
    gc.collect()
    end = time.monotonic() + 60  # memory is freed when the device has finished its work on it
    while dlx._live() != before and time.monotonic() < end:
        time.sleep(0.01)
    assert dlx._live() == before
