"""Settings → Bring your data: imports with their receipts, tickets of uploads, undo, and the sources."""

import asyncio
import hashlib
import html
import re
from pathlib import Path
from typing import Any

import psycopg
from httpx2 import Response

from resourceserver.integrations.imports import receipts
from resourceserver.worker.kinds import UNDO, kinds
from resourceserver.worker.turns import Turn
from shared import database, sources, tokens
from shared.pool import Pool
from shared.settings import Settings
from tests.conftest import Connect, Person
from tests.integrations.bringing import Importer, of_listens
from tests.oauth.visitor import Visitor, forms
from tests.waiting import wait_for

Rows = psycopg.Connection[Any]

PATH = "/settings/bring"
LISTED = "select file_name from svc.imports(%s, %s, 100)"


def words(page: Response) -> str:
    """Return the text of a page without its tags."""
    return " ".join(html.unescape(re.sub("<[^>]+>", " ", page.text)).split())


def bring(settings: Settings, person: Person, path: Path, *lines: str) -> dict[str, Any]:
    """Import a file of plays of which each line is one, and return the receipt."""
    path.write_text("\n".join(lines))
    return Importer(settings, person).run(path, of_listens())


def add_imports(owner: Rows, person: Person, count: int) -> None:
    """Add imports of empty files, one a minute; the last one is the newest."""
    owner.execute(
        """
        insert into profile.import (user_id, file_name, file_size, digest, status, started_at)
        select %s, 'file ' || n, 0, sha256(''), 'done', now() + n * interval '1 minute'
          from generate_series(1, %s) as n
        """,
        [person.user_id, count],
    )


def test_the_page_shows_the_receipt_of_each_import(
    alice_browser: Visitor, settings: Settings, alice: Person, bob: Person, tmp_path: Path
) -> None:
    bring(settings, alice, tmp_path / "<b>.plays", "1", "2", "bad", "bad", "3", "stop")
    bring(settings, alice, tmp_path / "newer.plays", "3", "4")
    bring(settings, bob, tmp_path / "bobs.plays", "1")

    page = alice_browser.get(PATH)

    assert re.findall("<h3><bdi>(.*?)</bdi></h3>", page.text) == ["newer.plays", "&lt;b&gt;.plays"]
    newer, older = re.findall(r"<details id=\"import-.*?</details>", page.text, re.DOTALL)
    for text in ("1 new", "Records read 2", "New 1", "Known already 1", "Refused 0"):
        assert text in words(Response(200, text=newer)), text
    for text in (
        "3 new, 2 refused",
        "Recognised as plays",
        "Records read 5",
        "First 15 Jun 2025, 15:07 UTC Last 15 Jun 2025, 15:09 UTC",
        "Bad: 2 bad bad",
        "<b>.plays : it stops here",
    ):
        assert text in words(Response(200, text=older)), text


def test_a_receipt_with_a_profile_has_the_title_of_its_format(
    alice_browser: Visitor, settings: Settings, alice: Person, tmp_path: Path
) -> None:
    path = tmp_path / "netflix.plays"
    path.write_text("1")
    Importer(settings, alice).run(path, of_listens("netflix:Ben"))

    page = alice_browser.get(PATH)

    assert "Recognised as Netflix, viewing activity of all data" in words(page)


def test_an_account_without_imports_sees_every_source(alice_browser: Visitor) -> None:
    page = alice_browser.get(PATH)

    assert "Nothing was brought yet." in page.text
    for source in sources.SOURCES:
        for text in (source.title, source.holds, source.wait, *source.steps, *source.files):
            assert text in words(page)


def test_older_imports_are_on_further_pages(
    alice_browser: Visitor, owner: Rows, alice: Person, bob: Person
) -> None:
    add_imports(owner, alice, 21)
    add_imports(owner, bob, 1)

    first = alice_browser.get(PATH)
    (address,) = re.findall(r'href="(/settings/bring\?before=[^"#]+)', first.text)
    second = alice_browser.get(address)

    assert first.text.count("<h3><bdi>") == 20
    assert re.findall("<h3><bdi>(.*?)</bdi></h3>", second.text) == ["file 1"]
    assert "Older imports" not in second.text
    assert alice_browser.get(f"{PATH}?before=x").status_code == 200


def test_only_a_session_of_the_person_lists_their_imports(
    connect_as: Connect, owner: Rows, alice: Person, bob: Person
) -> None:
    add_imports(owner, alice, 1)
    session = tokens.mint(tokens.SESSION, alice.user_id)
    owner.execute(
        "insert into identity.session (user_id, session_hash) values (%s, %s)",
        [alice.user_id, session.hash],
    )
    server = connect_as("authserver")

    own = server.execute(LISTED, [alice.user_id, session.hash]).fetchall()
    of_another = server.execute(LISTED, [bob.user_id, session.hash]).fetchall()
    owner.execute("update identity.session set seen_at = now() - interval '31 days'")
    of_an_old_one = server.execute(LISTED, [alice.user_id, session.hash]).fetchall()

    assert (own, of_another, of_an_old_one) == ([("file 1",)], [], [])


