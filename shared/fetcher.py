"""The guarded fetcher: requests to addresses that people or strangers choose.

    address ─► https? ─► resolve ─► check all IP addresses ─► connect to one of them ─► TLS ─► answer
       ▲                                                                                         │
       └───────────────────────────── redirect: everything again ────────────────────────────────┘

A name is resolved once, and the connection goes to the very IP address that was checked: a second look-up
could give another one. TLS, certificate and Host header still have the name. No proxy of the environment is
used, since it would resolve the name by itself.

One time limit covers everything from the look-up to the last byte, and limits of size cover what arrives and
what it inflates to. Any HTTP status is an answer. Nothing is tried again.

The module imports an HTTP client, so a server imports it at its first use.
"""

import queue
import re
import socket
import ssl
import threading
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from ipaddress import ip_address, ip_network
from types import MappingProxyType
from typing import ClassVar, Final

import httpcore2
import httpx2
from httpcore2 import NetworkStream

from shared import VERSION
from shared.special_addresses import Address, Network, is_special

_MIB: Final = 1024 * 1024
_MOST_HEADER_BYTES: Final = 64 * 1024
_MOST_ADDRESSES: Final = 8
"""The most IP addresses of a name that are tried."""
_MOST_LOOK_UPS: Final = 16
"""The most look-ups at once: the resolver of the system takes no time limit, so threads may wait for long."""
_PIECE: Final = 64 * 1024

_OWN_HEADERS: Final = frozenset(
    ("accept-encoding", "connection", "content-length", "host", "transfer-encoding")
)
"""Headers that only the fetcher sets."""
_HARMLESS_HEADER: Final = re.compile(r"accept(-.*)?|content-type|depth|if-.*|prefer|user-agent")
"""Headers that another origin gets too after a redirect; any other one may be a credential."""
_HOST: Final = re.compile(r"[a-z0-9_-]{1,63}(\.[a-z0-9_-]{1,63})*")
_NUMBER: Final = re.compile(r"(.*\.)?([0-9]+|0x[0-9a-f]*)")
"""Hosts that a resolver could take for a number, as in 127.1 or 0x7f000001."""


class FetchFailed(Exception):
    """There is no answer; the docstring of a subclass is the message, which holds nothing of the request.

    Addresses of calendars are secrets, and such messages are stored and logged.
    """

    code: ClassVar[str]

    def __init__(self) -> None:
        """Use the docstring as the message."""
        super().__init__(self.__doc__)


class InvalidAddress(FetchFailed):
    """the address is not valid, or contains a user name or a password"""

    code = "invalid_address"


class InvalidHeader(FetchFailed):
    """a header of the request has characters that HTTP does not allow, such as a line break"""

    code = "invalid_header"


class NotHTTPS(FetchFailed):
    """the address does not begin with https://"""

    code = "not_https"


class AddressForbidden(FetchFailed):
    """the address leads to a network that is not public"""

    code = "address_forbidden"


class Unreachable(FetchFailed):
    """the host does not exist, or cannot be reached"""

    code = "unreachable"


class TLSFailed(FetchFailed):
    """the host does not prove with a certificate that it has its name"""

    code = "tls_failed"


class TimedOut(FetchFailed):
    """the answer was not complete in time"""

    code = "timed_out"


class TooLarge(FetchFailed):
    """the answer is too large"""

    code = "too_large"


class WrongType(FetchFailed):
    """the answer has another media type than was expected"""

    code = "wrong_type"


class MalformedAnswer(FetchFailed):
    """the answer is not valid HTTP, or broke off"""

    code = "malformed_answer"


class TooManyRedirects(FetchFailed):
    """the address redirects too often"""

    code = "too_many_redirects"


@dataclass(frozen=True)
class Answer:
    """What a host answered, with any status. Of an error status, the body may be cut off."""

    status: int
    headers: httpx2.Headers = field(repr=False)
    body: bytes = field(repr=False)
    """Inflated."""
    url: str = field(repr=False)
    """The address that answered, after all redirects."""


