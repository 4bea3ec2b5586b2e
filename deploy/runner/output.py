"""The runner's lines on standard output and standard error."""

import os
import sys


def say(line: str, *, is_error: bool = False) -> None:
    """Write a line. From then on nothing is written where the reader has gone, as in ``svc up | head``."""
    stream = sys.stderr if is_error else sys.stdout
    try:
        stream.write(f"{line}\n")
        stream.flush()
    except OSError:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)
