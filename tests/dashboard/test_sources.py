"""The view of sources: what sends data, under the way in which it comes."""

import re
from datetime import datetime
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from resourceserver.dashboard.signin.cookie import Cookies
from resourceserver.dashboard.views import sources
from shared.settings import Settings
from tests.conftest import Person
from tests.connecting import connect
from tests.dashboard.conftest import Page, Visit
from tests.integrations.bringing import Importer, of_listens


@pytest.fixture
def visit(ada: Person, resource_client: TestClient, sealing: Cookies) -> Visit:
    return Visit(resource_client, sealing, ada.token())


def test_each_source_stands_once_under_its_way(visit: Visit) -> None:
    page = visit.open("/sources")
    known = visit.ask("/api/v1/integrations").json()["data"]
    assert {row["via"] for row in known} == {"tracker", "connection"}
    for via in ("tracker", "connection"):
        section = page.text.split(f'<section id="{via}">')[1].split("</section>")[0]
        assert section.count('<th scope="row">') == sum(row["via"] == via for row in known)
    assert '<section id="import">' not in page.text


def test_an_error_of_a_connection_is_named(visit: Visit) -> None:
    assert "The server of the service took too long to answer." in visit.open("/sources").text


def test_the_states_of_connections_are_in_words(
    nobody: Person, resource_client: TestClient, sealing: Cookies
) -> None:
    kinds = ("overland", "github", "calendar")
    waiting, failing, empty = (connect(nobody.connection, nobody, kind) for kind in kinds)
    nobody.connection.execute(
        "update profile.connection set last_pull_at = now() where connection_id = %s",
        [empty.connection_id],
    )
    nobody.connection.execute(
        """
        update profile.connection
           set problem = 'unreachable',
               failing_since = '2026-03-01 12:00Z'
         where connection_id = %s
        """,
        [failing.connection_id],
    )
    nobody.connection.execute(
        "update profile.connection set name = 'My <phone>' where connection_id = %s",
        [waiting.connection_id],
    )
    nobody.connection.execute(
        "update profile.connection set name = repeat('W', 60) where connection_id = %s",
        [empty.connection_id],
    )

    page = Visit(resource_client, sealing, nobody.token()).open("/sources").text

    nobody.connection.execute("delete from profile.connection where user_id = %s", [nobody.user_id])
    rows = page.split('<section id="connection">')[1].split("</section>")[0]
    overland, github, calendar = (
        rows.split(f"<bdi>{name}</bdi>")[1].split("</tr>")[0]
        for name in ("Overland", "GitHub", "Calendar")
    )
    assert "<bdi>My &lt;phone&gt;</bdi>" in overland
    assert "waiting for the first record" in overland
    assert f"{'W' * 39}…" in calendar
    assert "W" * 40 not in calendar
    assert "waiting for the first record" in calendar
    assert "failing since 1 Mar 2026, 12:00" in github
    assert "The server of the service could not be reached. Nothing needs to be done" in github
    links = Page(page).links
    assert sum("/settings/connections?back=/sources" in link for link in links) == 2
    assert waiting.key is not None
    assert waiting.key not in page


def test_the_invented_connections_have_records_in_both_rooms(visit: Visit, ada: Person) -> None:
    page = visit.open("/sources").text

    assert "waiting for the first record" not in page
    first = ada.connection.execute(
        "select min(first_record_at) from profile.connection where user_id = %s", [ada.user_id]
    ).fetchone()
    listed = visit.ask("/api/v1/integrations").json()["data"]
    starts = [row["first_record_at"] for row in listed if row["via"] in {"connection", "receiver"}]
    assert first is not None
    assert datetime.fromisoformat(min(starts)) == first[0]


