"""Rivals for the same rows."""

from typing import Any

import psycopg


def wait_for_rivals(owner: psycopg.Connection[Any], count: int) -> None:
    """Return when so many transactions wait for a lock."""
    for _ in range(1000):
        waiting = owner.execute(
            "select count(*), pg_sleep(0.01) from pg_stat_activity "
            "where datname = current_database() and wait_event_type = 'Lock'"
        ).fetchone()
        if waiting is not None and waiting[0] == count:
            return
    raise AssertionError(f"there were never {count} that waited")
