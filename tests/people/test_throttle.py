"""Throttling of password guesses (checklist line 56) and of client registrations."""

import re
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Literal, LiteralString
from uuid import UUID

import anyio
import httpx2
import psycopg
import pytest
from argon2 import Parameters, PasswordHasher, extract_parameters
from httpx2 import Client, Response
from starlette.testclient import TestClient
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

import authserver.app
from authserver import rows
from authserver.errors import TooManyRequests
from authserver.events import RequestOrigin
from authserver.people import accounts, passwords, sessions, throttle
from authserver.people.accounts import NewAccount
from authserver.people.passwords import Hasher
from authserver.web.server import Server, server
from shared import queries, tokens
from shared.settings import Settings
from tests import processes
from tests.client import NO_TLS, AppClient
from tests.conftest import Person
from tests.oauth.conftest import CHEAP, PASSWORD
from tests.oauth.visitor import Visitor, forms, signed_in
from tests.waiting import wait_for_async

Rows = psycopg.Connection[Any]

SQL: Final = queries.load(Path(throttle.__file__).with_name("throttle.sql"))

HOME: Final = "203.0.113.7"
ELSEWHERE: Final = "198.51.100.20"
WRONG: Final = "not the password"
NEW: Final = "a heron waits beside the weir"


# The growth of the delay, on the database, in a transaction whose time stands still.


def attempt(db: Rows, *free: int, forgotten_after: str = "1 hour") -> list[tuple[Any, ...]]:
    """Count an attempt under keys with free attempts; return a row for each: its wait and its delay."""
    parameters = {
        "key_hashes": [f"\\x{number:064x}" for number, _ in enumerate(free)],
        "free": list(map(str, free)),
        "forgotten_after": forgotten_after,
    }
    db.execute(SQL["insert_keys"], parameters)
    counted = db.execute(SQL["count_attempt"], parameters).fetchall()
    moment = db.execute("select now()").fetchone()
    assert moment is not None
    return [
        (wait_s, None if until is None else (until - moment[0]).total_seconds())
        for _, _, until, wait_s in sorted(counted)
    ]


def delays(db: Rows, number: int, free: int, **options: str) -> list[Any]:
    """Return the delays of consecutive attempts, each made as soon as the last delay is over."""
    caused = []
    for _ in range(number):
        caused.append(attempt(db, free, **options)[0][1])
        db.execute("update identity.throttle set delayed_until = null")
    return caused


def hours_pass(db: Rows, hours: float) -> None:
    db.execute(
        "update identity.throttle set forgotten_at = forgotten_at - %(hours)s * interval '1 hour', "
        "delayed_until = delayed_until - %(hours)s * interval '1 hour'",
        {"hours": hours},
    )


def test_five_attempts_are_free_and_then_each_wait_is_twice_as_long(db: Rows) -> None:
    caused = delays(db, 18, 5)

    assert caused == [
        *[None, None, None, None],
        *[1, 2, 4, 8, 16, 32, 64, 128, 256, 512],
        *[900, 900, 900, 900],
    ]


@pytest.mark.parametrize(
    ("free", "forgotten_after"), [(20, "1 hour"), (100, "36 seconds"), (1, "1 second")]
)
def test_the_wait_begins_with_the_last_free_attempt(
    db: Rows, free: int, forgotten_after: str
) -> None:
    caused = delays(db, free + 3, free, forgotten_after=forgotten_after)

    assert caused == [None] * (free - 1) + [1, 2, 4, 8]


def test_a_thousand_attempts_do_not_overflow_and_expire_as_fast_as_fifteen(
    db: Rows,
) -> None:
    caused = delays(db, 1000, 5)
    hours_pass(db, 14.5)
    afterwards = delays(db, 5, 5)

    assert caused[-1] == 900
    assert afterwards == [None, None, None, 1, 2]


def test_one_attempt_expires_every_hour(db: Rows) -> None:
    delays(db, 7, 5)
    hours_pass(db, 1)

    seventh_again = delays(db, 1, 5)
    hours_pass(db, 3)
    fifth_again = delays(db, 1, 5)
    hours_pass(db, 4)
    second_and_on = delays(db, 5, 5)

    assert seventh_again == [4]
    assert fifth_again == [1]
    assert second_and_on == [None, None, None, 1, 2]


def test_an_attempt_during_a_delay_changes_nothing(db: Rows) -> None:
    for _ in range(5):
        attempt(db, 5, 20)
    before = db.execute("select * from identity.throttle order by key_hash").fetchall()

    refused = attempt(db, 5, 20, 20)

    assert refused == [(1, None)]
    assert db.execute("select * from identity.throttle order by key_hash").fetchall() == before


@pytest.mark.parametrize(
    ("hours_ago", "wait_s"),
    [(0, 32), (31 / 3600, 1), (31.999 / 3600, 1), (32 / 3600, 0), (1, 0)],
)
def test_the_delay_is_reported_in_whole_seconds(db: Rows, hours_ago: float, wait_s: int) -> None:
    delays(db, 9, 5)
    attempt(db, 5)
    hours_pass(db, hours_ago)

    assert attempt(db, 5)[0][0] == wait_s


def test_expired_keys_are_deleted_in_batches(db: Rows) -> None:
    for number in range(5):
        db.execute(
            "insert into identity.throttle values (sha256(%s), now() - %s * interval '1 hour')",
            [b"%d" % number, number],
        )
    db.execute(
        """
        insert into identity.throttle
        values (sha256('counted'), now() + interval '1 second', null),
               (sha256('delayed'), now(), now() + interval '1 second'),
               (sha256('was delayed'), now() - interval '2 seconds', now() - interval '1 second')
        """
    )

    first = db.execute(SQL["delete_idle_keys"], {"batch": 4}).fetchall()
    second = db.execute(SQL["delete_idle_keys"], {"batch": 4}).fetchall()
    third = db.execute(SQL["delete_idle_keys"], {"batch": 4}).fetchall()

    left = db.execute("select key_hash from identity.throttle order by forgotten_at").fetchall()
    expected = db.execute("values (sha256('delayed')), (sha256('counted'))").fetchall()
    assert (len(first), len(second), len(third)) == (4, 2, 0)
    assert left == expected


