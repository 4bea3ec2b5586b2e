"""SVC_JOBS=off starts either server without any job of its own."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest
from starlette.applications import Starlette

import authserver.app
import resourceserver.app
from shared.settings import ROLES, Settings

CHOSEN = Settings(
    data_dir=Path("/nonexistent"),
    cookie_key="0" * 64,
    role_urls=dict.fromkeys(ROLES, "host=127.0.0.1 port=1"),
)


async def tasks_of(app: Starlette) -> int:
    """Return how many tasks a running application has begun, but for those that watch its connections."""
    before = asyncio.all_tasks()
    async with app.router.lifespan_context(app):
        begun = asyncio.all_tasks() - before
        return sum(not task.get_name().startswith(("pool-", "hang-")) for task in begun)


@pytest.mark.parametrize(("jobs", "tasks"), [(True, 4), (False, 0)], ids=["on", "off"])
def test_the_resource_server_writes_last_uses_and_what_follows_from_data(
    jobs: bool, tasks: int
) -> None:
    app = resourceserver.app.create(replace(CHOSEN, jobs=jobs))

    assert asyncio.run(tasks_of(app)) == tasks


def test_the_resource_server_beside_a_worker_writes_last_uses_and_looks_for_the_worker() -> None:
    app = resourceserver.app.create(replace(CHOSEN, jobs=True, worker=True))

    assert asyncio.run(tasks_of(app)) == 2


@pytest.mark.parametrize(("jobs", "tasks"), [(True, 2), (False, 0)], ids=["on", "off"])
def test_the_authorization_server_has_its_janitor_and_tries_rules(jobs: bool, tasks: int) -> None:
    app = authserver.app.create(replace(CHOSEN, jobs=jobs))

    assert asyncio.run(tasks_of(app)) == tasks
