"""The checks from outside: what a client on any machine sees of both servers, without a credential.

The checks send a few requests that have no effect: nothing is registered, written or guessed.
"""

import http.client
import ssl
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Any, Final

from deploy.doctor.checks import (
    CannotExamine,
    Check,
    Finding,
    duration,
    failed,
    passed,
    skipped,
)
from deploy.doctor.web import Reply, Site

CLOCK_S: Final = 30.0
"""How far a clock may differ: signed tokens of a provider allow for a minute."""
ENDS_SOON: Final = timedelta(days=14)
"""Certificates of months are usually renewed a month before their end."""
_ENDS_SOON_PART: Final = 6
"""A shorter one ends soon in the last sixth of its time: proxies renew it when a third is left."""
ISSUER_METADATA: Final = "/.well-known/oauth-authorization-server"
RESOURCE_METADATA: Final = "/.well-known/oauth-protected-resource"
INGEST: Final = "/api/v1/ingest/app-sessions"
LARGEST_BATCH: Final = 40 * 2**20
"""The most bytes of an ingest body, as the server accepts it."""
LARGEST_PIECE: Final = 8 * 2**20
"""The same for a piece of an uploaded file."""
WAIT_S: Final = 5.0
"""How long a proxy may wait for a body that never comes."""
_CURES_OF_CERTIFICATES: Final = {
    10: "Renew the certificate, and let the proxy load it.",
    9: "Correct the clock of this machine, or install a certificate that is valid now.",
    18: "Install a certificate of an authority that browsers know, as Caddy and certbot get one.",
    19: "Install the certificate together with those between it and its authority (the full chain).",
    20: "Install the certificate together with those between it and its authority (the full chain).",
    62: "Install a certificate that has this name.",
    64: "Install a certificate that has this address.",
}
"""By the number of the reason that OpenSSL gives."""


@dataclass(frozen=True)
class Service:
    """Both servers, by the addresses that people and applications use."""

    auth: Site
    base: Site

    @property
    def sites(self) -> tuple[Site, Site]:
        """Both."""
        return self.auth, self.base


def _ask(site: Site, path: str, **given: Any) -> Reply:
    """Return an answer. Raises CannotExamine without one."""
    try:
        return site.ask(path, **given)
    except (OSError, http.client.HTTPException) as error:
        raise CannotExamine(
            f"{site.url}{path} does not answer", "Correct the failure of 'connection' first."
        ) from error


def _connection(service: Service) -> Iterator[Finding]:
    for site in service.sites:
        yield _connected(site)


def _connected(site: Site) -> Finding:
    try:
        reply = site.ask("/readyz")
    except ssl.SSLError as error:
        return _not_secured(site, error)
    except (OSError, http.client.HTTPException) as error:
        return failed(
            f"{site.url} does not answer: {error}",
            "Check that the name leads to this server, the port is open, and proxy and server run.",
        )
    if not site.is_https:
        if site.is_loopback:
            return passed(f"{site.url} answers on this machine")
        return failed(
            f"{site.url} is plain http: passwords and tokens can be read on the way",
            "Put a proxy with TLS in front (deploy/proxy), and set SVC_AUTH_URL and SVC_BASE_URL to https.",
        )
    assert reply.certificate is not None  # noqa: S101 -- every connection with TLS has one
    begins_at, ends_at = reply.certificate
    left = ends_at - datetime.now(UTC)
    if left < min(ENDS_SOON, (ends_at - begins_at) / _ENDS_SOON_PART):
        return failed(
            f"the certificate of {site.host} ends in {duration(left.total_seconds())}",
            "Renew the certificate, and find out why that did not happen by itself.",
        )
    return passed(
        f"{site.url} answers with {reply.tls_version}, its certificate ends in"
        f" {duration(left.total_seconds())}"
    )


def _not_secured(site: Site, error: ssl.SSLError) -> Finding:
    if isinstance(error, ssl.SSLCertVerificationError):
        return failed(
            f"the certificate of {site.host} is not valid: {error.verify_message}",
            _CURES_OF_CERTIFICATES.get(
                error.verify_code, "Install a certificate that is valid for this name."
            ),
        )
    return failed(
        f"{site.url} does not speak TLS 1.2 or newer: {error.reason}",
        "Let the proxy serve https with TLS 1.2 or 1.3 on this port (deploy/proxy has samples).",
    )


def _plain_http(service: Service) -> Iterator[Finding]:
    for site in service.sites:
        if not site.is_https:
            yield skipped(f"{site.url} is not https")
        elif site.port != 443:
            yield skipped(f"{site.url} has a port of its own, to which no plain http belongs")
        else:
            yield redirected(Site(f"http://{site.host}"), site)


