"""Device authorization (RFC 8628), for applications on devices without a browser.

    device                                            person, in any browser
    POST /oauth/device_authorization
      ◄── device code, user code ── shows the code ──► /device: enters the code
    POST /oauth/token, again and again                   │
      ◄── authorization_pending, slow_down               ▼
                                                      consent page: scopes, for how long
      ◄── token pair, once; or access_denied ◄── Allow or Decline

The request of a device becomes an authorization request of the browser in which its code was entered, so the
consent page and all its checks are those of other applications. The grant is redeemed by one conditional
statement (grants.sql).

A user code has 8 letters of 20, so there are 2.56e10. Entering one is throttled by account and address
(throttle.py): about 30 attempts at once, and 4 in each further hour. While 1,000 devices wait, an attacker
with an account hits the code of one of them with a probability of 5e-6 in a day. Only a keyed hash of it is
stored, since all codes could be tried against a plain one.
"""

import hmac
import json
import re
import secrets
from datetime import timedelta
from typing import Final
from urllib.parse import urlencode

from psycopg.errors import UniqueViolation
from starlette.requests import Request
from starlette.responses import Response

from authserver import events, forms, rows
from authserver.errors import TemporarilyUnavailable, UnauthorizedClient, UnknownClient
from authserver.forms import Form
from authserver.oauth import audience, client_ids, clients
from authserver.oauth.authorize import requested_scopes
from authserver.oauth.clients import Client
from authserver.oauth.requests import PendingKey
from authserver.oauth.token import (
    refuse_client_authentication,
    refuse_credentials_in_query,
    required,
)
from authserver.rows import Database
from authserver.web.server import Server
from shared import settings, tokens
from shared.settings import Settings
from shared.tokens import Token

SQL: Final = rows.load("oauth/device.sql")

PATH: Final = "/oauth/device_authorization"
CODE_PATH: Final = "/device"
"""The page at which people enter codes."""
LIFETIME: Final = timedelta(minutes=15)
INTERVAL_S: Final = 5
LETTERS: Final = "BCDFGHJKLMNPQRSTVWXZ"
"""No vowels, so that no word appears (RFC 8628, section 6.1)."""
_LENGTH: Final = 8
_ATTEMPTS: Final = 5


async def authorize(server: Server, request: Request) -> Response:
    """Store the request of a device and return its codes."""
    form = await forms.read(request)
    refuse_credentials_in_query(request)
    form.check(ignoring=("resource",))
    refuse_client_authentication(request)
    client = await _client(server.database, form)
    client_ids.log(request, client.client_id)
    requested = requested_scopes(form, client)
    resource = audience.known(form, server.settings.base_url)
    await server.throttle.count_device_authorization(events.request_origin(request).address)
    device_code = tokens.mint(tokens.DEVICE, tokens.NOBODY)
    user_code = await _store(server, client, device_code, requested, resource)
    page = f"{server.settings.auth_url}{CODE_PATH}"
    answer = {
        "device_code": device_code.text,
        "user_code": user_code,
        "verification_uri": page,
        "verification_uri_complete": f"{page}?{urlencode({'user_code': user_code})}",
        "expires_in": int(LIFETIME.total_seconds()),
        "interval": INTERVAL_S,
    }
    return Response(
        json.dumps(answer), headers={"Cache-Control": "no-store"}, media_type="application/json"
    )


async def _client(database: Database, form: Form) -> Client:
    """Return the client, which must have registered for devices.

    A document is fetched for signed-in people alone. Raises UnknownClient, UnauthorizedClient.
    """
    client_id = required(form, "client_id")
    client = None if client_ids.is_address(client_id) else await clients.find(database, client_id)
    if client is None:
        raise UnknownClient
    if not client.is_device:
        raise UnauthorizedClient
    return client


async def _store(
    server: Server,
    client: Client,
    device_code: Token,
    requested: tuple[str, ...],
    resource: str | None,
) -> str:
    """Store the request of a device under a new user code, and return that."""
    for _ in range(_ATTEMPTS):
        letters = "".join(secrets.choice(LETTERS) for _ in range(_LENGTH))
        parameters = {
            "device_code_hash": device_code.hash,
            "user_code_hash": _hash(server.settings, letters),
            "client_id": client.client_id,
            "scopes": list(requested),
            "resource": resource,
            "lifetime": LIFETIME,
            "interval_s": INTERVAL_S,
        }
        try:
            await rows.execute(server.database, SQL["store"], parameters)
        except UniqueViolation:
            continue
        return format_code(letters)
    raise TemporarilyUnavailable


def format_code(letters: str) -> str:
    """Return a user code as devices show it."""
    return f"{letters[:4]}-{letters[4:]}"


def parse_code(text: str) -> str | None:
    """Return the letters of a typed user code, or None if it is none."""
    letters = re.sub(r"[\s_.-]", "", text).upper()
    is_code = len(letters) == _LENGTH and set(letters) <= set(LETTERS)
    return letters if is_code else None


async def begin_consent(server: Server, session: Token, letters: str) -> Token | None:
    """Return the id of the authorization request for a user code, or None if no device waits with it."""
    waiting = PendingKey(tokens.mint(tokens.REQUEST, tokens.NOBODY), session)
    parameters = {
        **waiting.parameters,
        "user_code_hash": _hash(server.settings, letters),
        "lifetime": LIFETIME,
    }
    is_stored = await rows.execute(server.database, SQL["begin_consent"], parameters)
    return waiting.request_id if is_stored else None


async def decline(database: Database, waiting: PendingKey) -> bool:
    """Decline the request of a device. False: it was answered before."""
    return await rows.execute(database, SQL["decline"], waiting.parameters) > 0


def _hash(chosen: Settings, letters: str) -> bytes:
    key = hmac.digest(settings.signing_key(chosen).encode(), b"svc user code", "sha256")
    return hmac.digest(key, letters.encode(), "sha256")
