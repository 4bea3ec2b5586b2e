"""The revocation endpoint (RFC 7009)."""

from starlette.requests import Request
from starlette.responses import Response

from authserver import events, forms
from authserver.oauth import client_ids, grants
from authserver.oauth.token import (
    refuse_client_authentication,
    refuse_credentials_in_query,
    required,
)
from authserver.web.server import Server
from shared import tokens


async def revoke(server: Server, request: Request) -> Response:
    """Revoke a token. The response is the same for an unknown token.

    The prefix of a token shows its kind, so ``token_type_hint`` is not needed.
    """
    form = await forms.read(request)
    refuse_credentials_in_query(request)
    form.check()
    refuse_client_authentication(request)
    client_ids.log(request, form.get("client_id"))
    text = required(form, "token")
    token = tokens.parse(tokens.REFRESH, text) or tokens.parse(tokens.ACCESS, text)
    if token is not None:
        await grants.revoke_by_token(
            server.database,
            server.lineage,
            token,
            form.get("client_id"),
            events.request_origin(request),
        )
    return Response(status_code=200, headers={"Cache-Control": "no-store"})
