"""What is written down of a request: its line, and no secret of anybody's."""

import logging

import pytest

from authserver import accounts
from shared.settings import Settings
from tests.oauth.conftest import PASSWORD
from tests.oauth.visitor import VERIFIER, Application, Visitor, forms, parameters


def test_line_58_no_log_line_of_a_whole_life_holds_a_secret(
    visitor: Visitor,
    settings: Settings,
    application: Application,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    link = accounts.first_account_link(settings)
    assert link is not None
    joined = visitor.submit(visitor.get(link), email="alice@example.org", password=PASSWORD)
    visitor.submit(visitor.follow(joined))
    asked = visitor.get(application.authorize_path(state="a-state-of-alices"))
    page = visitor.follow(asked)
    visitor.submit(page, email="alice@example.org", password="a wrong password")
    consent = visitor.follow(visitor.submit(page, email="alice@example.org", password=PASSWORD))
    code = parameters(visitor.submit(consent, decision="allow"))["code"][0]
    pair = application.exchange(code).json()
    next_pair = application.refresh(pair["refresh_token"]).json()
    application.exchange(code)
    application.revoke(next_pair["refresh_token"])

    written = "\n".join(
        record.getMessage() for record in caplog.records if record.name.startswith("svc")
    )
    assert "route=token method=POST status=200" in written
    assert "route=authorize method=GET status=303" in written
    for secret in (
        PASSWORD,
        "a wrong password",
        VERIFIER,
        "a-state-of-alices",
        link.partition("link=")[2],
        code,
        pair["access_token"],
        pair["refresh_token"],
        next_pair["access_token"],
        next_pair["refresh_token"],
        visitor.cookies["svc_session"],
        *(value for _, value in forms(consent)[0].fields if len(value) > 30),
    ):
        assert secret not in written
    assert "svc_dt_" not in written
    assert "svc_rt_" not in written
    assert "svc_ac_" not in written
    assert "alice" not in written
