"""`svc ingest`: a file of events, posted to a server that may be slow, busy or gone."""

import json
import os
import re
import signal
import subprocess
import sys
import threading
import tracemalloc
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx2
import pytest
from click.testing import CliRunner, Result

from resourceserver.trackers import posting
from resourceserver.trackers.commands import ingest
from resourceserver.trackers.posting import Poster, PostingError, Rejection
from shared.settings import Settings
from tests.conftest import Person
from tests.ingest.conftest import HOUR, SCOPE, numbered
from tests.waiting import wait_for


def run(*words: str, address: str, token: str, stdin: bytes | None = None) -> Result:
    return CliRunner().invoke(
        ingest,
        [*words, "--stream", "app-sessions", "--token", token],
        input=stdin,
        obj=replace(Settings(), base_url=address),
    )


def lines(events: list[dict[str, Any]]) -> bytes:
    return b"".join(json.dumps(event).encode() + b"\n" for event in events)


# Against the real server


def test_a_file_is_posted_in_batches_and_again_as_duplicates(
    tmp_path: Path, address: str, alice: Person
) -> None:
    file = tmp_path / "events.json"
    file.write_text(json.dumps(numbered(range(2500))))
    token = alice.token(SCOPE)

    first = run(str(file), address=address, token=token)
    second = run(str(file), address=address, token=token)

    assert (first.exit_code, first.stdout) == (0, "accepted 2500, duplicates 0, rejected 0\n")
    assert (second.exit_code, second.stdout) == (0, "accepted 0, duplicates 2500, rejected 0\n")
    assert first.stderr == second.stderr == ""


@pytest.mark.parametrize(
    "content",
    [
        json.dumps(numbered([1, 2])).encode(),
        json.dumps({"events": numbered([1, 2]), "client": {"name": "x/1"}}, indent=2).encode(),
        lines(numbered([1, 2])),
        b"\n\n" + lines(numbered([1, 2])).replace(b"\n", b"\r\n\r\n"),
        b"\xef\xbb\xbf" + json.dumps(numbered([1, 2])).encode(),
    ],
)
def test_files_may_have_several_forms_and_come_from_standard_input(
    address: str, alice: Person, content: bytes
) -> None:
    done = run("-", address=address, token=alice.token(SCOPE), stdin=content)

    assert (done.exit_code, done.stdout) == (0, "accepted 2, duplicates 0, rejected 0\n")


def test_the_clients_name_is_that_of_the_file_or_of_the_command(
    address: str, alice: Person
) -> None:
    token = alice.token(SCOPE)
    request = json.dumps({"client": {"name": "x/1"}, "events": numbered([1])}).encode()

    run("-", address=address, token=token, stdin=request)
    run("-", address=address, token=token, stdin=lines(numbered([2])))

    sources = alice.connection.execute(
        "select source from activity.app_session order by idempotency_key"
    ).fetchall()
    assert sources == [("x/1",), ("svc-ingest/1.0.0",)]


def test_the_first_rejected_events_are_named_by_their_place_in_the_file(
    tmp_path: Path, address: str, alice: Person
) -> None:
    file = tmp_path / "events.ndjson"
    file.write_bytes(lines([*numbered(range(1000)), *[HOUR | {"app": ""}] * 12]))

    done = run(str(file), address=address, token=alice.token(SCOPE))

    assert done.exit_code == 1
    assert done.stdout == "accepted 1000, duplicates 0, rejected 12\n"
    assert done.stderr.splitlines() == [
        *[f"event {number}: empty_string: app: is blank" for number in range(1000, 1010)],
        "... and 2 more",
    ]


def test_numbers_reach_the_server_unchanged(address: str, alice: Person) -> None:
    metadata = '{"exact":0.1000000000000000055511151231257827,"huge":1e400}'
    event = f'{json.dumps(HOUR)[:-1]},"metadata":{metadata}}}'.encode()

    done = run("-", address=address, token=alice.token(SCOPE), stdin=event)

    assert done.stdout == "accepted 0, duplicates 0, rejected 1\n"
    assert "event 0: invalid_value: metadata: holds a number" in done.stderr


