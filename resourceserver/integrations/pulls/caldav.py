"""CalDAV: the calendars of an account, and the events of each (RFC 4791).

    address ──► calendar ─────────────────────────────► its events
           ├──► account ──► home ──► all calendars ───► their events
           └──► nothing ──► /.well-known/caldav ──► the same again (RFC 6764)

An account is found through the principal that a server names, and through the principal its home. Servers
expand recurring events differently, so they are not asked to. A name and a password go to the host of the
address, and to hosts beside it, as in caldav.example.org and p01-caldav.example.org.
"""

import base64
import hashlib
import re
import time
from collections.abc import Iterator, Mapping
from datetime import datetime
from io import BytesIO
from typing import Any, Final, NamedTuple
from urllib.parse import unquote, urljoin, urlsplit
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from resourceserver.integrations import xml_stream
from resourceserver.integrations.format import Unreadable
from resourceserver.integrations.pulls.answering import failure
from resourceserver.integrations.pulls.pulling import PullFailed, Source
from resourceserver.integrations.xml_stream import Element

MOST_CALENDARS: Final = 50
"""The most calendars of an account."""
_MOST_HOMES: Final = 5
_NAME_LENGTH: Final = 200
MOST_REQUESTS: Final = 2 * MOST_CALENDARS + 20
"""The most requests of a pull."""
MOST_BYTES: Final = 20 * 1024 * 1024
"""The most bytes of all answers of a pull."""
REQUEST_S: Final = 30.0
"""The longest time of a request."""
PULL_S: Final = 180.0
"""The longest time of all requests of a pull."""

_WELL_KNOWN: Final = "/.well-known/caldav"
_TZID: Final = re.compile(r"^TZID:([^\r\n]+)", re.MULTILINE)

_ABOUT: Final = b"""<?xml version="1.0" encoding="utf-8"?>
<D:propfind xmlns:D="DAV:" xmlns:C="urn:ietf:params:xml:ns:caldav" xmlns:S="http://calendarserver.org/ns/">
<D:prop>
<D:resourcetype/><D:displayname/><D:sync-token/><S:getctag/>
<C:supported-calendar-component-set/><C:calendar-timezone/>
<D:current-user-principal/><C:calendar-home-set/><C:calendar-user-address-set/>
</D:prop>
</D:propfind>
"""
_QUERY: Final = """<?xml version="1.0" encoding="utf-8"?>
<C:calendar-query xmlns:D="DAV:" xmlns:C="urn:ietf:params:xml:ns:caldav">
<D:prop><D:getetag/>{data}</D:prop>
<C:filter><C:comp-filter name="VCALENDAR"><C:comp-filter name="VEVENT">
<C:time-range start="{starts_at:%Y%m%dT%H%M%SZ}" end="{ends_at:%Y%m%dT%H%M%SZ}"/>
</C:comp-filter></C:comp-filter></C:filter>
</C:calendar-query>
"""


class Collection(NamedTuple):
    """A calendar of an account."""

    url: str
    name: str
    zone: str | None
    """The time zone of whole days, if the server says it."""
    tag: str | None
    """What the server changes with each change of the calendar, if it has something."""

    @property
    def id(self) -> str:
        """A short digest of the address."""
        return digest(self.url)[:16]


class Account(NamedTuple):
    """What an address leads to."""

    calendars: tuple[Collection, ...]
    addresses: frozenset[str]
    """The e-mail addresses of the person in lower case."""


Properties = Mapping[str, Element]


