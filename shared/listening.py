"""The addresses that a server listens on, and sockets bound to them.

They are separate from the public addresses: behind a reverse proxy both servers share the public port, and
each listens on a port of its own. The address is that of the command's option, else of a setting, else
``localhost`` with the port of the public address.
"""

import errno
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Final
from urllib.parse import urlsplit

LOOPBACK: Final = ("127.0.0.1", "::1")
"""The two addresses of ``localhost``; browsers try both."""

_ANY: Final = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 -- looked for, not listened on
"""All addresses of a family, and one under which this machine reaches itself."""

_LAST_PORT: Final = 65535

_NO_SUCH_ADDRESS: Final = (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)


class AddressError(Exception):
    """An address that cannot be listened on; the message is one line that names it and its setting."""


@dataclass(frozen=True)
class Address:
    """Where to listen: an IP address or ``localhost``, and a port."""

    host: str
    port: int

    def __str__(self) -> str:
        """Return the address as it is written in a setting."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def hosts(self) -> tuple[str, ...]:
        """The IP addresses to listen on."""
        return LOOPBACK if self.host == "localhost" else (self.host,)

    @property
    def reachable_hosts(self) -> tuple[str, ...]:
        """IP addresses under which this machine reaches the server."""
        return tuple(_ANY.get(host, host) for host in self.hosts)

    def overlaps(self, other: "Address") -> bool:
        """Whether two servers cannot listen on both."""
        return self.port == other.port and any(
            own == others or ((":" in own) == (":" in others) and _ANY.keys() & {own, others})
            for own in self.hosts
            for others in other.hosts
        )


@dataclass(frozen=True)
class Listen:
    """The addresses of one server."""

    source: str
    """The option or setting that they come from, for messages."""
    addresses: tuple[Address, ...]

    def moved(self, ports: int) -> "Listen":
        """Return the addresses with ports that are higher by this number. Raises AddressError."""
        moved = tuple(Address(each.host, each.port + ports) for each in self.addresses)
        if any(each.port > _LAST_PORT for each in moved):
            raise AddressError(f"{self.source}: there are not enough ports for all processes")
        return Listen(self.source, moved)

    def overlap(self, other: "Listen") -> Address | None:
        """Return an address on which another server cannot listen at the same time, or None."""
        pairs = ((own, others) for own in self.addresses for others in other.addresses)
        return next((own for own, others in pairs if own.overlaps(others)), None)


def parse(text: str) -> tuple[Address, ...]:
    """Return the addresses in a list with commas. Raises ValueError with one line for the operator."""
    addresses = tuple(_parse(each.strip()) for each in text.split(",") if each.strip())
    for number, address in enumerate(addresses):
        if any(address.overlaps(earlier) for earlier in addresses[:number]):
            raise ValueError(f"{address} is there twice")
    return addresses


def of_option(given: tuple[str, ...]) -> Listen | None:
    """Return the addresses of ``--listen``, or None without the option. Raises AddressError."""
    try:
        addresses = parse(",".join(given))
    except ValueError as error:
        raise AddressError(f"--listen: {error}") from error
    return Listen("--listen", addresses) if addresses else None


def _parse(text: str) -> Address:
    host, _, port = text.rpartition(":")
    is_bracketed = host.startswith("[") and host.endswith("]")
    host = host[1:-1] if is_bracketed else host
    try:
        # An IPv6 address has many spellings; addresses are compared in the shortest one.
        host = host if host == "localhost" else str(ip_address(host))
        if (":" in host) != is_bracketed:
            raise ValueError
    except ValueError:
        raise ValueError(
            f"{text!r} must look like 127.0.0.1:8400, [::1]:8400 or localhost:8400"
        ) from None
    if not (
        port.isascii() and port.isdecimal() and len(port) <= 5 and 1 <= int(port) <= _LAST_PORT
    ):
        raise ValueError(f"{text!r} must end with a port between 1 and 65535")
    return Address(host, int(port))


def is_loopback(host: str) -> bool:
    """Whether ``host`` is this machine for browsers too, which trust it without https."""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def check_served(name: str, url: str, listen: Listen) -> None:
    """Raise AddressError where nobody would reach a server at ``url``, the public address ``name``.

    This is known for http alone, which is on this machine: https is a reverse proxy's, which may reach the
    server anywhere. A server that listens on all addresses may be in a container, whose ports have other
    numbers outside.
    """
    parts = urlsplit(url)
    if parts.scheme == "https":
        return
    given = parts.hostname or ""
    hosts = {given} if given.replace(".", "").isdecimal() or ":" in given else set(LOOPBACK)
    for address in listen.addresses:
        if _ANY.keys() & set(address.hosts):
            return
        if address.port == port_of(url) and hosts & set(address.hosts):
            return
    where = ", ".join(map(str, listen.addresses))
    raise AddressError(
        f"{name} is {url}, where nobody would reach this server: {listen.source} has it listen on {where};"
        " set both to the same address and port, or name the reverse proxy between them in"
        " SVC_TRUSTED_PROXIES"
    )


def port_of(url: str) -> int:
    """Return the port of an http(s) address."""
    parts = urlsplit(url)
    return parts.port or (443 if parts.scheme == "https" else 80)


def bind(listen: Listen) -> list[socket.socket]:
    """Return a bound socket for each address.

    If this machine has only one of the two addresses of ``localhost``, the other is left out. Raises
    AddressError if an address is in use, needs more rights or is not of this machine.
    """
    with ExitStack() as unwind:
        sockets = []
        for address in listen.addresses:
            for bound in _bind(address, listen.source):
                unwind.callback(bound.close)
                sockets.append(bound)
        unwind.pop_all()
        return sockets


def listen(addresses: Listen) -> list[socket.socket]:
    """Return a listening socket for each address. Raises AddressError as ``bind`` does.

    Several processes that start at once may bind sockets to one address, but only one of them can listen.
    """
    sockets = bind(addresses)
    try:
        for each in sockets:
            each.listen()
    except OSError as error:
        for each in sockets:
            each.close()
        where = ", ".join(map(str, addresses.addresses))
        raise AddressError(
            f"{addresses.source}: cannot listen on {where}: {error.strerror}"
        ) from error
    return sockets


def _bind(address: Address, source: str) -> Iterator[socket.socket]:
    missing = 0
    for host in address.hosts:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        try:
            yield _bound(family, host, address.port)
        except OSError as error:
            missing += error.errno in _NO_SUCH_ADDRESS
            if error.errno in _NO_SUCH_ADDRESS and missing < len(address.hosts):
                continue
            raise AddressError(
                f"{source}: cannot listen on {Address(host, address.port)}: {error.strerror}"
            ) from error


def _bound(family: int, host: str, port: int) -> socket.socket:
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        listener.bind((host, port))
    except OSError:
        listener.close()
        raise
    return listener
