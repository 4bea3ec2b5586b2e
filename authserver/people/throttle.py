"""Throttling: rate limits for attempts, stored in Postgres so that all servers share them.

Attempts are counted under keys. Each key allows a number of free attempts; after each further one there is
a delay:

    attempt under a key      1 ... free    + 1    + 2    + 3    ...    + 10     + 11 and later
    delay before it          none          1 s    2 s    4 s           512 s    15 min

An attempt during a delay is refused. It is not counted and does not extend the delay, so nobody is locked
out permanently. Counts expire one by one, at a fixed rate per hour.

An attempt is counted *before* it is tried, by a transaction that locks its keys and checks them under the
lock. If it were checked first and counted afterwards, a hundred simultaneous guesses would all be tried. A
successful attempt is uncounted.

Password sign-ins are counted under three keys, and one guess expires per hour:

- the account and the address (5 free): one client guesses one person's password;
- the address (20 free, because several people may share it): one client guesses many people's passwords;
- the account (20 free): many clients guess one person's password.

From a known address of an account only the first key counts, so that neither strangers nor neighbours can
lock the person out there. Known are the addresses where the person is signed in or signed in within 90
days. A known browser, one that signed in to the account within 90 days, is counted by itself (5 free),
wherever it is. From any other place a persistent stranger can lock the person out, by guessing again each
time a delay ends.

Guesses at unknown e-mail addresses are counted in the same way, so that delays do not reveal which addresses
have accounts. (One exception: a client that shares a known address with a person can find that the
account's own delay does not apply there.)

Client registrations are open to everybody and counted by address, so that nobody can fill the table. The
setting ``registrations_per_hour`` is the number that is free, and that expires within an hour: by default
100, one every 36 seconds. A registration that is refused for its content counts a tenth. Redirects to the
identity provider, and authorization requests of browsers in which nobody is signed in, are counted by address
too (100 free, one expires every 36 seconds). Authorization requests of a person are counted by account (100
free, one expires every 6 minutes).

Sign-ins that succeed are counted by account (100 free, one expires every 36 seconds), whatever proves them:
each leaves a security event, which is kept. Only the person can reach that count.

Client id metadata documents are fetched from addresses that strangers choose, so fetches are counted by
account (20 free, one expires every 3 minutes). What a process remembers is not fetched.

Requests of devices are counted by address (100 free, one expires every 36 seconds). The codes that people
enter for devices are counted by account and by address (20 free each, one expires per hour); a right one is
uncounted.

A passkey cannot be guessed, so failed passkey sign-ins are counted by address only (20 free, one expires
per hour), and separately from passwords.

An IPv6 address counts as its /64 network, because one client usually controls all of it; and also as its
/48 network with 16 times as many free attempts, because some providers assign those.

A key is an HMAC of a text, with a secret of the deployment. Typed text is never stored, because people
sometimes type their password into the e-mail field; and the database alone does not suffice to guess it.
"""

import hmac
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from ipaddress import IPv6Address, ip_address, ip_network
from typing import Final
from uuid import UUID

from authserver import rows
from authserver.errors import TooManyRequests
from authserver.people import sessions
from authserver.rows import Database
from shared import settings, tokens
from shared.settings import Settings

SQL: Final = rows.load("people/throttle.sql")

_GUESS_FORGOTTEN_AFTER: Final = timedelta(hours=1)
_STRANGER_FORGOTTEN_AFTER: Final = timedelta(seconds=36)
"""Redirects to the provider, and authorization requests of browsers in which nobody is signed in."""
_AUTHORIZATION_OF_PERSON_FORGOTTEN_AFTER: Final = timedelta(minutes=6)
"""A person's authorizations become grants, which are kept; those of a stranger expire."""

