"""What an operator sees of running processes: their log, and their metrics."""

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import httpx2
import pytest

from shared import VERSION
from shared.listening import Address
from shared.settings import Settings
from tests import processes
from tests.conftest import Person
from tests.monitoring.scraping import Samples, answers, scrape, value
from tests.oauth.conftest import visitor_of
from tests.oauth.visitor import CALLBACK, Application
from tests.processes import METADATA, Service
from tests.waiting import wait_for

CLIENT: Final = httpx2.Client(timeout=60)


@pytest.fixture(scope="module")
def service(deployment: Settings, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """Both servers with metrics and a log in JSON; the authorization server has two processes."""
    chosen = replace(
        deployment,
        log_format="json",
        receivers=("wakatime",),
        auth_metrics_listen=(Address("127.0.0.1", processes.neighbouring_ports(2)),),
        base_metrics_listen=(Address("127.0.0.1", processes.neighbouring_ports(1)),),
    )
    second = chosen.auth_metrics_listen[0].port + 1
    # The end of the block closes the client's connections, of which garbage collection would warn.
    with (
        processes.service(chosen, tmp_path_factory.mktemp("servers"), workers=2) as started,
        CLIENT,
    ):
        wait_for(lambda: answers(second), "the second process listens")
        yield started


def lines(log: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in log.read_text().splitlines()]


def test_each_process_of_a_server_writes_its_lines_as_json(service: Service) -> None:
    sent = ["a" * 15 + digit for digit in "0123456789"]
    for request_id in sent:
        CLIENT.get(f"{service.auth_url}{METADATA}", headers={"X-Request-Id": request_id})

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
        CLIENT.post(f"{service.auth_url}/oauth/token", data={"grant_type": "x"})

    after = [
        value(each, "svc_requests_total", route="token", status="400") for each in of_auth(service)
    ]
    assert sum(after) - sum(before) == 20


def test_requests_are_counted_by_route_and_status_and_timed_by_route(service: Service) -> None:
    before = of_base(service)
    CLIENT.get(f"{service.base_url}/healthz")
    CLIENT.get(f"{service.base_url}/api/v1/me")
    CLIENT.get(f"{service.base_url}/alice@example.org")
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


def test_token_requests_are_counted_by_grant_type_and_outcome(
    service: Service, alice: Person
) -> None:
    before = of_auth(service)
    with httpx2.Client(base_url=service.auth_url, timeout=60) as client:
        browser = visitor_of(client, service.settings, alice)
        registered = client.post("/oauth/register", json={"redirect_uris": [CALLBACK]})
        application = Application(client, registered.json()["client_id"])
        code = application.code(browser)
        pair = application.exchange(code).json()
        application.refresh(pair["refresh_token"])
        application.refresh(pair["refresh_token"])
        application.exchange(code)
        browser.get(application.authorize_path(redirect_uri="https://elsewhere.example/"))
        client.post("/oauth/token", data={"grant_type": "alice"}, headers={"Authorization": "x"})
    after = of_auth(service)

    def more(name: str, **labels: str) -> float:
        return sum(value(each, name, **labels) for each in after) - sum(
            value(each, name, **labels) for each in before
        )

    def requests(grant_type: str, outcome: str) -> float:
        return more("svc_token_requests_total", grant_type=grant_type, outcome=outcome)

    assert requests("authorization_code", "issued") == 1
    assert requests("authorization_code", "code_spent") == 1
    assert requests("refresh_token", "issued") == 1
    assert requests("refresh_token", "refresh_token_rotated") == 1
    assert requests("other", "client_authentication_refused") == 1
    assert more("svc_authorizations_total", outcome="accepted") == 1
    assert more("svc_authorizations_total", outcome="allowed") == 1
    assert more("svc_authorizations_total", outcome="unusable_redirect_uri") == 1
    assert more("svc_security_events_total", event="replay_detected") >= 1
    refused = "client_authentication_refused"
    assert more("svc_refusals_total", status="401", reason=refused) == 1
    for secret in ("alice", application.client_id, str(alice.user_id), "elsewhere"):
        assert secret not in str(after)


def test_events_are_counted_by_stream_outcome_and_reason(service: Service, alice: Person) -> None:
    event = {
        "idempotency_key": "1",
        "started_at": "2025-10-24T08:43:39Z",
        "ended_at": "2025-10-24T08:45:25Z",
        "app": "alice's own",
        "device": "laptop",
    }
    before = of_base(service)
    answer = CLIENT.post(
        f"{service.base_url}/api/v1/ingest/app-sessions",
        json={"source": "alice", "events": [event, event, {**event, "started_at": "x"}]},
        headers=alice.headers("ingest:app_sessions"),
    )
    after = of_base(service)

    def more(name: str, **labels: str) -> float:
        return value(after, name, **labels) - value(before, name, **labels)

    assert answer.status_code == 200, answer.text
    stream = "app_sessions"
    assert more("svc_ingest_events_total", stream=stream, outcome="accepted") == 1
    assert more("svc_ingest_events_total", stream=stream, outcome="duplicate") == 1
    assert more("svc_ingest_events_total", stream=stream, outcome="rejected") == 1
    (rejection,) = answer.json()["rejected"]
    assert more("svc_ingest_rejections_total", stream=stream, code=rejection["code"]) == 1
    assert "alice" not in str(after)


def test_refusals_are_counted_by_reason_and_tools_by_name(service: Service, alice: Person) -> None:
    headers = alice.headers("read:activity") | {"Accept": "application/json"}

    def call(name: str, **arguments: str) -> None:
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call"}
        params = {"name": name, "arguments": arguments}
        CLIENT.post(f"{service.base_url}/mcp", json=message | {"params": params}, headers=headers)

    before = of_base(service)
    CLIENT.get(f"{service.base_url}/api/v1/me")
    CLIENT.get(f"{service.base_url}/api/v1/me", headers={"Authorization": "Bearer x"})
    CLIENT.get(
        f"{service.base_url}/api/v1/codehost/activity?from=2025-10-20T00:00:00Z", headers=headers
    )
    call("get_day", date="2025-10-24")
    call("get_day", day="alice")
    call("alices_tool")
    after = of_base(service)

    def more(name: str, **labels: str) -> float:
        return value(after, name, **labels) - value(before, name, **labels)

    assert more("svc_refusals_total", status="401", reason="unauthorized") == 2
    assert more("svc_refusals_total", status="403", reason="insufficient_scope") == 1
    assert more("svc_tool_calls_total", tool="get_day", outcome="answered") == 1
    assert more("svc_tool_calls_total", tool="get_day", outcome="mistaken") == 1
    assert more("svc_tool_call_duration_seconds_count", tool="get_day") == 2
    assert "alice" not in str(after)


def test_pools_and_queues_are_read_when_they_are_asked_for(service: Service, alice: Person) -> None:
    CLIENT.get(f"{service.base_url}/api/v1/me", headers=alice.headers("read:profile"))
    base, (auth, _) = of_base(service), of_auth(service)

    assert value(base, "svc_pool_connections_max", pool="quick") == 2
    assert 1 <= value(base, "svc_pool_connections", pool="quick") <= 2
    assert value(base, "svc_pool_connections_max", pool="ingest") == 3
    of_receivers = ("receivers", "beats", "receiver_keys")
    assert [value(base, "svc_pool_connections_max", pool=each) for each in of_receivers] == [
        2,
        2,
        1,
    ]
    assert value(auth, "svc_pool_connections_max", pool="slow") == 2
    assert value(base, "svc_queue_places", queue="long_reads") == 5
    assert value(base, "svc_queue_places", queue="exports") == 3
    assert value(base, "svc_queue_requests_waiting", queue="batches") == 0


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
