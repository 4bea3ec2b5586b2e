"""svc.switches, against a slow model and against itself with less of the timeline to look at."""

from collections.abc import Callable
from typing import Any

import psycopg
from hypothesis import given
from hypothesis import strategies as st

from tests.endpoints.attention import Segment, Switch, switches
from tests.endpoints.timeline import Session

Rows = psycopg.Connection[Any]

# Lengths just within or just over the limit of a rule, and others.
LENGTHS = [1, 400, 500, 600, 999, 1000, 29_999, 60_000, 60_000, 300_001]
GAPS = [0, 0, 0, 0, 0, 1, 60_000, 300_000, 300_000, 300_001]


@st.composite
def timelines(draw: Callable[[st.SearchStrategy[Any]], Any]) -> list[Segment]:
    """Draw up to forty segments of up to four applications, each with a category of its own."""
    apps = "wxyz"[: draw(st.integers(1, 4))]
    at = 0
    timeline = []
    for n in range(draw(st.integers(0, 40))):
        at += draw(st.sampled_from(GAPS))
        end = at + draw(st.sampled_from(LENGTHS))
        session = Session(str(n), "a", draw(st.sampled_from(apps)), at, end, False, f"category {n}")
        timeline.append(Segment(at, end, session))
        at = end
    return timeline


def found(db: Rows, timeline: list[Segment]) -> list[Switch]:
    """Return the result of the function, in the types of the model."""
    rows = db.execute(
        """
        select at_position - 1, from_position - 1, to_position - 1, before_ms
          from svc.switches(%s::bigint[], %s::bigint[], %s::integer[])
         order by at_position
        """,
        [
            [segment.start for segment in timeline],
            [segment.end for segment in timeline],
            [ord(segment.session.app) for segment in timeline],
        ],
    ).fetchall()
    return [
        Switch(
            timeline[at].start,
            timeline[before].session.app,
            timeline[after].session.app,
            timeline[before].session.category,
            timeline[after].session.category,
            before_ms,
        )
        for at, before, after, before_ms in rows
    ]


@given(timeline=timelines())
def test_any_timeline_has_the_switches_of_the_slow_model(db: Rows, timeline: list[Segment]) -> None:
    assert found(db, timeline) == switches(timeline)


@given(timeline=timelines(), edges=st.tuples(st.integers(0, 39), st.integers(0, 39)))
def test_all_switches_but_the_first_and_the_last_are_certain(
    db: Rows, timeline: list[Segment], edges: tuple[int, int]
) -> None:
    first, last = sorted(edges)
    part = timeline[first : last + 1]
    if part:
        # Midnights fall into segments, too.
        part[0] = Segment(part[0].end - 1, part[0].end, part[0].session)
        part[-1] = Segment(part[-1].start, part[-1].start + 1, part[-1].session)

    certain = found(db, part)[1:-1]

    whole = found(db, timeline)
    if certain:
        begin = whole.index(certain[0])
        assert whole[begin : begin + len(certain)] == certain


def test_an_empty_timeline_has_no_switches(db: Rows) -> None:
    (count,) = db.execute("select count(*) from svc.switches('{}', '{}', '{}')").fetchone() or (-1,)

    assert count == 0