def redirected(plain: Site, site: Site) -> Finding:
    """Return whether plain http leads to https, or nothing listens there."""
    try:
        reply = plain.ask("/")
    except (OSError, http.client.HTTPException):
        return passed(f"nothing answers {plain.url}")
    where = reply.headers.get("location", "")
    if reply.status in (301, 302, 307, 308) and where.startswith(f"{site.url}/"):
        return passed(f"{plain.url} redirects to https")
    return failed(
        f"{plain.url} answers {reply.status} and does not redirect to {site.url}",
        "Let the proxy answer plain http with 308 and the https address (deploy/proxy has samples).",
    )


def _probes(service: Service) -> Iterator[Finding]:
    for site in service.sites:
        ready = _ask(site, "/readyz")
        health = _ask(site, "/healthz")
        body = health.json()
        if not isinstance(body, dict) or "database" not in body:
            yield failed(
                f"{site.url}/healthz is not answered by a server of svc (status {health.status})",
                "Check to which server the proxy sends this name.",
            )
        elif health.status != 200 or ready.status != 200:
            reason = (ready.json() or {}).get("message") or body.get("message") or "no reason given"
            yield failed(
                f"{site.url} is not ready: {reason}",
                "Read the server's log; the database must run, and 'svc migrate' of this version have run.",
            )
        elif body.get("storage", {}).get("status") == "full":
            yield failed(
                f"{site.url} refuses writes: {body['storage']['free_mib']} MiB are free on the disk",
                "Free or add space on this disk; everything goes on within a second.",
            )
        else:
            yield passed(f"{site.url} is ready, version {body.get('build', {}).get('version')}")


def _issuer(service: Service) -> Iterator[Finding]:
    reply = _ask(service.auth, ISSUER_METADATA)
    document = reply.json()
    if reply.status != 200 or not isinstance(document, dict):
        yield failed(
            f"{service.auth.url}{ISSUER_METADATA} answers {reply.status} without metadata (RFC 8414)",
            "Check that this is the address of the authorization server, and the proxy passes the path on.",
        )
        return
    issuer = document.get("issuer")
    if issuer != service.auth.url:
        yield failed(
            f"the issuer is {issuer}, and it is served at {service.auth.url}: clients refuse it (RFC 8414)",
            f"Set SVC_AUTH_URL={service.auth.url} for both servers, or use the address that it names.",
        )
        return
    foreign = [
        name
        for name, value in document.items()
        if name.endswith("_endpoint") and not str(value).startswith(f"{issuer}/")
    ]
    if foreign or document.get("code_challenge_methods_supported") != ["S256"]:
        yield failed(
            f"the metadata of {issuer} were changed on the way: {', '.join(foreign) or 'no PKCE'}",
            "Let the proxy pass the document on unchanged.",
        )
        return
    yield passed(f"the issuer is {issuer}, and all its endpoints are there")


def _resource(service: Service) -> Iterator[Finding]:
    for path, resource in (
        (RESOURCE_METADATA, service.base.url),
        (f"{RESOURCE_METADATA}/mcp", f"{service.base.url}/mcp"),
    ):
        reply = _ask(service.base, path)
        document = reply.json()
        if reply.status != 200 or not isinstance(document, dict):
            yield failed(
                f"{service.base.url}{path} answers {reply.status} without metadata (RFC 9728)",
                "Check that this is the address of the resource server, and the proxy passes the path on.",
            )
        elif document.get("resource") != resource:
            yield failed(
                f"the resource is {document.get('resource')}, and it is served at {resource}",
                f"Set SVC_BASE_URL={service.base.url} for both servers, and run 'svc migrate'.",
            )
        elif document.get("authorization_servers") != [service.auth.url]:
            yield failed(
                f"{resource} names the authorization servers {document.get('authorization_servers')}, and not"
                f" {service.auth.url}",
                f"Set SVC_AUTH_URL={service.auth.url} for the resource server too.",
            )
        else:
            yield passed(f"{resource} names {service.auth.url}")


def _challenge(service: Service) -> Iterator[Finding]:
    reply = _ask(service.base, "/api/v1/me")
    challenge = reply.headers.get("www-authenticate", "")
    if reply.status != 401:
        yield failed(
            f"a request without a token is answered {reply.status} instead of 401",
            "Let the proxy pass requests and answers on unchanged, with no sign-in of its own.",
        )
    elif f'resource_metadata="{service.base.url}{RESOURCE_METADATA}"' not in challenge:
        yield failed(
            f"the challenge of a 401 does not lead to {service.base.url}{RESOURCE_METADATA}",
            f"Set SVC_BASE_URL={service.base.url}, and let the proxy pass WWW-Authenticate on.",
        )
    else:
        yield passed("a 401 leads clients to the metadata")


