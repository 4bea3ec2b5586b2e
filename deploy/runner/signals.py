"""The signals that ask the runner to end: SIGINT, SIGTERM, and SIGHUP unless it is ignored.

A signal only sets a flag, which is read wherever the runner waits. An exception thrown while a child is
started could lose track of that child.
"""

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

_NUMBERS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Stopped(KeyboardInterrupt):
    """The runner was asked to end. psycopg cancels what it waits for on exceptions of this kind."""


class Signals:
    """Whether a signal has asked for the end. Further signals change nothing."""

    def __init__(self) -> None:
        """Install the handlers, and unblock the signals that a former image of this process blocked."""
        self._is_stop_requested = False
        self._is_urgent = False
        for number in _NUMBERS:
            # Under nohup the end of the terminal is to be ignored.
            if number != signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, self._note)
        self.unblock()

    def pause(self, seconds: float) -> None:
        """Wait; raise ``Stopped`` if the end has been asked for."""
        if not self._is_stop_requested:
            # The runner has nothing to do between two looks at its children.
            time.sleep(seconds)
        self.check()

    def check(self) -> None:
        """Raise ``Stopped`` if the end has been asked for."""
        if self._is_stop_requested:
            raise Stopped

    def block(self) -> None:
        """Keep further signals pending, also for the image that replaces this one."""
        signal.pthread_sigmask(signal.SIG_BLOCK, _NUMBERS)

    def unblock(self) -> None:
        """Deliver signals again, the pending ones first."""
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _NUMBERS)

    @contextmanager
    def urgent(self) -> Iterator[None]:
        """Let a signal raise ``Stopped`` at once, in a block that may wait for long and starts no process."""
        self._is_urgent = True
        try:
            self.check()
            yield
        finally:
            self._is_urgent = False

    def _note(self, _number: int, _frame: FrameType | None) -> None:
        self._is_stop_requested = True
        if self._is_urgent:
            # The next signal must not interrupt what this one has begun to unwind.
            self._is_urgent = False
            raise Stopped
