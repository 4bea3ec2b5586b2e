"""What an operator sees of running processes: their log, and their metrics."""

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx2
import pytest

from shared import VERSION
from shared.listening import Address
from shared.settings import Settings
from tests import processes
from tests.monitoring.scraping import Samples, neighbouring_ports, scrape, value
from tests.processes import METADATA, Service
from tests.waiting import wait_for


@pytest.fixture(scope="module")
def service(deployment: Settings, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """Both servers with metrics and a log in JSON; the authorization server has two processes."""
    chosen = replace(
        deployment,
        log_format="json",
        auth_metrics_listen=(Address("127.0.0.1", neighbouring_ports(2)),),
        base_metrics_listen=(Address("127.0.0.1", neighbouring_ports(1)),),
    )
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


def of_auth(service: Service) -> list[Samples]:
    """Return the metrics of both processes of the authorization server."""
    first = service.settings.auth_metrics_listen[0].port
    return [scrape(first), scrape(first + 1)]


def of_base(service: Service) -> Samples:
    """Return the metrics of the resource server."""
    return scrape(service.settings.base_metrics_listen[0].port)


def test_each_process_counts_its_own_requests(service: Service) -> None:
    before = [
        value(each, "svc_requests_total", route="token", status="400") for each in of_auth(service)
    ]
    for _ in range(20):
        httpx2.post(f"{service.auth_url}/oauth/token", data={"grant_type": "x"})

    after = [
        value(each, "svc_requests_total", route="token", status="400") for each in of_auth(service)
    ]
    assert sum(after) - sum(before) == 20
    pids = {value(each, "process_start_time_seconds") for each in of_auth(service)}
    assert len(pids) == 2


def test_requests_are_counted_by_route_and_status_and_timed_by_route(service: Service) -> None:
    before = of_base(service)
    httpx2.get(f"{service.base_url}/healthz")
    httpx2.get(f"{service.base_url}/api/v1/me")
    httpx2.get(f"{service.base_url}/alice@example.org")
    after = of_base(service)

    def more(name: str, **labels: str) -> float:
        return value(after, name, **labels) - value(before, name, **labels)

    assert more("svc_requests_total", route="healthz", status="200") == 1
    assert more("svc_requests_total", route="me", status="401") == 1
    assert more("svc_requests_total", route="none", status="404") == 1
    assert more("svc_request_duration_seconds_count", route="healthz") == 1
    assert more("svc_request_duration_seconds_bucket", route="healthz", le="30.0") == 1
    assert more("svc_request_duration_seconds_bucket", route="healthz", le="+Inf") == 1
    assert 0 < more("svc_request_duration_seconds_sum", route="healthz") < 30
    assert "alice" not in str(after)


def test_a_process_says_which_build_it_is(service: Service) -> None:
    build = {"process": "resourceserver", "version": VERSION, "commit": "abc1234"}

    assert value(of_base(service), "svc_info", **build) == 1
    assert value(of_base(service), "process_resident_memory_bytes") > 10_000_000


def test_without_the_setting_no_process_imports_prometheus_client() -> None:
    program = """
import sys
import authserver.app, authserver.cli.server, resourceserver.app, resourceserver.server_command
import resourceserver.worker.process
print([name for name in sys.modules if name.startswith("prometheus")])
"""

    ran = subprocess.run([sys.executable, "-c", program], stdout=subprocess.PIPE, check=True)

    assert ran.stdout == b"[]\n"


def test_an_address_for_metrics_that_is_in_use_stops_the_start(
    service: Service, deployment: Settings, tmp_path: Path
) -> None:
    taken = service.settings.base_metrics_listen
    (port,) = processes.free_ports(1)
    chosen = replace(deployment, base_url=f"http://localhost:{port}", base_metrics_listen=taken)

    with (
        pytest.raises(RuntimeError, match=r"SVC_BASE_METRICS_LISTEN: cannot listen on 127.0.0.1"),
        processes.running(
            ["resource", "serve"],
            chosen,
            processes.role_urls(chosen, processes.RESOURCE_ROLES),
            chosen.base_url,
            tmp_path / "log",
        ),
    ):
        pytest.fail("it has started")
