"""What pulls of code hosts and of music write, as the endpoints answer it."""

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import psycopg
import pytest
from starlette.testclient import TestClient

from resourceserver.integrations.formats.git import GIT_LOG
from resourceserver.integrations.formats.lastfm import CSV
from resourceserver.integrations.formats.listenbrainz import LINES
from resourceserver.integrations.pulls import github, gitlab, lastfm, listenbrainz
from resourceserver.integrations.pulls.pulling import Pull
from resourceserver.integrations.pulls.turn import Pulls
from shared import sealing
from shared.sealing import Opener
from shared.settings import Settings
from tests import connecting
from tests.conftest import Person
from tests.connecting import Connected, connect, state
from tests.integrations.bringing import Importer, counts
from tests.pulls import test_github, test_gitlab, test_lastfm, test_listenbrainz
from tests.pulls.pulled import Answer, Answering, Call, service

Rows = psycopg.Connection[Any]

PRIVATE: Final = sealing.new_private_key()


class Worker:
    """The pulls of a worker from services of the test."""

    def __init__(self, deployment: Settings, owner: Rows, person: Person) -> None:
        self._deployment, self._owner, self._person = deployment, owner, person
        self._within = ExitStack()
        self._pulls: dict[str, Pulls] = {}

    def connect(
        self,
        kind: str,
        answering: Answering,
        pull: Callable[[str], Pull],
        settings: Mapping[str, str] = MappingProxyType({}),
        secrets: Mapping[str, str] = MappingProxyType({}),
    ) -> Connected:
        """Connect the person to a service that answers like this; ``pull`` gets its address."""
        running = self._within.enter_context(service(answering))
        chosen: dict[str, Any] = {
            name: each.format(address=running.address) for name, each in settings.items()
        }
        connected = connect(self._owner, self._person, kind, **chosen)
        connecting.seal(self._owner, self._person, connected, PRIVATE, secrets)
        by_kind: dict[str, Pull] = {kind: pull(running.address)}
        fetch = running.host.fetcher().fetch
        self._pulls[kind] = Pulls.to(self._deployment, by_kind, Opener([PRIVATE]), fetch)
        self._within.callback(self._pulls[kind].close)
        return connected

    def pull(self, kind: str) -> str:
        """Pull once; return what the log says."""
        self._owner.execute("update profile.connection set next_pull_at = now()")
        return self._pulls[kind].take(self._person.user_id, threading.Event()).line

    def close(self) -> None:
        self._within.close()


@pytest.fixture
def worker(deployment: Settings, owner: Rows, alice: Person) -> Iterator[Worker]:
    own = Worker(deployment, owner, alice)
    yield own
    own.close()


@pytest.fixture
def importer(deployment: Settings, alice: Person) -> Importer:
    """Imports of alice's files."""
    return Importer(deployment, alice)


def ask(api: TestClient, person: Person, path: str, scope: str) -> list[dict[str, Any]]:
    params = {"from": "2026-01-01T00:00:00Z", "to": "2026-02-01T00:00:00Z"}
    answer = api.get(path, params=params, headers=person.headers(scope))
    assert answer.status_code == 200, answer.text
    data: list[dict[str, Any]] = answer.json()["data"]
    return data


ACTIVITY: Final = "/api/v1/codehost/activity"


def connect_github(worker: Worker, answering: Answering) -> Connected:
    return worker.connect(
        "github",
        answering,
        lambda address: partial(github.pull, address=address + "/graphql"),
        secrets={"token": test_github.TOKEN},
    )


def test_commits_and_pull_requests_of_github(
    worker: Worker, owner: Rows, api: TestClient, alice: Person, bob: Person
) -> None:
    hub = test_github.GitHub()
    hub.own = {"svc": "2026-01-14T11:00:00Z"}
    earlier = test_github.commit(2, "2026-01-13T10:00:00Z", message="a\0b \ud800")
    hub.commits = {"svc": [test_github.commit(1), earlier]}
    hub.authored = [test_github.change(7)]
    connected = connect_github(worker, hub)

    first = worker.pull("github")
    again = worker.pull("github")

    # A half of a pair of surrogates is no text.
    assert first.endswith("read=3 new=2 changed=0")
    assert again.endswith("new=0 changed=0")
    row = state(owner, connected)
    assert (row["reached"], row["record_count"]) == ("live", 2)
    commit, change = ask(api, alice, ACTIVITY, "read:code")
    assert commit | {"id": None} == {
        "id": None,
        "type": "commit",
        "action": "pushed",
        "occurred_at": "2026-01-14T08:00:00.000Z",
        "provider": "github",
        "repository": {"name": "alice/svc", "private": False},
        "title": "Change 1",
        "url": f"https://github.com/alice/svc/commit/{test_github.sha(1)}",
        "ref": "main",
        "sha": test_github.sha(1),
        "number": None,
        "state": None,
        "additions": 5,
        "deletions": 2,
        "changed_files": 1,
    }
    assert [change[name] for name in ("type", "action", "number", "state")] == [
        *("pull_request", "opened", 7, "open")
    ]
    assert ask(api, bob, ACTIVITY, "read:code") == []


