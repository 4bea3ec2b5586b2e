"""A person with two months of an invented life, and a browser that is signed in to the dashboard."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import date
from html.parser import HTMLParser
from typing import Final

import httpx2
import pytest
from click.testing import CliRunner
from starlette.testclient import TestClient

from deploy.demo.command import demo
from resourceserver.dashboard.signin.cookie import Cookies, cookies
from shared.settings import Settings
from tests.conftest import Person, owning, person

LAST: Final = date(2026, 10, 25)
"""The last day of the life; clocks went back on it."""
BASE_URL: Final = "http://testserver"


@dataclass(frozen=True)
class Visit:
    """A browser that is signed in with a token."""

    api: TestClient
    cookies: Cookies
    token: str = field(repr=False)

    def open(self, address: str, **headers: str) -> httpx2.Response:
        """Open an address of the dashboard, and follow no redirect."""
        value = self.cookies.encrypt(self.cookies.name, {"token": self.token}, 600)
        return self.api.get(
            address,
            headers={
                "Accept": "text/html,application/xhtml+xml,*/*;q=0.8",
                "Cookie": f"{self.cookies.name}={value}",
                **headers,
            },
            follow_redirects=False,
        )

    def ask(self, url: str) -> httpx2.Response:
        """Ask the API what a page names as its source."""
        return self.api.get(url, headers={"Authorization": f"Bearer {self.token}"})


class Page(HTMLParser):
    """What a page shows: its figures, and the addresses of the API from which they come."""

    def __init__(self, html: str) -> None:
        """Read a page."""
        super().__init__()
        self.figures: list[tuple[str, str]] = []
        """The raw value and the source of each figure."""
        self.sources: dict[str, str] = {}
        self.links: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Keep what is a figure, a source or a link."""
        found = {name: value or "" for name, value in attrs}
        if tag == "data":
            self.figures.append((found["value"], found["data-from"]))
        if tag == "a" and "href" in found:
            self.links.append(found["href"])
        if "data-url" in found:
            self.sources[found["id"].removeprefix("api-")] = found["data-url"]


def invent(deployment: Settings, email: str, *options: str) -> None:
    """Give an account an invented life."""
    done = CliRunner().invoke(demo, [email, *options], obj=deployment)
    assert done.exit_code == 0, done.output


@pytest.fixture(scope="module")
def ada(deployment: Settings) -> Iterator[Person]:
    """A person in Berlin with two months of an invented life."""
    with owning(deployment) as connection:
        made = person(connection, "ada")
        connection.execute("update identity.user set timezone = 'Europe/Berlin'")
        invent(deployment, made.email, "--days=61", f"--until={LAST}")
        yield made


@pytest.fixture(scope="module")
def nobody(ada: Person) -> Person:
    """A person without any data."""
    return person(ada.connection, "nobody")


@pytest.fixture(scope="session")
def sealing(deployment: Settings) -> Cookies:
    """The cookies of the resource server that tests call."""
    chosen = replace(deployment, base_url=BASE_URL)
    assert chosen.dashboard_key is not None
    return cookies(chosen, chosen.dashboard_key)