@pytest.mark.parametrize(
    ("address", "counts_as"),
    [
        ("203.0.113.7", "203.0.113.7/32"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:2::", "2001:db8:1:2::/64"),
        ("2001:db8:1:3::1", "2001:db8:1:3::/64"),
        (None, "unknown"),
        ("testclient", "unknown"),
    ],
)
def test_an_ipv6_address_counts_as_its_network(address: str | None, counts_as: str) -> None:
    assert throttle.network(address) == counts_as


# Signing in, over HTTP, each attempt from an address of its choice.


@pytest.fixture(scope="module")
def proxied(settings: Settings) -> Iterator[TestClient]:
    """The authorization server behind a proxy that it trusts."""
    app: Any = authserver.app.create(settings, hasher=Hasher(CHEAP))
    behind: Any = ProxyHeadersMiddleware(app, ["testclient"])
    with AppClient(behind, "http://localhost:8400", raise_server_exceptions=False) as client:
        yield client


@dataclass
class Place:
    """An address without previous sign-ins."""

    client: Client
    address: str

    def enter(self, email: str, password: str) -> Response:
        """Send the form of the sign-in page."""
        visitor = Visitor(self.client)
        fields = dict(forms(visitor.get("/sign-in"))[0].fields)
        headers = {"X-Forwarded-For": self.address}
        return visitor.post(
            "/sign-in", fields | {"email": email, "password": password}, headers=headers
        )

    def statuses(self, number: int, email: str) -> list[int]:
        """Send it so many times with a wrong password."""
        return [self.enter(email, WRONG).status_code for _ in range(number)]


@pytest.fixture
def home(proxied: TestClient, alice: Person, owner: Rows, password_hash: str) -> Place:
    """The address from which alice, who has a password, signs in."""
    owner.execute("insert into identity.password values (%s, %s)", [alice.user_id, password_hash])
    return Place(proxied, HOME)


@pytest.fixture
def elsewhere(home: Place) -> Place:
    """The address of strangers."""
    return Place(home.client, ELSEWHERE)


Guess = Callable[..., None]


@pytest.fixture
def guess(settings: Settings, owner: Rows) -> Guess:
    """Counts a guess at an account from each address, as the server does, without waiting."""

    def count_all(email: str, *addresses: str) -> None:
        guess_each(settings, owner, [(email, address) for address in addresses])

    return count_all


def guess_each(settings: Settings, owner: Rows, guesses: Sequence[tuple[str, str]]) -> None:
    """Count a guess at each account from each address."""

    async def count() -> None:
        async with rows.connected(settings) as connection:
            attempts = throttle.throttle(settings, connection)
            for email, address in guesses:
                owner.execute("update identity.throttle set delayed_until = null")
                await attempts.count_guess(email, None, address)

    anyio.run(count)


def turn_back(owner: Rows) -> None:
    """Date it back by a minute, so that no delay ends before a slow machine has read it."""
    hours_pass(owner, -1 / 60)


def everything(owner: Rows) -> list[Any]:
    return owner.execute("select * from identity.throttle order by key_hash").fetchall()


def without_form(page: Response, email: str) -> str:
    """Return a page without tokens, challenges and typed values."""
    text = re.sub(r'name="csrf" value="[^"]+"|data-options="[^"]+"', "", page.text)
    return text.replace(email, "EMAIL")


@pytest.mark.checklist(56)
def test_line_56_the_sixth_wrong_password_is_delayed_with_the_same_page(
    home: Place, owner: Rows
) -> None:
    first = [home.enter("alice@example.org", WRONG) for _ in range(5)]
    turn_back(owner)
    sixth = home.enter("alice@example.org", WRONG)
    unknown = home.enter("nobody@example.org", WRONG)

    assert [page.status_code for page in first] == [400, 400, 400, 400, 400]
    assert "retry-after" not in first[4].headers
    assert sixth.status_code == 429
    assert 1 <= int(sixth.headers["retry-after"]) <= 61
    assert sixth.headers["cache-control"] == "no-store"
    assert unknown.status_code == 400
    for page, email in ((sixth, "alice@example.org"), (unknown, "nobody@example.org")):
        assert without_form(page, email) == without_form(first[0], "alice@example.org")


@pytest.mark.checklist(56)
def test_line_56_an_unknown_user_waits_like_a_known_one(home: Place, owner: Rows) -> None:
    first = home.statuses(5, "nobody@example.org")
    turn_back(owner)
    sixth = home.statuses(1, "nobody@example.org")

    assert first == [400, 400, 400, 400, 400]
    assert sixth == [429]


@pytest.mark.checklist(56)
def test_line_56_each_delay_is_twice_as_long_and_ends(
    home: Place, owner: Rows, guess: Guess
) -> None:
    guess("alice@example.org", *[HOME] * 9)
    waits = []
    statuses = []
    for seconds in (16, 32, 64):
        waits.append(int(home.enter("alice@example.org", WRONG).headers["retry-after"]))
        hours_pass(owner, seconds / 3600)
        statuses += home.statuses(1, "alice@example.org")

    assert statuses == [400, 400, 400]
    assert 10 < waits[0] <= 16
    assert 26 < waits[1] <= 32
    assert 58 < waits[2] <= 64


def test_during_a_delay_the_correct_password_is_refused_like_a_wrong_one(
    home: Place, owner: Rows, guess: Guess
) -> None:
    guess("alice@example.org", *[HOME] * 9)

    right = home.enter("alice@example.org", PASSWORD)
    wrong = home.enter("alice@example.org", WRONG)
    hours_pass(owner, 1)
    afterwards = home.enter("alice@example.org", PASSWORD)

    assert right.status_code == wrong.status_code == 429
    assert right.headers.keys() == wrong.headers.keys()
    assert without_form(right, "") == without_form(wrong, "")
    assert afterwards.status_code == 303


def test_delayed_attempts_are_not_counted_and_do_not_extend_the_delay(
    home: Place, owner: Rows, guess: Guess
) -> None:
    guess("alice@example.org", *[HOME] * 9)
    before = everything(owner)

    statuses = home.statuses(3, "alice@example.org")

    assert statuses == [429, 429, 429]
    assert everything(owner) == before


def test_only_tried_attempts_are_recorded_as_events(home: Place, owner: Rows, guess: Guess) -> None:
    guess("alice@example.org", *[HOME] * 8)
    owner.execute("update identity.throttle set delayed_until = null")
    owner.execute("delete from identity.security_event")

    statuses = home.statuses(3, "alice@example.org")

    noted = owner.execute("select event, address from identity.security_event").fetchall()
    assert statuses == [400, 429, 429]
    assert noted == [("sign_in_failed", HOME)]


def test_the_correct_password_clears_the_counts_of_the_account(
    home: Place, elsewhere: Place, owner: Rows, guess: Guess
) -> None:
    guess("alice@example.org", *[f"192.0.2.{number}" for number in range(15)], *[HOME] * 4)

    signed_in = home.enter("alice@example.org", PASSWORD)
    turn_back(owner)
    # Together with the earlier counts, the first would be the last free one.
    from_elsewhere = elsewhere.statuses(1, "alice@example.org")
    turn_back(owner)
    from_elsewhere += elsewhere.statuses(1, "alice@example.org")

    assert signed_in.status_code == 303
    assert from_elsewhere == [400, 400]
    assert home.statuses(5, "alice@example.org") == [400, 400, 400, 400, 400]


def test_one_address_may_guess_at_twenty_accounts(
    home: Place, elsewhere: Place, owner: Rows, guess: Guess
) -> None:
    for number in range(19):
        guess(f"user{number}@example.org", HOME)

    twentieth = home.statuses(1, "bob@example.org")
    turn_back(owner)
    right = home.enter("alice@example.org", PASSWORD)
    other_address = elsewhere.enter("alice@example.org", PASSWORD)

    assert twentieth == [400]
    assert right.status_code == 429
    assert other_address.status_code == 303


def test_a_correct_sign_in_does_not_clear_the_counts_of_the_address(
    home: Place, owner: Rows, guess: Guess
) -> None:
    for number in range(40):
        guess(f"user{number}@example.org", HOME)
    owner.execute("update identity.throttle set delayed_until = null")
    before = everything(owner)

    signed_in = [home.enter("alice@example.org", PASSWORD).status_code for _ in range(3)]

    assert signed_in == [303, 303, 303]
    # One more: that of her own sign-ins.
    after = everything(owner)
    assert [row for row in after if row in before] == before
    assert len(after) == len(before) + 1


def test_one_account_allows_twenty_guesses_from_all_addresses(
    home: Place, elsewhere: Place, owner: Rows, guess: Guess
) -> None:
    guess("alice@example.org", *[f"192.0.2.{number}" for number in range(19)])

    twentieth = elsewhere.statuses(1, "alice@example.org")
    turn_back(owner)
    right = home.enter("alice@example.org", PASSWORD)
    other_account = home.statuses(1, "bob@example.org")

    assert twentieth == [400]
    assert right.status_code == 429
    assert other_account == [400]


def test_strangers_cannot_lock_a_person_out_at_an_address_with_a_session(
    home: Place, elsewhere: Place, guess: Guess
) -> None:
    first = home.enter("alice@example.org", PASSWORD)
    guess("alice@example.org", *[f"192.0.2.{number}" for number in range(25)])

    stranger = elsewhere.enter("alice@example.org", PASSWORD)
    at_home = home.enter("alice@example.org", PASSWORD)

    assert first.status_code == 303
    assert stranger.status_code == 429
    assert at_home.status_code == 303


def test_at_a_known_address_guesses_are_still_counted_by_account_and_address(
    home: Place, owner: Rows, guess: Guess
) -> None:
    assert home.enter("alice@example.org", PASSWORD).status_code == 303
    guess("alice@example.org", *[HOME] * 9)

    assert home.enter("alice@example.org", PASSWORD).status_code == 429


@pytest.mark.parametrize(
    "change",
    [
        "delete from identity.session",
        "update identity.session set seen_at = now() - interval '30 days 1 second'",
        "update identity.session set address = null",
        "update identity.session set address = 'somewhere'",
        "update identity.session set address = '203.0.113.8'",
    ],
)
def test_an_expired_session_or_another_address_does_not_make_an_address_known(
    home: Place, owner: Rows, guess: Guess, change: LiteralString
) -> None:
    assert home.enter("alice@example.org", PASSWORD).status_code == 303
    owner.execute(change)
    owner.execute("delete from identity.security_event")
    guess("alice@example.org", *[f"192.0.2.{number}" for number in range(25)])

    assert home.enter("alice@example.org", PASSWORD).status_code == 429


@pytest.mark.parametrize(("days", "status"), [(89, 303), (91, 429)])
def test_a_recent_sign_in_makes_an_address_known_after_all_sessions_have_ended(
    home: Place, owner: Rows, guess: Guess, days: int, status: int
) -> None:
    assert home.enter("alice@example.org", PASSWORD).status_code == 303
    owner.execute("delete from identity.session")
    owner.execute(
        "update identity.security_event set occurred_at = occurred_at - %s * interval '1 day'",
        [days],
    )
    guess("alice@example.org", *[f"192.0.2.{number}" for number in range(25)])

    assert home.enter("alice@example.org", PASSWORD).status_code == status


def test_failed_sign_ins_do_not_make_an_address_known(home: Place, guess: Guess) -> None:
    home.statuses(1, "alice@example.org")
    guess("alice@example.org", *[f"192.0.2.{number}" for number in range(25)])

    assert home.enter("alice@example.org", PASSWORD).status_code == 429


def test_neighbours_cannot_lock_a_person_out_at_a_known_address(home: Place, guess: Guess) -> None:
    assert home.enter("alice@example.org", PASSWORD).status_code == 303
    for number in range(25):
        guess(f"user{number}@example.org", HOME)

    assert home.enter("alice@example.org", PASSWORD).status_code == 303
    assert home.enter("bob@example.org", PASSWORD).status_code == 429


def test_networks_of_one_ipv6_prefix_have_320_guesses_together(
    home: Place, proxied: TestClient, settings: Settings, owner: Rows
) -> None:
    numbers = range(320)
    guess_each(settings, owner, [(f"user{n}@example.org", f"2001:db8:1:{n:x}::1") for n in numbers])

    same_prefix = Place(proxied, "2001:db8:1:ffff::1").statuses(1, "alice@example.org")
    other_prefix = Place(proxied, "2001:db8:2::1").statuses(1, "alice@example.org")

    assert same_prefix == [429]
    assert other_prefix == [400]


def test_a_refused_attempt_does_not_wait_for_locks(home: Place, owner: Rows, guess: Guess) -> None:
    guess("alice@example.org", *[HOME] * 9)
    with owner.transaction():
        owner.execute("select from identity.throttle for update")

        assert home.statuses(1, "alice@example.org") == [429]


def test_without_an_address_no_address_is_known(
    home: Place, proxied: TestClient, owner: Rows, guess: Guess
) -> None:
    nowhere = Place(proxied, "unknown")
    assert nowhere.enter("alice@example.org", PASSWORD).status_code == 303
    guess("alice@example.org", *[f"192.0.2.{number}" for number in range(25)])

    assert nowhere.enter("alice@example.org", PASSWORD).status_code == 429


def test_neighbours_in_one_ipv6_network_are_one_address(
    home: Place, proxied: TestClient, guess: Guess
) -> None:
    guess("alice@example.org", *[f"2001:db8:1:2::{number}" for number in range(9)])

    neighbour = Place(proxied, "2001:db8:1:2:ffff::1").statuses(1, "alice@example.org")
    other_network = Place(proxied, "2001:db8:1:3::1").statuses(1, "alice@example.org")

    assert neighbour == [429]
    assert other_network == [400]


def test_an_ipv4_address_in_ipv6_is_the_same_address(
    home: Place, proxied: TestClient, guess: Guess
) -> None:
    guess("alice@example.org", *[HOME] * 9)

    assert Place(proxied, f"::ffff:{HOME}").statuses(1, "alice@example.org") == [429]


@pytest.mark.parametrize("email", ["Alice@Example.Org", " alice@example.org\t"])
def test_no_spelling_of_an_address_gets_attempts_of_its_own(
    home: Place, guess: Guess, email: str
) -> None:
    guess("alice@example.org", *[HOME] * 9)

    assert home.statuses(1, email) == [429]


@pytest.mark.parametrize(
    "typed",
    [
        "at 203.0.113.7/32: alice@example.org",
        " at 203.0.113.7/32: alice@example.org",
        "203.0.113.7/32",
        "alice@example.org: alice@example.org",
    ],
)
def test_typed_text_cannot_produce_the_key_of_another_account(
    home: Place, elsewhere: Place, owner: Rows, guess: Guess, typed: str
) -> None:
    home.statuses(1, "alice@example.org")
    before = {row[0] for row in everything(owner)}

    elsewhere.statuses(1, typed)

    after = {row[0] for row in everything(owner)}
    assert len(before) == 3
    assert len(after) == 6


def test_typed_text_is_not_stored(home: Place, owner: Rows) -> None:
    home.statuses(1, "hunter2hunter2")

    kept = str(owner.execute("select t::text from identity.throttle as t").fetchall())
    assert "hunter2" not in kept
    assert b"hunter2".hex() not in kept


def test_keys_cannot_be_computed_without_the_key_of_the_deployment(
    settings: Settings, owner: Rows, guess: Guess
) -> None:
    guess("alice@example.org", HOME)
    before = {row[0] for row in everything(owner)}

    async def count() -> None:
        other = replace(settings, cookie_key="the key of another deployment")
        async with rows.connected(settings) as connection:
            await throttle.throttle(other, connection).count_guess("alice@example.org", None, HOME)

    anyio.run(count)

    assert len(before) == 3
    assert len({row[0] for row in everything(owner)}) == 6


# The work of a sign-in, and the number of concurrent ones.


class Watched(PasswordHasher):
    """Argon2 itself, which also writes down with which parameters it verified."""

    def __init__(self) -> None:
        super().__init__(
            CHEAP.time_cost, CHEAP.memory_cost, CHEAP.parallelism, CHEAP.hash_len, CHEAP.salt_len
        )
        self.seen: list[Parameters] = []

    def verify(self, hash: str | bytes, password: str | bytes) -> Literal[True]:  # noqa: A002 -- the library calls it so
        self.seen.append(extract_parameters(str(hash)))
        return super().verify(hash, password)


@asynccontextmanager
async def serving_with(settings: Settings, hasher: Hasher) -> AsyncIterator[Server]:
    """A server with a hasher of the test."""
    async with rows.connected(settings) as connection:
        yield replace(
            server(settings),
            database=connection,
            hasher=hasher,
            throttle=throttle.throttle(settings, connection),
        )


def authenticate(settings: Settings, hasher: Hasher, email: str, password: str) -> str | int:
    """Return the account that signed in, or the status of the refusal."""

    async def ask() -> str | int:
        async with serving_with(settings, hasher) as this:
            origin = RequestOrigin(None, HOME)
            try:
                account = await accounts.authenticate(this, email, password, origin)
            except TooManyRequests as error:
                return error.status
            return "nobody" if account is None else account.email

    return anyio.run(ask)


@pytest.mark.checklist(56)
def test_line_56_every_tried_password_costs_the_same_work_and_a_delayed_one_none(
    home: Place,
    settings: Settings,
    bob: Person,
    guess: Guess,
) -> None:
    watched = Watched()
    hasher = Hasher(watched, verify_for_strangers=watched.verify)
    today = extract_parameters(CHEAP.hash(""))

    tried = [
        authenticate(settings, hasher, "alice@example.org", WRONG),
        authenticate(settings, hasher, "nobody@example.org", PASSWORD),
        authenticate(settings, hasher, "bob@example.org", PASSWORD),
        authenticate(settings, hasher, "alice@example.org", "p" * 1025),
    ]
    guess("alice@example.org", *[HOME] * 9)
    delayed = [
        authenticate(settings, hasher, "alice@example.org", WRONG),
        authenticate(settings, hasher, "alice@example.org", PASSWORD),
    ]

    assert tried == ["nobody", "nobody", "nobody", "nobody"]
    assert delayed == [429, 429]
    assert watched.seen == [today] * 4


async def until_waiting(hasher: Hasher, number: int) -> None:
    """Wait until so many wait for a thread to hash in."""
    await wait_for_async(
        lambda: hasher.place.limiter.statistics().tasks_waiting >= number, f"{number} to wait"
    )


def test_a_fifth_concurrent_sign_in_of_one_address_or_account_is_refused_and_not_counted(
    home: Place, settings: Settings, owner: Rows
) -> None:
    hasher = Hasher(CHEAP)

    async def crowd() -> None:
        async with (
            serving_with(settings, hasher) as this,
            hasher.place.limiter,
            anyio.create_task_group() as waiting,
        ):

            async def enter(address: str, email: str = "alice@example.org") -> None:
                origin = RequestOrigin(None, address)
                await accounts.authenticate(this, email, WRONG, origin)

            for _ in range(4):
                waiting.start_soon(enter, HOME)
            await until_waiting(hasher, 4)
            before = everything(owner)

            with pytest.raises(TooManyRequests) as refusal:
                await enter(HOME)

            assert refusal.value.retry_after_s == 1
            assert everything(owner) == before
            # An attacker who knows the password of one account must not fill the queue from many addresses
            # either.
            with pytest.raises(TooManyRequests):
                await enter(ELSEWHERE)
            waiting.start_soon(enter, ELSEWHERE, "bob@example.org")
            await until_waiting(hasher, 5)
            waiting.cancel_scope.cancel()
        assert not this.throttle.running

    anyio.run(crowd)


def test_throttled_attempts_keep_no_place_of_their_address(home: Place, settings: Settings) -> None:
    hasher = Hasher(CHEAP)
    # So long are pauses.
    hasher.place.durations_s.append(3600)
    origin = RequestOrigin(None, HOME)
    entered = []

    async def crowd() -> None:
        async with serving_with(settings, hasher) as this, anyio.create_task_group() as attempts:
            running = this.throttle.running
            for _ in range(5):
                await this.throttle.count_guess("carol@example.org", None, HOME)
            for _ in range(4):
                attempts.start_soon(accounts.authenticate, this, "carol@example.org", WRONG, origin)
            await wait_for_async(
                lambda: list(running.values()) == [4] and "address" not in str(running),
                "four attempts that wait for their answer alone",
                limit_s=10,
            )

            entered.append(await accounts.authenticate(this, "alice@example.org", PASSWORD, origin))

            attempts.cancel_scope.cancel()

    anyio.run(crowd)

    assert [account and account.email for account in entered] == ["alice@example.org"]


def test_the_ninth_concurrent_sign_in_of_an_ipv6_prefix_is_refused(settings: Settings) -> None:
    async def crowd() -> None:
        async with rows.connected(settings) as connection:
            attempts = throttle.throttle(settings, connection)
            with ExitStack() as running:
                for number in range(8):
                    running.enter_context(attempts.reserve(f"2001:db8:1:{number}::1"))

                with pytest.raises(TooManyRequests):
                    running.enter_context(attempts.reserve("2001:db8:1:9::1"))

                running.enter_context(attempts.reserve("2001:db8:2::1"))

    anyio.run(crowd)


def test_48_delayed_attempts_from_twelve_addresses_take_no_place_in_the_queue(
    home: Place, settings: Settings, guess: Guess, owner: Rows
) -> None:
    addresses = [f"192.0.2.{number}" for number in range(12)]
    guess("nobody@example.org", *addresses * 5)
    owner.execute("update identity.throttle set delayed_until = now() + interval '1 hour'")
    hasher = Hasher(CHEAP)
    refused: list[int | None] = []
    entered = []

    async def crowd() -> None:
        async with serving_with(settings, hasher) as this:

            async def enter(address: str) -> None:
                origin = RequestOrigin(None, address)
                with pytest.raises(TooManyRequests) as refusal:
                    await accounts.authenticate(this, "nobody@example.org", WRONG, origin)
                refused.append(refusal.value.retry_after_s)

            await hasher.verify(None, WRONG)
            # No password can be hashed, and yet all delayed attempts get their answer.
            with anyio.fail_after(60):
                async with hasher.place.limiter, anyio.create_task_group() as attempts:
                    for address in addresses * 4:
                        attempts.start_soon(enter, address)
            origin = RequestOrigin(None, HOME)
            entered.append(await accounts.authenticate(this, "alice@example.org", PASSWORD, origin))

    anyio.run(crowd)

    assert len(refused) == 48
    assert all(wait_s is not None and wait_s > 1 for wait_s in refused)
    assert [account and account.email for account in entered] == ["alice@example.org"]


def test_a_delayed_attempt_waits_for_the_queue_and_the_median_hash() -> None:
    async def expected() -> tuple[float, float]:
        hasher = Hasher(CHEAP)
        hasher.place.durations_s.extend([0.1, 9.0, 0.2, 0.3, 0.1])
        # Those of known people tell nothing about the other place.
        hasher.known_place.durations_s.extend([5.0] * 15)
        idle = hasher.expected_s()
        async with hasher.place.limiter, anyio.create_task_group() as waiting:
            for _ in range(3):
                waiting.start_soon(hasher.verify, None, "an owl")
            await until_waiting(hasher, 3)
            busy = hasher.expected_s()
            waiting.cancel_scope.cancel()
        return idle, busy

    assert anyio.run(expected) == (0.2, 1.0)


# Browsers that have signed in to the account before.


@pytest.fixture
def known_cookie(home: Place) -> str:
    """The cookies that remain in alice's browser after she has signed in and out."""
    visitor = signed_in(home.client, "alice@example.org", PASSWORD)
    visitor.submit(visitor.get("/settings"))
    assert visitor.get("/settings").status_code == 303
    return visitor.cookies["svc_known"]


def test_a_full_queue_does_not_keep_out_known_people(
    home: Place, settings: Settings, known_cookie: str, alice: Person
) -> None:
    hasher = Hasher(CHEAP)
    entered = []
    invited = NewAccount(email="carol@example.org", password=PASSWORD, timezone="UTC")

    async def crowd() -> None:
        async with (
            serving_with(settings, hasher) as this,
            hasher.place.limiter,
            anyio.create_task_group() as waiting,
        ):
            for _ in range(40):
                waiting.start_soon(hasher.verify, None, "an owl")
            await until_waiting(hasher, 40)
            origin = RequestOrigin(None, ELSEWHERE)
            with pytest.raises(passwords.TooManySignIns):
                await accounts.authenticate(this, "alice@example.org", PASSWORD, origin)

            entered.append(
                await accounts.authenticate(
                    this, "alice@example.org", PASSWORD, origin, known_cookie=known_cookie
                )
            )
            session = tokens.mint(tokens.SESSION, alice.user_id)
            entered.append(
                await accounts.authenticate(
                    this, "alice@example.org", PASSWORD, origin, session=session
                )
            )
            url = await accounts.invite(this.database, settings, None)
            link = tokens.parse(tokens.LINK, url.partition("=")[2])
            assert link is not None
            await accounts.join(
                this.database, hasher, link, invited, origin, place=this.throttle.reserve(None)
            )
            entered.append(await accounts.find(this.database, "carol@example.org"))

            waiting.cancel_scope.cancel()

    anyio.run(crowd)

    assert [account and account.email for account in entered] == [
        "alice@example.org",
        "alice@example.org",
        "carol@example.org",
    ]


def enter_with(place: Place, known: str, email: str, password: str) -> int:
    """Send the form from a browser that has this cookie, and return the status."""
    visitor = Visitor(place.client, {"svc_known": known})
    page = visitor.get("/sign-in")
    fields = dict(forms(page)[0].fields) | {"email": email, "password": password}
    headers = {"X-Forwarded-For": place.address}
    return visitor.post("/sign-in", fields, headers=headers).status_code


def test_strangers_cannot_lock_a_person_out_of_a_known_browser(
    elsewhere: Place, known_cookie: str, guess: Guess, owner: Rows
) -> None:
    guess("alice@example.org", *[f"192.0.2.{number}" for number in range(30)])

    unknown = elsewhere.enter("alice@example.org", PASSWORD).status_code
    known = enter_with(elsewhere, known_cookie, "alice@example.org", PASSWORD)

    assert (unknown, known) == (429, 303)


def test_guesses_in_a_known_browser_are_counted_by_browser(
    home: Place, elsewhere: Place, known_cookie: str, owner: Rows
) -> None:
    # Also the sign-in that made the browser known is counted.
    owner.execute("delete from identity.throttle")
    wrong = [enter_with(home, known_cookie, "alice@example.org", WRONG) for _ in range(5)]
    counted = owner.execute("select count(*) from identity.throttle where forgotten_at > now()")
    keys = counted.fetchone()
    turn_back(owner)
    delayed = enter_with(elsewhere, known_cookie, "alice@example.org", PASSWORD)

    assert wrong == [400] * 5
    assert delayed == 429
    assert keys == (1,)


def test_a_browser_is_known_to_one_account_and_for_ninety_days(
    settings: Settings,
    known_cookie: str,
    alice: Person,
    bob: Person,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    signer = sessions.signer(settings)
    now = time.time()

    def known_for(user_id: UUID | None, text: str | None, days: int = 0) -> bool:
        with monkeypatch.context() as later:
            later.setattr(time, "time", lambda: now + days * 86_400)
            return signer.known_browser(text, user_id, None) is not None

    assert known_for(alice.user_id, known_cookie, 89)
    assert not known_for(alice.user_id, known_cookie, 91)
    assert not known_for(bob.user_id, known_cookie)
    assert not known_for(None, known_cookie)
    assert not known_for(alice.user_id, known_cookie[:-1] + "!")
    assert not known_for(alice.user_id, f"{known_cookie[:8]}0{known_cookie[9:]}" + "0")
    assert not known_for(alice.user_id, None)


@pytest.mark.parametrize(
    "action", ["/settings/account/sign-in/password", "/settings/account/sessions"]
)
def test_a_new_password_or_a_sign_out_elsewhere_leaves_no_other_browser_known(
    home: Place, elsewhere: Place, known_cookie: str, guess: Guess, action: str
) -> None:
    visitor = signed_in(home.client, "alice@example.org", PASSWORD)
    page = visitor.get(action.removesuffix("/password"))
    fields = dict(next(form.fields for form in forms(page) if form.action == action))
    changed = visitor.post(action, fields | {"password": NEW, "what": "others"})
    guess("alice@example.org", *[f"192.0.2.{number}" for number in range(30)])

    before = enter_with(elsewhere, known_cookie, "alice@example.org", WRONG)
    now = enter_with(elsewhere, visitor.cookies["svc_known"], "alice@example.org", WRONG)

    assert changed.status_code == 303
    assert (before, now) == (429, 400)


class Held(PasswordHasher):
    """Argon2 itself, which verifies once it is released."""

    def __init__(self) -> None:
        super().__init__(
            CHEAP.time_cost, CHEAP.memory_cost, CHEAP.parallelism, CHEAP.hash_len, CHEAP.salt_len
        )
        self.begun, self.released = threading.Event(), threading.Event()

    def verify(self, hash: str | bytes, password: str | bytes) -> Literal[True]:  # noqa: A002 -- the library calls it so
        self.begun.set()
        assert self.released.wait(60)
        return super().verify(hash, password)


def test_a_correct_password_is_accepted_when_rehashing_is_not_possible(
    home: Place, settings: Settings, owner: Rows
) -> None:
    outdated = PasswordHasher(time_cost=2, memory_cost=8, parallelism=1).hash(PASSWORD)
    owner.execute("update identity.password set password_hash = %s", [outdated])

    held = Held()
    hasher = Hasher(held, verify_for_strangers=held.verify)
    entered = []

    async def crowd() -> None:
        async with serving_with(settings, hasher) as this, anyio.create_task_group() as others:

            async def hold_on() -> None:
                async with hasher.place.limiter:
                    await anyio.sleep_forever()

            async def fill_the_queue() -> None:
                await wait_for_async(held.begun.is_set, "the password to be verified")
                for _ in range(41):
                    others.start_soon(hold_on)
                await until_waiting(hasher, 41)
                held.released.set()

            others.start_soon(fill_the_queue)
            origin = RequestOrigin(None, HOME)
            entered.append(await accounts.authenticate(this, "alice@example.org", PASSWORD, origin))
            others.cancel_scope.cancel()

    anyio.run(crowd)

    assert [account and account.email for account in entered] == ["alice@example.org"]
    assert owner.execute("select password_hash from identity.password").fetchall() == [(outdated,)]


def test_an_attempt_that_finds_the_queue_full_is_not_counted(
    home: Place, settings: Settings, owner: Rows
) -> None:
    hasher = Hasher(CHEAP)

    async def crowd() -> None:
        async with (
            serving_with(settings, hasher) as this,
            hasher.place.limiter,
            anyio.create_task_group() as waiting,
        ):
            for _ in range(40):
                waiting.start_soon(hasher.verify, None, "an owl")
            await until_waiting(hasher, 40)

            with pytest.raises(passwords.TooManySignIns):
                await accounts.authenticate(
                    this, "alice@example.org", PASSWORD, RequestOrigin(None, HOME)
                )

            waiting.cancel_scope.cancel()

    anyio.run(crowd)

    counted = owner.execute("select count(*) from identity.throttle where forgotten_at > now()")
    assert counted.fetchone() == (0,)


# Registration of clients.

GOOD: Final = {"redirect_uris": ["https://app.example/callback"]}


@pytest.fixture
def registered(settings: Settings, owner: Rows) -> Callable[[int], None]:
    """Counts registrations from HOME, without waiting."""

    def count_all(number: int) -> None:
        async def count() -> None:
            async with rows.connected(settings) as connection:
                for _ in range(number):
                    owner.execute("update identity.throttle set delayed_until = null")
                    await throttle.throttle(settings, connection).count_registration(HOME)

        anyio.run(count)

    return count_all


def register(client: Client, address: str, **request: Any) -> Response:
    return client.post("/oauth/register", headers={"X-Forwarded-For": address}, **request)


def test_after_a_hundred_registrations_an_address_is_delayed(
    proxied: TestClient, owner: Rows, registered: Callable[[int], None]
) -> None:
    registered(99)
    hundredth = register(proxied, HOME, json=GOOD)
    turn_back(owner)

    refused = register(proxied, HOME, json=GOOD)

    assert hundredth.status_code == 201
    assert refused.status_code == 429
    assert refused.json() == {
        "error": "temporarily_unavailable",
        "error_description": "There were too many requests of this kind; wait before the next one.",
    }
    assert 1 <= int(refused.headers["retry-after"]) <= 61
    assert refused.headers["cache-control"] == "no-store"
    assert refused.headers["access-control-allow-origin"] == "*"
    assert "Retry-After" in refused.headers["access-control-expose-headers"]
    assert register(proxied, ELSEWHERE, json=GOOD).status_code == 201
    assert owner.execute("select count(*) from oauth.client").fetchone() == (2,)


def test_the_body_of_a_refused_registration_is_not_read(
    proxied: TestClient, owner: Rows, registered: Callable[[int], None]
) -> None:
    registered(105)

    refused = [
        register(proxied, HOME, content=b"{"),
        register(proxied, HOME, content=b"a" * 100_000),
        register(proxied, HOME, json={"redirect_uris": ["javascript:x"]}),
    ]

    assert [response.status_code for response in refused] == [429, 429, 429]


def test_one_registration_expires_every_36_seconds(
    proxied: TestClient, owner: Rows, registered: Callable[[int], None]
) -> None:
    registered(100)
    hours_pass(owner, 72 / 3600)
    first = register(proxied, HOME, json=GOOD)
    second = register(proxied, HOME, json=GOOD)
    turn_back(owner)

    third = register(proxied, HOME, json=GOOD)

    assert [first.status_code, second.status_code, third.status_code] == [201, 201, 429]


def test_a_refused_registration_counts_a_tenth(
    proxied: TestClient, owner: Rows, registered: Callable[[int], None]
) -> None:
    registered(95)
    for _ in range(30):
        refused = register(proxied, HOME, json={"redirect_uris": ["javascript:x"]})
        assert refused.status_code == 400

    accepted = [register(proxied, HOME, json=GOOD).status_code for _ in range(2)]
    turn_back(owner)

    assert accepted == [201, 201]
    assert register(proxied, HOME, json=GOOD).status_code == 429


def test_refused_registrations_past_the_ceiling_are_delayed(
    proxied: TestClient, owner: Rows, registered: Callable[[int], None]
) -> None:
    registered(105)
    owner.execute("update identity.throttle set delayed_until = null")

    answers = [
        register(proxied, HOME, json={"redirect_uris": ["javascript:x"]}).status_code
        for _ in range(200)
    ]

    assert answers == [400] + [429] * 199


@pytest.mark.parametrize(("ceiling", "last"), [(3, 429), (0, 201)])
def test_the_number_of_registrations_is_a_setting(
    settings: Settings, owner: Rows, ceiling: int, last: int
) -> None:
    chosen = replace(settings, registrations_per_hour=ceiling, jobs=False)
    with TestClient(authserver.app.create(chosen)) as client:
        answers = [client.post("/oauth/register", json=GOOD).status_code for _ in range(3)]
        turn_back(owner)
        answers.append(client.post("/oauth/register", json=GOOD).status_code)

    assert answers == [201, 201, 201, last]


def test_registrations_and_sign_ins_are_counted_separately(
    home: Place, registered: Callable[[int], None]
) -> None:
    registered(105)

    assert home.enter("alice@example.org", PASSWORD).status_code == 303


# Processes of their own: forwarded addresses, and rivals.


@contextmanager
def serving(
    deployment: Settings, directory: Path, proxies: tuple[str, ...], *, workers: int = 1
) -> Iterator[str]:
    """Run an authorization server that trusts ``proxies``; yields its address."""
    chosen = replace(
        deployment,
        auth_url=f"http://localhost:{processes.free_ports(1)[0]}",
        trusted_proxies=proxies,
    )
    with processes.running(
        ["auth", "serve", f"--workers={workers}"],
        chosen,
        processes.role_urls(chosen, processes.AUTH_ROLES),
        f"{chosen.auth_url}{processes.METADATA}",
        directory / "auth.log",
    ):
        yield chosen.auth_url


@pytest.fixture(scope="module")
def behind_proxy(
    deployment: Settings, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Client]:
    """A client on this machine, which a server with two workers trusts as a proxy."""
    directory = tmp_path_factory.mktemp("throttle")
    with (
        serving(deployment, directory, ("127.0.0.0/8", "::1"), workers=2) as url,
        httpx2.Client(base_url=url) as client,
    ):
        yield client


@pytest.mark.parametrize("proxies", [(), ("192.0.2.1",)])
def test_a_forwarded_address_of_an_untrusted_client_is_ignored(
    deployment: Settings,
    home: Place,
    owner: Rows,
    guess: Guess,
    tmp_path: Path,
    proxies: tuple[str, ...],
) -> None:
    # Each try at the server takes a fifth of a second, since it hashes at full cost.
    guess("alice@example.org", *["127.0.0.1"] * 4, *["::1"] * 4)
    with (
        serving(deployment, tmp_path, proxies) as url,
        httpx2.Client(base_url=url) as client,
    ):
        forged = [Place(client, f"192.0.2.{number}") for number in range(2)]
        fifth = forged[0].enter("alice@example.org", WRONG)
        turn_back(owner)
        sixth = forged[1].enter("alice@example.org", WRONG)

    noted = {row[0] for row in owner.execute("select address from identity.security_event")}
    assert (fifth.status_code, sixth.status_code) == (400, 429)
    assert len(noted) == 1
    assert noted <= {"127.0.0.1", "::1"}


def test_behind_a_trusted_proxy_each_client_has_its_own_delay(
    behind_proxy: Client, home: Place, guess: Guess
) -> None:
    guess("alice@example.org", *[HOME] * 9)

    def status(forwarded: str) -> int:
        return Place(behind_proxy, forwarded).enter("alice@example.org", WRONG).status_code

    assert status(HOME) == 429
    assert status(f"{HOME}:50123") == 429
    assert status(ELSEWHERE) == 400
    # The addresses before the one that the proxy saw are the client's own claim.
    assert status(f"{ELSEWHERE}, {HOME}") == 429
    assert status(f"{HOME}, {ELSEWHERE}") == 400


def at_once(client: Client, email: str, addresses: list[str]) -> list[int]:
    """Send a wrong password from all addresses together; return the statuses in order."""
    visitor = Visitor(client)
    fields = dict(forms(visitor.get("/sign-in"))[0].fields) | {"email": email, "password": WRONG}
    headers = {"Cookie": "; ".join(f"{name}={value}" for name, value in visitor.cookies.items())}
    ready = threading.Barrier(len(addresses))

    def send(address: str) -> int:
        with httpx2.Client(base_url=client.base_url, timeout=60, verify=NO_TLS) as own:
            own.get("/static/style.css")
            ready.wait()
            forwarded = headers | {"X-Forwarded-For": address}
            return own.post("/sign-in", data=fields, headers=forwarded).status_code

    with ThreadPoolExecutor(len(addresses)) as threads:
        return sorted(threads.map(send, addresses))


@pytest.mark.checklist(56)
def test_line_56_of_thirty_guesses_at_once_no_more_are_tried_than_are_free(
    behind_proxy: Client, home: Place, owner: Rows, guess: Guess
) -> None:
    guess("alice@example.org", *[HOME] * 9)
    owner.execute("update identity.throttle set delayed_until = null")

    statuses = at_once(behind_proxy, "alice@example.org", [HOME] * 30)

    failed = owner.execute("select count(*) from identity.security_event")
    assert statuses == [400] + [429] * 29
    assert failed.fetchone() == (1,)


@pytest.mark.checklist(56)
def test_line_56_of_thirty_guesses_from_thirty_addresses_no_more_are_tried_than_are_free(
    behind_proxy: Client, home: Place, owner: Rows, guess: Guess
) -> None:
    addresses = [f"192.0.2.{number}" for number in range(30)]
    guess("alice@example.org", *addresses[:25])
    owner.execute("update identity.throttle set delayed_until = null")

    statuses = at_once(behind_proxy, "alice@example.org", addresses)

    assert statuses == [400] + [429] * 29


def test_concurrent_guesses_under_new_keys_get_five_tries_and_count_as_five(
    home: Place, settings: Settings, owner: Rows
) -> None:
    refused: list[int | None] = []

    async def rivals() -> None:
        async def rival() -> None:
            try:
                await attempts.count_guess("alice@example.org", None, HOME)
            except TooManyRequests as error:
                refused.append(error.retry_after_s)

        async with rows.connected(settings) as connection, anyio.create_task_group() as started:
            attempts = throttle.throttle(settings, connection)
            for _ in range(30):
                started.start_soon(rival)

    anyio.run(rivals)

    levels = owner.execute(
        "select ceil(extract(epoch from forgotten_at - now()) / 3600)::integer from identity.throttle"
    )
    assert len(refused) == 25
    assert levels.fetchall() == [(5,), (5,), (5,)]