def test_files_have_the_receipt_of_their_newest_import(
    nobody: Person,
    deployment: Settings,
    resource_client: TestClient,
    sealing: Cookies,
    tmp_path: Path,
) -> None:
    (tmp_path / "a.plays").write_text("0\n9\nx")
    (tmp_path / "b.plays").write_text("0\n9\n3000\ny\nz")
    importer = Importer(deployment, nobody)
    for name in ("a.plays", "b.plays"):
        importer.run(tmp_path / name, of_listens())

    page = Visit(resource_client, sealing, nobody.token()).open("/sources").text

    nobody.connection.execute("delete from music.listen where user_id = %s", [nobody.user_id])
    nobody.connection.execute("delete from profile.import where user_id = %s", [nobody.user_id])
    row = page.split('<section id="import">')[1].split("<tbody>")[1].split("</tr>")[0]
    words = re.sub(r"\s+", " ", re.sub(r"<[^>]+>", "", row))
    assert re.search("1 new of 5 records, 2 known, 2 refused bad [0-9]+ [A-Z]", words)
    # On a phone, where the table has no head, each cell names itself.
    assert '<td class="words" data-title="Newest import">' in row
    assert "bring" in page.split('<section id="import">')[1].split("</p>")[0]


def test_days_that_no_file_has_are_named(
    nobody: Person,
    deployment: Settings,
    resource_client: TestClient,
    sealing: Cookies,
    tmp_path: Path,
) -> None:
    importer = Importer(deployment, nobody)
    for name, numbers in (("a.plays", "0\n9"), ("b.plays", "3000\n3009")):
        (tmp_path / name).write_text(numbers)
        importer.run(tmp_path / name, of_listens())

    visit = Visit(resource_client, sealing, nobody.token())
    page = visit.open("/sources").text
    (row,) = visit.ask("/api/v1/integrations").json()["data"]

    nobody.connection.execute("delete from music.listen where user_id = %s", [nobody.user_id])
    nobody.connection.execute("delete from profile.import where user_id = %s", [nobody.user_id])
    (gap,) = row["gaps"]
    found = dict(pair[::-1] for pair in Page(page).figures)
    assert "No file has" in page
    assert found["integrations#/data/0/gaps/0/starts_at"] == gap["starts_at"]
    assert found["integrations#/data/0/gaps/0/ends_at"] == gap["ends_at"]


@pytest.mark.parametrize(
    ("refused", "problem", "words"),
    [
        (
            2,
            "1 of 2 files could not be read to the end; 2 of 3 records were refused",
            "1 of 2 files could not be read to the end",
        ),
        (
            0,
            "the import was interrupted; 1 of 2 files could not be read to the end",
            "the import was interrupted; 1 of 2 files could not be read to the end",
        ),
    ],
)
def test_refused_records_are_counted_once(refused: int, problem: str, words: str) -> None:
    assert sources.problem({"refused": refused, "problem": problem}) == words


def test_a_device_of_a_connection_is_no_silent_tracker(
    nobody: Person, resource_client: TestClient, sealing: Cookies
) -> None:
    nobody.connection.execute(
        """
        with device as (
            insert into activity.device (user_id, name)
            values (%(user_id)s, 'laptop')
            returning device_id
        )
        insert into activity.device_stream (user_id, device_id, stream, last_event_at, event_count)
        select %(user_id)s, device_id, 'coding_sessions', now(), 3
          from device
        """,
        {"user_id": nobody.user_id},
    )

    page = Visit(resource_client, sealing, nobody.token()).open("/sources").text

    nobody.connection.execute("delete from activity.device where user_id = %s", [nobody.user_id])
    row = page.split("<bdi>laptop</bdi>")[1].split("</tr>")[0]
    assert "a connection or a file" in row
    assert "no tracker" in row
    assert "nothing for a day" not in row


def test_a_device_has_the_name_that_its_person_gave_it(visit: Visit, ada: Person) -> None:
    rename = "update activity.device set display_name = %s where user_id = %s and name = 'phone'"
    ada.connection.execute(rename, ["<my phone>", ada.user_id])
    page = visit.open("/sources").text
    ada.connection.execute(rename, [None, ada.user_id])
    assert "<bdi>&lt;my phone&gt;</bdi>" in page
    assert any("/settings/devices?back=/sources" in link for link in Page(page).links)


def test_who_has_no_source_is_led_to_the_first_one(
    nobody: Person, resource_client: TestClient, sealing: Cookies
) -> None:
    page = Visit(resource_client, sealing, nobody.token()).open("/sources")
    assert "Nothing sends data yet." in page.text
    assert any(link.endswith("/welcome") for link in Page(page.text).links)
