"""Stories: random sequences of changes of one account by trackers, people and the service.

A story has all sessions that its trackers will ever send. Each step sends a share of them, so that some
arrive late, some twice, and some again after they were removed.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from functools import cache
from itertools import accumulate
from typing import Any, Final, TypeVar

from hypothesis import strategies as st

from tests.endpoints.histories import Place
from tests.endpoints.timeline import EPOCH, CodingSession, Session

T = TypeVar("T")
Draw = Callable[[st.SearchStrategy[Any]], Any]

QUARTER: Final = 900_000
DAY: Final = 86_400_000

# Rules of the service, as far as these sessions match them.
APPS: Final = {"code": "Development"}
SITES: Final = {"github.com": "Development", "gist.github.com": "Development"}


@dataclass(frozen=True)
class Rule:
    """A category rule."""

    field: str
    match: str
    pattern: str
    category: str

    def matches(self, session: Session) -> bool:
        """Return whether it matches a session; an absent field matches nothing."""
        thing = {"app": session.app, "title": session.title, "domain": session.domain}[self.field]
        if thing is None:
            return False
        if self.match == "regex":
            return re.search(self.pattern, thing, re.IGNORECASE) is not None
        if self.match == "contains":
            return self.pattern.lower() in thing.lower()
        return self.pattern.lower() == thing.lower()


def categorized(session: Session, rules: Sequence[Rule], scores: Mapping[str, int]) -> Session:
    """Return a session with its decided category; before, it has the tracker's, or ''."""
    category = (
        next((rule.category for rule in rules if rule.matches(session)), None)
        or session.category
        or SITES.get(session.domain or "")
        or APPS.get(session.app.lower())
        or "Uncategorized"
    )
    return replace(session, category=category, own_score=scores.get(category))


@dataclass(frozen=True)
class Share:
    """A part of a list: every n-th element from one on."""

    first: int
    step: int

    def of(self, things: Sequence[T]) -> list[T]:
        """Return the share of ``things``."""
        return list(things[self.first :: self.step])


@dataclass(frozen=True)
class Send:
    """Trackers send some sessions, in one batch for each stream."""

    share: Share


@dataclass(frozen=True)
class Remove:
    """Some of the stored sessions are deleted."""

    share: Share


@dataclass(frozen=True)
class RollUp:
    """The job rolls up all marked days but some, as if these had just been written to."""

    left: Share | None


@dataclass(frozen=True)
class Rebuild:
    """An operator rebuilds all rollups."""


@dataclass(frozen=True)
class AddRule:
    """A rule is added at a place in the order, or as the last one."""

    rule: Rule
    place: int | None


@dataclass(frozen=True)
class DropRule:
    """The rule at a place is removed."""

    place: int


@dataclass(frozen=True)
class MoveRule:
    """The rule at a place moves down or up by a number of places."""

    place: int
    by: int


@dataclass(frozen=True)
class SetScore:
    """A category is scored, or left to the service again."""

    category: str
    score: int | None


@dataclass(frozen=True)
class Leave:
    """The account is deleted, and another one with the same address is created."""


@dataclass(frozen=True)
class Look:
    """Requests for sums, of a range of instants or of days."""

    questions: frozenset[str]
    zone: str
    start: int
    end: int
    first: date
    last: date
    weeks: int
    today: date


Step = Send | Remove | RollUp | Rebuild | AddRule | DropRule | MoveRule | SetScore | Leave | Look


@dataclass(frozen=True)
class Story:
    """A sequence of steps, with the account's time zone and days."""

    zone: str
    sessions: list[Session]
    coding: list[CodingSession]
    steps: list[Step]
    first: date
    last: date
    """The days that are looked at when it is over."""


