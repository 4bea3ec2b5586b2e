"""The cost of a message: one transaction of the database, and none without a well-formed token.

A tool takes two round trips in it: the frame comes first. A token that is new to the process is looked up by
itself before.
"""

from collections.abc import Sequence
from typing import Any

import pytest
from starlette.testclient import TestClient

from resourceserver.mcp.tools import TOOLS
from shared.pipeline import Pipelines, Step
from tests.conftest import Person
from tests.mcp.assistant import REQUIRED, Assistant, message

pytestmark = pytest.mark.single

FIRST_TRIP = 4
"""A tool's first statements: the begin of the transaction, the schema's lock, the token and the frame."""


@pytest.fixture
def trips(api: TestClient, assistant: Assistant, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many statements the reader took along on each trip to the database from now on."""
    assistant.legacy("ping")
    app: Any = api.app
    reader = next(route.endpoint.reader for route in app.routes if route.name == "mcp")
    seen: list[int] = []
    run = Pipelines.run

    async def counted(self: Pipelines, steps: Sequence[Step], **options: Any) -> Any:
        # The worker notes now and then which tokens were used, at no request's expense.
        if self in (reader.quick, reader.patient):
            seen.append(len(steps))
        return await run(self, steps, **options)

    monkeypatch.setattr(Pipelines, "run", counted)
    return seen


@pytest.mark.parametrize("tool", [tool.name for tool in TOOLS])
def test_a_tool_takes_one_round_trip_with_the_check_of_the_token(
    assistant: Assistant, trips: list[int], tool: str
) -> None:
    assert assistant.call(tool, **REQUIRED.get(tool, {})).status_code == 200

    # A record needs neither days nor other parts: the session, and the record.
    assert trips == [2 if tool == "fetch" else FIRST_TRIP]


@pytest.mark.parametrize(
    ("method", "statements"),
    [("initialize", 2), ("ping", 1), ("tools/list", 1), ("nothing", 1), ("tools/call", 1)],
)
def test_every_other_method_takes_one_round_trip(
    assistant: Assistant, trips: list[int], method: str, statements: int
) -> None:
    assistant.legacy(method)

    assert trips == [statements]


def test_invalid_messages_and_arguments_take_one_round_trip(
    assistant: Assistant, trips: list[int]
) -> None:
    assistant.post(b"{")
    assistant.call("get_goals", wekks=1)
    assistant.post(message("x", id=None))

    assert trips == [1, 1, 1]


def test_a_tool_without_its_scope_takes_one_round_trip(
    api: TestClient, alice: Person, trips: list[int]
) -> None:
    assistant = Assistant(api, alice.headers("read:activity"))
    assistant.legacy("ping")
    trips.clear()

    assert assistant.call("get_listening").status_code == 403

    assert trips == [FIRST_TRIP]


def test_a_request_without_a_token_never_reaches_the_database(
    api: TestClient, trips: list[int]
) -> None:
    for authorization in ("", "Bearer svc_dt_nonsense"):
        api.post("/mcp", json=message("ping"), headers={"Authorization": authorization})

    assert trips == []
