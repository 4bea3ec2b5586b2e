"""What the receiver of ListenBrainz makes of submissions."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from resourceserver.integrations.receivers.listenbrainz import InvalidSubmission, read
from resourceserver.integrations.records import Listen
from tests.integrations.memory import ALICE

AT = 1_760_000_000


def listen(listened_at: Any = AT, **info: Any) -> dict[str, Any]:
    return {
        "listened_at": listened_at,
        "track_metadata": {
            "track_name": "Andromeda",
            "artist_name": "Gorillaz",
            "release_name": "Humanz",
            "additional_info": info,
        },
    }


def submission(kind: str, *payload: Any) -> bytes:
    return json.dumps({"listen_type": kind, "payload": payload}).encode()


def reasons(*payload: Any) -> list[str]:
    return [getattr(each, "reason", "") for each in read(submission("import", *payload), ALICE)]


def test_a_listen_has_what_its_player_knows() -> None:
    given = listen(
        media_player="Rhythmbox",
        submission_client="Rhythmbox ListenBrainz Plugin",
        duration_ms=197_000,
        recording_mbid="5B11F4CE-A62D-471E-81FC-A69A8278C7DA",
        isrc="GBAYE1700123",
        origin_url="https://open.spotify.com/track/7rU6Iebxzlvqy5t857bKFq?si=1",
        tags=["you", "just", "got"],
    )

    assert read(submission("single", given), ALICE) == [
        Listen(
            f"{AT}:Gorillaz:Andromeda",
            datetime.fromtimestamp(AT, UTC),
            "Andromeda",
            "Gorillaz",
            album="Humanz",
            duration_ms=197_000,
            spotify_uri="spotify:track:7rU6Iebxzlvqy5t857bKFq",
            isrc="GBAYE1700123",
            recording_mbid="5b11f4ce-a62d-471e-81fc-a69a8278c7da",
        )
    ]


def test_what_is_playing_now_is_not_kept() -> None:
    playing = listen()
    del playing["listened_at"]

    assert read(submission("playing_now", playing), ALICE) == []


def test_each_listen_is_judged_by_itself() -> None:
    nameless = {"listened_at": AT, "track_metadata": {"artist_name": "Gorillaz"}}
    deep: Any = []
    for _ in range(900):
        deep = [deep]

    assert reasons(
        listen(),
        "no listen",
        [listen()],
        nameless,
        listen(None),
        listen("yesterday"),
        listen(float("nan")),
        listen(True),
        listen(0),
        listen(1_033_000_000),
        listen(ALICE.now.timestamp() + 366 * 86_400),
        listen(10**400),
        listen(comment="x" * 10_240),
        listen(deep=deep),
        listen(AT - 366 * 86_400),
    ) == [
        "",
        "not_an_object",
        "not_an_object",
        "missing_track",
        "missing_time",
        "invalid_time",
        "invalid_time",
        "invalid_time",
        "time_out_of_range",
        "time_out_of_range",
        "timestamp_in_future",
        "invalid_time",
        "listen_too_large",
        "",
        "",
    ]


def test_a_byte_that_is_no_text_costs_one_character() -> None:
    [taken] = read(submission("single", listen()).replace(b"Humanz", b"Human\xff"), ALICE)

    assert isinstance(taken, Listen)
    assert taken.album == "Human\N{REPLACEMENT CHARACTER}"


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\xff\xfe",
        b"[" * 100_000,
        b"[" + b"0," * 1_000_001 + b"0]",
        b"null",
        b"[]",
        b'{"listen_type": ["single"], "payload": []}',
        submission("scrobble", listen()),
        submission("import"),
        submission("single", listen(), listen()),
        submission("playing_now", listen(), listen()),
        submission("import", *[listen()] * 1001),
        b'{"listen_type": "single", "payload": {"listened_at": 1}}',
    ],
    ids=range(13),
)
def test_what_is_no_submission_is_refused_as_a_whole(body: bytes) -> None:
    with pytest.raises(InvalidSubmission):
        read(body, ALICE)


JSON = some.recursive(
    some.none() | some.booleans() | some.integers() | some.floats() | some.text(),
    lambda inner: (
        some.lists(inner, max_size=4)
        | some.dictionaries(
            some.sampled_from(
                (
                    *(
                        "listened_at",
                        "track_metadata",
                        "track_name",
                        "artist_name",
                        "additional_info",
                    ),
                    *("mbid_mapping", "artist_names", "duration_ms", "spotify_id", "origin_url"),
                )
            ),
            inner,
            max_size=6,
        )
    ),
    max_leaves=20,
)


@given(JSON)
def test_no_listen_keeps_out_the_others(value: Any) -> None:
    *_, last = read(submission("import", value, listen()), ALICE)

    assert isinstance(last, Listen)