RULES: Final = [
    Rule("app", "exact", "W", "Games"),
    Rule("app", "contains", "o", "Own"),
    Rule("app", "regex", "^[wy]$", "Reference"),
    Rule("domain", "exact", "github.com", "News"),
    Rule("domain", "contains", "git", "own"),
    Rule("domain", "regex", ".", "Development"),
]
TITLE_RULES: Final = [
    Rule("title", "exact", "DRAFT", "Reference"),
    Rule("title", "contains", "draft", "Games"),
    Rule("title", "contains", "2", "Development"),
    Rule("title", "regex", "^d.*t", "News"),
    Rule("title", "regex", ".", "Own"),
]
CATEGORIES: Final = ["Development", "Own", "Uncategorized", "Games"]
"""Some that are scored."""

OF_ONE_SLOT: Final = [
    "analytics/app-usage",
    "analytics/categories",
    "analytics/coding",
    "analytics/context-switches",
    "analytics/focus-streaks",
    "sessions/by-app",
]
"""Questions about a range that is not cut into days."""
QUESTIONS: Final = [
    *OF_ONE_SLOT,
    "analytics/daily",
    "analytics/daily-categories",
    "analytics/hourly",
    "analytics/hourly-patterns",
    "sessions/daily",
]

SHARES: Final = st.builds(Share, st.integers(0, 3), st.integers(1, 3))
SEND: Final = st.builds(Send, st.just(Share(0, 1)) | SHARES)
# Half of them are about titles, on which rollups depend.
ADD_RULE: Final = st.builds(
    AddRule,
    st.sampled_from(RULES) | st.sampled_from(TITLE_RULES),
    st.sampled_from([None, 1, 2]),
)
DEVICES: Final = st.sampled_from(["a", "B", "ä"])
NAMES: Final = st.tuples(
    DEVICES,
    st.sampled_from(["w", "Y", "é", "Code"]),
    st.sampled_from([False] * 6 + [True]),
    st.sampled_from(["Development", "Development", "Reference", "", "", "News", "Games", "own"]),
    st.sampled_from([None, "draft", "Draft 2", "ä"]),
    st.sampled_from([None, None, None, "github.com", "gist.github.com", "tides.example"]),
)
WORK: Final = st.tuples(
    DEVICES,
    st.sampled_from(["w", "Y", "é", "Code"]),
    st.just(False),
    st.sampled_from(["Development", "Reference"]),
    st.sampled_from([None, "draft"]),
    st.none(),
)
# Few distinct instants make equal starts, equal ends and sessions that end where others begin common; some
# sessions have the maximum length.
LENGTHS: Final = st.sampled_from(
    [0, 0, 977, 60_000, 977_033, QUARTER, 1_800_000, 1_800_000, 3_600_000, 9_000_500, DAY - 1, DAY]
)
# Lengths just within or just over the limits of switches, streaks and pauses.
SHORT_LENGTHS: Final = st.sampled_from(
    [0, 1, 400, 999, 1000, 29_999, 30_000, 60_000, 120_000, 120_001, 300_000, 600_000, 977_033] * 4
    + [DAY]
)
HOURS: Final = st.sampled_from([977_033, 9_000_500, 14_400_000, 21_600_000])
GAPS: Final = st.sampled_from(
    [0, 0, 0, 0, 1, 60_000, 300_000, 300_000, 300_001, -1, -400, -30_000, -300_000, -900_000]
)


def midnight_of(day: date) -> int:
    """Return when a day begins in UTC."""
    return (datetime(day.year, day.month, day.day, tzinfo=UTC) - EPOCH) // timedelta(milliseconds=1)


def instants(midnight: int, earliest: int, latest: int) -> st.SearchStrategy[int]:
    """Draw instants between two quarters of an hour, counted from a midnight."""
    return st.builds(
        lambda quarters, odd: midnight + quarters * QUARTER + odd * 977_033,
        st.integers(earliest, latest),
        st.sampled_from([0, 0, 0, 1, 2]),
    )