def test_an_empty_file_is_no_error(address: str, alice: Person) -> None:
    done = run("-", address=address, token=alice.token(SCOPE), stdin=b"[]")

    assert (done.exit_code, done.stdout) == (0, "accepted 0, duplicates 0, rejected 0\n")


# An export


def load(content: bytes, *words: str, address: str, token: str) -> Result:
    return CliRunner().invoke(
        ingest,
        ["-", "--token", token, *words],
        input=content,
        obj=replace(Settings(), base_url=address),
    )


CODING = {
    "idempotency_key": "laptop:43",
    "started_at": "2025-06-16T09:00:00Z",
    "duration_ms": 1_800_000,
    "project": "svc",
    "language": "Python",
    "lines_added": 12,
    "metadata": {"exact": 0.5, "deep": [{"a": None}]},
}


def export(address: str, token: str) -> bytes:
    answer = httpx2.get(
        f"{address}/api/v1/export", headers={"Authorization": f"Bearer {token}"}
    ).raise_for_status()
    return answer.content


def events_of(content: bytes) -> dict[str, list[dict[str, Any]]]:
    """Return the sessions of an export without the members that differ between accounts."""
    resources = json.loads(content)["resources"]
    return {
        stream: [
            {name: value for name, value in row.items() if name not in ("id", "source")}
            for row in resources[stream]
        ]
        for stream in ("app_sessions", "coding_sessions")
    }


def test_the_accounts_own_export_has_only_duplicates(address: str, alice: Person) -> None:
    token = alice.token()
    platform = {"platform": "linux", "device": "laptop", "utc_offset": "+02:00"}
    event = HOUR | platform | {"url": "https://example.org/a?secret=1", "idle": True}
    run("-", address=address, token=token, stdin=json.dumps([event]).encode())
    load(json.dumps([CODING]).encode(), "--stream=coding-sessions", address=address, token=token)
    content = export(address, token)

    done = load(content, address=address, token=token)

    assert (done.exit_code, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        "app-sessions: accepted 0, duplicates 1, rejected 0",
        "coding-sessions: accepted 0, duplicates 1, rejected 0",
    ]


def test_an_export_is_the_same_in_another_account(address: str, alice: Person, bob: Person) -> None:
    platform = {"platform": "linux", "device": "laptop", "utc_offset": "+02:00"}
    event = HOUR | platform | {"title": "a", "category": "Writing", "metadata": {"a": [1.50]}}
    token = alice.token()
    run("-", address=address, token=token, stdin=json.dumps([event]).encode())
    load(json.dumps([CODING]).encode(), "--stream=coding-sessions", address=address, token=token)
    alices = export(address, token)

    done = load(alices, address=address, token=bob.token())

    assert done.exit_code == 0
    bobs = events_of(export(address, bob.token()))
    assert bobs == events_of(alices)
    assert [len(rows) for rows in bobs.values()] == [1, 1]


def test_one_stream_of_an_export_can_be_selected(address: str, alice: Person) -> None:
    content = json.dumps(
        {
            "exported_at": "2025-06-16T09:00:00.000Z",
            "resources": {
                "goals": [{"id": "g"}],
                "app_sessions": [HOUR],
                "coding_sessions": [CODING],
            },
            "omitted": [],
        },
        indent=2,
    ).encode()
    token = alice.token("ingest:coding_sessions")

    done = load(content, "--stream", "coding-sessions", address=address, token=token)

    assert (done.exit_code, done.stdout) == (0, "accepted 1, duplicates 0, rejected 0\n")


def test_events_of_other_files_need_the_name_of_their_stream() -> None:
    done = load(b"[]", address="http://127.0.0.1:1", token="any")

    assert done.exit_code == 1
    assert done.stderr == ("Error: - is not an export: name the stream with --stream\n")