class Requests:
    """The requests of one pull to the server of an address, limited together."""

    def __init__(self, source: Source, address: str, user: str, password: str) -> None:
        """Prepare requests with a name and a password."""
        self.address = address
        self.requests_left = MOST_REQUESTS
        self.bytes_left = MOST_BYTES
        self.seconds_left = PULL_S
        self._fetch = source.fetch
        self._now = source.person.now
        self._headers = {
            "Content-Type": "application/xml; charset=utf-8",
            **authorization(user, password),
        }

    def probe(self, url: str) -> Any:
        """Return what the server says of a resource, if it knows CalDAV. Raises PullFailed."""
        answer = self._send("PROPFIND", url, _ABOUT, 0)
        if answer.status in (401, 429, 503):
            raise self.failure(answer)
        return answer

    def propfind(self, url: str, depth: int) -> Any:
        """Return what the server says of a resource, and of those in it. Raises PullFailed."""
        answer = self._send("PROPFIND", url, _ABOUT, depth)
        if answer.status != 207:
            raise self.failure(answer)
        return answer

    def report(self, url: str, body: str) -> Any:
        """Return the answer to a query for what is in a collection. Raises PullFailed.

        One collection may be closed while others are open.
        """
        answer = self._send("REPORT", url, body.encode(), 1)
        if answer.status in (401, 429) or answer.status >= 500:
            raise self.failure(answer)
        return answer

    def failure(self, answer: Any) -> PullFailed:
        """Return why an answer ends the pull."""
        return failure(answer, self._now)

    def _send(self, method: str, url: str, body: bytes, depth: int) -> Any:
        if url != self.address and not _is_beside(url, self.address):
            raise PullFailed("other_server")
        answer = self._once(method, url, body, depth)
        if answer.status == 401 and answer.url != url and _is_beside(answer.url, self.address):
            # A redirect to another host drops the password.
            answer = self._once(method, answer.url, body, depth)
        return answer

    def _once(self, method: str, url: str, body: bytes, depth: int) -> Any:
        if not self.requests_left or self.bytes_left <= 0:
            raise PullFailed("too_large")
        if self.seconds_left <= 0:
            raise PullFailed("timed_out")
        self.requests_left -= 1
        begun = time.monotonic()
        answer = self._fetch(
            method,
            url,
            headers=self._headers | {"Depth": str(depth)},
            body=body,
            most_bytes=self.bytes_left,
            within_s=min(REQUEST_S, self.seconds_left),
        )
        self.seconds_left -= time.monotonic() - begun
        self.bytes_left -= len(answer.body)
        return answer


def authorization(user: str, password: str) -> dict[str, str]:
    """Return the header of a name and a password (RFC 7617)."""
    pair = base64.b64encode(f"{user}:{password}".encode()).decode()
    return {"Authorization": f"Basic {pair}"}


def find(requests: Requests) -> Account | None:
    """Return the account or the calendar at the address; None if it does not speak CalDAV.

    Raises PullFailed, also if there is no calendar.
    """
    answer = requests.probe(requests.address)
    account = _account(requests, answer)
    if account is not None:
        return account
    if answer.status == 207 or urlsplit(requests.address).path in ("", "/"):
        known = urljoin(requests.address, _WELL_KNOWN)
        account = _account(requests, requests.probe(known))
    if account is None and answer.status == 207:
        raise PullFailed("no_calendar")
    return account


def _account(requests: Requests, answer: Any) -> Account | None:
    """Return the account that the answer of a resource leads to."""
    url, properties = next(_responses(answer), ("", {}))
    if _holds_events(properties):
        return Account((_collection(url, properties),), frozenset())
    if "calendar-home-set" not in properties:
        for principal in _hrefs(url, properties, "current-user-principal"):
            url, properties = next(_responses(requests.propfind(principal, 0)), ("", {}))
    homes = _hrefs(url, properties, "calendar-home-set")
    if not homes:
        return None
    calendars: list[Collection] = []
    for home in homes[:_MOST_HOMES]:
        inside = requests.propfind(home, 1)
        calendars += (_collection(*each) for each in _responses(inside) if _holds_events(each[1]))
    if not calendars:
        raise PullFailed("no_calendar")
    mails = (
        properties["calendar-user-address-set"].inside("href")
        if ("calendar-user-address-set" in properties)
        else ()
    )
    addresses = (each.text.lower() for each in mails)
    return Account(
        tuple(calendars),
        frozenset(each.removeprefix("mailto:") for each in addresses if each.startswith("mailto:")),
    )


