"""Throttling: how often somebody may try something, kept in Postgres so that several servers agree.

Attempts are counted under keys, each of which has so many free. Each further one has to wait longer:

    attempt under a key      1 ... free    + 1    + 2    + 3    ...    + 10     + 11 and later
    waits after the last     not at all    1 s    2 s    4 s           512 s    15 min

An attempt that comes too early is refused, and neither counts nor prolongs the delay, so nobody is kept
out for good. Counts are forgotten one by one, so many in an hour.

An attempt is counted *before* it is tried, by a transaction that locks its keys and looks at them under
the lock. Looked at first and counted afterwards, a hundred guesses sent at once would all be tried. One
that turns out well is taken back.

Signing in is counted under three keys, and one guess in an hour is forgotten:

- the account and the address (5 free): somebody guesses one person's password;
- the address (20 free, since several people may share one): somebody guesses many people's passwords;
- the account (20 free): somebody guesses one person's password from many addresses.

Where somebody is at home, only the first of them is asked, so that neither strangers nor neighbours keep
them out there. At home is where they are signed in, or signed in within 90 days. Anywhere else a patient
stranger can: whoever guesses again each time that a delay ends takes the turn of everybody who comes
later, for as long as they go on.

What is named need not be an account: guesses at an unknown one are counted alike, so that delays tell
nobody who has an account here. (Strangers' guesses tell it to those who share an address with a
person who is at home there: the account's own delay does not show.)

Registration of clients is open to everybody and is counted by address (100 free, and one forgotten every
36 seconds), so that no stranger fills the table. So is being sent to the provider to sign in there.

A passkey cannot be guessed, so nobody's account is counted there: those that fail are counted by address
(20 free, and one forgotten in an hour), apart from passwords, so that neither gets in the other's way.

An address of IPv6 counts as its /64, since who has one address there has all of them; and once more as
its /48, with 16 times as many free, since that is what many are given whole.

A key is the HMAC of a text under a key of the deployment. Nothing that somebody typed is kept, since what
is typed for an address is, now and then, a password; nor can whoever has only the database guess it.
"""

import hmac
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
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
_REGISTRATION_FORGOTTEN_AFTER: Final = timedelta(seconds=36)

_FREE_FOR_ACCOUNT_AND_ADDRESS: Final = 5
_FREE_FOR_ADDRESS: Final = 20
_FREE_FOR_ACCOUNT: Final = 20
_FREE_REGISTRATIONS: Final = 100
_FREE_PROVIDER_SIGN_INS: Final = 100

_MAX_CONCURRENT: Final = 4
"""Sign-ins of one address, so that nobody fills the queue of the hasher for everybody."""


@dataclass(frozen=True, repr=False)
class Key:
    """What attempts are counted under, and how many of them are free."""

    hash: bytes
    free: int


@dataclass(frozen=True, repr=False)
class Counted:
    """What an attempt left under one key: ``added`` to it, and the delay that it caused, if any."""

    key_hash: bytes
    added: timedelta | None
    delayed_until: datetime | None
    wait_s: int


@dataclass(frozen=True, repr=False)
class _Address:
    address: str


@dataclass(frozen=True, repr=False)
class Attempt:
    """An attempt to sign in that was counted, and may be tried."""

    counted: Sequence[Counted]
    account_keys: tuple[Key, ...] = ()
    """The keys of the account, which a right password clears."""


def network(address: str | None, *, ipv6_bits: int = 64) -> str:
    """Return what counts as one address."""
    try:
        found = ip_address(address or "")
    except ValueError:
        return "unknown"
    bits = ipv6_bits if isinstance(found, IPv6Address) else 32
    return str(ip_network((found, bits), strict=False))


