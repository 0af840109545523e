"""What files, streams and events have in common: a handle of libdlx that is closed once."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from types import TracebackType
from typing import NoReturn, TypeVar

from . import _C

_Self = TypeVar("_Self", bound="Owner")


class Owner(ABC):
    """An owner of a handle. A with statement closes it at its end, and the collector if nobody has."""

    _handle: int | None = None  # None before it was opened, and after close
    _closed: str  # what the error says of a closed one

    def _open(self) -> int:
        """Return the handle, or raise ValueError."""
        if self._handle is None:
            raise ValueError(f"dlx: {self._closed}")
        return self._handle

    def _release(self, release: Callable[[int], None]) -> None:
        """Give up the handle: release is called with it, unless it was before."""
        handle, self._handle = self._handle, None
        if handle is not None:
            release(handle)

    def __reduce__(self) -> NoReturn:
        """Refuse: a copy would close the handle, or name an object of another process."""
        raise TypeError(f"dlx: {type(self)} cannot be pickled or copied: it belongs to this process")

    @abstractmethod
    def close(self) -> None:
        """Close it. Closing it twice is safe."""

    def __enter__(self: _Self) -> _Self:
        """Return the object, which is closed at the end of the with statement."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the object."""
        self.close()

    def __del__(self) -> None:
        """Close the object."""
        if self._handle is not None and _C is not None:
            self.close()
