"""Rivals for the same rows."""

from typing import Any

import psycopg


def wait_for_rivals(owner: psycopg.Connection[Any], count: int) -> None:
    """Return when so many transactions wait for a lock."""
    for _ in range(1000):
        # Within a transaction, who is there stays as it was first seen.
        owner.execute("select pg_stat_clear_snapshot()")
        waiting = owner.execute(
            # What others wait for in pg_stat_activity is shown to superusers alone.
            "select count(distinct pid), pg_sleep(0.01) from pg_locks join pg_stat_activity using (pid) "
            "where datname = current_database() and not granted"
        ).fetchone()
        if waiting is not None and waiting[0] == count:
            return
    raise AssertionError(f"there were never {count} that waited")
