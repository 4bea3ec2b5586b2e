"""Settings → Bring your data: imports with their receipts, and the sources."""

import html
import re
from pathlib import Path
from typing import Any

import psycopg
from httpx2 import Response

from shared import sources, tokens
from shared.settings import Settings
from tests.conftest import Connect, Person
from tests.integrations.bringing import Importer, of_listens
from tests.oauth.visitor import Visitor

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