def marks(
    requests: Requests, collection: Collection, starts_at: datetime, ends_at: datetime
) -> str | None:
    """Return a digest of the versions of all events within a window; None if the server has no versions.

    It is for servers that do not mark the change of a calendar.
    """
    body = _QUERY.format(data="", starts_at=starts_at, ends_at=ends_at)
    answer = requests.report(collection.url, body)
    if answer.status != 207:
        return None
    versions = []
    for url, properties in _responses(answer):
        if "getetag" not in properties:
            return None
        versions.append(f"{url} {properties['getetag'].text}")
    return digest("\n".join(sorted(versions)))


def events(
    requests: Requests, collection: Collection, starts_at: datetime, ends_at: datetime
) -> Iterator[str | None]:
    """Yield the events of a calendar within a window as texts in iCalendar, each with all events of one UID.

    None stands for what the server does not send although it is there. Raises PullFailed.
    """
    body = _QUERY.format(data="<C:calendar-data/>", starts_at=starts_at, ends_at=ends_at)
    answer = requests.report(collection.url, body)
    if answer.status != 207:
        yield None
    for _, properties in _responses(answer):
        data = properties.get("calendar-data")
        yield data.text if data is not None and data.text else None


def _responses(answer: Any) -> Iterator[tuple[str, Properties]]:
    """Yield each resource of an answer with the properties that it has. Raises PullFailed."""
    if answer.status != 207:
        return
    try:
        for each in xml_stream.elements(BytesIO(answer.body), frozenset({"response"})):
            url = _joined(answer.url, each.text_of("href") or "")
            if url is not None:
                yield (
                    url,
                    {
                        found.name: found
                        for part in each.children
                        if part.name == "propstat" and " 200" in (part.text_of("status") or "")
                        for holder in part.children
                        if holder.name == "prop"
                        for found in holder.children
                    },
                )
    except Unreadable as error:
        raise PullFailed("unreadable") from error


def _holds_events(properties: Properties) -> bool:
    """Return whether a resource is a calendar that can have events (RFC 4791, section 5.2.3)."""
    kind, kept = (
        properties.get("resourcetype"),
        properties.get("supported-calendar-component-set"),
    )
    if kind is None or kind.child("calendar") is None:
        return False
    names = [each.attributes.get("name") for each in kept.children] if kept is not None else []
    return not names or "VEVENT" in names


def _collection(url: str, properties: Properties) -> Collection:
    tags = (properties[each].text for each in ("getctag", "sync-token") if each in properties)
    name = properties["displayname"].text if "displayname" in properties else ""
    name = name or unquote(urlsplit(url).path.rstrip("/").rpartition("/")[2]) or "Calendar"
    zone = properties["calendar-timezone"].text if "calendar-timezone" in properties else ""
    return Collection(
        url,
        name[:_NAME_LENGTH],
        _zone(zone),
        next(filter(None, tags), None),
    )


def _zone(text: str) -> str | None:
    """Return the name of the zone that a calendar with nothing but a time zone defines."""
    found = _TZID.search(text)
    try:
        return ZoneInfo(found.group(1).strip()).key if found else None
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return None


def _hrefs(base: str, properties: Properties, name: str) -> list[str]:
    """Return the addresses that a property names."""
    if name not in properties:
        return []
    joined = (_joined(base, each.text) for each in properties[name].inside("href"))
    return [each for each in joined if each is not None]


def _joined(base: str, href: str) -> str | None:
    """Return the address of a reference; None if it is not valid."""
    try:
        return urljoin(base, href) if href else None
    except ValueError:
        return None


def _is_beside(url: str, address: str) -> bool:
    """Return whether a password for the host of ``address`` may go to ``url``.

    It may go to hosts below and beside it: large services keep accounts on many hosts. Only a server that
    knows the password can name one of them.
    """
    try:
        given, own = urlsplit(url), urlsplit(address)
        origins = [(each.hostname or "", each.port or 443) for each in (given, own)]
    except ValueError:
        return False
    if given.scheme != "https":
        return False
    (host, port), (own_host, own_port) = origins
    parent = own_host.partition(".")[2]
    if (host, port) == (own_host, own_port) or host.endswith(f".{own_host}"):
        return True
    return "." in parent and not parent[-1:].isdecimal() and host.endswith(f".{parent}")


def digest(text: str) -> str:
    """Return a digest of a text."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
