"""Scrobbles of a user of Last.fm."""

import json
from collections.abc import Iterator
from datetime import timedelta
from functools import partial
from typing import Any

import pytest

from resourceserver.integrations.formats.lastfm import PAGES
from resourceserver.integrations.pulls import lastfm
from tests.integrations.memory import read
from tests.pulls.pulled import NOW, Answer, Call, Outcome, Service, again, service

PLAYED = int(NOW.timestamp()) - 3600
PLAYING = {"artist": {"#text": "Band"}, "name": "Now", "@attr": {"nowplaying": "true"}}


def track(at: int, name: str = "Song") -> dict[str, Any]:
    return {
        "artist": {"mbid": "", "#text": "Band"},
        "mbid": "",
        "album": {"mbid": "", "#text": "Album"},
        "name": name,
        "url": "https://www.last.fm/music/Band/_/Song",
        "date": {"uts": str(at), "#text": "15 Jan 2026, 11:00"},
    }


class Scrobbles:
    """The recent tracks of a user."""

    def __init__(self, tracks: list[dict[str, Any]], limit: int = 200) -> None:
        self.tracks, self.limit = tracks, limit

    def __call__(self, call: Call) -> Answer:
        if call.query["api_key"] != "key":
            return Answer({"error": 10, "message": "Invalid API key"}, 403)
        before = float(call.query.get("to", "inf"))
        found = [each for each in self.tracks if int(each["date"]["uts"]) < before]
        found.sort(key=lambda each: -int(each["date"]["uts"]))
        given = [PLAYING, *found[: self.limit]]
        # A list of one is written as its element.
        return Answer(
            {"recenttracks": {"track": given if len(given) > 1 else given[0], "@attr": {}}}
        )


@pytest.fixture(scope="module")
def fm() -> Iterator[Service]:
    with service(Scrobbles([])) as running:
        yield running


def pull(fm: Service, state: Any = None, key: str = "key") -> Outcome:
    about = partial(lastfm.pull, address=fm.address + "/2.0/")
    return fm.pull(about, state=state, settings={"user": "alice"}, secrets={"key": key})


def test_a_scrobble_is_the_same_record_as_in_a_file(fm: Service) -> None:
    fm.answering = Scrobbles([track(PLAYED)])

    pulled = pull(fm)

    page = {"recenttracks": {"track": [PLAYING, track(PLAYED)]}}
    assert set(pulled.records) == set(read(PAGES, json.dumps(page)).records)
    assert pulled.refused == []
    assert fm.received[0].query == {
        "method": "user.getrecenttracks",
        "user": "alice",
        "api_key": "key",
        "format": "json",
        "limit": "200",
    }


def test_a_user_who_only_plays_something_now_has_no_history(fm: Service) -> None:
    fm.answering = Scrobbles([])

    pulled = pull(fm)

    assert (pulled.records, pulled.refused, pulled.problem) == ([], [], None)


def test_the_whole_history_comes_once_and_then_what_is_new(fm: Service) -> None:
    # Broken players write times of 1970.
    history = [track(PLAYED - 9000 * number, str(number)) for number in range(50)]
    answering = Scrobbles([*history, track(0, "no time"), track(1, "one")], limit=7)
    fm.answering = answering

    records, state = again(lambda state: pull(fm, state))
    answering.tracks.append(track(PLAYED + 60, "new"))
    new = pull(fm, state)

    assert {each.track for each in records} == {str(number) for number in range(50)} | {
        "no time",
        "one",
    }
    assert "new" in {each.track for each in new.records}
    assert len(fm.received) < 5


def test_scrobbles_that_are_deleted_between_two_pages_end_the_history(fm: Service) -> None:
    whole = Scrobbles([track(PLAYED - number) for number in range(300)])
    fm.answering = lambda call: whole(call) if "to" not in call.query else Scrobbles([])(call)

    assert len(pull(fm).records) == 200
    assert len(fm.received) == 2


@pytest.mark.parametrize("status", [200, 400])
@pytest.mark.parametrize(
    ("error", "problem"),
    [
        (6, ("not_found", False, None)),
        (8, ("server_error", False, timedelta(minutes=5))),
        (10, ("key_refused", True, None)),
        (11, ("server_error", False, timedelta(minutes=5))),
        (16, ("server_error", False, timedelta(minutes=5))),
        (17, ("history_private", False, None)),
        (26, ("key_refused", True, None)),
        (29, ("rate_limited", False, timedelta(minutes=5))),
        (99, ("unreadable", False, None)),
        ("29\0", ("unreadable", False, None)),
    ],
)
def test_errors_are_problems_whatever_the_status(
    fm: Service, status: int, error: Any, problem: Any
) -> None:
    fm.answering = lambda _: Answer({"error": error, "message": "Something"}, status)

    assert pull(fm).problem == problem


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        (Answer("<html>", 500), ("server_error", False, None)),
        (
            Answer("<html>", 429, {"Retry-After": "7"}),
            ("rate_limited", False, timedelta(seconds=7)),
        ),
        (Answer({"recenttracks": {"track": "none"}}), ("unreadable", False, None)),
        (Answer({"recenttracks": []}), ("unreadable", False, None)),
    ],
)
def test_an_answer_without_tracks_is_a_problem(fm: Service, given: Answer, problem: Any) -> None:
    fm.answering = lambda _: given

    assert pull(fm).problem == problem


def test_a_track_without_a_name_or_a_time_is_refused(fm: Service) -> None:
    bad = [track(PLAYED, "\0"), track(PLAYED) | {"date": None}, 7]
    fm.answering = lambda call: Answer(
        {"recenttracks": {"track": [] if "to" in call.query else [*bad, track(PLAYED)]}}
    )

    pulled = pull(fm)

    assert len(pulled.records) == 1
    assert [each.reason for each in pulled.refused] == [
        "missing_track",
        "missing_time",
        "not_an_object",
    ]
