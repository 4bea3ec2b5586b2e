"""The protected resource metadata (RFC 9728), in which clients find the authorization server."""

import json
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from shared.scopes import SCOPES
from shared.settings import Settings

PATH: Final = "/.well-known/oauth-protected-resource"


def routes(chosen: Settings) -> list[Route]:
    """Return the documents of the service and, beside it, of its MCP endpoint (RFC 9728, section 3.1).

    A client compares ``resource`` with the address that it used, so each has its own document. Documents
    contain only settings and never the request's Host.
    """
    return [
        _route(chosen, PATH, chosen.base_url, list(SCOPES), "resource_metadata"),
        _route(
            chosen,
            f"{PATH}/mcp",
            f"{chosen.base_url}/mcp",
            # The endpoint writes nothing, and clients request every scope that is listed here.
            [scope for scope in SCOPES if scope.startswith("read:")],
            "mcp_resource_metadata",
        ),
    ]


def _route(chosen: Settings, path: str, resource: str, scopes: list[str], name: str) -> Route:
    document = json.dumps(
        {
            "resource": resource,
            "authorization_servers": [chosen.auth_url],
            "scopes_supported": scopes,
            "bearer_methods_supported": ["header"],
            "resource_name": "Personal Activity Analytics",
        }
    ).encode()
    headers = {"Cache-Control": "public, max-age=3600"}

    async def protected_resource_metadata(_: Request) -> Response:
        return Response(document, headers=headers, media_type="application/json")

    return Route(path, protected_resource_metadata, name=name)
