"""Neighbours: what bob waits while mallory takes all that she can get.

Each case names an attack of mallory's, which runs in processes of its own, and bob's calls. They are timed
before the attack and during it: bob's 95th percentile should stay within three times the quiet one.
"""

import multiprocessing
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field, replace
from itertools import count
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any, Final

import click
import httpx2
import psycopg
from argon2 import PasswordHasher

from deploy.migrate import migrate
from deploy.postgres.embedded import EmbeddedPostgres
from shared import tokens
from shared.settings import Settings
from tests import processes
from tests.oauth.visitor import Application, Visitor, forms

PASSWORD: Final = "an owl reads under the lamp"
HOME: Final = "203.0.113.7"
TIMES: Final = 25
"""How often bob does each call, quiet and beside mallory."""
WITHIN: Final = 3.0
_WARM_UP_S: Final = 3.0
_CONTEXT: Final = multiprocessing.get_context("spawn")


@dataclass(frozen=True)
class Target:
    """What mallory knows: where the server is, a client, and a refresh token of her own."""

    auth_url: str
    client_id: str
    refresh_token: str


@dataclass
class Neighbour:
    """Bob: a browser that has signed in before, and an application with his grant."""

    client: httpx2.Client
    browser: Visitor
    application: Application
    refresh_token: str


Attack = Callable[[Target, int, Event], None]
Call = Callable[[Neighbour], None]


@dataclass(frozen=True)
class Case:
    """One way in which one person could take the service from another."""

    name: str
    attack: Attack
    processes: int
    calls: dict[str, Call] = field(repr=False)


def sign_in(bob: Neighbour) -> None:
    """Sign in on the page, as the browser in which bob signed in before."""
    known = {
        name: text for name, text in bob.browser.cookies.items() if not name.endswith("session")
    }
    bob.browser = Visitor(bob.client, known)
    answer = enter(bob.browser, "bob@example.org", PASSWORD, HOME)
    assert answer == 303, answer


def refresh(bob: Neighbour) -> None:
    """Refresh the grant of bob's application."""
    answer = bob.application.refresh(bob.refresh_token)
    assert answer.status_code == 200, answer.text
    bob.refresh_token = answer.json()["refresh_token"]


def enter(visitor: Visitor, email: str, password: str, address: str) -> int:
    """Send the form of the sign-in page from an address, and return the status."""
    headers = {"X-Forwarded-For": address}
    page = visitor.get("/sign-in", headers=headers)
    fields = dict(forms(page)[0].fields) | {"email": email, "password": password}
    return visitor.post("/sign-in", fields, headers=headers).status_code


def begin_authorizations(target: Target, number: int, stop: Event) -> None:
    """Send authorization requests without signing in, with the longest state."""
    with httpx2.Client(base_url=target.auth_url, timeout=60) as client:
        path = Application(client, target.client_id).authorize_path(state="s" * 4096)
        while not stop.is_set():
            Visitor(client).get(path, headers={"X-Forwarded-For": f"192.0.2.{number}"})


def rotate(target: Target, _: int, stop: Event) -> None:
    """Refresh one grant over and over again."""
    with httpx2.Client(base_url=target.auth_url, timeout=60) as client:
        application, refresh_token = Application(client, target.client_id), target.refresh_token
        while not stop.is_set():
            answer = application.refresh(refresh_token).json()
            refresh_token = answer.get("refresh_token", refresh_token)


def guess(target: Target, number: int, stop: Event) -> None:
    """Guess bob's password and those of others, from twelve addresses."""
    with httpx2.Client(base_url=target.auth_url, timeout=60) as client:
        for attempt in count():
            if stop.is_set():
                return
            email = "bob@example.org" if attempt % 2 else f"p{attempt}@example.org"
            enter(Visitor(client), email, "a wrong password", f"192.0.2.{number % 12}")


OF_BOB: Final[dict[str, Call]] = {"sign-in": sign_in, "token": refresh}
CASES: Final = (
    Case("anonymous authorization requests", begin_authorizations, 4, OF_BOB),
    Case("rotations of one grant", rotate, 4, OF_BOB),
    Case("wrong passwords from 12 addresses", guess, 48, OF_BOB),
)


