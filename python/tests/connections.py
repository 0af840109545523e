"""Connections of dlx.share for the tests."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from dlx import share

LIMIT = 60.0
"""Seconds after which a call that ought to return has failed."""


def socketpair() -> tuple[socket.socket, socket.socket]:
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)


@contextmanager
def pair(**options: Any) -> Iterator[tuple[share.Connection, share.Connection]]:
    """Make two connections to each other."""
    one, two = socketpair()
    with share.adopt(one, **options) as c, share.adopt(two, **options) as d:
        assert one.fileno() == two.fileno() == -1
        yield c, d
