"""A host with TLS on this machine, for tests of what fetches from other services.

It has names of its own, which only the resolver of these tests knows, and a certificate of an authority that
only its clients trust.
"""

import socket
import ssl
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache, partial
from ipaddress import ip_address
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from shared.fetcher import Fetcher
from tests.accepting import accepting

LOOPBACK: Final = "127.0.0.1"
NAMES: Final = ("calendar.example", "other.example", "xn--bcher-kva.example")
"""The names in the certificate of every host."""


@dataclass(frozen=True)
class Request:
    """A request as it arrived; the names of headers are in lower case."""

    server_name: str | None
    """The name that the client sent for TLS (SNI)."""
    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes


Answer = Callable[[Request], Iterable[bytes]]
"""Returns what a host sends, byte for byte, in pieces."""


@dataclass
class Host:
    """A host that runs, and the requests that it has received."""

    port: int
    requests: list[Request] = field(default_factory=list)

    def url(self, path: str = "/", name: str = NAMES[0]) -> str:
        """Return an address at this host."""
        return f"https://{name}:{self.port}{path}"

    def fetcher(self, addresses: Mapping[str, Sequence[str]] | None = None) -> Fetcher:
        """Return a fetcher that trusts the certificate and may connect to 127.0.0.1 alone.

        ``addresses`` are those of each name; by default all names of the certificate lead to this host.
        """
        known = dict.fromkeys(NAMES, (LOOPBACK,)) if addresses is None else addresses
        return Fetcher([LOOPBACK], resolve=lambda name: known.get(name, ()), context=trust())


def plain(
    body: bytes, *, status: str = "200 OK", headers: Mapping[str, str] | None = None
) -> tuple[bytes, ...]:
    """Return an answer with these headers and the length of its body."""
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}"]
    lines += [f"{name}: {value}" for name, value in (headers or {}).items()]
    return ("\r\n".join([*lines, "", ""]).encode(), body)


@contextmanager
def host(answer: Answer, names: Sequence[str] = (*NAMES, LOOPBACK)) -> Iterator[Host]:
    """Run a host with a certificate for ``names`` until the end of the block."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with TemporaryDirectory() as directory:
        context.load_cert_chain(_issued(tuple(names), Path(directory) / "host.pem"))
    context.sni_callback = _keep_server_name
    with closing(socket.create_server((LOOPBACK, 0))) as listener:
        running = Host(listener.getsockname()[1])
        with accepting(listener, partial(_serve_one, context, running, answer)):
            yield running


def trust() -> ssl.SSLContext:
    """Return a new context of a client that trusts these hosts."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    certificate = _authority()[1].public_bytes(serialization.Encoding.PEM)
    context.load_verify_locations(cadata=certificate.decode("ascii"))
    return context


def _serve_one(
    context: ssl.SSLContext, running: Host, answer: Answer, connection: socket.socket
) -> None:
    """Answer one request, unless the client breaks off before."""
    connection.settimeout(30)
    with suppress(OSError), closing(context.wrap_socket(connection, server_side=True)) as secured:
        request = _read(secured)
        running.requests.append(request)
        for piece in answer(request):
            secured.sendall(piece)


# The handshake of a connection runs in the thread that then reads its request.
_HANDSHAKE: Final = threading.local()


def _keep_server_name(_socket: object, name: str | None, _context: object) -> None:
    _HANDSHAKE.server_name = name


def _read(connection: ssl.SSLSocket) -> Request:
    received = b""
    while b"\r\n\r\n" not in received:
        received += _more(connection)
    head, _, body = received.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
    while len(body) < int(headers.get("content-length", "0")):
        body += _more(connection)
    method, target, _ = first.split(" ")
    return Request(_HANDSHAKE.server_name, method, target, headers, body)


def _more(connection: ssl.SSLSocket) -> bytes:
    received = connection.recv(65536)
    if not received:
        raise ConnectionResetError
    return received


AUTHORITY: Final = "Authority of tests"


@cache
def _authority() -> tuple[ec.EllipticCurvePrivateKey, x509.Certificate]:
    key = ec.generate_private_key(ec.SECP256R1())
    builder = _builder(AUTHORITY, AUTHORITY, key.public_key(), *_A_DAY).add_extension(
        x509.BasicConstraints(ca=True, path_length=0), critical=True
    )
    return key, builder.sign(key, hashes.SHA256())


def _issued(names: tuple[str, ...], path: Path) -> Path:
    """Write a certificate for ``names`` with its key."""
    authority_key, _ = _authority()
    key = ec.generate_private_key(ec.SECP256R1())
    builder = _builder(names[0], AUTHORITY, key.public_key(), *_A_DAY)
    certificate = _named(builder, names).sign(authority_key, hashes.SHA256())
    path.write_bytes(pem(key) + pem(certificate))
    return path


_A_DAY: Final = (timedelta(hours=-1), timedelta(days=1))
"""When the certificates of hosts begin and end, from now."""


def signed_by_itself(
    names: Sequence[str], begin: timedelta, end: timedelta
) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
    """Return a certificate of no authority for ``names``, and its key; it is valid so long from now."""
    key = ec.generate_private_key(ec.SECP256R1())
    builder = _builder(names[0], names[0], key.public_key(), begin, end)
    return _named(builder, names).sign(key, hashes.SHA256()), key


def pem(item: x509.Certificate | ec.EllipticCurvePrivateKey) -> bytes:
    """Return a certificate or a key as servers read it."""
    if isinstance(item, x509.Certificate):
        return item.public_bytes(serialization.Encoding.PEM)
    return item.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )


def _builder(
    subject: str, issuer: str, key: ec.EllipticCurvePublicKey, begin: timedelta, end: timedelta
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, subject)]))
        .issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, issuer)]))
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now + begin)
        .not_valid_after(now + end)
    )


def _named(builder: x509.CertificateBuilder, names: Sequence[str]) -> x509.CertificateBuilder:
    alternatives = x509.SubjectAlternativeName([_general_name(name) for name in names])
    return builder.add_extension(alternatives, critical=False)


def _general_name(name: str) -> x509.GeneralName:
    with suppress(ValueError):
        return x509.IPAddress(ip_address(name))
    return x509.DNSName(name)