def _attack(attack: Attack, target: Target, number: int, stop: Event) -> None:
    # Mallory has a machine of her own; here she must not take the server's processor.
    os.nice(19)
    attack(target, number, stop)


def measure(bob: Neighbour, call: Call) -> float:
    """Return the 95th percentile of a call, in milliseconds."""
    durations = []
    for _ in range(TIMES):
        begun = time.perf_counter()
        call(bob)
        durations.append((time.perf_counter() - begun) * 1000)
    return statistics.quantiles(durations, n=20)[-1]


def run(case: Case, target: Target, bob: Neighbour) -> list[tuple[str, float, float]]:
    """Return each call of bob's, with its 95th percentile when it is quiet and beside mallory."""
    quiet = {name: measure(bob, call) for name, call in case.calls.items()}
    stop = _CONTEXT.Event()
    attackers = [
        _CONTEXT.Process(target=_attack, args=(case.attack, target, number, stop))
        for number in range(case.processes)
    ]
    for each in attackers:
        each.start()
    try:
        # Until the free attempts are used up, which is the worst of it, and on.
        time.sleep(_WARM_UP_S)
        beside = {name: measure(bob, call) for name, call in case.calls.items()}
    finally:
        stop.set()
        for each in attackers:
            each.join(90)
    return [(name, quiet[name], beside[name]) for name in case.calls]


def grant(owner: psycopg.Connection[Any], email: str, client_id: str) -> str:
    """Return a refresh token of a new grant of a person, who is made if there is none."""
    owner.execute(
        "with made as (insert into identity.user (email) values (%s) on conflict do nothing "
        "returning user_id) insert into identity.password select user_id, %s from made",
        [email, PasswordHasher().hash(PASSWORD)],
    )
    row = owner.execute("select user_id from identity.user where email = %s", [email]).fetchone()
    assert row is not None
    token = tokens.mint(tokens.REFRESH, row[0])
    owner.execute(
        """
        with granted as (
            insert into oauth.grant (user_id, client_id, scopes)
            values (%(user_id)s, %(client_id)s, '{read:profile}')
            returning user_id, grant_id
        )
        insert into oauth.refresh_token (user_id, token_hash, grant_id, expires_at)
        select user_id, %(token_hash)s, grant_id, now() + interval '90 days'
          from granted
        """,
        {"user_id": row[0], "client_id": client_id, "token_hash": token.hash},
    )
    return token.text


def bench(directory: Path) -> None:
    """Run every case on servers of its own and print the table."""
    with EmbeddedPostgres(directory / "postgres") as postgres:
        chosen = Settings(data_dir=directory / "deployment", database_url=postgres.url)
        migrate(chosen, lambda _: None)
        chosen = replace(chosen, trusted_proxies=("127.0.0.0/8", "::1/128"))
        with closing(psycopg.connect(postgres.url, autocommit=True)) as owner:
            for case in CASES:
                with (
                    processes.service(chosen, directory) as service,
                    httpx2.Client(base_url=service.auth_url, timeout=60) as client,
                ):
                    metadata = {"redirect_uris": ["https://app.example/callback"]}
                    registered = client.post("/oauth/register", json=metadata).json()
                    client_id = registered["client_id"]
                    application = Application(client, client_id)
                    refresh_token = grant(owner, "bob@example.org", client_id)
                    bob = Neighbour(client, Visitor(client), application, refresh_token)
                    sign_in(bob)
                    target = Target(
                        service.auth_url, client_id, grant(owner, "mallory@example.org", client_id)
                    )
                    for name, quiet, beside in run(case, target, bob):
                        verdict = "" if beside <= WITHIN * quiet else "  slow"
                        click.echo(
                            f"{case.name:<36} {name:<8} {quiet:8.0f} ms {beside:8.0f} ms "
                            f"{beside / quiet:6.1f} times{verdict}"
                        )
                owner.execute("delete from identity.throttle")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        bench(Path(name))