_FREE_FOR_ACCOUNT_AND_ADDRESS: Final = 5
_FREE_FOR_ADDRESS: Final = 20
_FREE_FOR_ACCOUNT: Final = 20
_FREE_AUTHORIZATIONS: Final = 100
_REFUNDED_PART: Final = 0.9
"""The part of its count that a refused registration gets back."""
_FREE_PROVIDER_SIGN_INS: Final = 100
_FREE_SIGN_INS: Final = 100
_SIGN_IN_FORGOTTEN_AFTER: Final = timedelta(seconds=36)
_FREE_DOCUMENTS: Final = 20
_DOCUMENT_FORGOTTEN_AFTER: Final = timedelta(minutes=3)

_MAX_CONCURRENT: Final = 4
"""Most concurrent sign-ins of one address or account, so that one client cannot fill the hasher's queue."""
_MAX_CONCURRENT_IN_48: Final = 8
"""The same for an IPv6 /48 network."""
_MAX_PAUSES: Final = 64
"""The most throttled attempts of one address that wait for their answer at a time; they cost no work."""


@dataclass(frozen=True, repr=False)
class Key:
    """A key under which attempts are counted, and its number of free attempts."""

    hash: bytes
    free: int


@dataclass(frozen=True, repr=False)
class Counted:
    """The effect of an attempt on one key: the time ``added`` to it, and the delay that it caused, if any."""

    key_hash: bytes
    added: timedelta | None
    delayed_until: datetime | None
    wait_s: int


@dataclass(frozen=True, repr=False)
class _Address:
    address: str


@dataclass(frozen=True, repr=False)
class Attempt:
    """A counted attempt, which may now be tried."""

    counted: Sequence[Counted]
    account_keys: tuple[Key, ...] = ()
    """The keys of the account, which a correct password clears."""


def network(address: str | None, *, ipv6_bits: int = 64) -> str:
    """Return the network that counts as one address."""
    try:
        ip = ip_address(address or "")
    except ValueError:
        return "unknown"
    bits = ipv6_bits if isinstance(ip, IPv6Address) else 32
    return str(ip_network((ip, bits), strict=False))


