"""Runs the jobs of the code in the working directory, again and again: ``old_jobs.py URL``.

Prints after each turn how it ended, and ends when its input does.
"""

import asyncio
import importlib
import select
import sys
from datetime import timedelta

import psycopg

# The modules may have other places in that version of the code.
jobs, rollups, summaries = (
    importlib.import_module(f"resourceserver.{name}") for name in ("jobs", "rollups", "summaries")
)


async def turn(url: str) -> str:
    """Sum up and roll up due days, and return how that ended."""
    try:
        async with jobs.connected(url) as worker:
            await rollups.make_due(worker, timedelta(0))
            await summaries.make_due(worker)
    except psycopg.Error as error:
        return str(error.sqlstate)
    return "done"


def main() -> None:
    """Go on until the input ends, for 10,000 turns at most."""
    for _ in range(10_000):
        sys.stdout.write(f"{asyncio.run(turn(sys.argv[1]))}\n")
        sys.stdout.flush()
        if select.select([sys.stdin], [], [], 0.05)[0]:
            return


if __name__ == "__main__":
    main()
