"""Settings → Bring your data in a real browser: uploads with JavaScript and without it."""

import json
from collections.abc import Callable
from pathlib import Path
from threading import Event
from typing import Any, Final

import psycopg
import pytest
from playwright.sync_api import Page, Route, expect

from resourceserver.integrations.formats import FORMATS
from resourceserver.integrations.imports import turn
from resourceserver.uploads.directory import Directory
from tests.browser.conftest import OpenSignedIn, without_scripts
from tests.integrations import samples
from tests.processes import Service

Rows = psycopg.Connection[Any]

PATH: Final = "/settings/bring"
PIECE: Final = 256 * 1024
"""The bytes of each piece of a small file (upload.js)."""


@pytest.fixture
def plays(tmp_path: Path) -> Path:
    """A file of two pieces, with 1,200 plays."""
    path = tmp_path / "Streaming_History_Audio_2024_0.json"
    listed = [
        {
            "ts": f"2024-05-{1 + number // 100:02}T{number % 100 // 5:02}:{number % 5:02}:59Z",
            "ms_played": 40_000,
            "master_metadata_track_name": f"Track {number}",
            "master_metadata_album_artist_name": "Gorillaz",
            "master_metadata_album_album_name": "A " + "very " * 20 + "long name",
            "spotify_track_uri": f"spotify:track:{number:022}",
            "reason_end": "trackdone",
        }
        for number in range(1200)
    ]
    path.write_text(json.dumps(listed))
    assert PIECE < path.stat().st_size <= 2 * PIECE
    return path


@pytest.fixture
def import_uploads(service: Service, owner: Rows) -> Callable[[], None]:
    """Imports what has arrived, as the turn of a worker does."""

    def run() -> None:
        directory = service.settings.upload_dir
        assert directory is not None
        for (user_id,) in owner.execute("select user_id from profile.upload").fetchall():
            turn.take(service.settings, Directory(directory, 0), FORMATS, user_id, Event())

    return run


def choose(page: Page, path: Path) -> None:
    page.get_by_label("Files", exact=True).set_input_files(path)
    page.get_by_role("button", name="Upload", exact=True).click()


def test_a_profile_of_a_file_is_chosen_with_javascript(
    page: Page,
    open_signed_in: OpenSignedIn,
    import_uploads: Callable[[], None],
    owner: Rows,
    tmp_path: Path,
) -> None:
    path = tmp_path / "ViewingActivity.csv"
    ben = b"Ben,2023-11-14 20:30:00,00:51:07,,Dark,,TV,00:51:07,00:51:07,DE\n"
    path.write_bytes(samples.netflix().content + ben)
    open_signed_in(page, PATH)

    choose(page, path)
    expect(page.locator("#lists")).to_contain_text("received, waits for its import")
    import_uploads()
    expect(page.locator("#lists")).to_contain_text("write which one is yours")
    page.locator("summary", has_text="Choose the format yourself").click()
    page.get_by_label("Profile").fill("Ben")
    choose(page, path)
    expect(page.locator("#lists")).to_contain_text("received, waits for its import")
    import_uploads()

    expect(page.locator("#lists")).to_contain_text("1 new")
    assert owner.execute("select format from profile.upload order by created_at").fetchall() == [
        (None,),
        ("netflix:Ben",),
    ]


def test_an_upload_goes_on_after_a_reload_and_a_broken_connection(
    page: Page, open_signed_in: OpenSignedIn, import_uploads: Callable[[], None], plays: Path
) -> None:
    sent: list[tuple[str, str | None]] = []
    broken = ["until the reload", "once"]

    def pass_on(route: Route) -> None:
        """Pass the first piece on, and others when the connection is not broken."""
        sent.append((route.request.method, route.request.headers.get("upload-offset")))
        if len(sent) > 1 and broken:
            if broken == ["once"]:
                broken.clear()
            route.abort("connectionreset")
        else:
            route.continue_()

    open_signed_in(page, PATH)
    page.route("**/api/v1/imports/*-*", pass_on)
    choose(page, plays)
    expect(page.locator("[data-queue]")).to_contain_text("interrupted, trying again")
    page.reload()
    broken.remove("until the reload")
    expect(page.locator("#lists")).to_contain_text("262.1 kB of")
    choose(page, plays)
    expect(page.locator("#lists")).to_contain_text("received, waits for its import")
    import_uploads()

    expect(page.locator("#lists h3")).to_have_text(plays.name)
    expect(page.locator("#lists")).to_contain_text("1,200 new")
    expect(page.get_by_role("status")).to_have_text("The import has ended: its receipt is below.")
    page.unroute_all()
    assert [request for request in sent if request[0] == "PATCH"] == [
        ("PATCH", "0"),
        ("PATCH", str(PIECE)),
        ("PATCH", str(PIECE)),
    ]


def test_an_upload_that_cannot_be_stored_ends_at_once_and_says_why(
    page: Page, service: Service, open_signed_in: OpenSignedIn, plays: Path
) -> None:
    directory = service.settings.upload_dir
    assert directory is not None
    elsewhere = directory.rename(directory.with_name("elsewhere"))
    try:
        open_signed_in(page, PATH)
        choose(page, plays)

        expect(page.locator("[data-queue] .problem")).to_have_text(
            "This service cannot receive files at the moment. Try again later."
        )
    finally:
        elsewhere.rename(directory)


@without_scripts
def test_without_scripts_a_file_is_uploaded_in_one_form(
    page: Page,
    service: Service,
    open_signed_in: OpenSignedIn,
    import_uploads: Callable[[], None],
    plays: Path,
) -> None:
    open_signed_in(page, PATH)
    page.get_by_role("button", name="Upload a file").click()
    page.get_by_label("File", exact=True).set_input_files(plays)
    page.get_by_role("button", name="Upload").click()
    expect(page.locator("#lists")).to_contain_text("received, waits for its import")
    expect(page).to_have_url(f"{service.auth_url}{PATH}")
    import_uploads()
    page.get_by_role("link", name="Look again").click()

    expect(page.locator("#lists")).to_contain_text("1,200 new")
    page.get_by_role("link", name="Remove the import").click()
    page.get_by_role("button", name="Remove 1,200 records").click()
    expect(page.locator(".done")).to_contain_text("are being removed")
