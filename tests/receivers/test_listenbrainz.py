"""The receiver of ListenBrainz's protocol on a running server, and its own client library."""

import base64
import json
import time
from collections.abc import Iterator
from typing import Any

import httpx2
import liblistenbrainz
import psycopg
import pytest
from liblistenbrainz.client import adapter
from liblistenbrainz.errors import InvalidAuthTokenException, ListenBrainzAPIException

from tests.client import NO_TLS
from tests.conftest import Person
from tests.receivers.connecting import Served, connect, serving

Rows = psycopg.Connection[Any]
KIND = "listenbrainz"
AT = 1_760_000_000


@pytest.fixture(scope="module")
def served(deployment: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server with this receiver alone."""
    with serving(deployment, tmp_path_factory.mktemp("server"), KIND) as running:
        yield running
    # All sessions of the library share its connections, which it never closes.
    adapter.close()


@pytest.fixture
def client(served: Served) -> httpx2.Client:
    return served.client


def listen(listened_at: Any = AT, track: str = "Andromeda") -> dict[str, Any]:
    metadata = {"track_name": track, "artist_name": "Gorillaz", "release_name": "Humanz"}
    return {"listened_at": listened_at, "track_metadata": metadata}


def submit(client: httpx2.Client, token: str, kind: str, *payload: Any) -> httpx2.Response:
    return client.post(
        "/1/submit-listens",
        content=json.dumps({"listen_type": kind, "payload": payload}),
        headers={"Authorization": f"Token {token}"},
    )


def stored(owner: Rows) -> list[tuple[str, int]]:
    return owner.execute(
        "select track, extract(epoch from listened_at)::bigint from music.listen order by 2, 1"
    ).fetchall()


def test_the_client_library_submits_what_was_heard(
    served: Served, owner: Rows, alice: Person
) -> None:
    connected = connect(owner, alice, KIND)
    library = liblistenbrainz.ListenBrainz(str(served.client.base_url))
    library.set_auth_token(connected.key)
    first = liblistenbrainz.Listen(
        "Andromeda", "Gorillaz", AT, additional_info={"duration_ms": 197_000}
    )
    second = liblistenbrainz.Listen("Ascension", "Gorillaz", AT + 200, release_name="Humanz")

    library.submit_playing_now(liblistenbrainz.Listen("Andromeda", "Gorillaz"))
    library.submit_single_listen(first)
    answer = library.submit_multiple_listens([first, second])

    assert answer == {"status": "ok"}
    assert stored(owner) == [("Andromeda", AT), ("Ascension", AT + 200)]
    assert connected.state == (2, None)
    assert connected.refusals == {}


def test_the_client_library_understands_refusals(
    served: Served, owner: Rows, alice: Person
) -> None:
    library = liblistenbrainz.ListenBrainz(str(served.client.base_url))
    with pytest.raises(InvalidAuthTokenException):
        library.set_auth_token("wrong")
    library.set_auth_token(connect(owner, alice, KIND).key + "x", check_validity=False)

    with pytest.raises(ListenBrainzAPIException) as refused:
        library.submit_single_listen(liblistenbrainz.Listen("Andromeda", "Gorillaz", AT))

    assert (refused.value.status_code, refused.value.message) == (
        401,
        "Invalid authorization token.",
    )


def test_the_client_library_reads_what_was_heard_within_14_days(
    served: Served, owner: Rows, alice: Person, bob: Person
) -> None:
    now = int(time.time())
    library = liblistenbrainz.ListenBrainz(str(served.client.base_url))
    library.set_auth_token(connect(owner, bob, KIND, "read:music").key)
    library.submit_single_listen(liblistenbrainz.Listen("Of bob", "Gorillaz", now - 50))
    library.set_auth_token(connect(owner, alice, KIND, "read:music").key)
    library.submit_multiple_listens(
        [
            liblistenbrainz.Listen(f"Track {n}", "Gorillaz", now - 100 * n, release_name="Humanz")
            for n in range(1, 31)
        ]
        + [liblistenbrainz.Listen("Old", "Gorillaz", now - 15 * 86_400)]
    )

    newest = library.get_listens("me")
    before = library.get_listens("me", max_ts=now - 200, count=2)
    after = library.get_listens("me", min_ts=now - 500, count=2)

    assert len(newest) == 25
    assert (newest[0].track_name, newest[0].listened_at) == ("Track 1", now - 100)
    assert (newest[0].artist_name, newest[0].release_name) == ("Gorillaz", "Humanz")
    assert [each.track_name for each in before] == ["Track 3", "Track 4"]
    assert [each.track_name for each in after] == ["Track 3", "Track 4"]
    assert library.get_user_listen_count("me") == 30


def test_reading_needs_permission_and_a_name_selects_nobody(
    client: httpx2.Client, owner: Rows, alice: Person
) -> None:
    allowed = connect(owner, alice, KIND, "read:music").key
    refused = connect(owner, alice, KIND).key

    def status(address: str, token: str = allowed) -> int:
        answer = client.get(address, headers={"Authorization": f"Token {token}"})
        if answer.status_code != 200:
            assert answer.json()["code"] == answer.status_code
        return answer.status_code

    for address in ("/1/user/me/listens", "/1/user/me/listen-count"):
        assert status(address) == status(f"/api/compat/listenbrainz{address}") == 200
        assert status(address, refused) == 403
        assert status(address, "wrong") == 401
        assert client.get(address).status_code == 401
    assert status("/1/user/alice@example.org/listens") == 404
    assert status("/1/user/me/listens?count=0") == 200
    for query in ("count=many", "max_ts=-1", "min_ts=1e300", "max_ts=1&min_ts=2", "count=NaN"):
        assert status(f"/1/user/me/listens?{query}") == 400


def test_a_token_has_several_forms(client: httpx2.Client, owner: Rows, alice: Person) -> None:
    key = connect(owner, alice, KIND).key
    basic = base64.b64encode(f"alice:{key}".encode()).decode()

    for prefix in ("", "/api/compat/listenbrainz"):
        address = f"{prefix}/1/validate-token"
        answers = [
            client.get(address, params={"token": key}),
            *(
                client.get(address, headers={"Authorization": given})
                for given in (f"Token {key}", f"token  {key}", f"Bearer {key}", f"Basic {basic}")
            ),
        ]
        for answer in answers:
            assert answer.json() == {
                "code": 200,
                "message": "Token valid.",
                "valid": True,
                "user_name": "me",
            }


def test_a_wrong_token_is_answered_in_listenbrainz_s_words(
    client: httpx2.Client, owner: Rows, alice: Person
) -> None:
    other = connect(owner, alice, "owntracks").key
    validate, submission = "/1/validate-token", "/1/submit-listens"

    none = client.get(validate)
    wrong = client.get(validate, headers={"Authorization": f"Token {other}"})
    not_submitted = client.post(submission, content=b"{}")
    refused = submit(client, other, "single", listen())

    assert (none.status_code, none.json()["code"]) == (400, 400)
    assert (wrong.status_code, wrong.json()) == (
        200,
        {"code": 200, "message": "Token invalid.", "valid": False},
    )
    assert (not_submitted.status_code, not_submitted.json()["code"]) == (401, 401)
    assert (refused.status_code, refused.json()) == (
        401,
        {"code": 401, "error": "Invalid authorization token."},
    )
    assert stored(owner) == []


def test_many_wrong_tokens_of_an_address_are_not_looked_up(
    client: httpx2.Client, owner: Rows, alice: Person
) -> None:
    validate = "/1/validate-token"
    known, unknown = connect(owner, alice, KIND).key, connect(owner, alice, KIND).key
    assert client.get(validate, params={"token": known}).json()["valid"]
    address = httpx2.HTTPTransport(local_address="127.0.0.2", verify=NO_TLS)

    with httpx2.Client(base_url=client.base_url, transport=address) as other:
        wrong = [other.get(validate, params={"token": f"wrong {n}"}) for n in range(60)]
        refused = other.get(validate, params={"token": unknown})
        taken = other.get(validate, params={"token": known})

    assert {each.status_code for each in wrong} == {200}
    assert (refused.status_code, refused.json()["code"]) == (429, 429)
    assert refused.headers["retry-after"] == "60"
    assert taken.json()["valid"]
    assert client.get(validate, params={"token": unknown}).json()["valid"]


def test_a_player_can_be_a_page_of_any_origin(client: httpx2.Client) -> None:
    origin = {"Origin": "https://player.example"}
    method = {"Access-Control-Request-Method": "POST"}

    for prefix in ("", "/api/compat/listenbrainz"):
        preflight = client.options(f"{prefix}/1/submit-listens", headers=origin | method)
        answer = client.get(f"{prefix}/1/validate-token", headers=origin)

        assert preflight.status_code == 204
        assert "Authorization" in preflight.headers["access-control-allow-headers"]
        assert answer.headers["access-control-allow-origin"] == "*"


def test_a_bad_listen_does_not_keep_out_the_others(
    client: httpx2.Client, owner: Rows, alice: Person
) -> None:
    connected = connect(owner, alice, KIND)
    nameless = listen()
    del nameless["track_metadata"]["track_name"]

    answer = submit(
        client,
        connected.key,
        "import",
        nameless,
        listen(time.time() + 366 * 86_400),
        listen(AT, "x" * 2000),
        listen(AT + 60),
        listen(AT),
        listen(AT + 60),
    )

    assert (answer.status_code, answer.json()) == (200, {"status": "ok"})
    assert stored(owner) == [("Andromeda", AT), ("Andromeda", AT + 60)]
    assert connected.refusals == {
        "missing_track": 1,
        "timestamp_in_future": 1,
        "text_too_long": 1,
    }


def test_a_thousand_of_the_largest_listens_are_taken_at_once(
    client: httpx2.Client, owner: Rows, alice: Person
) -> None:
    key = connect(owner, alice, KIND).key
    listens = [listen(AT + n) for n in range(1000)]
    for each in listens:
        each["track_metadata"]["additional_info"] = {"comment": "x" * 10_000}

    assert submit(client, key, "import", *listens).json() == {"status": "ok"}
    assert len(stored(owner)) == 1000


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"no json", 400),
        (b"[" * 100_000, 400),
        (b'{"listen_type": "single", "payload": [{}, {}]}', 400),
        (b"1" * (11 * 1024 * 1024), 413),
    ],
    ids=("text", "depth", "two", "large"),
)
def test_what_is_no_submission_is_refused_for_good(
    body: bytes, status: int, client: httpx2.Client, owner: Rows, alice: Person
) -> None:
    headers = {"Authorization": f"Token {connect(owner, alice, KIND).key}"}

    answer = client.post("/1/submit-listens", content=body, headers=headers)

    assert (answer.status_code, answer.json()["code"]) == (status, status)
    assert answer.json()["error"]


def test_a_paused_connection_succeeds_and_keeps_nothing(
    client: httpx2.Client, owner: Rows, alice: Person
) -> None:
    connected = connect(owner, alice, KIND)
    connected.pause()

    assert submit(client, connected.key, "single", listen()).json() == {"status": "ok"}
    assert stored(owner) == []
