"""The lifeline: a pipe that ends a process when the one that started it is gone.

Only the starter holds the writing end. However the starter ends, killed or not, the kernel closes that end,
and the reader notices it.
"""

import os
import signal
import threading


def watch(descriptor: int) -> None:
    """Have SIGTERM sent to this process when the other end of the pipe ``descriptor`` is closed."""
    threading.Thread(target=_end, args=(descriptor,), daemon=True).start()


def _end(descriptor: int) -> None:
    while os.read(descriptor, 1):
        pass
    os.kill(os.getpid(), signal.SIGTERM)
