"""A bare probe: the smallest application with the statements of a refresh and of a look-up of a token.

The same framework, web server, transport and SQL as the servers, and nothing else: no checks, no log line, no
handling of errors. The difference between it and the servers is the cost of everything else in them.
"""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final
from uuid import UUID

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from authserver import rows
from authserver.oauth import grants
from resourceserver.api import session
from resourceserver.api.session import Credential
from resourceserver.endpoints import ENDPOINTS
from shared import database, schema, settings, tokens
from shared.pipeline import Pipelines
from shared.tokens import Token

CLIENT_ID: Final = tokens.CLIENT + "0" * 22
"""The client whose refresh tokens it rotates."""


def create() -> Starlette:
    """Return the application with the settings of the environment."""
    chosen = settings.read()
    database_of_grants = rows.connect(chosen)
    database_of_data = Pipelines.to(
        database.login(chosen, "reader"),
        size=chosen.quick_connections,
        depth=256,
        patience_s=session.QUICK_S,
        prepare=True,
    )
    me = next(each for each in ENDPOINTS if each.name == "me")

    async def refresh(request: Request) -> Response:
        body = await request.body()
        presented = _token(tokens.REFRESH, body.rpartition(b"=")[2].decode())
        access_token = tokens.mint(tokens.ACCESS, presented.user_id)
        refresh_token = tokens.mint(tokens.REFRESH, presented.user_id)
        _, result = await database_of_grants.run(
            (
                schema.STEP,
                (
                    grants.SQL["rotate"],
                    {
                        "user_id": presented.user_id,
                        "token_hash": presented.hash,
                        "client_id": CLIENT_ID,
                        "scopes": None,
                        "resource": None,
                        "refreshes_per_hour": None,
                        "retry_lifetime": None,
                        "first_grant_id": UUID(int=0),
                        "last_grant_id": UUID(int=0),
                        "access_token_hash": access_token.hash,
                        "access_token_last_four": access_token.last_four,
                        "access_token_lifetime": grants.ACCESS_TOKEN_LIFETIME,
                        "refresh_token_hash": refresh_token.hash,
                        "refresh_token_lifetime": grants.REFRESH_TOKEN_LIFETIME,
                    },
                ),
            )
        )
        pair = {
            "access_token": access_token.text,
            "refresh_token": refresh_token.text,
            "scope": (result.get_value(0, 1) or b"").decode(),
        }
        return Response(json.dumps(pair), media_type="application/json")

    async def look_up(request: Request) -> Response:
        token = _token(tokens.ACCESS, request.headers["authorization"][7:])
        who = Credential(token, me.scopes, (chosen.base_url,))
        opening = who.parameters(session.QUICK_MS)
        asking = {"user_id": token.user_id}
        _, result = await database_of_data.run(
            ((session.OPEN_SESSION, opening), (me.statement, asking))
        )
        return Response(result.get_value(0, 0), media_type="application/json")

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        yield
        database_of_grants.close()
        database_of_data.close()

    return Starlette(
        routes=[
            Route("/oauth/token", refresh, methods=["POST"]),
            Route("/api/v1/me", look_up),
        ],
        lifespan=lifespan,
    )


def _token(prefix: str, text: str) -> Token:
    """Return the token in ``text``, which contains the user id."""
    token = tokens.parse(prefix, text)
    if token is None:
        raise ValueError("this is no token")
    return token
