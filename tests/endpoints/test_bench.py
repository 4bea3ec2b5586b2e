"""The bare probe of ``make bench`` sends the statements of the servers, which change more often than it."""

from typing import Any

import psycopg
import pytest

from shared import settings
from shared.settings import Settings
from tests import processes
from tests.bench import probe
from tests.bench.__main__ import Refreshing
from tests.client import AppClient
from tests.conftest import Person


def test_the_bare_probe_answers_a_read_and_a_refresh(
    deployment: Settings,
    alice: Person,
    owner: psycopg.Connection[Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    logins = processes.role_urls(deployment, ("authserver", "reader"))
    for name, value in settings.environment(deployment, logins).items():
        monkeypatch.setenv(name, value)
    owner.execute(
        "insert into oauth.client (client_id, redirect_uris) values (%s, %s)",
        [probe.CLIENT_ID, ["https://app.example/callback"]],
    )
    (request, *_) = Refreshing(owner, alice.user_id)()
    form = request.partition("\r\n\r\n")[2]

    with AppClient(probe.create()) as client:
        me = client.get("/api/v1/me", headers=alice.headers("read:profile"))
        pair = client.post("/oauth/token", content=form)

    assert me.json()["data"]["email"] == alice.email
    assert pair.json()["scope"] == "{read:profile}"
    assert pair.json()["refresh_token"] not in form
