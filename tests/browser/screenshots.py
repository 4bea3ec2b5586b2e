"""Pictures of every page, light and dark, on a phone and on a desktop: ``make screenshots``."""

import shutil
import sys
import tempfile
from contextlib import closing
from itertools import product
from pathlib import Path
from typing import Final, Literal

import click
import psycopg
from playwright.sync_api import Browser, sync_playwright

from deploy.migrate import migrate
from deploy.postgres.embedded import EmbeddedPostgres
from shared.settings import Settings
from tests.browser.conftest import ARGUMENTS, chromium_path
from tests.browser.tour import Tour, server_with_provider

SCHEMES: Final[tuple[Literal["light", "dark"], ...]] = ("light", "dark")
WIDTHS: Final = {"phone": 360, "desktop": 1100}


def take(directory: Path) -> None:
    """Take all pictures into ``directory``, which is emptied first."""
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
                for scheme, width in product(SCHEMES, WIDTHS):
                    take_tour(browser, served, owner, directory, scheme, width)
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


if __name__ == "__main__":
    take(Path(sys.argv[1]))
