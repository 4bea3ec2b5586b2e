"""The receivers of OwnTracks, Overland, OsmAnd and the like, on a running server."""

import asyncio
import base64
import gzip
import json
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from datetime import UTC, datetime
from typing import Any, cast

import httpx2
import psycopg
import pytest
from starlette.routing import Router

from resourceserver.derived import derivation
from resourceserver.ingest.route import EndedEarly
from resourceserver.integrations.receivers import overland
from resourceserver.integrations.receivers.receiving import Receiving
from resourceserver.timeline import rounds
from shared import database
from shared.settings import Settings
from shared.storage import Storage
from tests.conftest import Person
from tests.receivers.connecting import Served, connect, serving

Rows = psycopg.Connection[Any]

EIGHT_S = 1_750_060_800
OWNTRACKS, OVERLAND, OSMAND = "owntracks", "overland", "osmand"
KINDS = (OWNTRACKS, OVERLAND, OSMAND)
SUCCESS = {OWNTRACKS: b"[]", OVERLAND: b'{"result":"ok"}', OSMAND: b""}


@pytest.fixture(scope="module")
def served(deployment: Settings, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server with the receivers of locations."""
    with serving(deployment, tmp_path_factory.mktemp("server"), *KINDS) as running:
        yield running


@pytest.fixture
def client(served: Served) -> httpx2.Client:
    return served.client


def place(kind: str, second: int = 0, latitude: float = 52.5) -> bytes:
    """Return the message of a place, as its application sends it."""
    at = EIGHT_S + second
    longitude = 13.4
    match kind:
        case "owntracks":
            content: Any = {"_type": "location", "lat": latitude, "lon": longitude, "tst": at}
        case "overland":
            point = {"type": "Point", "coordinates": [longitude, latitude]}
            content = {
                "locations": [
                    {"type": "Feature", "geometry": point, "properties": {"timestamp": at}}
                ]
            }
        case _:
            coordinates = {"latitude": latitude, "longitude": longitude}
            content = {"location": {"timestamp": at, "coords": coordinates}}
    return json.dumps(content).encode()


def post(
    client: httpx2.Client, kind: str, key: str, body: bytes, **headers: str
) -> httpx2.Response:
    """Send a message as its application does."""
    if kind == OSMAND:
        return client.post(f"/receive/osmand/{key}", content=body, headers=headers)
    return client.post(
        f"/receive/{kind}", content=body, headers={"Authorization": f"Bearer {key}"} | headers
    )


def stored(owner: Rows) -> list[tuple[str, int, float]]:
    """Return the source, the second and the latitude of each point."""
    return owner.execute(
        "select source, extract(epoch from recorded_at)::bigint - %s, latitude"
        " from location.point order by recorded_at",
        [EIGHT_S],
    ).fetchall()


@pytest.mark.parametrize("kind", KINDS)
def test_a_place_is_stored_once_in_any_order(
    kind: str, client: httpx2.Client, owner: Rows, alice: Person
) -> None:
    connected = connect(owner, alice, kind)

    for second in (60, 0, 60, 30):
        answer = post(client, kind, connected.key, place(kind, second))
        assert (answer.status_code, answer.content) == (200, SUCCESS[kind])

    assert stored(owner) == [(kind, 0, 52.5), (kind, 30, 52.5), (kind, 60, 52.5)]
    assert connected.state == (3, None)


@pytest.mark.parametrize("kind", KINDS)
def test_a_wrong_key_stores_nothing(
    kind: str, client: httpx2.Client, owner: Rows, alice: Person
) -> None:
    other = connect(owner, alice, "health")

    for key in (other.key, "svc_ik_short", alice.token()):
        assert post(client, kind, key, place(kind)).status_code == 401

    assert stored(owner) == []


def test_owntracks_has_its_key_in_either_field_of_basic(
    client: httpx2.Client, owner: Rows, alice: Person
) -> None:
    key = connect(owner, alice, OWNTRACKS).key

    for second, fields in enumerate((f"alice:{key}", f"{key}:", f"{key}:phone", f":{key}")):
        given = base64.b64encode(fields.encode()).decode()
        answer = client.post(
            "/receive/owntracks",
            content=place(OWNTRACKS, second),
            headers={"Authorization": f"Basic {given}"},
        )
        assert answer.status_code == 200
    none = client.post("/receive/owntracks", content=place(OWNTRACKS, 9))

    assert none.status_code == 401
    assert len(stored(owner)) == 4


def test_the_header_of_owntracks_names_the_device(
    client: httpx2.Client, owner: Rows, alice: Person
) -> None:
    key = connect(owner, alice, OWNTRACKS).key

    headers = {b"X-Limit-U": b"alice", b"X-Limit-D": "Zo\u00eb\u2019s phone".encode()}
    client.post(
        "/receive/owntracks",
        content=place(OWNTRACKS),
        headers={b"Authorization": f"Bearer {key}".encode()} | headers,
    )

    assert owner.execute("select name from location.device").fetchall() == [
        ("Zo\u00eb\u2019s phone",)
    ]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("body", "headers", "reason"),
    [
        (b"\xff\xfe\x00", {}, None),
        (b"[" * 200_000, {}, "not_json"),
        (b"[1, 2]", {}, "not_an_object"),
        (b"1" * (5 * 1024 * 1024), {}, "payload_too_large"),
        (b"no gzip", {"Content-Encoding": "gzip"}, "invalid_json"),
        (gzip.compress(b" " * 50_000_000), {"Content-Encoding": "gzip"}, "payload_too_large"),
        (b"{}", {"Content-Encoding": "br"}, "unsupported_media_type"),
    ],
    ids=("bytes", "depth", "array", "large", "damaged", "bomb", "encoding"),
)
def test_what_can_never_be_taken_does_not_stop_what_follows(
    kind: str,
    body: bytes,
    headers: dict[str, str],
    reason: str | None,
    client: httpx2.Client,
    owner: Rows,
    alice: Person,
) -> None:
    connected = connect(owner, alice, kind)

    refused = post(client, kind, connected.key, body, **headers)
    taken = post(client, kind, connected.key, place(kind))

    assert (refused.status_code, refused.content) == (200, SUCCESS[kind])
    assert (taken.status_code, len(stored(owner))) == (200, 1)
    assert sum(connected.refusals.values()) == 1
    if reason is not None:
        assert connected.refusals == {reason: 1}


@pytest.mark.parametrize("kind", KINDS)
def test_a_message_in_gzip_is_read(
    kind: str, client: httpx2.Client, owner: Rows, alice: Person
) -> None:
    key = connect(owner, alice, kind).key

    body = gzip.compress(place(kind))
    post(client, kind, key, body, **{"Content-Encoding": "gzip"})

    assert len(stored(owner)) == 1


def test_encrypted_messages_are_a_problem_until_a_place_arrives(
    client: httpx2.Client, owner: Rows, alice: Person
) -> None:
    connected = connect(owner, alice, OWNTRACKS)

    encrypted = json.dumps({"_type": "encrypted", "data": "LpD2S8"}).encode()
    answer = post(client, OWNTRACKS, connected.key, encrypted)
    failing = connected.state
    post(client, OWNTRACKS, connected.key, json.dumps({"_type": "transition"}).encode())
    still = connected.state
    post(client, OWNTRACKS, connected.key, place(OWNTRACKS))

    assert answer.content == b"[]"
    assert failing == still == (0, "encrypted_messages")
    assert connected.state == (1, None)


@pytest.mark.parametrize("kind", KINDS)
def test_a_paused_connection_succeeds_and_keeps_nothing(
    kind: str, client: httpx2.Client, owner: Rows, alice: Person
) -> None:
    connected = connect(owner, alice, kind)
    connected.pause()

    answer = post(client, kind, connected.key, place(kind))

    assert (answer.status_code, answer.content) == (200, SUCCESS[kind])
    assert stored(owner) == []


def test_a_full_batch_of_overland_is_taken_but_for_what_is_no_place(
    client: httpx2.Client, owner: Rows, alice: Person
) -> None:
    connected = connect(owner, alice, OVERLAND)
    locations = [
        json.loads(place(OVERLAND, second))["locations"][0] | {"padding": "x" * 1000}
        for second in range(1000)
    ]
    locations[500]["geometry"] = {"type": "Polygon", "coordinates": []}
    batch = {"locations": locations, "current": locations[0], "trip": {"distance": 12}}

    answer = post(client, OVERLAND, connected.key, json.dumps(batch).encode())

    assert answer.content == b'{"result":"ok"}'
    assert len(stored(owner)) == 999
    assert connected.refusals == {"no_point": 1}


def test_osmand_sends_a_query_or_a_form(client: httpx2.Client, owner: Rows, alice: Person) -> None:
    address = f"/receive/osmand/{connect(owner, alice, OSMAND).key}"

    client.get(address, params={"lat": 52.5, "lon": 13.4, "timestamp": EIGHT_S})
    client.post(address, params={"location": "52.6,13.4", "timestamp": EIGHT_S + 1})
    client.post(address, data={"lat": 52.7, "lon": 13.4, "timestamp": EIGHT_S + 2})

    assert stored(owner) == [(OSMAND, 0, 52.5), (OSMAND, 1, 52.6), (OSMAND, 2, 52.7)]


def test_looking_at_an_address_stores_nothing(
    client: httpx2.Client, owner: Rows, alice: Person
) -> None:
    connected = connect(owner, alice, OSMAND)
    address = f"/receive/osmand/{connected.key}"

    head = client.head(address, params={"lat": 52.5, "lon": 13.4, "timestamp": EIGHT_S})
    opened = client.get(address)
    options = client.options(address)
    wrong = client.head("/receive/osmand/svc_ik_short")

    assert [head.status_code, opened.status_code, options.status_code] == [200, 200, 405]
    assert wrong.status_code == 401
    assert stored(owner) == []
    assert connected.refusals == {}


def test_the_log_has_no_key_of_an_address(served: Served, owner: Rows, alice: Person) -> None:
    key = connect(owner, alice, OSMAND).key
    requests = [
        served.client.get(f"/receive/osmand/{key}", params={"lat": 52.5, "token": "inquery"}),
        served.client.post(f"/receive/osmand/{key}", content=b"{" * 100),
        served.client.delete(f"/receive/osmand/{key}"),
        served.client.get(f"/receive/osmand/{key}/more"),
        served.client.get(f"/receive/osmand/{key}x"),
    ]

    log = served.log.read_text()

    assert [each.status_code for each in requests] == [200, 200, 405, 404, 401]
    for each in requests[:2]:
        line = re.search(f"request_id={each.headers['x-request-id']} .*", log)
        assert line is not None
        assert "route=receive_osmand " in line[0]
    assert key not in log
    assert "inquery" not in log


def test_owntracks_is_never_refused_for_sending_much(
    client: httpx2.Client, owner: Rows, alice: Person
) -> None:
    # The iPhone throws away what is answered with 429, and keeps what is answered with 503.
    keys = {kind: connect(owner, alice, kind).key for kind in (OWNTRACKS, OVERLAND)}

    with ThreadPoolExecutor(32) as threads:
        with owner.transaction():
            owner.execute("lock table location.point in access exclusive mode")
            waiting = [
                threads.submit(post, client, OVERLAND, keys[OVERLAND], place(OVERLAND, second))
                for second in range(18)
            ]
            refused = next(as_completed(waiting)).result()
            later = threads.submit(
                post, client, OWNTRACKS, keys[OWNTRACKS], place(OWNTRACKS)
            ).result()
        answers = sorted(each.result().status_code for each in waiting)

    assert (refused.status_code, later.status_code) == (429, 503)
    assert "retry-after" in later.headers
    assert answers == [200] * 17 + [429]
    assert len(stored(owner)) == 17


def test_a_message_that_ends_early_is_not_counted(
    deployment: Settings, owner: Rows, alice: Person
) -> None:
    connected = connect(owner, alice, OVERLAND)
    scope = {
        "type": "http",
        "method": "POST",
        "path": "/receive/overland",
        "query_string": b"",
        "headers": [(b"authorization", f"Bearer {connected.key}".encode())],
    }
    pieces: list[dict[str, Any]] = [
        {"type": "http.request", "body": b'{"locations": [', "more_body": True},
        {"type": "http.disconnect"},
    ]

    async def receive() -> dict[str, Any]:
        return pieces.pop(0)

    async def send(_: Any) -> None:
        pytest.fail("nobody is there to get an answer")

    async def request() -> None:
        receiving = Receiving.to(deployment, Storage())
        try:
            await Router(overland.routes(receiving, cast("Any", None)))(scope, receive, send)
        finally:
            await receiving.close()

    with pytest.raises(EndedEarly):
        asyncio.run(request())

    assert connected.refusals == {}


def test_a_late_place_changes_the_visits_of_its_day(
    deployment: Settings, client: httpx2.Client, owner: Rows, alice: Person
) -> None:
    key = connect(owner, alice, OVERLAND).key

    def send(*minutes: int) -> None:
        locations = [json.loads(place(OVERLAND, 60 * minute))["locations"][0] for minute in minutes]
        post(client, OVERLAND, key, json.dumps({"locations": locations}).encode())

    async def derive() -> None:
        async with rounds.connected(database.login(deployment, "worker")) as worker:
            await derivation.derive(worker, alice.user_id)

    def visits() -> list[tuple[int, int]]:
        return owner.execute(
            "select extract(epoch from started_at - %(eight)s)::integer / 60,"
            " extract(epoch from ended_at - %(eight)s)::integer / 60"
            " from location.event where source = 'derived' order by started_at",
            {"eight": datetime.fromtimestamp(EIGHT_S, UTC)},
        ).fetchall()

    send(0, 5, 10)
    asyncio.run(derive())
    early = visits()
    send(20, 15)
    asyncio.run(derive())

    assert early == [(0, 10)]
    assert visits() == [(0, 20)]
