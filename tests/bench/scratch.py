"""The directory in which a measurement runs."""

import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def directory() -> Iterator[Path]:
    """Create a directory that every account may read, and remove it after a block.

    SIGTERM ends the measurement as Ctrl-C does, so that all processes that it has started end too.
    """
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    scratch = Path(tempfile.mkdtemp(prefix="svc-bench-"))
    scratch.chmod(0o755)
    try:
        yield scratch
    finally:
        shutil.rmtree(scratch)