def _headers(service: Service) -> Iterator[Finding]:
    page = _ask(service.auth, "/sign-in")
    if page.status != 200:
        raise CannotExamine(
            f"{service.auth.url}/sign-in answers {page.status}",
            "Correct the failures of 'issuer' and 'probes' first.",
        )
    missing = [
        name
        for name, part in (
            ("content-security-policy", "frame-ancestors 'none'"),
            ("x-frame-options", "DENY"),
            ("referrer-policy", "no-referrer"),
            ("x-content-type-options", "nosniff"),
            ("cache-control", "no-store"),
        )
        if part not in page.headers.get(name, "")
    ]
    if missing:
        yield failed(
            f"the sign-in page lacks {', '.join(missing)}, or the proxy has changed them",
            "Let the proxy pass the headers of the servers on unchanged.",
        )
    else:
        yield passed("the sign-in page cannot be framed, sniffed or kept")
    for site in service.sites:
        if not site.is_https:
            yield skipped(f"{site.url} is not https")
        elif "max-age" in _ask(site, "/readyz").headers.get("strict-transport-security", ""):
            yield passed(f"{site.url} is https for ever (HSTS)")
        else:
            yield failed(
                f"{site.url} lacks Strict-Transport-Security",
                'Let the proxy add it: Strict-Transport-Security "max-age=63072000".',
            )


def _clocks(service: Service) -> Iterator[Finding]:
    for site in service.sites:
        began = datetime.now(UTC)
        reply = _ask(site, "/healthz")
        ended = datetime.now(UTC)
        times = {"Date": _date(reply.headers.get("date", ""))}
        body = reply.json()
        if isinstance(body, dict):
            times["the server"] = _instant(str(body.get("time", "")))
        known = {name: at for name, at in times.items() if at is not None}
        if not known:
            raise CannotExamine(
                f"{site.url} sends no time", "Let the proxy pass the header Date on."
            )
        wrong = {
            name: (at - began).total_seconds()
            for name, at in known.items()
            if (began - at).total_seconds() > CLOCK_S or (at - ended).total_seconds() > CLOCK_S
        }
        if wrong:
            worst = max(wrong.values(), key=abs)
            yield failed(
                f"the clock of {site.url} differs by {worst:+.0f} s from the clock here",
                "Synchronise the clock of that machine, or of this one, by NTP.",
            )
        else:
            yield passed(f"{site.url} has the same time as this machine")


def _date(text: str) -> datetime | None:
    return _parsed(parsedate_to_datetime, text)


def _instant(text: str) -> datetime | None:
    return _parsed(datetime.fromisoformat, text)


def _parsed(parse: Callable[[str], datetime], text: str) -> datetime | None:
    try:
        found = parse(text)
    except (TypeError, ValueError):
        return None
    return found if found.tzinfo is not None else None


def _bodies(service: Service) -> Iterator[Finding]:
    announced = {"Content-Type": "application/json", "Content-Length": str(LARGEST_BATCH)}
    batch = _without_body(service.base, INGEST, "POST", announced)
    if batch == 413:
        yield failed(
            "the proxy refuses bodies of 40 MiB (413), and the server accepts them",
            "Raise the limit of the proxy (nginx: client_max_body_size 40m).",
        )
    elif batch in (401, None):
        yield passed("the proxy passes on bodies of 40 MiB")
    else:
        yield failed(
            f"a large body is answered {batch} instead of 401",
            "Let the proxy pass requests on unchanged.",
        )
    announced = {
        "Content-Type": "application/offset+octet-stream",
        "Content-Length": str(LARGEST_PIECE),
        "Tus-Resumable": "1.0.0",
    }
    piece = _without_body(service.base, "/api/v1/imports/none", "PATCH", announced)
    if piece is None:
        yield failed(
            "the proxy keeps uploaded files until they are complete, or the server does not answer",
            "Switch that off for /api/v1/imports/ (nginx: proxy_request_buffering off).",
        )
    elif piece == 413:
        yield failed(
            "the proxy refuses pieces of uploaded files (413)",
            "Remove the limit for /api/v1/imports/ (nginx: client_max_body_size 0).",
        )
    else:
        yield passed("the proxy passes on uploaded files as they arrive")


def _without_body(site: Site, path: str, method: str, headers: dict[str, str]) -> int | None:
    """Return the status of a request of which only the head is sent; None without an answer in time."""
    try:
        return Site(site.url, WAIT_S).ask(path, method=method, headers=headers).status
    except TimeoutError:
        return None
    except (OSError, http.client.HTTPException) as error:
        raise CannotExamine(
            f"{site.url}{path} does not answer", "Correct the failure of 'connection' first."
        ) from error


def _client_addresses(_: Service) -> Iterator[Finding]:
    yield skipped(
        "from outside nobody sees whose address the servers count",
        "Run 'svc doctor' without addresses on the operator's machine, with the settings of the servers.",
    )


CHECKS: Final[tuple[Check[Service], ...]] = (
    Check("connection", _connection),
    Check("plain http", _plain_http),
    Check("probes", _probes),
    Check("issuer", _issuer),
    Check("resource", _resource),
    Check("challenge", _challenge),
    Check("headers", _headers),
    Check("clocks", _clocks),
    Check("bodies", _bodies),
    Check("client addresses", _client_addresses),
)
"""All checks from outside, in the order in which a failure explains later ones."""