@dataclass(frozen=True)
class Throttle:
    """The counts of a deployment."""

    database: Database
    secret: bytes = field(repr=False)
    running: Counter[str] = field(default_factory=Counter, repr=False)
    """How many sign-ins of each address are under way in this process."""

    @contextmanager
    def reserve(self, address: str | None) -> Iterator[None]:
        """Hold one of the places of ``address``, for one sign-in. Raises TooManyRequests: all are taken."""
        here = network(address)
        if self.running[here] >= _MAX_CONCURRENT:
            raise TooManyRequests(1)
        self.running[here] += 1
        try:
            yield
        finally:
            self.running[here] -= 1
            if not self.running[here]:
                del self.running[here]

    async def count_guess(self, email: str, user_id: UUID | None, address: str | None) -> Attempt:
        """Count an attempt to sign in as ``email``, whose account is ``user_id``, if there is one.

        Raises TooManyRequests.
        """
        here = network(address)
        # What was typed comes last, so that nobody can type their way into another's key.
        account_here = self._key(
            f"sign-in account at {here}: {email}", _FREE_FOR_ACCOUNT_AND_ADDRESS
        )
        account = self._key(f"sign-in account: {email}", _FREE_FOR_ACCOUNT)
        keys = [account_here]
        if not await self._is_known_address(user_id, address):
            keys += [account, *self._address_keys("sign-in", address, _FREE_FOR_ADDRESS)]
        counted = await _count(self.database, keys, _GUESS_FORGOTTEN_AFTER)
        return Attempt(counted, (account_here, account))

    async def _is_known_address(self, user_id: UUID | None, address: str | None) -> bool:
        # Who does not exist is looked for as well, so that the time does not tell.
        parameters = {
            "user_id": user_id or tokens.NOBODY,
            "idle_lifetime": sessions.IDLE_LIFETIME,
        }
        known = await rows.every(self.database, _Address, SQL["recent_addresses"], parameters)
        return address is not None and network(address) in {network(each.address) for each in known}

    async def clear(self, guess: Attempt) -> None:
        """Forget all guesses at an account whose password was given, and that it was tried.

        The address keeps what others tried there: who has an account here must not be able to clear it.
        """
        forgotten = [key.hash for key in guess.account_keys]
        for key_hash in forgotten:
            # One key at a time: who holds no lock while waiting for another is in nobody's way.
            await rows.execute(self.database, SQL["delete_key"], {"key_hash": key_hash})
        others = [counted for counted in guess.counted if counted.key_hash not in forgotten]
        await _undo(self.database, others)

    async def undo(self, attempt: Attempt) -> None:
        """Forget an attempt that was counted and could not be tried after all."""
        await _undo(self.database, attempt.counted)

    async def count_passkey(self, address: str | None) -> Attempt:
        """Count an attempt to sign in with a passkey, under the address alone. Raises TooManyRequests."""
        keys = self._address_keys("passkey", address, _FREE_FOR_ADDRESS)
        return Attempt(await _count(self.database, keys, _GUESS_FORGOTTEN_AFTER))

    async def count_registration(self, address: str | None) -> None:
        """Count the registration of a client. Raises TooManyRequests."""
        keys = self._address_keys("registration", address, _FREE_REGISTRATIONS)
        await _count(self.database, keys, _REGISTRATION_FORGOTTEN_AFTER)

    async def count_provider_sign_in(self, address: str | None) -> None:
        """Count that somebody is sent to the provider. Raises TooManyRequests."""
        keys = self._address_keys("departure", address, _FREE_PROVIDER_SIGN_INS)
        await _count(self.database, keys, _REGISTRATION_FORGOTTEN_AFTER)

    def _address_keys(self, purpose: str, address: str | None, free: int) -> list[Key]:
        here, around = network(address), network(address, ipv6_bits=48)
        keys = [self._key(f"{purpose} address {here}", free)]
        if around != here:
            keys.append(self._key(f"{purpose} address {around}", 16 * free))
        return keys

    def _key(self, text: str, free: int) -> Key:
        return Key(hmac.digest(self.secret, text.encode(), "sha256"), free)


def throttle(chosen: Settings, database: Database) -> Throttle:
    """Return the counts of a deployment. Raises SettingsError where it has no key."""
    secret = hmac.digest(settings.signing_key(chosen).encode(), b"svc throttle", "sha256")
    return Throttle(database, secret)


async def _count(
    database: Database, keys: Sequence[Key], forgotten_after: timedelta
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
        raise TooManyRequests(wait_s)
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