@cache
def used(midnight: int) -> st.SearchStrategy[list[Session]]:
    """Draw up to twenty app sessions that no rule has looked at yet."""
    anywhere = weighted(
        (2, st.tuples(instants(midnight, -60, 120), LENGTHS)),
        # Up to an hour before or after a midnight.
        (1, st.builds(ending, instants(midnight, -4, 4), st.sampled_from([0, DAY]), LENGTHS)),
    )
    dense = st.tuples(
        st.builds(
            lambda n, halves: midnight + n * 977 + halves * DAY // 2,
            st.integers(0, 40),
            st.sampled_from([0, 0, 0, 1, 2]),
        ),
        st.integers(0, 40).map(lambda n: n * 977) | LENGTHS,
    )
    # One after the other, with midnight among them.
    chains = st.builds(
        chained,
        st.sampled_from([0, 0, -600_000, -3_600_000, -9_000_000]).map(midnight.__add__),
        st.lists(st.tuples(st.tuples(GAPS, SHORT_LENGTHS), NAMES), min_size=6, max_size=20),
    )
    # A person who works for days without a pause, so that switches and streaks reach far.
    round_the_clock = st.builds(
        chained,
        st.just(midnight - DAY * 5 // 4),
        st.lists(
            st.tuples(st.tuples(st.sampled_from([0, 0, 300_000, -900_000]), HOURS), WORK),
            min_size=10,
            max_size=20,
        ),
    )
    return weighted(
        (2, round_the_clock),
        (2, st.lists(st.tuples(anywhere, NAMES), max_size=20)),
        (2, st.lists(st.tuples(anywhere, NAMES), min_size=8, max_size=20)),
        (1, st.lists(st.tuples(dense, NAMES), max_size=20)),
        (3, chains),
    ).map(named)


Placed = tuple[tuple[int, int], tuple[Any, ...]]
"""The start and the length of a session, and its names."""


def ending(end: int, later: int, length: int) -> tuple[int, int]:
    """Place a session by its end."""
    return end + later - length, length


def chained(start: int, links: list[Placed]) -> list[Placed]:
    """Place sessions so that each starts some time after the end of the one before, or before it."""
    ends = accumulate((gap + length for (gap, length), _ in links), initial=start)
    return [
        ((end + gap, length), names)
        for end, ((gap, length), names) in zip(ends, links, strict=False)
    ]


def named(drawn: list[Placed]) -> list[Session]:
    """Return drawn sessions with distinct keys."""
    return [
        Session(f"{n:02}", device, app, start, start + length, idle, category, title, domain)
        for n, ((start, length), (device, app, idle, category, title, domain)) in enumerate(drawn)
    ]


@cache
def coded(midnight: int) -> st.SearchStrategy[list[CodingSession]]:
    """Draw coding sessions."""
    drawn = st.tuples(
        DEVICES,
        st.sampled_from(["svc", "Thesis", "é"]),
        st.sampled_from([None, "Python", "python"]),
        st.sampled_from([None, "a.py", "B.py"]),
        instants(midnight, -60, 120),
        LENGTHS,
        st.sampled_from([None, 0, 41]),
        st.sampled_from([None, 0, 7]),
    )
    return st.lists(drawn, max_size=10).map(
        lambda sessions: [
            CodingSession(f"{n:02}", device, project, language, file, start, start + length, *lines)
            for n, (device, project, language, file, start, length, *lines) in enumerate(sessions)
        ]
    )


def month_edges(day: date) -> st.SearchStrategy[int]:
    """Draw instants at or near the beginnings of the months around a day."""
    firsts = [(day.replace(day=1) + timedelta(days=31 * n)).replace(day=1) for n in (-1, 0, 1, 2)]
    return st.builds(
        lambda first, odd: midnight_of(first) + odd,
        st.sampled_from(firsts),
        st.sampled_from([0, 0, -1, 977_033]),
    )


@cache
def looks(place: Place) -> st.SearchStrategy[Look]:
    """Draw the ranges of a few requests; months have no days, because the model is slow at these."""
    zone, day = place
    midnight = midnight_of(day)
    near = st.tuples(instants(midnight, -100, 40), instants(midnight, -20, 120))
    wide = st.tuples(month_edges(day), month_edges(day))

    def look(
        questions: set[str], where: str, edges: tuple[int, int], days: tuple[int, int, int, int]
    ) -> Look:
        before, after, weeks, later = days
        return Look(
            frozenset(questions),
            where,
            min(edges),
            max(edges),
            day - timedelta(days=before),
            day + timedelta(days=after),
            weeks,
            day + timedelta(days=later),
        )

    zones = st.sampled_from([zone] * 4 + ["UTC", "Asia/Kathmandu"])
    days = st.tuples(
        st.integers(0, 1), st.integers(0, 1), st.sampled_from([1, 2]), st.sampled_from([1, 8])
    )
    return weighted(
        (2, st.builds(look, some_of(QUESTIONS), zones, near, days)),
        (1, st.builds(look, some_of(OF_ONE_SLOT), zones, wide, days)),
    )


def some_of(questions: list[str]) -> st.SearchStrategy[set[str]]:
    """Draw about a third of all questions."""
    return st.sets(st.sampled_from(questions), min_size=2, max_size=5)


def weighted(*choices: tuple[int, st.SearchStrategy[T]]) -> st.SearchStrategy[T]:
    """Draw from one of several, from each as often as its number says."""
    return st.sampled_from([drawn for times, drawn in choices for _ in range(times)]).flatmap(
        lambda drawn: drawn
    )


OF_RULES: Final[list[tuple[int, st.SearchStrategy[Step]]]] = [
    (3, ADD_RULE),
    (2, st.builds(DropRule, st.integers(0, 2))),
    (3, st.builds(MoveRule, st.integers(0, 2), st.sampled_from([-2, -1, 1, 2]))),
    (1, st.builds(SetScore, st.sampled_from(CATEGORIES), st.sampled_from([None, -2, -1, 0, 1, 2]))),
]
CHANGES: Final[list[tuple[int, st.SearchStrategy[Step]]]] = [
    *OF_RULES,
    (5, SEND),
    (3, st.builds(RollUp, st.none())),
    (2, st.builds(RollUp, SHARES)),
    (2, st.builds(Remove, SHARES)),
    (1, st.sampled_from([Rebuild(), Leave()])),
]
# The last steps roll up much of the last ranges, with older rules.
ENDINGS: Final[st.SearchStrategy[list[Step]]] = weighted(
    (1, st.just([])),
    (1, st.just([RollUp(None)])),
    (2, SHARES.map(lambda left: [RollUp(left)])),
    (3, weighted(*OF_RULES).map(lambda change: [RollUp(None), change])),
)


@cache
def stories(places: tuple[Place, ...]) -> st.SearchStrategy[Story]:
    """Draw stories in any of these zones."""

    @st.composite
    def story(draw: Draw) -> Story:
        place = draw(st.sampled_from(places))
        zone, day = place
        midnight = midnight_of(day)
        # In St John's clocks showed the first minute of that date, then the last hour of the date before
        # again. Hours have the date that was shown, and a day lasts until the next begins; so only the sums
        # of both dates together are equal.
        both = [(1, 0)] if zone == "America/St_Johns" else [(0, 0), (0, 1), (1, 0)]
        before, after = draw(st.sampled_from(both))
        return Story(
            zone,
            draw(used(midnight)),
            draw(coded(midnight)),
            [
                *draw(st.lists(ADD_RULE, max_size=3)),
                draw(SEND),
                *draw(st.lists(weighted(*CHANGES, (9, looks(place))), min_size=2, max_size=10)),
                *draw(ENDINGS),
            ],
            day - timedelta(days=before),
            day + timedelta(days=after),
        )

    return story()
