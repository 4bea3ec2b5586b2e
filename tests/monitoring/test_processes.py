"""What an operator sees of running processes: their log, of servers with several processes too."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx2
import pytest

from shared.settings import Settings
from tests import processes
from tests.processes import METADATA, Service
from tests.waiting import wait_for


@pytest.fixture(scope="module")
def service(deployment: Settings, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """Both servers with a log in JSON; the authorization server has two processes."""
    chosen = replace(deployment, log_format="json")
    with processes.service(chosen, tmp_path_factory.mktemp("servers"), workers=2) as started:
        yield started


def lines(log: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in log.read_text().splitlines()]


def test_each_process_of_a_server_writes_its_lines_as_json(service: Service) -> None:
    sent = ["a" * 15 + digit for digit in "0123456789"]
    for request_id in sent:
        httpx2.get(f"{service.auth_url}{METADATA}", headers={"X-Request-Id": request_id})

    def received() -> list[str]:
        return [line["request_id"] for line in lines(service.auth_log) if "request_id" in line]

    wait_for(lambda: set(sent) <= set(received()), "a line for each request")
    assert {(line["process"], line["route"]) for line in lines(service.auth_log)} == {
        ("authserver", "metadata")
    }
