"""Authorization server metadata (RFC 8414, RFC 8628; client id metadata documents: see ``documents``)."""

import json

from starlette.requests import Request
from starlette.responses import Response

from authserver.oauth import device
from authserver.oauth.token import DEVICE_CODE
from authserver.web.server import Server
from shared.scopes import SCOPES

PATH = "/.well-known/oauth-authorization-server"


async def show(server: Server, _: Request) -> Response:
    """Return the metadata. The issuer is the configured one, whatever the Host header is."""
    issuer = server.settings.auth_url
    document: dict[str, object] = {
        "issuer": issuer,
        "authorization_endpoint": f"{issuer}/oauth/authorize",
        "token_endpoint": f"{issuer}/oauth/token",
        "registration_endpoint": f"{issuer}/oauth/register",
        "revocation_endpoint": f"{issuer}/oauth/revoke",
        "scopes_supported": list(SCOPES),
        "response_types_supported": ["code"],
        "response_modes_supported": ["query"],
        "grant_types_supported": ["authorization_code", "refresh_token"],
        "token_endpoint_auth_methods_supported": ["none"],
        "revocation_endpoint_auth_methods_supported": ["none"],
        "code_challenge_methods_supported": ["S256"],
        "authorization_response_iss_parameter_supported": True,
    }
    if server.settings.client_metadata_documents:
        document["client_id_metadata_document_supported"] = True
    if server.settings.device_authorization:
        document["device_authorization_endpoint"] = f"{issuer}{device.PATH}"
        document["grant_types_supported"] = ["authorization_code", "refresh_token", DEVICE_CODE]
    return Response(
        json.dumps(document),
        headers={"Cache-Control": "public, max-age=300"},
        media_type="application/json",
    )