def test_an_incomplete_export_is_refused() -> None:
    whole = json.dumps(
        {
            "exported_at": "2025-06-16T09:00:00.000Z",
            "resources": {"goals": [{"a": [1]}], "app_sessions": [HOUR], "coding_sessions": []},
            "omitted": [],
        }
    ).encode()

    for length in range(1, len(whole)):
        with pytest.raises(PostingError, match="is not JSON: "):
            posting.parse_events(whole[:length])
    assert [found.stream for found in posting.parse_events(whole)] == [
        "app-sessions",
        "coding-sessions",
    ]


def test_only_the_sessions_of_an_export_are_kept_in_memory() -> None:
    beat = '{"recorded_at":"2025-06-16T09:00:00.000Z","bpm":60,"source":"watch","device":"wrist"}'
    content = (
        '{"exported_at":"2025-06-16T09:00:00.000Z","resources":{"app_sessions":[1,2],'
        f'"heart_rate":[{",".join([beat] * 40_000)}]}}}}'
    ).encode()

    tracemalloc.start()
    found = posting.parse_events(content)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert found == [posting.EventList(["1", "2"], stream="app-sessions")]
    # The text itself, which is as long as the file, and little else.
    assert len(content) < peak < 1.2 * len(content)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"[1,", "-: is not JSON: Expecting value in line 1"),
        (b"[1 2]", "-: is not JSON: Expecting ',' delimiter in line 1"),
        (b"[1] 2", "-: is not JSON: Extra data in line 1"),
        (b'{"a":1}\n{"a":\n', "-: is not JSON: Expecting value in line 3"),
        (b"[NaN]", "-: is not JSON: NaN is not a number"),
        (b'["\xff"]', "-: is not UTF-8 at byte 2"),
        (b'{"events":5}', "-: events: must be an array"),
        (b"[" * 100_000, "-: is nested too deeply"),
    ],
)
def test_a_bad_file_is_one_line_and_nothing_is_sent(content: bytes, message: str) -> None:
    done = run("-", address="http://127.0.0.1:1", token="any", stdin=content)

    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr == f"Error: {message}\n"


def test_a_missing_file_is_one_line() -> None:
    done = run("/nowhere/events.json", address="http://127.0.0.1:1", token="any")

    assert (done.exit_code, done.stderr) == (
        1,
        "Error: /nowhere/events.json: No such file or directory\n",
    )


def test_a_bad_token_is_one_line(address: str, alice: Person) -> None:
    token = alice.token(SCOPE)
    other_scope = alice.token("read:activity")
    alice.connection.execute(
        "update oauth.access_token set revoked_at = now() where last_four = %s", [token[-4:]]
    )
    event = lines([HOUR])

    mistyped = run("-", address=address, token=token[:-1], stdin=event)
    revoked = run("-", address=address, token=token, stdin=event)
    too_weak = run("-", address=address, token=other_scope, stdin=event)

    assert mistyped.stderr == "Error: this is not a token of this service; is it complete?\n"
    assert revoked.stderr.startswith("Error: the server refuses the token: the token is unknown")
    assert revoked.stderr.count("\n") == 1
    assert (
        too_weak.stderr == "Error: the server refuses the token: ingest:app_sessions is required\n"
    )
    assert mistyped.exit_code == revoked.exit_code == too_weak.exit_code == 1
    assert revoked.stdout == "accepted 0, duplicates 0, rejected 0, not sent 1\n"


NO_SCHEME = "the server's address must begin with http:// or https:// and a host"
TOO_MUCH = "the server's address must have no user, password, query or fragment"


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("localhost:8401", NO_SCHEME),
        ("ftp://localhost", NO_SCHEME),
        ("http://", NO_SCHEME),
        ("http://[::1", "the server's address is invalid: Invalid port: ':1'"),
        ("http://alice:secret@127.0.0.1:1", TOO_MUCH),
        ("http://@127.0.0.1:1", TOO_MUCH),
        ("http://127.0.0.1:1/?x=1", TOO_MUCH),
        ("http://127.0.0.1:1/#top", TOO_MUCH),
        (
            f"http://{'a' * 70}.org",
            f"cannot send a request to http://{'a' * 70}.org: encoding with 'idna' codec failed"
            " (UnicodeError: label empty or too long)",
        ),
    ],
)
def test_a_wrong_url_is_one_line(alice: Person, url: str, message: str) -> None:
    done = run("-", "--url", url, address="", token=alice.token(SCOPE), stdin=lines([HOUR]))

    assert (done.exit_code, done.stderr) == (1, f"Error: {message}\n")


