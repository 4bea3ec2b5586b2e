"""docs/CAPACITY.md has what the bench computes from stored figures, by arithmetic that is checked here."""

import json
from pathlib import Path
from typing import Any, Final

import pytest

from tests.bench import capacity, figures
from tests.bench.capacity import Need, Person

PAGE: Final = Path(__file__).parents[2] / "docs/CAPACITY.md"

# A core at the peak is half busy and has four times the mean load: 10,800 seconds of work in a day.
CORE_MS: Final = 10_800_000


def person(**values: float) -> Person:
    idle = {
        "server_ms": 0,
        "worker_ms": 0,
        "database_ms": 0,
        "turns_ms": 0,
        "mib_a_year": 0,
        "mib_of_a_server": 0,
        "mib_of_a_worker": 0,
        "mib_of_a_connection": 0,
    }
    return Person(**(idle | values))


def test_the_page_is_what_the_script_prints_from_the_stored_figures() -> None:
    assert PAGE.read_text(encoding="utf-8") == capacity.page(json.loads(figures.FILE.read_text()))


@pytest.mark.parametrize(
    ("of", "expected"),
    [
        (person(server_ms=CORE_MS / 100), (1, 1, 0, 1, 0)),
        (person(server_ms=CORE_MS / 10), (10, 1, 0, 10, 0)),
        (person(server_ms=CORE_MS / 5), (20, 2, 0, 20, 0)),
        # The worker waits for its database, so it needs more processes than cores.
        (
            person(worker_ms=CORE_MS / 100, database_ms=CORE_MS / 50, turns_ms=3 * CORE_MS / 100),
            (0, 0, 3, 3, 2),
        ),
    ],
)
def test_a_hundred_people_take_so_many_processes_and_cores(
    of: Person, expected: tuple[int, ...]
) -> None:
    need = Need(100, of)

    assert (
        need.servers,
        need.auth_servers,
        need.workers,
        need.cores,
        need.database_cores,
    ) == expected


def test_disk_and_memory_grow_with_people() -> None:
    need = Need(1000, person(mib_a_year=1024 * 3.65))

    assert (need.disk_gib, need.cache_gib, need.databases) == (3650, 20, 1)
    assert Need(4000, need.of).databases == 2


def test_a_turn_costs_the_worker_and_the_database() -> None:
    costs = {"quiet_summary": 1, "busy_summary": 10, "rollup": 100}
    stored: dict[str, Any] = {
        "people": {
            "values": {
                "batch_server_ms": 1,
                "batch_database_ms": 2,
                "read_server_ms": 10,
                "read_database_ms": 20,
                "mib_of_sessions_a_year": 10,
                "mib_of_rollups_a_year": 20,
                "mib_of_other_records_a_year": 70,
                "mib_of_a_server": 0,
                "mib_of_a_worker": 0,
                "mib_of_a_connection": 0,
            }
        },
        "summaries": {
            "values": {f"{name}_python_ms": ms for name, ms in costs.items()}
            | {f"{name}_database_ms": 3 * ms for name, ms in costs.items()}
        },
    }

    of = Person.of(stored)

    # 8 quiet times cost 101 each, and 16 summaries 10 each.
    assert (of.worker_ms, of.turns_ms) == (968, 4 * 968)
    # 480 batches and 100 reads.
    assert (of.server_ms, of.database_ms) == (1480, 2960 + 3 * 968)
    assert of.mib_a_year == pytest.approx(130)


def test_a_limit_is_reached_at_the_first_number_of_people_beyond_it() -> None:
    of = person(server_ms=CORE_MS / 5000)

    (process,) = (limit for limit in capacity.LIMITS if "resource server" in limit.what)

    assert capacity.reached_at(process, of) == 5000
    assert not process.is_reached(Need(5000, of))
    assert process.is_reached(Need(5001, of))
