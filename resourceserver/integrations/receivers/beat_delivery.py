"""A batch of beats on its way into the database: two round trips and no thread, if it is a usual one.

    session, beats ──► new beats, sessions near them ──► sessions, receipt, connection ──► commit
                          │
                          └── a new machine, a session to divide ──► rolled back ──► written in a thread

A batch that needs further statements, or much time, is written in a thread, by the same functions.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final

from resourceserver.integrations import beats, values
from resourceserver.integrations.imports import deliveries
from resourceserver.integrations.imports.batches import Batch, Outcome
from resourceserver.integrations.imports.writing import Target
from resourceserver.integrations.receivers import beat_sessions
from resourceserver.integrations.receivers.beat_sessions import Beats, Changes, Heartbeat, NotAtOnce
from resourceserver.integrations.receivers.receiving import Opened, Receiving
from resourceserver.integrations.records import Refused
from shared import pipeline
from shared.connections import KINDS
from shared.pipeline import Results, Step

KIND: Final = "wakatime"
INTERVAL: Final = range(1, 61)
"""The minutes without a beat that may end a session."""
SMALL: Final = 100
"""The most beats that are written without a thread."""
_MOST_BYTES: Final = 64 * 1024
"""The most bytes of sessions near them: about two hundred, which are joined in about a millisecond."""

_KEEP_BEATS, _REPLACE_SESSIONS, _ADD_DELIVERY, _NOTE_DELIVERY = map(
    pipeline.statement,
    (
        beat_sessions.SQL["keep_beats"],
        beat_sessions.SQL["replace_sessions"],
        deliveries.SQL["add_delivery"],
        deliveries.SQL["note_delivery"],
    ),
)


@dataclass(frozen=True)
class Given:
    """The beats of a request."""

    device: str
    taken: Sequence[Heartbeat | Refused]
    now_ms: int

    @property
    def heartbeats(self) -> list[Heartbeat]:
        """Those that can be kept."""
        return [each for each in self.taken if isinstance(each, Heartbeat)]

    def once_each(self, opened: Opened) -> Beats | None:
        """Return the beats that can be kept, each once; None without any."""
        gap = gap_ms(opened.settings)
        return beat_sessions.once_each(self.device, self.heartbeats, gap_ms=gap, now_ms=self.now_ms)

    def since(self, closed_ms: int | None) -> "Given":
        """Return the same with the beats before an instant refused."""
        if closed_ms is None:
            return self
        taken = [
            Refused("timestamp_out_of_range", values.example(each.entity))
            if isinstance(each, Heartbeat) and each.beat.at_ms < closed_ms
            else each
            for each in self.taken
        ]
        return replace(self, taken=taken)

    def batch(self) -> Batch:
        """Return their count, and the first and the last instant."""
        batch = Batch(count=len(self.taken))
        times = [each.beat.at_ms for each in self.heartbeats]
        if times:
            batch.first_at, batch.last_at = (
                datetime.fromtimestamp(at_ms / 1000, UTC) for at_ms in (min(times), max(times))
            )
        return batch


def gap_ms(settings: Mapping[str, Any]) -> int:
    """Return the gap that ends a session, as the person has chosen it."""
    minutes = values.count(settings.get("gap_minutes"))
    return minutes * 60_000 if minutes is not None and minutes in INTERVAL else beats.GAP_MS


async def deliver(receiving: Receiving, opened: Opened, given: Given) -> Given:
    """Write beats in one transaction; return them with those refused that can never be kept.

    Raises WrongKey, DatabaseUnavailable and TooManyRequests.
    """
    sent = given.once_each(opened)
    is_usual = len(given.heartbeats) == len(given.taken) <= SMALL and not opened.is_paused
    if sent is not None and is_usual:
        try:
            await _deliver_at_once(receiving, opened, given, sent)
        except NotAtOnce:
            pass
        else:
            return given
    return await receiving.transact(opened, partial(write, given=given))


async def _deliver_at_once(receiving: Receiving, opened: Opened, given: Given, sent: Beats) -> None:
    """Write beats without a thread. Raises NotAtOnce; then nothing was written."""

    def following(fresh: Opened, results: Results) -> Sequence[Step]:
        kept = results[0].get_value(0, 0)
        # The settings may have changed since the key was looked up.
        if fresh[:-1] != opened[:-1] or kept is None or len(kept) > _MOST_BYTES:
            raise NotAtOnce
        changes = beat_sessions.changes_of(sent, json.loads(kept), None)
        if given.since(changes.closed_ms) != given:
            raise NotAtOnce
        return _steps(fresh, given, changes)

    await receiving.transact_at_once(
        opened,
        ((_KEEP_BEATS, sent.parameters),),
        (_REPLACE_SESSIONS, _ADD_DELIVERY, _NOTE_DELIVERY),
        following,
    )


def _steps(opened: Opened, given: Given, changes: Changes) -> list[Step]:
    """Return the steps that write what follows from new beats."""
    batch, kind = given.batch(), KINDS[KIND]
    counts = deliveries.counts_of(batch, Outcome(changes.added, 0, {}))
    common = {"user_id": opened.user_id, "import_id": opened.import_id}
    counted: list[Step] = [
        (_ADD_DELIVERY, common | deliveries.part_values(kind, batch, counts)),
        (_NOTE_DELIVERY, deliveries.note_values(counts)),
    ]
    return [(_REPLACE_SESSIONS, changes.parameters), *counted] if changes else counted


def write(target: Target, opened: Opened, *, given: Given) -> Given:
    """Write beats in the transaction of their connection; return them with those refused that are not kept.

    Where the machine is one too many, all are.
    """
    if opened.is_paused:
        return given
    changes = beat_sessions.store(
        target,
        given.device,
        given.heartbeats,
        gap_ms=gap_ms(opened.settings),
        now_ms=given.now_ms,
    )
    judged = given if changes is None else given.since(changes.closed_ms)
    batch = judged.batch()
    for each in judged.taken:
        if isinstance(each, Refused):
            batch.refuse(each.reason, each.example)
        elif changes is None:
            batch.refuse("too_many_devices", given.device)
    added = 0 if changes is None else changes.added
    with target.connection.pipeline():
        if changes is not None:
            beat_sessions.replace(target, changes)
        deliveries.count(target, KINDS[KIND], batch, Outcome(added, 0, batch.refused))
    if changes is None:
        return replace(given, taken=[Refused("too_many_devices", "") for _ in given.taken])
    return judged