def test_an_address_of_another_service_is_one_line(address: str, alice: Person) -> None:
    done = run(
        "-", "--url", f"{address}/other", address="", token=alice.token(SCOPE), stdin=lines([HOUR])
    )

    assert done.exit_code == 1
    assert done.stderr == (
        f"Error: {address}/other/api/v1/ingest/app-sessions is not an ingest endpoint:"
        " it answered 404\n"
    )


def test_an_unreachable_server_is_retried_as_often_as_the_option_says(alice: Person) -> None:
    done = run(
        "-",
        "--retries",
        "1",
        address="http://127.0.0.1:1",
        token=alice.token(SCOPE),
        stdin=lines([HOUR]),
    )

    assert done.exit_code == 1
    assert done.stdout == "accepted 0, duplicates 0, rejected 0, not sent 1\n"
    assert re.fullmatch(
        r"http://127\.0\.0\.1:1 cannot be reached: .*refused; trying again in [12] s\n"
        r"Error: http://127\.0\.0\.1:1 cannot be reached: .*refused\n",
        done.stderr,
    )


# Against a server whose answers a test chooses


@dataclass
class Script:
    """The answers of a server, one after the other, and the requests that it received."""

    answers: list[tuple[int, dict[str, str], Any]] = field(default_factory=list)
    bodies: list[Any] = field(default_factory=list)
    address: str = ""


@pytest.fixture
def script() -> Iterator[Script]:
    script = Script()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            script.bodies.append(
                json.loads(self.rfile.read(int(self.headers["Content-Length"])))["events"]
            )
            status, headers, body = script.answers.pop(0)
            if status == 0:
                return
            content = body if isinstance(body, bytes) else json.dumps(body).encode()
            self.send_response(status)
            for name, value in (headers | {"Content-Length": str(len(content))}).items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: Any) -> None:
            return

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        script.address = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield script
        server.shutdown()
        thread.join()


@dataclass
class Trial:
    """Posts to the scripted server without really waiting."""

    address: str
    waits: list[float] = field(default_factory=list)
    said: list[str] = field(default_factory=list)

    def post(self, events: list[str], retries: int = 5) -> list[posting.Result]:
        """Return the results of posting ``events``."""
        with httpx2.Client(base_url=self.address) as http:
            poster = Poster(http, "/", "null", retries, self.said.append, self.waits.append)
            return list(poster.post(events))


def accepted(count: int, rejected: int = 0) -> tuple[int, dict[str, str], Any]:
    entries = [{"index": at, "code": "c", "message": "m"} for at in range(rejected)]
    return 200, {}, {"accepted": count, "duplicates": 0, "rejected": entries}


TOO_LARGE: Any = (
    413,
    {},
    {"error": "payload_too_large", "message": "the body is larger than 40 MiB"},
)


def test_temporary_failures_are_retried_after_growing_pauses(script: Script) -> None:
    trial = Trial(script.address)
    script.answers = [(503, {}, b""), (429, {}, b""), (0, {}, b""), (500, {}, b""), accepted(1)]

    results = trial.post(["1"])

    assert results == [posting.Result(1, 1, 0, [])]
    assert script.bodies == [[1]] * 5
    for wait, least in zip(trial.waits, [1, 2, 4, 8], strict=True):
        assert least <= wait <= 1.5 * least
    assert [line.split(" ", 1)[1].split(";")[0] for line in trial.said] == [
        "answered 503: Service Unavailable",
        "answered 429: Too Many Requests",
        "cannot be reached: Server disconnected without sending a response.",
        "answered 500: Internal Server Error",
    ]