def sign_in_long_ago(owner: Rows) -> None:
    owner.execute("update identity.session set authenticated_at = now() - interval '16 minutes'")


def ticket_for(
    browser: Visitor, name: str = "export.zip", length: int = 9, **more: str
) -> Response:
    """Request a ticket as the script of the page does."""
    csrf = dict(forms(browser.get(PATH))[1].fields)["csrf"]
    return browser.post(f"{PATH}/tickets", {"csrf": csrf, "name": name, "length": length} | more)


def begin_upload(owner: Rows, person: Person, name: str = "export.zip", received: int = 4) -> bytes:
    """Add an upload of nine bytes of which some have arrived, and return the hash of its ticket."""
    ticket_hash = hashlib.sha256(f"{person.email} {name}".encode()).digest()
    owner.execute(
        """
        insert into profile.upload (user_id, ticket_hash, status, file_name, length, received)
        values (%s, %s, 'receiving', %s, 9, %s)
        """,
        [person.user_id, ticket_hash, name, received],
    )
    return ticket_hash


def uploads(owner: Rows, person: Person) -> list[tuple[Any, ...]]:
    return owner.execute(
        "select status, ticket_hash from profile.upload where user_id = %s order by created_at",
        [person.user_id],
    ).fetchall()


def test_a_ticket_is_for_one_upload_of_a_person_who_signed_in_just_now(
    alice_browser: Visitor, owner: Rows, alice: Person
) -> None:
    answer = ticket_for(alice_browser)
    sign_in_long_ago(owner)
    late = ticket_for(alice_browser)
    forged = alice_browser.post(f"{PATH}/tickets", {"csrf": "x", "name": "a", "length": "1"})

    ticket = tokens.parse(tokens.UPLOAD, answer.json()["ticket"])
    assert ticket is not None
    assert answer.json()["location"] is None
    assert answer.headers["cache-control"] == "no-store"
    assert uploads(owner, alice) == [("ticket", ticket.hash)]
    assert (late.status_code, late.json()["is_old"]) == (403, True)
    assert (forged.status_code, forged.json()["is_old"]) == (403, False)


def test_the_same_file_continues_its_upload_with_another_ticket(
    alice_browser: Visitor, owner: Rows, alice: Person, bob: Person
) -> None:
    begin_upload(owner, alice)
    of_bob = begin_upload(owner, bob)

    answer = ticket_for(alice_browser)
    others = [
        ticket_for(alice_browser, name="other.zip"),
        ticket_for(alice_browser, length=8),
        ticket_for(alice_browser, format="gpx"),
    ]

    ticket = tokens.parse(tokens.UPLOAD, answer.json()["ticket"])
    assert ticket is not None
    assert re.fullmatch(
        r"http://testserver/api/v1/imports/[0-9a-f-]{36}", answer.json()["location"]
    )
    assert uploads(owner, alice)[0] == ("receiving", ticket.hash)
    assert uploads(owner, bob) == [("receiving", of_bob)]
    assert [other.json()["location"] for other in others] == [None, None, None]


def test_without_scripts_a_form_sends_the_file_with_the_ticket_first(
    alice_browser: Visitor, owner: Rows, alice: Person
) -> None:
    page = alice_browser.submit(alice_browser.get(PATH), form=1)
    sign_in_long_ago(owner)
    late = alice_browser.submit(alice_browser.get(PATH), form=1)

    form = forms(page)[1]
    assert (form.action, form.method) == ("http://testserver/api/v1/imports/", "post")
    assert 'enctype="multipart/form-data"' in page.text
    assert [name for name, _ in form.fields] == ["ticket", "profile", "file"]
    ticket = tokens.parse(tokens.UPLOAD, form.fields[0][1])
    assert ticket is not None
    assert uploads(owner, alice) == [("ticket", ticket.hash)]
    assert late.status_code == 403
    assert "Your sign-in is older than 15 minutes" in late.text


def test_only_the_pages_for_uploads_may_send_anything_to_the_resource_server(
    alice_browser: Visitor, owner: Rows, alice: Person
) -> None:
    add_imports(owner, alice, 1)
    page = alice_browser.get(PATH)
    plain = alice_browser.submit(page, form=1)

    for response in (page, plain):
        policy = response.headers["content-security-policy"].split("; ")
        assert "form-action 'self' http://testserver" in policy
        assert "connect-src 'self' http://testserver" in policy
    others = alice_browser.get("/settings/account").headers["content-security-policy"]
    assert "testserver" not in others


