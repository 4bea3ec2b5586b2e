"""Settings → Account → What happened: the security events of an account, page by page."""

import re
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from authserver import events, forms
from authserver.errors import InvalidRequest
from authserver.events import AccountEvent, Cursor
from authserver.web.page import Page
from authserver.web.server import Server

PATH: Final = "/settings/account/events"
PAGE_SIZE: Final = 50

_SENTENCES: Final = {
    "account_created": "Your account was created",
    "account_deleted": "Your account was deleted",
    "signed_in": "You signed in",
    "sign_in_failed": "A sign-in to your account failed",
    "signed_out": "A browser was signed out",
    "password_changed": "Your password was changed",
    "passkey_added": "A passkey was added",
    "passkey_removed": "A passkey was removed",
    "passkey_refused": "A passkey was refused, because it may have been copied",
    "provider_connected": "You connected another service for sign-in",
    "provider_disconnected": "You disconnected another service from sign-in",
    "connection_added": "You connected an application or a service that brings data",
    "connection_key_renewed": "The key of a connection was replaced, or what opens its service",
    "connection_ended": "You disconnected an application or a service that brought data",
    "rules_switched_off": "Category rules that take too long were switched off",
}
_APPLICATION_SENTENCES: Final = {
    "consented": "You gave an application access",
    "token_created": "An application got its first tokens",
    "revoked": "The access of an application was ended",
    "replay_detected": "A used code or token was presented again, so the access it belongs to was ended",
}
_API_TOKEN_SENTENCES: Final = {
    "token_created": "An API token was created",
    "revoked": "An API token was ended",
}
UNKNOWN: Final = "Something happened that only a newer version of this service can describe"
"""While servers are replaced one by one, newer ones already record events that this one does not know."""


async def show(server: Server, request: Request) -> Response:
    """Show a page of events, newest first, before the position in the query."""
    given = forms.decode(request.scope["query_string"]).get("before")
    visit = await server.visit(request, PATH)
    before = events.NEWEST if given is None else _cursor(given)
    newest_first = await events.account_events(
        server.database, visit.person.user_id, before, PAGE_SIZE + 1
    )
    listed = newest_first[:PAGE_SIZE]
    page = Page(
        "account_events.html",
        {
            "events": [
                {
                    "sentence": describe(event),
                    "title": event.title,
                    "address": event.address,
                    "at": event.occurred_at,
                }
                for event in listed
            ],
            "is_newest": given is None,
            "older": _text(listed[-1]) if len(newest_first) > PAGE_SIZE else None,
        },
        current_path=PATH,
    )
    return server.pages.render(page, visit.browser)


def describe(event: AccountEvent) -> str:
    """Return an event as a sentence addressed to the owner of the account."""
    own = _API_TOKEN_SENTENCES if event.client_id is None else _APPLICATION_SENTENCES
    return (_SENTENCES | _APPLICATION_SENTENCES | own).get(event.event, UNKNOWN)


def _text(event: AccountEvent) -> str:
    return f"{events.microseconds(event.occurred_at)}-{event.event_id.hex}"


def _cursor(text: str) -> Cursor:
    """Return the position at which a page begins. Raises InvalidRequest if it is malformed."""
    # 17 digits of microseconds last until the year 5138.
    match = re.fullmatch(r"([0-9]{1,17})-([0-9a-f]{32})", text)
    if match is None:
        raise InvalidRequest("the parameter before is not one of our links")
    return events.cursor(int(match[1]), match[2])
