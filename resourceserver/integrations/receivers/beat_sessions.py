"""Coding sessions that are derived from the beats of a connection, in the transaction that stores the beats.

    beats ──► kept, each once ──► the new ones are joined with sessions near them ──► these are written anew

A session remembers in its ``metadata`` what its beats add up to, so that a batch costs what it brings and
the sessions next to it, however long these are. Only where a session would become longer than a day, it is
divided between two beats; then all beats of its chain are read again.

Beats are kept for 30 days. An older one joins sessions in the same way, and one within a session is taken as
known, since it may be one that comes again. So nothing that comes late removes a session whose beats are
gone. Of such sessions, none is divided. Beats of a time whose sessions are removed because of their age are
left out.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, NamedTuple
from uuid import UUID

from resourceserver.ingest import events, route
from resourceserver.integrations import beats, values
from resourceserver.integrations.beats import Beat, Group, Overlong, Run
from resourceserver.integrations.imports.writing import Target
from shared import queries

SQL: Final = queries.load(
    Path(__file__).with_name("beat_sessions.sql"), Path(route.__file__).with_name("ingest.sql")
)

DAY_MS: Final = 86_400_000
KEPT_MS: Final = 29 * DAY_MS
"""The age of beats from which on they are not kept: a day less than that at which they are removed."""
MOST_DIVIDED: Final = 20_000
"""The most beats that a batch reads again to divide sessions; sessions of further ones are not divided."""
COUNTERS: Final = (
    *("ai_line_changes", "human_line_changes"),
    *("ai_input_tokens", "ai_output_tokens", "ai_prompt_length"),
)
"""The counters of a beat of which a session has the sums."""

_KEPT_FIELDS: Final = Beat._fields[1:]
"""All but the time, which is a column."""

_compact: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


class Heartbeat(NamedTuple):
    """A beat, and what else its editor sent about it."""

    beat: Beat
    entity: str
    details: dict[str, Any]
    """Further members, which answers about beats repeat."""

    @property
    def key(self) -> str:
        """What identifies the beat beside its time: the type and the name of its entity."""
        return _digest(self.beat.kind, self.entity)

    @property
    def content(self) -> dict[str, Any]:
        """The beat as it is kept."""
        fields = {
            name: value
            for name, value in zip(_KEPT_FIELDS, self.beat[1:], strict=True)
            if value is not None and value is not False and value != ()
        }
        return fields | {"entity": self.entity} | self.details


@lru_cache(maxsize=4096)
def _digest(kind: str | None, entity: str) -> str:
    return str(UUID(bytes=sha256(f"{kind}\0{entity}".encode()).digest()[:16]))


class Link(NamedTuple):
    """A part of a chain: a session that exists, or a new beat."""

    run: Run
    key: str | None = None
    """That of the session."""


@dataclass
class Changes:
    """What has to be written because of the new beats of a batch."""

    added: int = 0
    """The number of new beats."""
    removed: list[str] = field(default_factory=list)
    """Keys of sessions that no longer exist."""
    written: list[dict[str, Any]] = field(default_factory=list)
    closed_ms: int | None = None
    """The instant before which beats were left out, if there is one."""

    def __bool__(self) -> bool:
        """Tell whether a session changes."""
        return bool(self.removed or self.written)

    @property
    def parameters(self) -> dict[str, Any]:
        """The parameters of ``replace_sessions``."""
        return {"removed": self.removed, "sessions": _compact(self.written)}


class NotAtOnce(Exception):
    """More has to be read than what ``keep_beats`` returns."""


class Beats(NamedTuple):
    """The beats that one device has sent in a batch, each once."""

    device: str
    by_key: dict[tuple[int, str], Heartbeat]
    """By their times and keys."""
    ordered: list[tuple[int, str]]
    recent: list[tuple[int, str]]
    """Those of ``ordered`` that are kept."""
    gap_ms: int

    @property
    def parameters(self) -> dict[str, Any]:
        """The parameters of ``keep_beats``."""
        windows = list(_windows([at_ms for at_ms, _ in self.ordered], self.gap_ms))
        return {
            "device": self.device,
            # Numbers and keys need no quotes, and a list of texts with quotes would be slow to write.
            "at_ms": _array(at_ms for at_ms, _ in self.recent),
            "keys": _array(key for _, key in self.recent),
            "contents": _compact([self.by_key[each].content for each in self.recent]),
            "from_ms": _array(window[0] for window in windows),
            "to_ms": _array(window[1] for window in windows),
            "projects": sorted({each.beat.project for each in self.by_key.values()}),
        }


def once_each(
    device: str, heartbeats: Iterable[Heartbeat], *, gap_ms: int, now_ms: int
) -> Beats | None:
    """Return the beats of a batch, each once; None without any."""
    sent: dict[tuple[int, str], Heartbeat] = {}
    for each in heartbeats:
        sent.setdefault((each.beat.at_ms, each.key), each)
    ordered = sorted(sent)
    recent = [each for each in ordered if each[0] >= now_ms - KEPT_MS]
    return Beats(device, sent, ordered, recent, gap_ms) if sent else None


def store(
    target: Target, device: str, heartbeats: Iterable[Heartbeat], *, gap_ms: int, now_ms: int
) -> Changes | None:
    """Keep the beats of one device, and return the changes to the sessions of the connection.

    None: nothing was kept, because the device would be one more than the person may have.
    """
    sent = once_each(device, heartbeats, gap_ms=gap_ms, now_ms=now_ms)
    if sent is None:
        return Changes()
    parameters = sent.parameters
    result = _value(target, "keep_beats", parameters)
    if result is None and _add_device(target, device):
        result = _value(target, "keep_beats", parameters)
    # Without a result again, the device was deleted at this moment.
    return None if result is None else changes_of(sent, result, target)


def changes_of(sent: Beats, result: dict[str, Any], target: Target | None) -> Changes:
    """Return the changes to sessions from the result of ``keep_beats``.

    Raises NotAtOnce if more has to be read, and there is no ``target`` to read it from.
    """
    kept = sessions_of(result["sessions"])
    closed_ms: int | None = result.get("closed_ms")
    new = [sent.by_key[sent.recent[index]].beat for index in result["added"]]
    new += [
        sent.by_key[each].beat
        for each in sent.ordered[: len(sent.ordered) - len(sent.recent)]
        # Sessions of less than a year are never removed, so no beat that is kept is left out.
        if (closed_ms is None or each[0] >= closed_ms)
        and not _is_within(kept, sent.by_key[each].beat)
    ]
    changes = Chains(target, kept, sent.gap_ms).changes(new)
    changes.closed_ms = closed_ms
    return changes


def replace(target: Target, changes: Changes) -> None:
    """Write the changes to sessions."""
    if changes:
        target.connection.execute(SQL["replace_sessions"], changes.parameters)


def _array(values: Iterable[object]) -> str:
    """Return an array of numbers or keys as Postgres reads it."""
    return f"{{{','.join(map(str, values))}}}"


def _windows(times: Sequence[int], gap_ms: int) -> Iterator[tuple[int, int]]:
    """Yield the windows in which sessions may lie that ordered beats belong to; they do not overlap."""
    start = end = times[0]
    for at_ms in times:
        if at_ms - end > 2 * gap_ms:
            yield start - gap_ms, end + gap_ms
            start = at_ms
        end = at_ms
    yield start - gap_ms, end + gap_ms


def _value(target: Target | None, statement: str, parameters: dict[str, Any]) -> Any:
    """Return the only value of a statement. Raises NotAtOnce without a target."""
    if target is None:
        raise NotAtOnce
    row = target.connection.execute(SQL[statement], parameters).fetchone()
    return None if row is None else row[0]


def _add_device(target: Target, device: str) -> bool:
    """Add a device; False: the person has the maximum number."""
    parameters = {
        "user_id": target.user_id,
        "devices": _compact([{"name": device, "platform": None}]),
        "most_devices": events.MAX_DEVICES,
    }
    target.connection.execute(SQL["lock_new_devices"], parameters)
    return target.connection.execute(SQL["add_devices"], parameters).fetchone() is None


def sessions_of(rows: Iterable[Any]) -> dict[Group, list[Link]]:
    """Return rows of the database as sessions, each once, by their group."""
    found: dict[Group, list[Link]] = {}
    seen = set()
    for row in rows:
        key, device, project, language, start_ms, end_ms = row[:6]
        file, branch, editor, utc_offset, is_write, added, removed, metadata = row[6:]
        if key in seen:
            continue
        seen.add(key)
        run = Run(
            start_ms,
            end_ms,
            file,
            branch,
            editor,
            utc_offset,
            is_write,
            added,
            removed,
            metadata["activities"],
            {name: metadata[name] for name in COUNTERS if name in metadata},
            metadata["beats"],
        )
        kind = metadata.get("entity_type", "file")
        found.setdefault((device, project, language, kind), []).append(Link(run, key))
    return found


def _is_within(kept: dict[Group, list[Link]], beat: Beat) -> bool:
    return any(
        each.run.start_ms <= beat.at_ms <= each.run.end_ms
        for each in kept.get(beats.group_of(beat), ())
    )


@dataclass
class Chains:
    """The sessions near the beats of a batch, in chains with less than a gap between two parts."""

    target: Target | None
    """Where more can be read, if anywhere."""
    kept: dict[Group, list[Link]]
    gap_ms: int
    readable: int = field(default_factory=lambda: MOST_DIVIDED)
    """How many beats may still be read: a batch can make sessions of hundreds of groups too long at once."""

    def changes(self, new: Iterable[Beat]) -> Changes:
        """Return what changes with new beats."""
        links: dict[Group, list[Link]] = {}
        for beat in new:
            links.setdefault(beats.group_of(beat), []).append(Link(Run.of(beat)))
        taken = {link.key: group for group, kept in self.kept.items() for link in kept if link.key}
        changes = Changes(sum(map(len, links.values())))
        # The order decides which of two sessions has the shorter key (``_free_key``).
        for group in sorted(links, key=repr):
            parts = [*links[group], *self.kept.get(group, ())]
            for chain, runs in self._chains(group, parts, taken):
                _compare(group, chain, runs, taken, changes)
        return changes

    def _chains(
        self, group: Group, links: list[Link], taken: dict[str, Group]
    ) -> Iterator[tuple[list[Link], list[Run]]]:
        """Yield the chains of a group, each with the sessions that it becomes."""
        links = _sorted(links)
        while links:
            chain, rest = self._first(links)
            try:
                runs = self._joined(chain, may_divide=True)
            except Overlong:
                parts = chain
                if self.readable > 0:
                    chain, rest = self._first(self._with_later(group, chain + rest, taken))
                    parts = self._of_beats(group, chain)
                runs = self._joined(parts, may_divide=False)
            yield chain, runs
            links = rest

    def _first(self, links: list[Link]) -> tuple[list[Link], list[Link]]:
        """Return the first chain of sorted links, and all others."""
        end_ms = links[0].run.end_ms
        for place, link in enumerate(links):
            if link.run.start_ms >= end_ms + self.gap_ms:
                return links[:place], links[place:]
            end_ms = max(end_ms, link.run.end_ms)
        return links, []

    def _joined(self, chain: Iterable[Link], *, may_divide: bool) -> list[Run]:
        runs = (link.run for link in chain)
        return beats.joined(runs, self.gap_ms, may_divide=may_divide)

    def _with_later(self, group: Group, links: list[Link], taken: dict[str, Group]) -> list[Link]:
        """Return links and all later sessions of their group that may belong to the first chain, sorted."""
        start_ms = links[0].run.start_ms
        # No beat is kept longer than a month, and none is accepted that is more than a day ahead.
        window = {"from_ms": start_ms, "to_ms": start_ms + KEPT_MS + 3 * DAY_MS}
        values = window | {"projects": [group[1]]}
        found = sessions_of(_value(self.target, "derived_sessions", values))
        for other, sessions in found.items():
            taken |= {link.key: other for link in sessions if link.key}
        known = {link.key for link in links}
        return _sorted([*links, *(link for link in found.get(group, ()) if link.key not in known)])

    def _of_beats(self, group: Group, chain: list[Link]) -> list[Link]:
        """Return the beats of a chain, between which it can be divided; the chain if not all can be read."""
        values = {
            "from_ms": chain[0].run.start_ms,
            "to_ms": max(link.run.end_ms for link in chain),
            "most": self.readable + 1,
        }
        rows = _value(self.target, "kept_beats", values)
        found = [beat_of(at_ms, content) for at_ms, content in rows[: self.readable]]
        self.readable -= len(found)
        own = [beat for beat in found if beats.group_of(beat) == group]
        if len(own) != sum(link.run.beat_count for link in chain):
            return chain
        return [Link(Run.of(beat)) for beat in own]


def _sorted(links: list[Link]) -> list[Link]:
    return sorted(links, key=lambda link: link.run.start_ms)


def beat_of(at_ms: int, content: dict[str, Any]) -> Beat:
    """Return a beat that was kept."""
    fields = {name: content[name] for name in Beat._fields if name in content}
    if "counters" in fields:
        fields["counters"] = tuple((name, count) for name, count in fields["counters"])
    return Beat(at_ms=at_ms, **fields)


def _compare(
    group: Group,
    chain: Iterable[Link],
    runs: Iterable[Run],
    taken: dict[str, Group],
    changes: Changes,
) -> None:
    """Add to changes what is different in the sessions of a chain."""
    earlier = {link.run.start_ms: link for link in chain if link.key is not None}
    current = set()
    for run in runs:
        before = earlier.get(run.start_ms)
        key = _free_key(group, run, taken) if before is None or before.key is None else before.key
        taken[key] = group
        current.add(key)
        if before is None or before.run != run:
            changes.written.append(_row(key, group, run))
    changes.removed += [
        link.key for link in earlier.values() if link.key is not None and link.key not in current
    ]


def _free_key(group: Group, run: Run, taken: dict[str, Group]) -> str:
    """Return the key of a new session.

    Sessions of one project and language that begin in the same millisecond have the same key if their devices
    or kinds of entities differ; all but the first then have these in their keys.
    """
    key = beats.key(group, run)
    if taken.get(key, group) == group:
        return key
    device, project, language, kind = group
    return values.key("wk", project, language, run.start_ms, kind, device)


def _row(key: str, group: Group, run: Run) -> dict[str, Any]:
    device, project, language, kind = group
    metadata = {"beats": run.beat_count, "activities": run.activities} | run.counters
    return {
        "key": key,
        "device": device,
        "project": project,
        "language": language,
        "started_ms": run.start_ms,
        "ended_ms": run.end_ms,
        "file": run.file,
        "branch": run.branch,
        "editor": run.editor,
        "activity": run.activity,
        "utc_offset": run.utc_offset,
        "is_write": run.is_write,
        "lines_added": run.lines_added,
        "lines_removed": run.lines_removed,
        "metadata": metadata if kind == "file" else {"entity_type": kind} | metadata,
    }
