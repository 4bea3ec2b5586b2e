"""The trials of category rules that were saved before expressions were tried on texts of their own letters.

Expressions that are too slow are switched off (``svc.try_rules`` in ``sql/functions/categories.sql``). Their
owners see that on the page of their rules and among their security events.
"""

import logging
from datetime import timedelta
from pathlib import Path
from typing import Final

from shared import pipeline, queries, schema
from shared.jobs import Job
from shared.pool import Connection

log = logging.getLogger("svc.trials")

SQL: Final = queries.load(Path(__file__).with_name("trials.sql"))

INTERVAL: Final = timedelta(minutes=10)
_MOST: Final = 1000
"""Transactions in a run, so that a run ends however many rules there are."""


async def try_rules(connection: Connection) -> int:
    """Try the rules that have had no trial, and return how many were switched off. Raises psycopg.Error."""
    switched_off = 0
    for _ in range(_MOST):
        async with connection.transaction():
            with pipeline.first_statement():
                await connection.execute(schema.CHECK, schema.VERSION)
            await connection.execute(SQL["limit_time"])
            cursor = await connection.execute(SQL["try_rules"])
            (count,) = await cursor.fetchone() or (None,)
        if count is None:
            break
        switched_off += count
    if switched_off:
        log.info("switched off %s category rules that take too long", switched_off)
    return switched_off


def job(interval: timedelta = INTERVAL) -> Job:
    """Return the trials as a background job. It needs connections of the ``authserver`` role."""
    return Job(try_rules, interval, log, "the trials of category rules failed and will run again")
