"""Runs the jobs of the code in the working directory, again and again: ``old_jobs.py URL``.

Says after each turn how it ended, and ends when its input does.
"""

import asyncio
import importlib
import select
import sys
from datetime import timedelta

import psycopg

# They are where that code has them, which need not be where this one has.
jobs, rollups, summaries = (
    importlib.import_module(f"resourceserver.{name}") for name in ("jobs", "rollups", "summaries")
)


async def turn(url: str) -> str:
    """Sum up and roll up what is due, and return how that ended."""
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