@dataclass(frozen=True)
class _Request:
    method: str
    url: httpx2.URL
    headers: Mapping[str, str]
    """By names in lower case."""
    body: bytes | None

    @property
    def origin(self) -> tuple[str, int]:
        return self.url.raw_host.decode("ascii"), self.url.port or 443


@dataclass(frozen=True)
class _Limits:
    deadline: float
    most_bytes: int
    types: tuple[str, ...] | None

    def remaining_s(self) -> float:
        """Return the seconds that remain. Raises TimedOut."""
        remaining = self.deadline - time.monotonic()
        if remaining <= 0:
            raise TimedOut
        return remaining


def resolve(host: str) -> list[str]:
    """Return the IP addresses of a host. Raises OSError."""
    rows = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(address[0]) for *_, address in rows))


class Fetcher:
    """Fetches from public addresses and from networks that the operator allows; threads may share it."""

    def __init__(
        self,
        networks: Iterable[str] = (),
        *,
        resolve: Callable[[str], Iterable[str]] = resolve,
        context: ssl.SSLContext | None = None,
    ) -> None:
        """Allow ``networks``, although they are not public. Raises ValueError if one is no network."""
        self._networks: tuple[Network, ...] = tuple(ip_network(each) for each in networks)
        self._resolve = resolve
        self._context = context or ssl.create_default_context()
        self._look_ups = threading.BoundedSemaphore(_MOST_LOOK_UPS)

    def fetch(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str] = MappingProxyType({}),
        body: bytes | None = None,
        types: tuple[str, ...] | None = None,
        most_bytes: int = 20 * _MIB,
        within_s: float = 30.0,
        redirects: int = 3,
    ) -> Answer:
        """Return the answer to a request. Raises FetchFailed.

        ``types`` are the media types that a successful answer may have, such as ``text/calendar`` or
        ``+json``. After a redirect to another origin, only headers without credentials are sent.
        """
        limits = _Limits(time.monotonic() + within_s, most_bytes, types)
        own_headers = {
            name.lower(): value
            for name, value in headers.items()
            if name.lower() not in _OWN_HEADERS
        }
        request = _Request(method, _parsed(url), own_headers, body)
        for _ in range(redirects + 1):
            answer = self._exchange(request, limits)
            location = _location(answer)
            if location is None:
                return answer
            request = _redirected(request, answer.status, location)
        raise TooManyRedirects

    def _exchange(self, request: _Request, limits: _Limits) -> Answer:
        """Return the answer of one host, without the body if it redirects."""
        host, port = request.origin
        connected = self._connected(host, port, limits)
        with closing(_Stream(self._secured(connected, host, limits), limits)) as stream:
            try:
                return _answer(request, stream, limits)
            except httpcore2.LocalProtocolError:
                raise InvalidHeader from None
            except (httpcore2.RemoteProtocolError, zlib.error):
                raise MalformedAnswer from None

    def _connected(self, host: str, port: int, limits: _Limits) -> socket.socket:
        """Return a connection to one of the checked IP addresses of a host."""
        addresses = self._checked_addresses(host, limits)
        for place, address in enumerate(addresses):
            # An IP address that does not answer must leave time for the others.
            share_s = limits.remaining_s() / (len(addresses) - place)
            # A system without IPv6 cannot even make a socket for such an address.
            with suppress(OSError):
                return socket.create_connection((str(address), port), timeout=share_s)
        limits.remaining_s()
        raise Unreachable

    def _secured(self, connection: socket.socket, host: str, limits: _Limits) -> ssl.SSLSocket:
        """Return the connection with TLS, once its other end has proved the name. Closes it on failure."""
        try:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection.settimeout(limits.remaining_s())
            return self._context.wrap_socket(connection, server_hostname=host)
        except BaseException as error:
            connection.close()
            match error:
                case TimeoutError():
                    raise TimedOut from None
                case ssl.SSLError():
                    raise TLSFailed from None
                case OSError():
                    raise Unreachable from None
                case _:
                    raise

    def _checked_addresses(self, host: str, limits: _Limits) -> list[Address]:
        """Return the IP addresses of a host that may be connected to, at least one."""
        try:
            addresses = [ip_address(host)]
        except ValueError:
            if _NUMBER.fullmatch(host):
                raise AddressForbidden from None
            addresses = self._looked_up(host, limits)
        if not addresses:
            raise Unreachable
        checked = [address for address in addresses if self._is_allowed(address)]
        if not checked:
            raise AddressForbidden
        return checked[:_MOST_ADDRESSES]

    def _is_allowed(self, address: Address) -> bool:
        return not is_special(address) or any(address in network for network in self._networks)

    def _looked_up(self, host: str, limits: _Limits) -> list[Address]:
        """Return the IP addresses of a host, in the order of the resolver; none if it does not exist."""
        results: queue.SimpleQueue[list[Address]] = queue.SimpleQueue()

        def look_up() -> None:
            addresses: list[Address] = []
            try:
                with suppress(OSError, ValueError):
                    addresses = [ip_address(each) for each in self._resolve(host)]
            finally:
                self._look_ups.release()
                results.put(addresses)

        if not self._look_ups.acquire(timeout=limits.remaining_s()):
            raise TimedOut
        threading.Thread(target=look_up, name="look-up", daemon=True).start()
        try:
            return results.get(timeout=limits.remaining_s())
        except queue.Empty:
            raise TimedOut from None