def test_uploads_under_way_are_listed_and_can_be_canceled(
    alice_browser: Visitor, owner: Rows, alice: Person, bob: Person
) -> None:
    begin_upload(owner, alice, "mine.zip")
    begin_upload(owner, bob, "bobs.zip")
    page = alice_browser.get(PATH)
    (number,) = (n for n, form in enumerate(forms(page)) if form.action == f"{PATH}/cancel")

    canceled = alice_browser.submit(page, form=number)
    again = alice_browser.submit(page, form=number)

    assert "mine.zip 4 bytes of 9 bytes received" in words(page)
    assert "bobs.zip" not in page.text
    assert "The upload is canceled." in alice_browser.follow(canceled).text
    assert [status for status, _ in uploads(owner, alice)] == ["ended"]
    assert [status for status, _ in uploads(owner, bob)] == ["receiving"]
    assert again.status_code == 409


def test_an_upload_that_no_import_came_of_says_why_for_a_day(
    alice_browser: Visitor, owner: Rows, alice: Person
) -> None:
    begin_upload(owner, alice, "mine.zip")
    end = (
        "update profile.upload set status = 'ended', ended_at = now() - %s::interval, problem = %s"
    )
    owner.execute(end, ["1 hour", "the file is damaged"])
    damaged = alice_browser.get(PATH)
    owner.execute(end, ["1 hour", "expired"])
    expired = alice_browser.get(PATH)
    owner.execute(end, ["25 hours", "expired"])

    assert "mine.zip not imported the file is damaged" in words(damaged)
    assert "mine.zip not imported not complete within 24 hours" in words(expired)
    assert "mine.zip" not in alice_browser.get(PATH).text


def test_an_interrupted_import_says_how_it_goes_on(
    alice_browser: Visitor, owner: Rows, alice: Person
) -> None:
    add_imports(owner, alice, 1)
    owner.execute("update profile.import set status = 'interrupted', problem = 'the disk is full'")
    by_hand = alice_browser.get(PATH)
    begin_upload(owner, alice, "mine.zip", received=9)
    owner.execute(
        "update profile.upload set status = 'taken', completed_at = now(),"
        " import_id = (select import_id from profile.import)"
    )
    by_itself = alice_browser.get(PATH)

    assert "To continue it, bring the same file again." in by_hand.text
    assert 'data-busy="false"' in by_hand.text
    assert "It continues by itself in a while." in by_itself.text
    assert 'data-busy="true"' in by_itself.text
    assert "mine.zip" not in by_itself.text


def test_the_page_says_why_the_resource_server_refused_a_file(alice_browser: Visitor) -> None:
    full = alice_browser.get(f"{PATH}?problem=storage_full")
    unknown = alice_browser.get(f"{PATH}?problem=x")

    assert "The disk of this service is full" in full.text
    assert "The upload did not work" in unknown.text


def undo_page(browser: Visitor, receipt: dict[str, Any]) -> Response:
    return browser.get(f"{PATH}/undo?import={receipt['import_id']}")


async def work(settings: Settings, person: Person) -> str:
    """Take the person's turn as a worker does, and return what its log line says."""
    async with Pool.to(database.login(settings, "worker"), size=1, is_patient=True) as workers:
        outcome = await kinds(workers)[UNDO].handle(Turn(person.user_id, UNDO, 1))
    return outcome.log


def listens(owner: Rows, person: Person) -> list[str]:
    found = owner.execute(
        "select track from music.listen where user_id = %s order by track", [person.user_id]
    )
    return [track for (track,) in found]


def test_an_import_is_removed_by_the_worker_after_a_question(
    alice_browser: Visitor,
    settings: Settings,
    owner: Rows,
    alice: Person,
    tmp_path: Path,
) -> None:
    first = bring(settings, alice, tmp_path / "first.plays", "1", "2")
    bring(settings, alice, tmp_path / "second.plays", "2", "3")
    question = undo_page(alice_browser, first)

    answer = alice_browser.follow(alice_browser.submit(question, form=1))
    before = listens(owner, alice)
    removed = [asyncio.run(work(settings, alice)) for _ in range(2)]
    after = alice_browser.get(PATH)

    assert "The 2 records that first.plays added will be removed" in words(question)
    assert (
        "Sums of old months whose single sessions this service has removed already keep"
        in words(question)
    )
    assert "being removed" in answer.text
    assert before == ["Track 1", "Track 2", "Track 3"]
    assert owner.execute("select user_id, kind from svc.turn").fetchall() == [
        (alice.user_id, "undo")
    ]
    assert removed == ["imports=1", ""]
    assert listens(owner, alice) == ["Track 3"]
    assert "being removed" not in after.text
    assert after.text.count(f'href="{PATH}/undo?') == 1