@dataclass(frozen=True)
class Throttle:
    """Counts and limits the attempts of a deployment."""

    database: Database
    secret: bytes = field(repr=False)
    registrations_per_hour: int = Settings.registrations_per_hour
    """0: they are not counted."""
    running: Counter[str] = field(default_factory=Counter, repr=False)
    """The number of sign-ins in progress in this process, by address and by account."""

    def reserve(self, address: str | None) -> AbstractContextManager[None]:
        """Reserve one of the concurrent sign-ins of ``address``. Raises TooManyRequests if none is free."""
        here, around = network(address), network(address, ipv6_bits=48)
        places = {f"address {here}": _MAX_CONCURRENT}
        if around != here:
            places[f"address {around}"] = _MAX_CONCURRENT_IN_48
        return self._reserve(places)

    def reserve_pause(self, address: str | None) -> AbstractContextManager[None]:
        """Reserve one of the concurrent pauses of ``address``. Raises TooManyRequests if none is free."""
        return self._reserve({f"pause {network(address)}": _MAX_PAUSES})

    def reserve_document(self, user_id: UUID) -> AbstractContextManager[None]:
        """Reserve one of the concurrent fetches of a person. Raises TooManyRequests if none is free."""
        return self._reserve({f"document {user_id}": _MAX_CONCURRENT})

    def reserve_known(self, user_id: UUID) -> AbstractContextManager[None]:
        """Reserve one of the concurrent sign-ins of a known person. Raises TooManyRequests."""
        return self._reserve({f"known {user_id}": _MAX_CONCURRENT})

    def reserve_account(self, email: str) -> AbstractContextManager[None]:
        """Reserve one of the concurrent verifications for ``email``, whether or not it has an account.

        A person who gives the right password is not delayed by counts. Raises TooManyRequests.
        """
        return self._reserve({f"account {email}": _MAX_CONCURRENT})

    @contextmanager
    def _reserve(self, places: Mapping[str, int]) -> Iterator[None]:
        for place, most in places.items():
            if self.running[place] >= most:
                raise TooManyRequests(1, f"at_once_{place.partition(' ')[0]}")
        self.running.update(places.keys())
        try:
            yield
        finally:
            self.running.subtract(places.keys())
            for place in places:
                if not self.running[place]:
                    del self.running[place]

    async def count_guess(
        self,
        email: str,
        user_id: UUID | None,
        address: str | None,
        *,
        known_browser: str | None = None,
    ) -> Attempt:
        """Count a password sign-in as ``email``. ``user_id`` is its account, if there is one.

        ``known_browser`` identifies a browser that has signed in to the account. Raises TooManyRequests.
        """
        here = network(address)
        # The typed text comes last, so that it cannot be chosen to produce another key's text.
        account_here = self._key(
            f"sign-in account at {here}: {email}", _FREE_FOR_ACCOUNT_AND_ADDRESS
        )
        account = self._key(f"sign-in account: {email}", _FREE_FOR_ACCOUNT)
        keys = [account_here]
        if known_browser is not None:
            text = f"sign-in account in browser {known_browser}: {email}"
            keys = [self._key(text, _FREE_FOR_ACCOUNT_AND_ADDRESS)]
        elif not await self._is_known_address(user_id, address):
            keys += [account, *self._address_keys("sign-in", address, _FREE_FOR_ADDRESS)]
        counted = await _count(self.database, "guesses", keys, _GUESS_FORGOTTEN_AFTER)
        return Attempt(counted, (keys[0], account_here, account))

    async def _is_known_address(self, user_id: UUID | None, address: str | None) -> bool:
        # The query runs for unknown accounts too, so that its duration reveals nothing.
        parameters = {
            "user_id": user_id or tokens.NOBODY,
            "idle_lifetime": sessions.IDLE_LIFETIME,
        }
        known = await rows.every(self.database, _Address, SQL["recent_addresses"], parameters)
        return address is not None and network(address) in {network(each.address) for each in known}

    async def clear(self, guess: Attempt) -> None:
        """Clear the counts of an account after a correct password, and uncount this attempt.

        The other counts of the address remain: owning an account must not allow anyone to clear them.
        """
        forgotten = list(dict.fromkeys(key.hash for key in guess.account_keys))
        for key_hash in forgotten:
            # One statement per key: no lock is held while waiting for another one.
            await rows.execute(self.database, SQL["delete_key"], {"key_hash": key_hash})
        others = [counted for counted in guess.counted if counted.key_hash not in forgotten]
        await _undo(self.database, others)

    async def undo(self, attempt: Attempt) -> None:
        """Uncount an attempt that succeeded or was not tried."""
        await _undo(self.database, attempt.counted)

    async def count_sign_in(self, user_id: UUID) -> None:
        """Count a sign-in that a person has proved. Raises TooManyRequests."""
        keys = [self._key(f"signed in: {user_id}", _FREE_SIGN_INS)]
        await _count(self.database, "sign_ins", keys, _SIGN_IN_FORGOTTEN_AFTER)

    async def count_passkey(self, address: str | None) -> Attempt:
        """Count a passkey sign-in, by address only. Raises TooManyRequests."""
        keys = self._address_keys("passkey", address, _FREE_FOR_ADDRESS)
        return Attempt(await _count(self.database, "passkeys", keys, _GUESS_FORGOTTEN_AFTER))

    async def count_registration(self, address: str | None) -> Attempt:
        """Count a client registration. Raises TooManyRequests."""
        free = self.registrations_per_hour
        if free == 0:
            return Attempt(())
        keys = self._address_keys("registration", address, free)
        return Attempt(
            await _count(self.database, "registrations", keys, timedelta(hours=1) / free)
        )

    async def refund(self, registration: Attempt) -> None:
        """Take back nine tenths of the count of a registration that was refused for its content.

        A delay that it caused remains: otherwise refused ones would never be delayed.
        """
        reduced = [
            replace(each, added=each.added * _REFUNDED_PART, delayed_until=None)
            for each in registration.counted
            if each.added is not None
        ]
        await _undo(self.database, reduced)

    async def count_authorization(self, user_id: UUID | None, address: str | None) -> None:
        """Count an authorization request of a person, or of a stranger's address. Raises TooManyRequests."""
        if user_id is None:
            keys = self._address_keys("authorization", address, _FREE_AUTHORIZATIONS)
            await _count(self.database, "authorizations", keys, _STRANGER_FORGOTTEN_AFTER)
        else:
            keys = [self._key(f"authorization account: {user_id}", _FREE_AUTHORIZATIONS)]
            await _count(
                self.database, "authorizations", keys, _AUTHORIZATION_OF_PERSON_FORGOTTEN_AFTER
            )

    async def count_document(self, user_id: UUID) -> None:
        """Count a client id metadata document that is fetched for a person. Raises TooManyRequests."""
        keys = [self._key(f"document account: {user_id}", _FREE_DOCUMENTS)]
        await _count(self.database, "documents", keys, _DOCUMENT_FORGOTTEN_AFTER)

    async def count_device_authorization(self, address: str | None) -> None:
        """Count the request of a device. Raises TooManyRequests."""
        keys = self._address_keys("device", address, _FREE_AUTHORIZATIONS)
        await _count(self.database, "device_authorizations", keys, _STRANGER_FORGOTTEN_AFTER)

    async def count_user_code(self, user_id: UUID, address: str | None) -> Attempt:
        """Count a code that a person enters for a device. Raises TooManyRequests."""
        keys = [
            self._key(f"user code account: {user_id}", _FREE_FOR_ACCOUNT),
            *self._address_keys("user code", address, _FREE_FOR_ADDRESS),
        ]
        return Attempt(await _count(self.database, "user_codes", keys, _GUESS_FORGOTTEN_AFTER))

    async def count_provider_sign_in(self, address: str | None) -> None:
        """Count a redirect to the identity provider. Raises TooManyRequests."""
        # The text of a key must not change: stored counts are found by its HMAC.
        keys = self._address_keys("departure", address, _FREE_PROVIDER_SIGN_INS)
        await _count(self.database, "provider_sign_ins", keys, _STRANGER_FORGOTTEN_AFTER)

    def _address_keys(self, purpose: str, address: str | None, free: int) -> list[Key]:
        here, around = network(address), network(address, ipv6_bits=48)
        keys = [self._key(f"{purpose} address {here}", free)]
        if around != here:
            keys.append(self._key(f"{purpose} address {around}", 16 * free))
        return keys

    def _key(self, text: str, free: int) -> Key:
        return Key(_hash(self.secret, text), free)


