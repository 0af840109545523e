"""Signals that interrupt a call of the tests."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest


class Stop(Exception):
    """What the handler of a signal raises."""


@contextmanager
def interrupted() -> Iterator[None]:
    """Run a block that waits. Its handler of a signal runs meanwhile, and ends the wait when it raises, the second time."""
    calls: list[int] = []

    def handler(number: int, frame: object) -> None:
        calls.append(number)
        if len(calls) == 2:
            raise Stop

    previous = signal.signal(signal.SIGUSR1, handler)
    waiting = True

    def interrupt() -> None:  # it would not run if the call kept the interpreter's lock
        while waiting:
            time.sleep(0.05)
            if waiting and len(calls) < 2:
                os.kill(os.getpid(), signal.SIGUSR1)

    thread = threading.Thread(target=interrupt)
    thread.start()
    try:
        with pytest.raises(Stop):
            yield
    finally:
        waiting = False
        thread.join()
        signal.signal(signal.SIGUSR1, previous)
    assert len(calls) >= 2