def test_an_upload_that_expired_says_whether_it_had_arrived(
    alice_browser: Visitor, owner: Rows, alice: Person
) -> None:
    begin_upload(owner, alice, "part.zip", received=4)
    begin_upload(owner, alice, "whole.zip", received=9)
    owner.execute(
        "update profile.upload set status = 'ended', ended_at = now(), problem = 'expired'"
    )

    page = words(alice_browser.get(PATH))

    assert "part.zip not imported not complete within 24 hours, so it was removed" in page
    assert "whole.zip not imported received, but not imported in time, so it was removed" in page


def read_by_a_worker(owner: Rows, person: Person, until: str = "1 min") -> None:
    owner.execute(
        "insert into svc.turn (user_id, kind, leased_until)"
        " values (%s, 'import', now() + %s::interval)",
        [person.user_id, until],
    )


def test_an_import_whose_reader_was_killed_is_interrupted_and_can_be_undone(
    alice_browser: Visitor, settings: Settings, owner: Rows, alice: Person, tmp_path: Path
) -> None:
    receipt = bring(settings, alice, tmp_path / "a.plays", "1")
    read_by_a_worker(owner, alice, "-1 s")
    owner.execute("update profile.import set status = 'running', finished_at = null")
    with psycopg.connect(settings.database_url or "", autocommit=True) as command:
        receipts.lock(command, str(receipt["import_id"]))
        read = alice_browser.get(PATH)
    wait_for(lambda: "interrupted" in words(alice_browser.get(PATH)), "the end of the lock")

    answer = alice_browser.follow(alice_browser.submit(undo_page(alice_browser, receipt), form=1))

    assert "being read" in words(read)
    assert "undo?import=" not in read.text
    assert "being removed" in answer.text


def test_only_the_own_import_that_has_ended_can_be_undone_by_a_person_who_signed_in_just_now(
    alice_browser: Visitor,
    settings: Settings,
    owner: Rows,
    alice: Person,
    bob: Person,
    tmp_path: Path,
) -> None:
    mine = bring(settings, alice, tmp_path / "mine.plays", "1")
    of_bob = bring(settings, bob, tmp_path / "bobs.plays", "1")
    question = undo_page(alice_browser, mine)
    owner.execute("update profile.import set status = 'running'")
    read_by_a_worker(owner, alice)
    running = alice_browser.submit(question, form=1)
    owner.execute("update profile.import set status = 'done'")
    forged = alice_browser.submit(question, form=1, **{"import": of_bob["import_id"]})
    sign_in_long_ago(owner)
    late = alice_browser.submit(question, form=1)

    assert running.status_code == 409
    assert "That import is being read at the moment." in running.text
    assert (forged.status_code, undo_page(alice_browser, of_bob).status_code) == (404, 303)
    assert late.status_code == 403
    assert listens(owner, alice) == ["Track 1"]
    assert owner.execute("select distinct status from profile.import").fetchall() == [("done",)]


def test_the_database_itself_checks_whose_session_it_is_and_how_old(
    connect_as: Connect, settings: Settings, owner: Rows, alice: Person, bob: Person, tmp_path: Path
) -> None:
    imports = [bring(settings, person, tmp_path / "a.plays", "1") for person in (alice, bob)]
    for person in (alice, bob):
        begin_upload(owner, person)
    found = owner.execute("select user_id, upload_id from profile.upload").fetchall()
    ids = dict(found)
    session = tokens.mint(tokens.SESSION, alice.user_id)
    owner.execute(
        "insert into identity.session (user_id, session_hash) values (%s, %s)",
        [alice.user_id, session.hash],
    )
    server = connect_as("authserver")

    def outcome(person: Person, receipt: dict[str, Any]) -> tuple[Any, ...] | None:
        return server.execute(
            "select svc.renew_upload(%(me)s, %(session)s, %(upload)s, %(hash)s),"
            " svc.request_undo(%(me)s, %(session)s, %(import)s)",
            {
                "me": alice.user_id,
                "session": session.hash,
                "upload": ids[person.user_id],
                "hash": hashlib.sha256(b"x").digest(),
                "import": receipt["import_id"],
            },
        ).fetchone()

    of_another = outcome(bob, imports[1])
    sign_in_long_ago(owner)
    of_an_old_one = outcome(alice, imports[0])

    assert of_another == (False, "gone")
    assert of_an_old_one == (False, "signed_out")
