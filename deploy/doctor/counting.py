"""The check whose address the authorization server counts: that of the client, or another one.

It sends one registration that is refused (and so counts a tenth), with an ``X-Forwarded-For`` header of its
own, as a client does that wants to be counted as another one. Then the counts in the database show which
address was counted. Nobody sees that from outside.
"""

import http.client
import random
from collections.abc import Callable
from ipaddress import ip_network
from typing import Final

from authserver.people import throttle
from deploy.doctor.checks import CannotExamine, Finding, failed, passed, skipped
from deploy.doctor.web import Site
from shared.settings import Settings

CountedAt = Callable[[list[bytes]], dict[bytes, str]]
_SPOOFED: Final = "198.51.100."
"""Addresses for documentation (RFC 5737), which no client has."""


def examine(chosen: Settings, counted_at: CountedAt) -> Finding:
    """Return whose address is counted; ``counted_at`` reads the counts. Raises CannotExamine."""
    if not chosen.registrations_per_hour:
        return skipped("registrations are not counted (SVC_REGISTRATIONS_PER_HOUR is 0)")
    spoofed = f"{_SPOOFED}{random.randint(1, 254)}"  # noqa: S311 -- only to differ from an earlier run
    proxies = [name for name in map(_address, chosen.trusted_proxies) if name is not None]
    # The own address is known only once there is a connection.
    site = Site(chosen.auth_url)
    try:
        own = site.ask("/readyz").own_address
        keys = {name: throttle.registration_key(chosen, name) for name in {spoofed, own, *proxies}}
        before = counted_at(list(keys.values()))
        reply = site.ask(
            "/oauth/register",
            method="POST",
            headers={
                "Content-Type": "application/json",
                "Content-Length": "2",
                "X-Forwarded-For": spoofed,
            },
            body=b"{}",
        )
    except (OSError, http.client.HTTPException) as error:
        raise CannotExamine(
            f"{chosen.auth_url} does not answer here: {error}",
            "Start the authorization server, or run the command where its public name leads to it.",
        ) from error
    after = counted_at(list(keys.values()))
    counted = {name for name, key in keys.items() if after.get(key) != before.get(key)}
    return _verdict(counted, spoofed, own, proxies, reply.status)


def _verdict(counted: set[str], spoofed: str, own: str, proxies: list[str], status: int) -> Finding:
    if spoofed in counted:
        return failed(
            "the server counts the address that a client itself writes into X-Forwarded-For",
            "Let the proxy replace this header (nginx: proxy_set_header X-Forwarded-For $remote_addr),"
            " and name only proxies in SVC_TRUSTED_PROXIES.",
        )
    if own in counted and own not in proxies:
        return passed(f"requests count for the address of their client, here {own}")
    if own not in counted and counted:
        return failed(
            f"all clients count as the proxy {', '.join(counted)}",
            "Let the proxy send X-Forwarded-For with the client's address (deploy/proxy has samples).",
        )
    if own in counted:
        raise CannotExamine(
            f"this machine and the proxy have the same address {own}; what a client writes is ignored",
            "Let the public name lead to the public address on this machine too.",
        )
    raise CannotExamine(
        f"a registration (answered {status}) was counted for none of the addresses that are known here",
        "Run it again later, or on a machine that reaches the proxy without another one between.",
    )


def _address(network: str) -> str | None:
    """Return the one address of a network; None if it has more."""
    found = ip_network(network)
    return str(found.network_address) if found.num_addresses == 1 else None
