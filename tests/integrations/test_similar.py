"""``svc imports similar``: listens that two sources have both brought."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest
from click.testing import CliRunner, Result

from deploy.operators import imports
from shared.settings import Settings
from tests.conftest import Person

Rows = psycopg.Connection[Any]

AT = datetime(2025, 6, 15, 12, tzinfo=UTC)


def run(deployment: Settings, person: Person, *options: str) -> Result:
    return CliRunner().invoke(imports.similar, [person.email, *options], obj=deployment)


def counts(deployment: Settings, person: Person) -> dict[tuple[str, str], int]:
    """Return how many listens two sources share, by the names of the sources."""
    done = run(deployment, person, "--json")
    assert done.exit_code == 0, done.output
    return {
        (each["first_source"], each["second_source"]): each["listens"]
        for each in json.loads(done.stdout)
    }


def add(
    owner: Rows,
    person: Person,
    source: str,
    *seconds: float,
    track: str = "Andromeda",
    artist: str = "Gorillaz",
) -> None:
    """Add listens of one track, so many seconds after noon."""
    for each in seconds:
        owner.execute(
            "insert into music.listen (user_id, listened_at, track, artist, source)"
            " values (%s, %s, %s, %s, %s)",
            [person.user_id, AT + timedelta(seconds=each), track, artist, source],
        )


@pytest.mark.parametrize(
    ("apart", "expected"),
    [
        (0, {("lastfm", "spotify"): 1}),
        (54, {("lastfm", "spotify"): 1}),
        (-54, {("lastfm", "spotify"): 1}),
        (54.001, {}),
        (55, {}),
        (-55, {}),
    ],
)
def test_the_same_listen_is_at_most_54_seconds_apart(
    deployment: Settings,
    owner: Rows,
    alice: Person,
    apart: float,
    expected: dict[tuple[str, str], int],
) -> None:
    add(owner, alice, "spotify", 0)
    add(owner, alice, "lastfm", apart)

    assert counts(deployment, alice) == expected


def test_listens_of_one_source_are_not_compared(
    deployment: Settings, owner: Rows, alice: Person
) -> None:
    add(owner, alice, "spotify", 0, 10, 20)
    add(owner, alice, "lastfm", 300)

    assert counts(deployment, alice) == {}


def test_title_and_artist_are_compared_without_case(
    deployment: Settings, owner: Rows, alice: Person
) -> None:
    add(owner, alice, "spotify", 0, track="Ágætis Byrjun", artist="Sigur Rós")
    add(owner, alice, "lastfm", 1, track="ágætis byrjun", artist="SIGUR RÓS")
    add(owner, alice, "spotify", 300, track="Starálfur", artist="Sigur Rós")
    add(owner, alice, "lastfm", 300, track="Flugufrelsarinn", artist="Sigur Rós")
    add(owner, alice, "spotify", 600, track="One", artist="U2")
    add(owner, alice, "lastfm", 600, track="One", artist="Metallica")

    assert counts(deployment, alice) == {("lastfm", "spotify"): 1}


def test_each_pair_of_sources_is_counted(deployment: Settings, owner: Rows, alice: Person) -> None:
    add(owner, alice, "spotify", 0, 300, 600)
    add(owner, alice, "lastfm", 10, 310)
    add(owner, alice, "tidal", 20)

    assert counts(deployment, alice) == {
        ("lastfm", "spotify"): 2,
        ("lastfm", "tidal"): 1,
        ("spotify", "tidal"): 1,
    }


def test_a_listen_is_counted_once(deployment: Settings, owner: Rows, alice: Person) -> None:
    add(owner, alice, "spotify", 0)
    add(owner, alice, "lastfm", -20, 20)
    # A short track, played four times in a row.
    add(owner, alice, "spotify", 1000, 1030, 1060, 1090)
    add(owner, alice, "lastfm", 1002, 1032, 1062, 1092)

    assert counts(deployment, alice) == {("lastfm", "spotify"): 5}


def test_listens_of_other_people_are_not_compared(
    deployment: Settings, owner: Rows, alice: Person, bob: Person
) -> None:
    add(owner, alice, "spotify", 0)
    add(owner, bob, "lastfm", 0)
    add(owner, bob, "tidal", 0)

    assert counts(deployment, alice) == {}
    assert counts(deployment, bob) == {("lastfm", "tidal"): 1}


def test_the_newest_three_are_examples(deployment: Settings, owner: Rows, alice: Person) -> None:
    add(owner, alice, "spotify", *range(0, 1500, 300))
    add(owner, alice, "lastfm", *range(-7, 1493, 300), track="ANDROMEDA")
    before = owner.execute("select * from music.listen order by listen_id").fetchall()

    done = run(deployment, alice)
    [pair] = json.loads(run(deployment, alice, "--json").stdout)

    assert done.stdout.splitlines() == [
        "lastfm and spotify: 5 listens",
        "  2025-06-15T12:19:53.000Z and 2025-06-15T12:20:00.000Z: Gorillaz, Andromeda",
        "  2025-06-15T12:14:53.000Z and 2025-06-15T12:15:00.000Z: Gorillaz, Andromeda",
        "  2025-06-15T12:09:53.000Z and 2025-06-15T12:10:00.000Z: Gorillaz, Andromeda",
    ]
    assert pair["examples"][0] == {
        "artist": "Gorillaz",
        "track": "Andromeda",
        "first_at": "2025-06-15T12:19:53.000Z",
        "second_at": "2025-06-15T12:20:00.000Z",
    }
    assert len(pair["examples"]) == 3
    assert owner.execute("select * from music.listen order by listen_id").fetchall() == before


def test_times_of_an_example_are_in_the_order_of_the_sources(
    deployment: Settings, owner: Rows, alice: Person
) -> None:
    add(owner, alice, "spotify", 0)
    add(owner, alice, "lastfm", 30)

    done = run(deployment, alice)

    assert "2025-06-15T12:00:30.000Z and 2025-06-15T12:00:00.000Z" in done.stdout


def test_an_account_without_listens_has_none(deployment: Settings, alice: Person) -> None:
    done = run(deployment, alice)

    assert (done.exit_code, done.stdout) == (0, "no two sources have the same listens\n")
    assert json.loads(run(deployment, alice, "--json").stdout) == []


def test_an_unknown_account_is_an_error(deployment: Settings, alice: Person) -> None:
    done = CliRunner().invoke(imports.similar, ["nobody@example.org"], obj=deployment)

    assert done.exit_code == 1
    assert "there is no account nobody@example.org" in done.stderr
