"""Connections in words, and the kinds that an operator has switched on."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import get_args

import pytest

from authserver.pages import connection_list
from shared.connections import KINDS, RECEIVERS, State
from shared.settings import Settings


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (-5, "less than a minute ago"),
        (59, "less than a minute ago"),
        (60, "1 minute ago"),
        (7_199, "119 minutes ago"),
        (7_200, "2 hours ago"),
        (172_799, "47 hours ago"),
        (172_800, "2 days ago"),
    ],
)
def test_how_long_ago_is_said_in_one_unit(seconds: int, words: str) -> None:
    now = datetime(2026, 3, 1, tzinfo=UTC)

    assert connection_list.ago(now - timedelta(seconds=seconds), now) == words


def test_every_state_has_words_and_every_kind_a_heading() -> None:
    everything = Settings(receivers=RECEIVERS, sealing_public_key="a key")

    offered = connection_list.offered(everything)

    assert connection_list.TAGS.keys() == set(get_args(State))
    assert sorted(kind.name for kinds in offered.values() for kind in kinds) == sorted(KINDS)


def test_only_what_is_switched_on_is_offered() -> None:
    nothing = Settings(receivers=(), sealing_public_key=None)

    # What needs no secret needs no key for sealing.
    without_secrets = {"Music": [KINDS["listenbrainz_user"]]}
    assert connection_list.offered(nothing) == without_secrets
    assert connection_list.offered(replace(nothing, receivers=("health",))) == {
        **without_secrets,
        "Health": [KINDS["health"]],
    }
    assert connection_list.offered(replace(nothing, sealing_public_key="a key")).keys() == {
        "Coding",
        "Music",
        "Calendar",
    }