def throttle(chosen: Settings, database: Database) -> Throttle:
    """Return the throttle of a deployment. Raises SettingsError if it has no signing key."""
    return Throttle(database, _secret(chosen), chosen.registrations_per_hour)


def registration_key(chosen: Settings, address: str) -> bytes:
    """Return the hash under which registrations from an address are counted. Raises SettingsError."""
    return _hash(_secret(chosen), f"registration address {network(address)}")


def _secret(chosen: Settings) -> bytes:
    return hmac.digest(settings.signing_key(chosen).encode(), b"svc throttle", "sha256")


def _hash(secret: bytes, text: str) -> bytes:
    return hmac.digest(secret, text.encode(), "sha256")


async def _count(
    database: Database, limit: str, keys: Sequence[Key], forgotten_after: timedelta
) -> Sequence[Counted]:
    parameters = {
        "key_hashes": [f"\\x{key.hash.hex()}" for key in keys],
        "free": [str(key.free) for key in keys],
        "forgotten_after": forgotten_after,
    }
    counted = await rows.every(
        database, Counted, SQL["count_attempt"], parameters, preceded_by=SQL["insert_keys"]
    )
    wait_s = max((each.wait_s for each in counted), default=0)
    if wait_s > 0:
        raise TooManyRequests(wait_s, limit)
    return counted


async def _undo(database: Database, counted: Sequence[Counted]) -> None:
    for each in counted:
        await rows.execute(
            database,
            SQL["undo_attempt"],
            {
                "key_hash": each.key_hash,
                "added": each.added,
                "delayed_until": each.delayed_until,
            },
        )
