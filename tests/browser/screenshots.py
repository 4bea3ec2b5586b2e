"""Pictures of every page, light and dark, on a phone and on a desktop: ``make screenshots``.

Views of the dashboard are also taken as printed, of an empty account, and of a day that has too much of
everything. ``python -m tests.browser.screenshots DIRECTORY views`` takes these alone.
"""

import shutil
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import timedelta
from itertools import product
from pathlib import Path
from typing import Any, Final, Literal

import click
import psycopg
from playwright.sync_api import Browser, sync_playwright

from deploy.migrate import migrate
from deploy.postgres.embedded import EmbeddedPostgres
from resourceserver.dashboard.views import VIEWS
from shared.settings import Settings
from tests.browser.conftest import ARGUMENTS, chromium_path
from tests.browser.test_dashboard import address_of, signed_in
from tests.browser.tour import Tour, server_with_provider
from tests.conftest import person
from tests.dashboard.conftest import invent
from tests.dashboard.crowd import crowd
from tests.midday import midday

SCHEMES: Final[tuple[Literal["light", "dark"], ...]] = ("light", "dark")
WIDTHS: Final = {"phone": 360, "desktop": 1100, "paper": 794}

SCREENS: Final = ("phone", "desktop")
DAYS: Final = 400
SESSIONS: Final = 60_000
"""The sessions of a day that has too many."""


def take(directory: Path, *, is_tour_wanted: bool) -> None:
    """Take all pictures, or those of views alone, into ``directory``, which is emptied first."""
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir()
    scratch = Path(tempfile.mkdtemp(prefix="svc-screenshots-"))
    scratch.chmod(0o755)
    try:
        with EmbeddedPostgres(scratch / "postgres") as postgres:
            chosen = Settings(data_dir=scratch / "deployment", database_url=postgres.url)
            migrate(chosen, lambda _: None)
            with (
                closing(psycopg.connect(postgres.url, autocommit=True)) as owner,
                server_with_provider(chosen, scratch) as served,
                sync_playwright() as playwright,
            ):
                browser = playwright.chromium.launch(
                    executable_path=chromium_path(), args=ARGUMENTS
                )
                for scheme, width in product(SCHEMES, SCREENS) if is_tour_wanted else ():
                    take_tour(browser, served, owner, directory, scheme, width)
                take_views(browser, served, owner, directory)
                browser.close()
    finally:
        shutil.rmtree(scratch)


def take_tour(
    browser: Browser,
    served: Settings,
    owner: psycopg.Connection[tuple[object, ...]],
    directory: Path,
    scheme: Literal["light", "dark"],
    width: str,
) -> None:
    """Take the pictures of one walk."""
    owner.execute("delete from identity.user")
    owner.execute("delete from oauth.client")
    owner.execute("delete from identity.throttle")
    context = browser.new_context(
        color_scheme=scheme, viewport={"width": WIDTHS[width], "height": 800}
    )
    context.set_default_timeout(5000)
    tour = Tour(context.new_page(), served, owner)
    for number, name in enumerate(tour.stops(), start=1):
        path = directory / f"{number:02}-{name}-{width}-{scheme}.png"
        tour.page.screenshot(path=path, full_page=True)
        click.echo(path.name)
    context.close()


def take_views(
    browser: Browser, served: Settings, owner: psycopg.Connection[Any], directory: Path
) -> None:
    """Take the pictures of all views of the dashboard, with three accounts."""
    owner.execute("delete from identity.user")
    noon = midday()
    ada, crowded, nobody = (person(owner, name) for name in ("ada", "crowded", "nobody"))
    owner.execute("update identity.user set timezone = %s", [str(noon.tzinfo)])
    # Playwright's event loop counts as running in this thread.
    with ThreadPoolExecutor(1) as other:
        other.submit(invent, served, ada.email, f"--days={DAYS}").result()
        # The whole of yesterday, and half of today.
        times = (noon - timedelta(hours=36), noon)
        count = SESSIONS * 3 // 2
        other.submit(crowd, owner, served, crowded.user_id, *times, sessions=count).result()
    full = [*product(SCHEMES, SCREENS), ("print", "paper")]
    few = [("light", "desktop"), ("dark", "phone")]
    today = noon.date()
    for who, day, looks in (
        (ada, today - timedelta(days=3), full),
        (crowded, today - timedelta(days=1), few),
        (nobody, today, few),
    ):
        cookie = signed_in(served, who.token())
        for look, width in looks:
            context = browser.new_context(
                color_scheme="dark" if look == "dark" else "light",
                viewport={"width": WIDTHS[width], "height": 800},
            )
            context.set_default_timeout(20_000)
            context.add_cookies([{"name": cookie[0], "value": cookie[1], "url": served.base_url}])
            page = context.new_page()
            page.emulate_media(media="print" if look == "print" else "screen")
            for view in VIEWS:
                page.goto(f"{served.base_url}{address_of(view, day)}")
                name = who.email.partition("@")[0]
                path = directory / f"view-{view.name}-{name}-{width}-{look}.png"
                page.screenshot(path=path, full_page=True)
                click.echo(path.name)
            context.close()


if __name__ == "__main__":
    take(Path(sys.argv[1]), is_tour_wanted="views" not in sys.argv[2:])
