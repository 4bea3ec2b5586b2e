"""A program that uses the official SDK of MCP, whose person decides on the real pages over HTTP."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import parse_qsl, urlsplit

import httpx2
from mcp.client.auth import AuthorizationCodeResult, OAuthClientProvider
from mcp.shared.auth import OAuthClientInformationFull, OAuthClientMetadata, OAuthToken
from pydantic import AnyUrl

from tests.conftest import Person
from tests.oauth.visitor import Visitor, forms
from tests.processes import Service

CALLBACK: Final = "http://127.0.0.1:33418/callback"


def decide(browser: Visitor, url: str, decision: str = "allow", further: Sequence[str] = ()) -> str:
    """Go to ``url``, decide on the page that it leads to, and return where the browser is sent.

    Of the scopes that the page offers unticked, ``further`` are ticked.
    """
    page = browser.follow(browser.get(url))
    assert page.status_code == 200, page.text
    ticked = [value for name, value in forms(page)[0].fields if name == "scope"]
    for scope in further:
        assert f'value="{scope}"' in page.text
    submitted = browser.submit(page, decision=decision, scope=[*ticked, *further])
    location: str = submitted.headers["location"]
    return location


def expire_access_tokens(person: Person) -> None:
    """Let an hour and a second pass for the access tokens that a person's clients hold."""
    person.connection.execute(
        "update oauth.access_token set expires_at = expires_at - interval '3601 s', "
        "issued_at = issued_at - interval '3601 s' where user_id = %s",
        [person.user_id],
    )


@dataclass
class Kept:
    """The SDK's storage of tokens and client information (its TokenStorage)."""

    tokens: OAuthToken | None = None
    client: OAuthClientInformationFull | None = None

    async def get_tokens(self) -> OAuthToken | None:
        return self.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self.client = client_info


@dataclass
class Program:
    """The SDK's OAuth provider as the authentication of an HTTP client, with a record of its requests."""

    service: Service
    browser: Visitor
    path: str
    """The address of the resource server at which it begins."""
    kept: Kept = field(default_factory=Kept)
    decision: str = "allow"
    further: tuple[str, ...] = ()
    """What its person ticks on the consent page beside the requested scopes."""
    document: str | None = None
    """The address of the document that describes it, if it has one."""
    transports: Mapping[str, httpx2.AsyncBaseTransport] = field(default_factory=dict)
    """How it reaches servers that have no address."""
    changes: dict[str, str | None] = field(default_factory=dict)
    """A change that an attacker makes to the authorization response."""

    asked: list[dict[str, str]] = field(default_factory=list)
    """The authorization requests with which its person was bothered."""
    sent: list[str] = field(default_factory=list)
    forms: list[dict[str, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Create a provider like that of a program that has just been started."""
        self.provider = OAuthClientProvider(
            server_url=f"{self.service.base_url}{self.path}",
            client_metadata=OAuthClientMetadata(
                client_name="Notebook", redirect_uris=[AnyUrl(CALLBACK)]
            ),
            storage=self.kept,
            redirect_handler=self._ask_person,
            callback_handler=self._hear,
            client_metadata_url=self.document,
        )

    def get(self, *paths: str) -> list[httpx2.Response]:
        """Request each path from the resource server in turn."""
        return asyncio.run(self._get(paths))

    async def _get(self, paths: tuple[str, ...]) -> list[httpx2.Response]:
        async with self.http() as client:
            return [await client.get(path) for path in paths]

    def http(self) -> httpx2.AsyncClient:
        """Return an HTTP client that gets its own access token."""
        return httpx2.AsyncClient(
            base_url=self.service.base_url,
            auth=self.provider,
            mounts=self.transports,
            event_hooks={"request": [self._note]},
        )

    async def _note(self, request: httpx2.Request) -> None:
        self.sent.append(f"{request.method} {request.url.path}")
        if request.url.path == "/oauth/token":
            self.forms.append(dict(parse_qsl(request.content.decode())))

    async def _ask_person(self, url: str) -> None:
        self.asked.append(dict(parse_qsl(urlsplit(url).query)))
        location = decide(self.browser, url, self.decision, self.further)
        self._answer = dict(parse_qsl(urlsplit(location).query))

    async def _hear(self) -> AuthorizationCodeResult:
        heard = {"code": "", "state": None, "iss": None} | self._answer | self.changes
        return AuthorizationCodeResult.model_validate(
            {name: heard[name] for name in ("code", "state", "iss")}
        )