def _parsed(url: str) -> httpx2.URL:
    """Return an address that may be fetched, as far as its text says. Raises FetchFailed."""
    try:
        parsed = httpx2.URL(url)
    except (httpx2.InvalidURL, ValueError, TypeError):
        raise InvalidAddress from None
    if parsed.scheme != "https":
        raise NotHTTPS
    host = parsed.raw_host.decode("ascii")
    # A trailing dot means the same host, but no certificate has one.
    if host.endswith("."):
        host = host.removesuffix(".")
        parsed = parsed.copy_with(host=host)
    is_port = parsed.port is None or 1 <= parsed.port <= 65535
    if parsed.userinfo or not is_port or not _is_host(host):
        raise InvalidAddress
    return parsed


def _is_host(host: str) -> bool:
    with suppress(ValueError):
        ip_address(host)
        return True
    return len(host) <= 253 and _HOST.fullmatch(host) is not None


def _location(answer: Answer) -> str | None:
    """Return where an answer redirects to, if it does."""
    if answer.status in (301, 302, 303, 307, 308):
        return answer.headers.get("location")
    return None


def _redirected(request: _Request, status: int, location: str) -> _Request:
    """Return the request that a redirect asks for (RFC 9110, section 15.4). Raises FetchFailed."""
    try:
        url = _parsed(str(request.url.join(location)))
    except (httpx2.InvalidURL, ValueError):
        raise InvalidAddress from None
    following = replace(request, url=url)
    if following.origin != request.origin:
        harmless = {
            name: value
            for name, value in request.headers.items()
            if _HARMLESS_HEADER.fullmatch(name)
        }
        following = replace(following, headers=harmless)
    is_to_get = (status == 303 and request.method != "HEAD") or (
        status in (301, 302) and request.method == "POST"
    )
    if is_to_get:
        headers = {
            name: value
            for name, value in following.headers.items()
            if not name.startswith("content-")
        }
        following = replace(following, method="GET", headers=headers, body=None)
    return following


def _answer(request: _Request, stream: "_Stream", limits: _Limits) -> Answer:
    """Send a request over a connection and return its answer, without the body if it redirects."""
    url, (_, port) = request.url, request.origin
    headers = {
        "host": url.netloc.decode("ascii"),
        "user-agent": f"svc/{VERSION}",
        "accept": "*/*",
        **request.headers,
        "accept-encoding": "gzip",
        "connection": "close",
    }
    if request.body is not None:
        headers["content-length"] = str(len(request.body))
    sent = httpcore2.Request(
        request.method,
        httpcore2.URL(scheme=b"https", host=url.raw_host, port=port, target=url.raw_path),
        headers=_encoded(headers),
        content=request.body or b"",
    )
    origin = httpcore2.Origin(b"https", url.raw_host, port)
    response = httpcore2.HTTP11Connection(origin, stream).handle_request(sent)
    answer = Answer(response.status, httpx2.Headers(response.headers), b"", str(url))
    if _location(answer) is not None:
        return answer
    _check_type(request, answer, limits)
    # Chunks have lengths of their own, and compression may add a little.
    stream.most_bytes = _MOST_HEADER_BYTES + 2 * limits.most_bytes + _PIECE
    return replace(answer, body=_body(answer, response.iter_stream(), limits))


