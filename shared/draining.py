"""The end of a server process: it says first that it will stop, answers on for a while, and then stops.

    SIGTERM ──► draining ─────SVC_DRAIN_SECONDS────► stopping ──────► gone
                /readyz is 503, and each answer      accepts nothing more,
                closes its connection                finishes what runs

A balancer needs a moment to learn from /readyz that it should send requests elsewhere, and a client with an
open connection learns it from its next answer. Without that moment, a request that arrives while its idle
connection is being closed is lost, and its client cannot know whether it was executed.

A second signal, or Ctrl-C, stops at once.
"""

from dataclasses import dataclass
from typing import Final

from starlette.types import Scope

DRAIN: Final = "svc.drain"
"""The scope's key for the drain of the process."""


@dataclass(eq=False)
class Drain:
    """Whether the process is about to stop. Its connections hand it to each request (``shared.heads``)."""

    waits: bool
    """Whether the process answers on for a while, since others answer after it."""
    is_on: bool = False


def is_draining(scope: Scope) -> bool:
    """Whether the process that answers this request is about to stop."""
    drain: Drain | None = scope.get(DRAIN)
    return drain is not None and drain.is_on
