"""Listens of a user of ListenBrainz."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest

from resourceserver.integrations.formats.listenbrainz import LINES
from resourceserver.integrations.pulls import listenbrainz
from resourceserver.integrations.pulls.service import MOST_REQUESTS
from tests.integrations.memory import read
from tests.pulls.pulled import NOW, Answer, Call, Outcome, Service, again, service

PLAYED = int(NOW.timestamp()) - 3600


def listen(at: Any, track: Any = "Song", **more: Any) -> dict[str, Any]:
    about = {"artist_name": "Band", "track_name": track, "release_name": "Album"} | more
    return {"inserted_at": at, "listened_at": at, "user_name": "alice", "track_metadata": about}


class Listens:
    """The public history of a user."""

    def __init__(self, listens: list[dict[str, Any]]) -> None:
        self.listens = listens

    def __call__(self, call: Call) -> Answer:
        if call.path != "/1/user/al%2Fice/listens":
            return Answer({"code": 404, "error": "Cannot find user: x"}, 404)
        before = float(call.query.get("max_ts", "inf"))
        found = [each for each in self.listens if each["listened_at"] < before]
        found.sort(key=lambda each: -each["listened_at"])
        found = found[: int(call.query["count"])]
        payload = {"count": len(found), "user_id": "al/ice", "listens": found}
        return Answer({"payload": payload})


@pytest.fixture(scope="module")
def brainz() -> Iterator[Service]:
    with service(Listens([])) as running:
        yield running


def pull(brainz: Service, state: Any = None, user: str = "al/ice", **more: Any) -> Outcome:
    about = partial(listenbrainz.pull, address=brainz.address)
    return brainz.pull(about, state=state, settings={"user": user}, **more)


def test_a_listen_is_the_same_record_as_in_a_file(brainz: Service) -> None:
    given = listen(
        PLAYED,
        "Söng\0",
        additional_info={"duration_ms": 200_000, "isrc": "QZ1", "artist_names": ["Band"]},
        mbid_mapping={"recording_mbid": "6F3D2A4B-1C2D-4E5F-8A9B-0C1D2E3F4A5B"},
    )
    brainz.answering = Listens([given])

    pulled = pull(brainz)

    assert set(pulled.records) == set(read(LINES, json.dumps(given)).records)
    assert pulled.records[0].track == "Söng"
    assert pulled.records[0].listened_at == datetime.fromtimestamp(PLAYED, UTC)


def test_the_whole_history_comes_page_after_page_and_then_only_what_is_new(
    brainz: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listenbrainz, "MOST_LISTENS", 10)
    monkeypatch.setattr(listenbrainz, "_FEW_LISTENS", 5)
    # Ten of them in the same second, over the edge of two pages.
    history = [listen(PLAYED - 6000 * number, str(number)) for number in range(95)]
    history += [listen(PLAYED - 6000 * 7, f"same {number}") for number in range(8)]
    answering = Listens(history)
    brainz.answering = answering

    records, state = again(lambda state: pull(brainz, state))
    assert {each.track for each in records} == {
        each["track_metadata"]["track_name"] for each in history
    }

    late = listen(PLAYED - 50_000, "late")
    answering.listens += [listen(PLAYED + 60, "new"), late]
    tracks = [each.track for each in pull(brainz, state).records]
    assert {"new", "late"} <= set(tracks)
    assert len(brainz.received) < 6


def test_once_a_day_the_last_month_is_read_again(brainz: Service) -> None:
    answering = Listens([listen(PLAYED)])
    brainz.answering = answering
    state = pull(brainz).state
    answering.listens.append(listen(PLAYED - 20 * 86_400, "from a phone in a drawer"))
    answering.listens += [listen(PLAYED - 600 * number) for number in range(1, 300)]

    hour_later = pull(brainz, state, now=NOW + timedelta(hours=1))
    day_later = pull(brainz, hour_later.state, now=NOW + timedelta(days=1))

    assert "from a phone in a drawer" not in {each.track for each in hour_later.records}
    assert "from a phone in a drawer" in {each.track for each in day_later.records}


def test_a_pull_makes_so_many_requests_and_the_next_one_continues(
    brainz: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listenbrainz, "MOST_LISTENS", 2)
    brainz.answering = Listens(
        [listen(PLAYED - 90_000 * number, str(number)) for number in range(90)]
    )

    first = pull(brainz)
    requests = len(brainz.received)
    second = pull(brainz, first.state)

    assert requests == MOST_REQUESTS
    tracks = {each.track for each in first.records + second.records}
    assert tracks == {str(number) for number in range(90)}


def test_a_service_that_ignores_the_bound_has_an_end(brainz: Service) -> None:
    page = {"payload": {"listens": [listen(PLAYED - number) for number in range(3)]}}
    brainz.answering = lambda _: Answer(page)

    assert len({each.key for each in pull(brainz).records}) == 3
    assert len(brainz.received) < 5


def test_listens_of_the_future_hide_nothing(
    brainz: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listenbrainz, "_FEW_LISTENS", 2)
    monkeypatch.setattr(listenbrainz, "MOST_LISTENS", 2)
    ahead = [PLAYED + 366 * 86_400 - 40 * 86_400 * number for number in range(5)]
    answering = Listens([*(listen(at, "clock is wrong") for at in ahead), listen(PLAYED)])
    brainz.answering = answering
    _, state = again(lambda state: pull(brainz, state))
    answering.listens.append(listen(PLAYED + 60, "new"))

    assert "new" in [each.track for each in pull(brainz, state).records]


def test_what_is_no_listen_is_refused_with_its_reason(brainz: Service) -> None:
    bad = [listen(PLAYED, None), listen("soon"), "text", {"listened_at": PLAYED}]
    brainz.answering = lambda call: Answer(
        {"payload": {"listens": [] if "max_ts" in call.query else [*bad, listen(PLAYED)]}}
    )

    pulled = pull(brainz)

    assert len(pulled.records) == 1
    assert [each.reason for each in pulled.refused] == [
        "missing_track",
        "invalid_time",
        "not_an_object",
        "not_an_object",
    ]


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        (Answer({"code": 404}, 404), ("not_found", False, None)),
        (Answer({}, 500, {"X-RateLimit-Reset-In": "9"}), ("server_error", False, None)),
        (
            Answer({}, 503, {"Retry-After": "120"}),
            ("server_error", False, timedelta(minutes=2)),
        ),
        (
            Answer({}, 429, {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset-In": "9"}),
            ("rate_limited", False, timedelta(seconds=9)),
        ),
        (Answer({}, 429, {"Retry-After": "1e12"}), ("rate_limited", False, timedelta(days=1))),
        (Answer("<html>"), ("unreadable", False, None)),
        (Answer("[" * 100_000), ("unreadable", False, None)),
        (Answer({"payload": {"listens": {}}}), ("unreadable", False, None)),
        (Answer([]), ("unreadable", False, None)),
        (Answer(None, 204), ("unreadable", False, None)),
    ],
)
def test_an_answer_without_listens_is_a_problem(
    brainz: Service, given: Answer, problem: Any
) -> None:
    brainz.answering = lambda _: given

    assert pull(brainz).problem == problem


def test_what_was_read_before_a_failure_is_kept_with_its_place(brainz: Service) -> None:
    answering = Listens([listen(PLAYED - 60 * number, str(number)) for number in range(1500)])
    brainz.answering = lambda call: Answer({}, 503) if "max_ts" in call.query else answering(call)

    broken = pull(brainz)
    twice = pull(brainz, broken.state)
    still = pull(brainz, twice.state)
    brainz.answering = answering
    rest = pull(brainz, broken.state)

    assert len(broken.records) == 1000
    # The state of a failure is not stored, so a pull that has got on only ends early.
    assert [broken.problem, still.problem] == [None, ("server_error", False, None)]
    assert {each.track for each in broken.records + rest.records} == set(map(str, range(1500)))