def _encoded(headers: Mapping[str, str]) -> list[tuple[bytes, bytes]]:
    try:
        return [(name.encode("ascii"), value.encode("utf-8")) for name, value in headers.items()]
    except UnicodeError:
        raise InvalidHeader from None


def _check_type(request: _Request, answer: Answer, limits: _Limits) -> None:
    """Raise WrongType if a successful answer has a body of another media type than expected."""
    is_success = 200 <= answer.status < 300 and answer.status not in (204, 205)
    if limits.types is None or not is_success or request.method == "HEAD":
        return
    given = answer.headers.get("content-type", "").partition(";")[0].strip().lower()
    for each in limits.types:
        if given == each or (each.startswith("+") and given.endswith(each)):
            return
    raise WrongType


def _body(answer: Answer, chunks: Iterable[bytes], limits: _Limits) -> bytes:
    """Return the inflated body. Raises TooLarge, MalformedAnswer."""
    is_error = answer.status >= 300
    encoding = answer.headers.get("content-encoding", "").strip().lower()
    if encoding not in ("", "identity", "gzip", "x-gzip"):
        raise MalformedAnswer
    pieces = _inflated(chunks) if encoding.endswith("gzip") else iter(chunks)
    body = bytearray()
    for piece in pieces:
        body += piece
        if len(body) > limits.most_bytes:
            if not is_error:
                raise TooLarge
            del body[limits.most_bytes :]
            break
    return bytes(body)


def _inflated(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Yield what gzip has compressed, in pieces of a bounded size. Raises MalformedAnswer, zlib.error."""
    inflating = zlib.decompressobj(zlib.MAX_WBITS | 16)
    is_begun = False
    for chunk in chunks:
        rest = chunk
        while rest:
            if inflating.eof:
                # A file of gzip may have several members (RFC 1952, section 2.2).
                inflating = zlib.decompressobj(zlib.MAX_WBITS | 16)
            is_begun = True
            yield inflating.decompress(rest, _PIECE)
            rest = inflating.unused_data if inflating.eof else inflating.unconsumed_tail
    if is_begun and not inflating.eof:
        raise MalformedAnswer


class _Stream(NetworkStream):
    """A connection with TLS for httpcore2, which ends by the limits of a request."""

    def __init__(self, connection: ssl.SSLSocket, limits: _Limits) -> None:
        self._connection = connection
        self._limits = limits
        self._received = 0
        self.most_bytes = _MOST_HEADER_BYTES

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ARG002 -- its signature
        """Return the next bytes; wait at most as long as is left for everything."""
        if self._received > self.most_bytes:
            raise TooLarge
        try:
            self._connection.settimeout(self._limits.remaining_s())
            received = self._connection.recv(max_bytes)
        except TimeoutError:
            raise TimedOut from None
        except ssl.SSLError:
            # With TLS 1.3 a host that wants a certificate of ours says so only now.
            raise TLSFailed from None
        except OSError:
            raise Unreachable from None
        self._received += len(received)
        return received

    def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ARG002 -- its signature
        """Send all bytes."""
        rest = memoryview(buffer)
        try:
            while rest:
                self._connection.settimeout(self._limits.remaining_s())
                rest = rest[self._connection.send(rest) :]
        except TimeoutError:
            raise TimedOut from None
        except OSError:
            # httpcore2 then reads what the host may have answered before it closed the connection.
            raise httpcore2.WriteError from None

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()
