"""Client id metadata documents (draft-ietf-oauth-client-id-metadata-document-02).

A client that did not register has the address of a document as its id, which holds its name and its
redirect URIs. The document is fetched for a person who is signed in, never for strangers, and never at the
token endpoint:

    authorize ── nobody is signed in ──► request stored ──► sign-in ──► consent ─┐
        └─────── a person is signed in ──────────────────────────────────────────┴─► document

Each process keeps the documents that it has fetched, by the headers of the answer but for at least an hour
and at most a day, and what is wrong with an address for a minute. Requests that need the same document at
once share one fetch. No other address in a document is fetched.
"""

import asyncio
import re
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from email.utils import parsedate_to_datetime
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field, StrictStr, ValidationError

from authserver.errors import OAuthError, TemporarilyUnavailable, UnusableDocument
from authserver.oauth import registration
from authserver.oauth.clients import Client
from authserver.people.throttle import Throttle

if TYPE_CHECKING:
    # It imports an HTTP client, so that a server imports it at the first fetch.
    from shared.fetcher import Answer, Fetcher

MAX_BYTES: Final = 5 * 1024
WITHIN_S: Final = 5.0
_TYPES: Final = ("application/json", "+json")
_MOST_AT_ONCE: Final = 10
_MOST_KEPT: Final = 1000
"""The most addresses about which a process remembers something; the one used longest ago is forgotten."""

_SHORTEST: Final = timedelta(hours=1)
_LONGEST: Final = timedelta(days=1)
_FAILURE: Final = timedelta(minutes=1)
_MAX_AGE: Final = re.compile(r'max-age\s*=\s*"?([0-9]{1,9})"?')

_SECRETS: Final = frozenset(("client_secret", "client_secret_expires_at"))
_PRIVATE_PARTS: Final = frozenset(("d", "p", "q", "dp", "dq", "qi", "oth", "k", "priv"))
"""The members of private and symmetric keys (RFC 7518, section 6)."""


class _Metadata(BaseModel):
    """The members that matter. Unknown ones are ignored.

    So is ``scope``: the document is the same for all services, which have different scopes.
    """

    model_config = ConfigDict(extra="allow")

    client_id: StrictStr
    client_name: StrictStr
    redirect_uris: Annotated[
        list[StrictStr], Field(min_length=1, max_length=registration.MAX_REDIRECT_URIS)
    ]
    token_endpoint_auth_method: Literal["none"] = "none"  # noqa: S105 -- a method without a secret
    jwks: Any = None


@dataclass(frozen=True)
class _Kept:
    """What a process remembers about an address: the client, or what is wrong."""

    outcome: Client | str
    until: float


@cache
def guarded_fetcher() -> "Fetcher":
    """Return the fetcher, which refuses addresses that are not public, those of the operator too."""
    from shared.fetcher import Fetcher  # noqa: PLC0415 -- most processes never need the HTTP client

    return Fetcher()


