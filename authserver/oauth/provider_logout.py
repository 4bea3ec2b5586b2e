"""The endpoint at which the provider announces logouts (OpenID Connect Back-Channel Logout 1.0).

A logout with a session at the provider ends the sign-in sessions that were opened with it, and one with only
a subject all of that person's. The operator may have it end the person's grants too. Each announcement is
accepted once, and in the same transaction as what it ends: if that fails, the provider may repeat it.
"""

import logging
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Final
from uuid import UUID

from starlette.requests import Request
from starlette.responses import Response

from authserver import events, forms, rows
from authserver.errors import InvalidRequest
from authserver.events import Event, RequestOrigin
from authserver.people import sessions
from authserver.people.external_sign_ins import Logout, ProviderFailed
from authserver.rows import Database
from authserver.web.server import Server

if TYPE_CHECKING:
    from authserver.people.provider import Provider

log = logging.getLogger("svc.provider")

SQL: Final = rows.load("oauth/provider_logout.sql", "oauth/retry.sql", "events.sql")

PATH: Final = "/sign-in/provider/logout"
KEPT_FOR: Final = timedelta(hours=1)
"""How long an announcement is remembered: longer than logout tokens and ID tokens are accepted."""


class LogoutRefused(InvalidRequest):
    """The logout_token is not accepted."""


class LogoutRepeated(LogoutRefused):
    """The logout_token was accepted before."""


@dataclass(frozen=True)
class _Recorded:
    """A security event; without an event nothing has ended."""

    event: str | None
    user_id: UUID | None
    client_id: str | None
    grant_id: UUID | None


async def receive(server: Server, provider: "Provider", request: Request) -> Response:
    """End what a logout token says. The answer does not say whether anything has ended."""
    form = await forms.read(request)
    form.check()
    logout_token = form.get("logout_token")
    if logout_token is None:
        raise InvalidRequest("the parameter logout_token is missing")
    try:
        logout = await provider.logout(logout_token)
    except ProviderFailed as error:
        log.warning(
            "request_id=%s a logout was refused: %s", request.scope["svc.request_id"], error
        )
        raise LogoutRefused(str(error)) from error
    # The address is the provider's, which people would take for a stranger's.
    origin = RequestOrigin(events.request_origin(request).request_id)
    await _end(server.database, logout, origin, ends_grants=provider.chosen.logout_ends_grants)
    return Response(headers={"Cache-Control": "no-store"})


async def _end(
    database: Database, logout: Logout, origin: RequestOrigin, *, ends_grants: bool
) -> None:
    """End the sign-in sessions and grants of a logout. Raises LogoutRepeated."""
    recorded = await rows.every(
        database,
        _Recorded,
        SQL["end_provider_sign_ins"],
        {
            "issuer": logout.issuer,
            "subject": logout.subject,
            "provider_session_hash": logout.session_hash,
            "logout_hash": logout.logout_hash,
            "kept_for": KEPT_FOR,
            "idle_lifetime": sessions.IDLE_LIFETIME,
            "ends_grants": ends_grants,
            **origin.parameters,
        },
        preceded_by=SQL["lock_logout"],
    )
    if not recorded:
        raise LogoutRepeated
    ended = [
        Event(each.event, each.user_id, each.client_id, each.grant_id)
        for each in recorded
        if each.event is not None and each.user_id is not None
    ]
    events.write_log(ended, origin)