def test_a_later_push_comes_with_the_next_pull_and_a_token_that_is_revoked_is_refused(
    worker: Worker, owner: Rows, caplog: pytest.LogCaptureFixture
) -> None:
    hub = test_github.GitHub()
    hub.own = {"svc": "2026-01-14T11:00:00Z"}
    hub.commits = {"svc": [test_github.commit(1)]}
    is_revoked = False

    def answer(call: Call) -> Answer:
        return Answer({"message": "Bad credentials"}, 401) if is_revoked else hub(call)

    connected = connect_github(worker, answer)
    worker.pull("github")
    hub.own = {"svc": "2026-01-14T12:00:00Z"}
    hub.commits["svc"].insert(0, test_github.commit(2))

    second = worker.pull("github")
    is_revoked = True
    third = worker.pull("github")

    assert second.endswith("read=2 new=1 changed=0")
    assert "problem=key_refused" in third
    row = state(owner, connected)
    assert row["reached"] == "refused"
    assert test_github.TOKEN not in caplog.text + str(row)


def test_a_commit_of_a_clone_and_of_its_code_host_is_kept_once(
    worker: Worker, importer: Importer, api: TestClient, alice: Person, tmp_path: Path
) -> None:
    hub = test_github.GitHub()
    hub.own = {"svc": "2026-01-14T11:00:00Z"}
    hub.commits = {"svc": [test_github.commit(1, additions=None)]}
    connect_github(worker, hub)
    path = tmp_path / "svc.log"
    path.write_text(
        "# repository https://github.com/alice/svc\n"
        f"\x1e{test_github.sha(1)}\t2026-01-14T10:00:00+02:00\tChange 1\n4\t1\ta.py\n"
    )

    imported = importer.run(path, GIT_LOG)
    pulled = worker.pull("github")

    assert counts(imported) == (1, 1, 0, 0, 0)
    assert pulled.endswith("read=1 new=0 changed=1")
    (commit,) = ask(api, alice, ACTIVITY, "read:code")
    assert commit["repository"] == {"name": "alice/svc", "private": False}
    assert commit["additions"] == 4


def test_merge_requests_and_reviews_of_gitlab(
    worker: Worker, api: TestClient, alice: Person
) -> None:
    lab = test_gitlab.GitLab()
    lab.projects = [test_gitlab.project(10)]
    lab.commits = {10: [test_gitlab.commit(1)]}
    lab.authored = [test_gitlab.request(7)]
    lab.others = [test_gitlab.request(20, author=test_gitlab.OTHER)]
    lab.events = [test_gitlab.event("approved", 20)]
    worker.connect(
        "gitlab",
        lab,
        lambda _: gitlab.pull,
        {"address": "{address}/sub"},
        secrets={"token": test_gitlab.TOKEN},
    )

    first, again = worker.pull("gitlab"), worker.pull("gitlab")

    assert first.endswith("read=3 new=3 changed=0")
    assert again.endswith("new=0 changed=0")
    activity = ask(api, alice, ACTIVITY, "read:code")
    assert [(each["type"], each["action"], each["provider"]) for each in activity] == [
        ("commit", "pushed", "gitlab"),
        ("review", "approved", "gitlab"),
        ("pull_request", "opened", "gitlab"),
    ]


PLAYED: Final = int(datetime(2026, 1, 14, 8, tzinfo=UTC).timestamp())
PLAYS: Final = [
    ("Söng 2", "2026-01-14T08:02:00.000Z"),
    ("Söng 1", "2026-01-14T08:01:00.000Z"),
    ("Söng 0", "2026-01-14T08:00:00.000Z"),
]


def plays(api: TestClient, person: Person) -> list[tuple[str, str]]:
    found = ask(api, person, "/api/v1/music/history", "read:music")
    return [(each["track"], each["listened_at"]) for each in found]


def test_a_listen_of_a_file_and_of_a_pull_is_kept_once(
    worker: Worker, importer: Importer, api: TestClient, alice: Person, tmp_path: Path
) -> None:
    listens = [
        test_listenbrainz.listen(PLAYED + 60 * number, f"Söng {number}") for number in range(3)
    ]
    worker.connect(
        "listenbrainz_user",
        test_listenbrainz.Listens(listens),
        lambda address: partial(listenbrainz.pull, address=address),
        {"user": "al/ice"},
    )
    path = tmp_path / "listens.jsonl"
    path.write_text("".join(json.dumps(each) + "\n" for each in listens[:2]))

    importer.run(path, LINES)
    pulled = worker.pull("listenbrainz_user")

    assert "new=1 " in pulled
    assert plays(api, alice) == PLAYS


def test_a_scrobble_of_a_file_and_of_a_pull_is_kept_once(
    worker: Worker, importer: Importer, api: TestClient, alice: Person, tmp_path: Path
) -> None:
    tracks = [test_lastfm.track(PLAYED + 60 * number, f"Söng {number}") for number in range(3)]
    worker.connect(
        "lastfm",
        test_lastfm.Scrobbles(tracks),
        lambda address: partial(lastfm.pull, address=address + "/2.0/"),
        {"user": "alice"},
        secrets={"key": "key"},
    )
    path = tmp_path / "alice.csv"
    path.write_text("Band,Album,Söng 0,14 Jan 2026 08:00\n")

    importer.run(path, CSV)
    pulled = worker.pull("lastfm")

    assert "new=2 " in pulled
    assert plays(api, alice) == PLAYS
