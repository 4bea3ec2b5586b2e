"""Clients of WakaTime that people have, which know nothing of us but an address and a key."""

import json
import os
import socket
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import psycopg
import pytest

from resourceserver.integrations.receivers.wakatime import BASE
from shared.settings import Settings
from tests.conftest import Person
from tests.receivers.connecting import Connected, Served, connect, serving

# The client wants names that were moved in Python 3.10.
WAKATIME: Final = """
import collections, collections.abc, sys
for name in ("Mapping", "MutableMapping", "Callable", "MutableSet"):
    setattr(collections, name, getattr(collections.abc, name))
from wakatime.main import execute
sys.exit(execute(sys.argv[1:]))
"""
# It shows a window on demand alone, and wants its module also where Python has none.
MANUAL: Final = """
import sys, types
sys.modules.setdefault("tkinter", types.ModuleType("tkinter"))
from mwt.__main__ import get_api_key, get_api_url, send_heartbeat
print(send_heartbeat(get_api_key(), "thesis", get_api_url()))
"""


@pytest.fixture(scope="module")
def served(deployment: Settings, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server with this receiver."""
    with serving(deployment, tmp_path_factory.mktemp("server"), "wakatime") as running:
        yield running


@pytest.fixture
def editor(owner: psycopg.Connection[Any], alice: Person) -> Connected:
    """A connection of alice."""
    return connect(owner, alice, "wakatime")


def run(
    program: str,
    home: Path,
    *arguments: str,
    variables: Mapping[str, str] | None = None,
    text: str = "",
    status: int = 0,
) -> str:
    """Return what a program prints; its home is an empty folder."""
    environment = {"PATH": os.environ["PATH"], "HOME": str(home)}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program, *arguments],
        env=environment | dict(variables or {}),
        input=text,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == status, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("path", ["/users/current/heartbeats.bulk", ""])
def test_the_client_of_editors_sends_all_its_beats(
    served: Served, editor: Connected, owner: psycopg.Connection[Any], tmp_path: Path, path: str
) -> None:
    source = tmp_path / "code" / "app.py"
    source.parent.mkdir()
    source.write_text("import json\n\nprint(json)\n")
    newest = time.time() - 3600
    extra = [
        {"entity": str(source), "timestamp": newest - 60 * number, "project": "svc"}
        for number in range(1, 41)
    ]

    output = run(
        WAKATIME,
        tmp_path,
        *("--entity", str(source), "--time", str(newest), "--project", "svc", "--write"),
        *("--key", editor.key, "--api-url", f"{served.client.base_url}{BASE}{path}"),
        *("--plugin", "vscode/1.90.0 vscode-wakatime/24.6.0", "--hostname", "alice's laptop"),
        *("--extra-heartbeats", "--verbose"),
        text=json.dumps(extra) + "\n",
    )

    assert output == ""
    rows = owner.execute(
        """
        select session.project, session.language, session.file, session.editor, session.is_write,
               extract(epoch from session.ended_at - session.started_at)::integer,
               (session.metadata->>'beats')::integer, device.name
          from activity.coding_session as session
          join activity.device using (user_id, device_id)
        """
    ).fetchall()
    assert rows == [("svc", "Python", str(source), "vscode", True, 2400, 41, "alice's laptop")]
    assert editor.state == (41, None)
    assert unsent(tmp_path) == 0


def unsent(home: Path) -> int:
    """Return how many beats the client keeps to send them later."""
    with closing(sqlite3.connect(home / ".wakatime.db")) as queue:
        row: tuple[int] = queue.execute("select count(*) from heartbeat_2").fetchone()
    return row[0]


def test_the_client_keeps_its_beats_until_its_key_is_right(
    served: Served, editor: Connected, owner: psycopg.Connection[Any], tmp_path: Path
) -> None:
    source = tmp_path / "app.py"
    source.write_text("pass\n")
    address = ("--api-url", f"{served.client.base_url}{BASE}")
    beat = ("--entity", str(source), "--project", "svc", *address)

    refused = run(WAKATIME, tmp_path, *beat, "--key", str(uuid4()), status=104)
    assert (refused, unsent(tmp_path)) == ("", 1)
    run(WAKATIME, tmp_path, *beat, "--key", editor.key)

    assert unsent(tmp_path) == 0
    assert editor.state == (2, None)


def test_the_client_of_editors_shows_the_total_of_another_service(tmp_path: Path) -> None:
    # Therefore the page with the key warns of this option (shared/setups.py).
    with socket.create_server(("127.0.0.1", 0)) as proxy:
        seen: list[bytes] = []

        def take() -> None:
            connection, _ = proxy.accept()
            with connection:
                seen.append(connection.recv(100))

        taking = threading.Thread(target=take, daemon=True)
        taking.start()
        run(
            WAKATIME,
            tmp_path,
            *("--today", "--key", str(uuid4()), "--api-url", f"http://127.0.0.1:9{BASE}"),
            *("--proxy", f"http://127.0.0.1:{proxy.getsockname()[1]}"),
            status=102,
        )
        taking.join(60)

    assert [each.split()[:2] for each in seen] == [[b"CONNECT", b"api.wakatime.com:443"]]


def test_a_tracker_by_hand_gets_an_answer_that_it_can_read(
    served: Served, editor: Connected, owner: psycopg.Connection[Any], tmp_path: Path
) -> None:
    address = f"{served.client.base_url}{BASE}"

    output = run(
        MANUAL, tmp_path, variables={"WAKATIME_API_KEY": editor.key, "WAKATIME_API_URL": address}
    )

    assert output == "(202, {'responses': [[None, 201]]})\n"
    assert owner.execute("select project, file from activity.coding_session").fetchall() == [
        ("thesis", None)
    ]