class Documents:
    """The documents that a process has fetched."""

    def __init__(
        self,
        fetcher: "Callable[[], Fetcher]" = guarded_fetcher,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Fetch with ``fetcher``, which is called in a thread, and measure ages with ``clock``."""
        self._fetcher = fetcher
        self._clock = clock
        self._kept: OrderedDict[str, _Kept] = OrderedDict()
        self._running: dict[str, asyncio.Task[_Kept]] = {}
        self._places = asyncio.Semaphore(_MOST_AT_ONCE)
        self._threads = ThreadPoolExecutor(_MOST_AT_ONCE, thread_name_prefix="document")

    async def client(self, url: str, throttle: Throttle, user_id: UUID) -> Client:
        """Return the client whose id is ``url``, for a person who is signed in.

        Raises UnusableDocument, TooManyRequests and TemporarilyUnavailable.
        """
        kept = self._remembered(url) or await self._requested(url, throttle, user_id)
        if isinstance(kept.outcome, str):
            raise UnusableDocument(kept.outcome, parameter="client_id")
        return kept.outcome

    async def _requested(self, url: str, throttle: Throttle, user_id: UUID) -> _Kept:
        """Fetch a document for a person. Raises TooManyRequests and TemporarilyUnavailable."""
        with throttle.reserve_document(user_id):
            if url not in self._running:
                await throttle.count_document(user_id)
            # Another request may have fetched it while this one was counted.
            remembered = self._remembered(url)
            if remembered is not None:
                return remembered
            # A request that is canceled must not end the fetch, for which others may wait.
            return await asyncio.shield(self._shared(url))

    def _remembered(self, url: str) -> _Kept | None:
        kept = self._kept.get(url)
        if kept is None or kept.until <= self._clock():
            return None
        self._kept.move_to_end(url)
        return kept

    def _shared(self, url: str) -> asyncio.Task[_Kept]:
        """Return the fetch of ``url`` that is under way, or begin it."""
        task = self._running.get(url)
        if task is None:
            task = asyncio.create_task(self._fetched(url))
            self._running[url] = task
            task.add_done_callback(lambda _: self._running.pop(url))
        return task

    async def _fetched(self, url: str) -> _Kept:
        """Fetch and check a document, and remember the outcome. Raises TemporarilyUnavailable."""
        try:
            async with asyncio.timeout(WITHIN_S):
                await self._places.acquire()
        except TimeoutError:
            raise TemporarilyUnavailable from None
        try:
            loop = asyncio.get_running_loop()
            outcome, lifetime = await loop.run_in_executor(self._threads, self._outcome, url)
        finally:
            self._places.release()
        kept = _Kept(outcome, self._clock() + lifetime.total_seconds())
        self._kept[url] = kept
        self._kept.move_to_end(url)
        if len(self._kept) > _MOST_KEPT:
            self._kept.popitem(last=False)
        return kept

    def _outcome(self, url: str) -> tuple[Client | str, timedelta]:
        """Return the client of a document, or what is wrong with it, and how long to remember that."""
        try:
            answer = _fetch(self._fetcher(), url)
            return client_of(url, answer.body), lifetime(answer.headers)
        except UnusableDocument as error:
            return error.description, _FAILURE


def _fetch(fetcher: "Fetcher", url: str) -> "Answer":
    """Return the answer that has the document. Raises UnusableDocument."""
    from shared.fetcher import FetchFailed, TooManyRedirects  # noqa: PLC0415 -- as above

    try:
        answer = fetcher.fetch(
            "GET",
            url,
            headers={"Accept": "application/json"},
            types=_TYPES,
            most_bytes=MAX_BYTES,
            within_s=WITHIN_S,
            redirects=0,
        )
    except TooManyRedirects:
        raise _unusable("the address redirects to another one") from None
    except FetchFailed as error:
        raise _unusable(str(error)) from None
    if answer.status != 200:
        raise _unusable(f"the status of the answer is {answer.status} and not 200")
    return answer


def client_of(url: str, body: bytes) -> Client:
    """Return the client that the document at ``url`` describes. Raises UnusableDocument."""
    try:
        metadata = _Metadata.model_validate_json(body)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        if not first["loc"]:
            raise _unusable("it is not a JSON object") from None
        name = ".".join(str(part) for part in first["loc"])
        raise _unusable(f"{name}: {first['msg']}") from None
    if metadata.client_id != url:
        raise _unusable("its client_id is not the address from which it was fetched")
    secrets = _SECRETS & (metadata.model_extra or {}).keys()
    if secrets:
        raise _unusable(f"everybody can read it, so it must not have {min(secrets)}")
    if _has_private_key(metadata.jwks):
        raise _unusable("everybody can read it, so its jwks must not have a private key")
    try:
        redirect_uris = registration.checked_redirect_uris(metadata.redirect_uris)
        client_name = registration.visible_name(metadata.client_name)
    except OAuthError as error:
        raise _unusable(error.description) from None
    if client_name is None:
        raise _unusable("client_name: it has no visible character")
    return Client(url, client_name, redirect_uris, None)


def lifetime(headers: Mapping[str, str]) -> timedelta:
    """Return how long a document with these headers is kept (RFC 9111, section 4.2.1), within limits."""
    fresh = timedelta()
    found = _MAX_AGE.search(headers.get("cache-control", "").lower())
    with suppress(ValueError, TypeError, KeyError, OverflowError):
        if found is not None:
            fresh = timedelta(seconds=int(found[1]) - int(headers.get("age", "0")))
        elif "expires" in headers:
            expires = parsedate_to_datetime(headers["expires"])
            fresh = expires - parsedate_to_datetime(headers["date"])
    return min(max(fresh, _SHORTEST), _LONGEST)


def _has_private_key(jwks: Any) -> bool:
    """Return whether a JWK Set has a private or a symmetric key."""
    keys = jwks.get("keys") if isinstance(jwks, dict) else None
    if not isinstance(keys, list):
        return False
    return any(isinstance(key, dict) and not _PRIVATE_PARTS.isdisjoint(key) for key in keys)


def _unusable(reason: str) -> UnusableDocument:
    return UnusableDocument(f"the document that the client_id names cannot be used: {reason}")
