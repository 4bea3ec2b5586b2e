"""What the protected resource says of itself (RFC 9728), and so where clients find the issuer."""

import json
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from shared.scopes import SCOPES
from shared.settings import Settings

PATH: Final = "/.well-known/oauth-protected-resource"
# The document is for every origin, whatever headers of its own a client sends along.
PREFLIGHT: Final = {
    "Access-Control-Allow-Methods": "GET",
    "Access-Control-Allow-Headers": "*",
    "Access-Control-Max-Age": "7200",
}


def routes(chosen: Settings) -> list[Route]:
    """Return the metadata route; the document comes from settings, whatever Host says."""
    document = json.dumps(
        {
            "resource": chosen.base_url,
            "authorization_servers": [chosen.auth_url],
            "scopes_supported": list(SCOPES),
            "bearer_methods_supported": ["header"],
            "resource_name": "Personal Activity Analytics",
        }
    ).encode()
    headers = {"Access-Control-Allow-Origin": "*", "Cache-Control": "public, max-age=3600"}

    async def protected_resource_metadata(request: Request) -> Response:
        if request.method == "OPTIONS":
            return Response(status_code=204, headers=headers | PREFLIGHT)
        return Response(document, headers=headers, media_type="application/json")

    methods = ["GET", "OPTIONS"]
    return [Route(PATH, protected_resource_metadata, methods=methods, name="resource_metadata")]
