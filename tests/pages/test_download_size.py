"""The size on the page of the download: an estimate from counts of rows, which cost little."""

import re
from typing import Any

import psycopg
import pytest
from click.testing import CliRunner
from starlette.testclient import TestClient

from authserver.pages.download import FORMATS, size_text
from deploy.demo.command import demo
from shared.settings import Settings
from tests.conftest import Connect, Person
from tests.oauth.conftest import Welcome
from tests.oauth.visitor import Visitor
from tests.pages.test_download import PATH, TOKEN, make
from tests.sql.test_deletion import sign_in

Rows = psycopg.Connection[Any]


def listen(owner: Rows, person: Person, count: int) -> None:
    owner.execute(
        "insert into music.listen (user_id, listened_at, track, artist, source, provider_key)"
        " select %s, timestamptz '2025-06-16 09:00Z' + n * interval '1 minute', 't', 'a', 's', n"
        "   from generate_series(1, %s) as n",
        [person.user_id, count],
    )


def counts(authserver: Rows, person: Person, session_hash: bytes | None) -> dict[str, int]:
    answer = authserver.execute(
        "select resource, row_count from svc.export_rows(%s, %s)", [person.user_id, session_hash]
    )
    return dict(answer.fetchall())


def test_the_estimate_is_within_a_factor_of_two_of_each_file(
    welcome: Welcome, alice: Person, deployment: Settings, api: TestClient
) -> None:
    browser = welcome(alice)
    options = [alice.email, "--days=15", "--until=2025-10-31"]
    assert CliRunner().invoke(demo, options, obj=deployment).exit_code == 0

    page = make(browser).text

    token = TOKEN.findall(page)[0]
    offered = dict(re.findall(r'<option value="(\w+)" data-size="(\d+)">', page))
    real = {
        name: len(
            api.get(
                f"/api/v1/export?format={name}", headers={"Authorization": f"Bearer {token}"}
            ).content
        )
        for name in FORMATS
    }
    ratios = {name: int(offered[name]) / size for name, size in real.items()}
    assert offered.keys() == FORMATS.keys()
    assert all(0.5 < ratio < 2 for ratio in ratios.values()), ratios


def test_both_pages_say_the_size_of_each_format(
    alice_browser: Visitor, alice: Person, owner: Rows
) -> None:
    listen(owner, alice, 900)
    before = alice_browser.get(PATH).text
    answer = make(alice_browser).text

    for name, text in FORMATS.items():
        assert f"<code>{name}</code> less than 1 MB" in before
        assert f"{text} (less than 1 MB)</option>" in answer


def test_only_what_is_ticked_counts(alice_browser: Visitor, alice: Person, owner: Rows) -> None:
    sizes = {}
    listen(owner, alice, 900)
    for scopes in (("read:activity",), ("read:activity", "read:music")):
        page = make(alice_browser, scope=list(scopes)).text
        sizes[scopes] = int(re.findall(r'value="json" data-size="(\d+)"', page)[0])

    without, with_music = sizes.values()
    assert with_music > without + 900 * 100


def test_an_empty_account_has_less_than_a_megabyte(alice_browser: Visitor) -> None:
    assert alice_browser.get(PATH).text.count("less than 1 MB") == len(FORMATS)


def test_rows_of_the_signed_in_person_alone_are_counted(
    connect_as: Connect, owner: Rows, alice: Person, bob: Person
) -> None:
    listen(owner, alice, 7)
    listen(owner, bob, 1100)
    authserver = connect_as("authserver")
    of_alice, of_bob = sign_in(alice).hash, sign_in(bob).hash
    over = sign_in(alice, seen="30 days").hash

    assert counts(authserver, alice, of_alice)["listens"] == 7
    assert set(counts(authserver, alice, of_alice).values()) == {0, 7}
    assert counts(authserver, bob, of_alice) == {}
    assert counts(authserver, alice, of_bob) == {}
    assert counts(authserver, alice, over) == {}
    assert counts(authserver, alice, None) == {}


@pytest.mark.parametrize("count", [999, 1000, 20_000])
def test_the_number_of_many_rows_follows_from_some_of_their_ids(
    connect_as: Connect, owner: Rows, alice: Person, count: int
) -> None:
    listen(owner, alice, count)

    counted = counts(connect_as("authserver"), alice, sign_in(alice).hash)["listens"]

    if count < 1000:
        assert counted == count
    # Ids are random: this is six standard deviations.
    assert abs(counted - count) <= count / 5


def test_sizes_are_plain_words() -> None:
    assert size_text(0) == "less than 1 MB"
    assert size_text(12_400_000) == "about 12 MB"
    assert size_text(2_540_000_000) == "about 2.5 GB"
