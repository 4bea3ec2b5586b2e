"""Connections as their person sees them, with their states in words, and the kinds that can be connected."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final
from uuid import UUID

from shared.connections import KINDS, PROBLEMS, RECEIVERS, Field, Kind, Problem, State
from shared.settings import Settings

TAGS: Final[Mapping[State, str]] = {
    "waiting": "waiting",
    "live": "live",
    "failing": "failing",
    "refused": "key refused",
    "paused": "paused",
    "stopped": "disconnected",
}
"""The states, each in a word or two (``svc.connection_state``)."""
GROUPS: Final = {
    "Coding": ("activity", "code"),
    "Music": ("music",),
    "Places": ("location",),
    "Health": ("health",),
    "Calendar": ("content",),
}
"""The kinds of data under the headings of the page."""
_NEW: Final = timedelta(hours=1)


@dataclass(frozen=True)
class Connection:
    """A connection of a person."""

    connection_id: UUID
    kind: str
    name: str
    state: State
    settings: Mapping[str, str]
    problem: str | None
    """The code of what is wrong (``shared.connections.PROBLEMS``)."""
    failing_since: datetime | None
    created_at: datetime
    first_record_at: datetime | None
    """When the first record arrived."""
    last_record_at: datetime | None
    record_count: int
    refused: int
    refused_reason: str | None
    """Why most of the refused records were refused, as a code."""
    scopes: Sequence[str]
    key_created_at: datetime | None
    """When its key was created; None where the worker pulls."""
    key_used_at: datetime | None
    last_pull_at: datetime | None
    next_pull_at: datetime | None
    retry_at: datetime | None
    """Until when the service wants to be left alone, if it has said so."""
    paused_at: datetime | None
    stopped_at: datetime | None
    is_removed: bool
    """Whether what it brought is removed, or is going to be."""

    @property
    def known_kind(self) -> Kind | None:
        """Its kind; None if only a newer version of the service knows it."""
        return KINDS.get(self.kind)

    @property
    def title(self) -> str:
        """The name of its kind for people."""
        return self.kind if self.known_kind is None else self.known_kind.title

    @property
    def tag(self) -> str:
        """Its state in a word or two."""
        return TAGS[self.state]

    @property
    def is_pulled(self) -> bool:
        """Whether the worker pulls it."""
        return self.known_kind is not None and self.known_kind.way == "is_pulled"

    @property
    def advice(self) -> Problem | None:
        """What is wrong, and what to do about it; None if nothing is."""
        if self.problem is None:
            return None
        # A newer worker may know problems that this server does not know yet.
        unknown = Problem(f"{self.problem.replace('_', ' ').capitalize()}.", "")
        return PROBLEMS.get(self.problem, unknown)

    @property
    def known_settings(self) -> dict[str, str]:
        """What its person chose, but for secrets, by the labels of the fields."""
        fields = () if self.known_kind is None else self.known_kind.fields
        return {
            each.label: self.settings[each.name] for each in fields if each.name in self.settings
        }

    @property
    def secret_fields(self) -> list[Field]:
        """The secrets with which the worker pulls it; none if an application sends."""
        fields = () if self.known_kind is None else self.known_kind.fields
        return [each for each in fields if each.is_secret]

    @property
    def setting_fields(self) -> list[Field]:
        """What its person may choose anew without connecting again; nothing if the worker pulls."""
        if self.known_kind is None or self.is_pulled:
            return []
        return [each for each in self.known_kind.fields if not each.is_secret]

    @property
    def must_wait(self) -> bool:
        """Whether the service still wants to be left alone."""
        return self.retry_at is not None and self.retry_at > datetime.now(UTC)

    @property
    def is_new(self) -> bool:
        """Whether its first record has arrived within the last hour."""
        at = self.first_record_at
        return self.state == "live" and at is not None and at > datetime.now(UTC) - _NEW

    @property
    def is_key_new(self) -> bool:
        """Whether its key replaces one that brought records, and has not been used yet."""
        if self.key_created_at is None or self.first_record_at is None:
            return False
        return self.key_used_at is None and self.key_created_at > self.first_record_at

    @property
    def is_listed(self) -> bool:
        """Whether lists show it: not if it has ended and left nothing."""
        return self.state != "stopped" or (self.record_count > 0 and not self.is_removed)


def ago(at: datetime, now: datetime) -> str:
    """Return how long before ``now`` an instant was, in words, such as ``2 minutes ago``."""
    seconds = max(now - at, timedelta()) // timedelta(seconds=1)
    for unit, length in (("day", 86_400), ("hour", 3_600), ("minute", 60)):
        count = seconds // length
        # Two days are nearer to the truth than one day that may have been almost two.
        if count >= 2 or (count == 1 and unit == "minute"):
            return f"{count} {unit}{'s' if count > 1 else ''} ago"
    return "less than a minute ago"


def can_connect(kind: Kind, chosen: Settings) -> bool:
    """Tell whether the operator has switched on what this kind needs."""
    return kind.is_offered(chosen.receivers, has_sealing_key=chosen.sealing_public_key is not None)


def switched_off(chosen: Settings) -> dict[str, Kind]:
    """Return the applications by kind whose receivers the operator has not switched on."""
    return {name: KINDS[name] for name in RECEIVERS if not can_connect(KINDS[name], chosen)}


def offered(chosen: Settings) -> dict[str, list[Kind]]:
    """Return the kinds that can be connected, under their headings; a heading without any is left out."""
    kinds = [kind for kind in KINDS.values() if can_connect(kind, chosen)]
    groups = {
        title: [kind for data in datas for kind in kinds if kind.data == data]
        for title, datas in GROUPS.items()
    }
    return {title: listed for title, listed in groups.items() if listed}
