"""Cutting spans by presence: properties for all spans."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from resourceserver.integrations.activitywatch import Span, cut, union

DAY_MS = 86_400_000


def spans(longest_ms: int) -> st.SearchStrategy[Span]:
    return st.builds(
        lambda start, length: Span(start, start + length),
        st.integers(0, longest_ms),
        st.integers(-2, longest_ms),
    )


@given(st.lists(spans(40)))
def test_a_union_covers_the_same_time_in_order_and_with_gaps(given_spans: list[Span]) -> None:
    merged = union(given_spans)

    assert covered(merged) == covered(given_spans)
    assert all(span.start_ms < span.end_ms for span in merged)
    assert all(before.end_ms < after.start_ms for before, after in pairwise(merged))


@given(spans(40), st.lists(spans(20)))
def test_pieces_cover_exactly_the_overlap_of_window_and_presence(
    window: Span, present: list[Span]
) -> None:
    pieces = cut(window, union(present))

    assert covered(pieces) == covered([window]) & covered(present)
    assert sum(piece.end_ms - piece.start_ms for piece in pieces) == len(covered(pieces))
    assert pieces == sorted(pieces)


@given(spans(5 * DAY_MS), st.lists(spans(3 * DAY_MS)))
def test_no_piece_is_empty_or_longer_than_a_day_or_overlaps_another(
    window: Span, present: list[Span]
) -> None:
    pieces = cut(window, union(present))

    assert all(0 < piece.end_ms - piece.start_ms <= DAY_MS for piece in pieces)
    assert all(before.end_ms <= after.start_ms for before, after in pairwise(pieces))
    assert length(union(pieces)) == sum(
        length(union([shared(window, span)])) for span in union(present)
    )


@given(spans(5 * DAY_MS), st.lists(spans(3 * DAY_MS)), st.integers(0, 8 * DAY_MS))
def test_an_event_sent_in_two_parts_covers_the_same_time(
    window: Span, present: list[Span], between_ms: int
) -> None:
    presence = union(present)
    at_ms = min(max(between_ms, window.start_ms), window.end_ms)

    parts = cut(Span(window.start_ms, at_ms), presence) + cut(Span(at_ms, window.end_ms), presence)

    assert union(parts) == union(cut(window, presence))


def test_an_event_of_three_days_is_three_pieces() -> None:
    pieces = cut(Span(5, 5 + 3 * DAY_MS), [Span(0, 10 * DAY_MS)])

    assert pieces == [
        Span(5, 5 + DAY_MS),
        Span(5 + DAY_MS, 5 + 2 * DAY_MS),
        Span(5 + 2 * DAY_MS, 5 + 3 * DAY_MS),
    ]


def covered(given_spans: list[Span]) -> set[int]:
    return {at for span in given_spans for at in range(span.start_ms, span.end_ms)}


def shared(one: Span, other: Span) -> Span:
    return Span(max(one.start_ms, other.start_ms), min(one.end_ms, other.end_ms))


def length(given_spans: list[Span]) -> int:
    return sum(span.end_ms - span.start_ms for span in given_spans)
