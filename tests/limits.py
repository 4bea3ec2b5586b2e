"""The time limits of servers under test.

Beside other work a process may get no processor time for several seconds. That is longer than a server waits
for a connection, and than a quick read or a probe may take. So servers in the process of the tests and their
copies (tests/copies.py) get longer limits. Servers that are started as programs keep those of the product.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import ModuleType
from typing import Any, Final

from resourceserver.api import session
from shared import database, hang, probes

SERVERS_WAIT_S: Final = database.WAIT_S
"""How long servers of the product wait for a connection."""

_Limits = Mapping[tuple[ModuleType, str], Any]

_LONG_READS: Final[_Limits] = {(session, "QUICK_MS"): 30_000, (session, "QUICK_S"): 60.0}
_LONG: Final[_Limits] = {
    (database, "WAIT_S"): 30.0,
    (hang, "PROBE_S"): 10.0,
    (probes, "ALIVE_WAIT_S"): 10.0,
    (probes, "READY_WAIT_S"): 30.0,
}
_SHORT: Final[_Limits] = {(module, name): getattr(module, name) for module, name in _LONG} | {
    (database, "WAIT_S"): 2 * SERVERS_WAIT_S
}


def lengthen() -> None:
    """Give long limits to all servers of this process and its copies."""
    _set({**_LONG, **_LONG_READS})


@contextmanager
def short() -> Iterator[None]:
    """Let servers soon give up a database that does not answer, for a test that lets them wait for that.

    Make connections that must succeed before the block. A ``Pool`` keeps the limits with which it was made.
    """
    before = {(module, name): getattr(module, name) for module, name in _SHORT}
    _set(_SHORT)
    try:
        yield
    finally:
        _set(before)


def _set(limits: _Limits) -> None:
    for (module, name), limit in limits.items():
        setattr(module, name, limit)