@pytest.mark.parametrize(
    ("header", "least", "most"),
    [
        ("7", 7, 7),
        ("0", 1, 1.5),
        ("99999999999999999999", 300, 300),
        ("Fri, 31 Dec 2100 23:59:59 GMT", 300, 300),
        ("Fri, 31 Dec 1999 23:59:59 -0000", 1, 1.5),
        ("soon", 1, 1.5),
    ],
)
def test_retry_after_of_the_server_is_respected_up_to_a_limit(
    script: Script, header: str, least: float, most: float
) -> None:
    trial = Trial(script.address)
    script.answers = [(503, {"Retry-After": header}, b""), accepted(1)]

    trial.post(["1"])

    assert least <= trial.waits[0] <= most


def test_an_unreadable_answer_is_not_retried(script: Script) -> None:
    trial = Trial(script.address)
    script.answers = [(200, {"Content-Encoding": "gzip"}, b"no gzip")]

    with pytest.raises(PostingError, match="cannot send a request to "):
        trial.post(["1"])

    assert trial.waits == []


def test_a_server_that_is_down_for_days_is_tried_every_five_minutes(script: Script) -> None:
    trial = Trial(script.address)
    script.answers = [*[(503, {}, b"")] * 1100, accepted(1)]

    trial.post(["1"], retries=posting.FOREVER)

    assert set(trial.waits[9:]) == {300.0}
    assert len(trial.waits) == 1100


def test_the_last_failure_ends_the_command(script: Script) -> None:
    trial = Trial(script.address)
    script.answers = [(503, {}, {"error": "x", "message": "the database does not answer"})] * 3

    with pytest.raises(PostingError, match=r"answered 503: the database does not answer$"):
        trial.post(["1"], retries=2)

    assert len(trial.waits) == 2


def test_a_batch_that_is_too_large_is_halved_and_keeps_its_indexes(script: Script) -> None:
    script.answers = [TOO_LARGE, accepted(1, 1), TOO_LARGE, TOO_LARGE, accepted(0, 1)]

    results = Trial(script.address).post(["1", "2", "3", "4"])

    assert script.bodies == [[1, 2, 3, 4], [1, 2], [3, 4], [3], [4]]
    assert [result.rejected for result in results] == [
        [Rejection(0, "c", "m")],
        [Rejection(2, "payload_too_large", "the body is larger than 40 MiB")],
        [Rejection(3, "c", "m")],
    ]
    assert sum(result.sent for result in results) == 4


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ((200, {}, b"<html>"), "is not an ingest endpoint$"),
        ((200, {}, []), "is not an ingest endpoint$"),
        ((308, {"Location": "https://x"}, b""), "has moved to https://x$"),
        ((400, {}, {"error": "invalid_request"}), "answered 400: invalid_request$"),
        ((418, {}, b"{"), "answered 418: I'm a Teapot$"),
    ],
)
def test_lasting_failures_end_the_command(script: Script, answer: Any, message: str) -> None:
    trial = Trial(script.address)
    script.answers = [answer]

    with pytest.raises(PostingError, match=message):
        trial.post(["1"])

    assert trial.waits == []


def test_an_interrupt_ends_the_command_with_a_summary(script: Script, alice: Person) -> None:
    script.answers = [accepted(1000), (503, {"Retry-After": "60"}, b"")]
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "deploy.cli", "ingest", "-", "--stream", "app-sessions"],
        env=os.environ | {"SVC_TOKEN": alice.token(SCOPE), "SVC_BASE_URL": script.address},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdin
    process.stdin.write(json.dumps(numbered(range(1001))))
    process.stdin.close()
    wait_for(lambda: len(script.bodies) == 2, "the second batch")

    process.send_signal(signal.SIGINT)

    assert process.wait(timeout=60) == 1
    assert process.stdout
    assert process.stderr
    assert process.stdout.read() == "accepted 1000, duplicates 0, rejected 0, not sent 1\n"
    assert process.stderr.read().splitlines()[-1] == "Error: interrupted"
    process.stdout.close()
    process.stderr.close()
