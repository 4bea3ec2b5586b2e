"""Accounts of the neighbours' run: people, their grants, and what mallory's account holds."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final
from uuid import UUID

import click
import psycopg
from argon2 import PasswordHasher

from shared import queries, tokens
from tests.bench.neighbours.bob import PASSWORD
from tests.conftest import Person

SQL: Final = queries.load(Path(__file__).with_name("accounts.sql"))
JOB_WITHIN_S: Final = 40.0
"""A job begins at most an interval after the start of its server."""

Owner = psycopg.Connection[Any]
Preparation = Callable[[Owner, UUID], None]
"""Fills an account."""


def person(owner: Owner, email: str) -> Person:
    """Return a person with a password, who is added if there is none."""
    values = {"email": email, "password_hash": PasswordHasher().hash(PASSWORD)}
    row = owner.execute(SQL["add_person"], values).fetchone()
    assert row is not None
    return Person(row[0], email, owner)


def refresh_token(owner: Owner, who: Person, client_id: str) -> str:
    """Return a refresh token of a new grant."""
    token = tokens.mint(tokens.REFRESH, who.user_id)
    values = {"user_id": who.user_id, "client_id": client_id, "token_hash": token.hash}
    owner.execute(SQL["add_refresh_token"], values)
    return token.text


def add_years(owner: Owner, user_id: UUID) -> None:
    """Add three years of sessions that wait for their rollups, so that each read adds all of them up."""
    _add_sessions(owner, user_id, first="2022-01-01", count=200_000, every="7 min", length="6 min")
    owner.execute(SQL["delay_rollups"], {"user_id": user_id})


def add_slow_rules(owner: Owner, user_id: UUID) -> None:
    """Add a day of random titles, and the slowest rules that are accepted until no further one is."""
    _add_sessions(owner, user_id, first="2024-01-01", count=2000, every="43 s", length="40 s")
    owner.execute(SQL["delay_rollups"], {"user_id": user_id})
    letters = ("[xy]*x[xy]", "[x-y]*x[xy]", "(x|y)*x[xy]", "[yx]*y[xy]", "[xy]*x[yx]", ".*x.")
    accepted = 0
    for length in (100, 60, 40, 25, 15, 10, 5, 3, 1):
        for each in letters:
            rule = {"user_id": user_id, "pattern": f"{each}{{{length}}}z", "category": "Own"}
            accepted += owner.execute(SQL["add_rule"], rule).fetchone() == (None,)
    assert accepted, "no rule was accepted"


def add_crowded_days(owner: Owner, user_id: UUID) -> None:
    """Add days with so many sessions that their rollups take longer than a turn, and wait for that job."""
    for number in range(3):
        _add_sessions(
            owner,
            user_id,
            first="2024-01-01",
            count=250_000,
            every="1 s",
            length="1 s",
            device=f"device {number}",
        )
    until = time.monotonic() + JOB_WITHIN_S
    while owner.execute(SQL["job_runs"]).fetchone() != (True,):
        if time.monotonic() > until:
            raise click.ClickException("no job has begun")
        time.sleep(0.1)


def _add_sessions(
    owner: Owner,
    user_id: UUID,
    *,
    first: str,
    count: int,
    every: str,
    length: str,
    device: str = "laptop",
) -> None:
    """Add sessions of one device from the day ``first`` on, and mark their days."""
    values = {
        "user_id": user_id,
        "device": device,
        "from": f"{first}T00:00:00Z",
        "count": count,
        "every": every,
        "length": length,
    }
    owner.execute(SQL["add_sessions"], values)
    owner.execute("analyze activity.app_session")
    owner.execute(SQL["mark_days"], {"user_id": user_id})
