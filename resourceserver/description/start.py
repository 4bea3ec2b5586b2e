"""``/`` for programs: what there is, as JSON. People get the dashboard there.

It needs no credential and contains no data.
"""

import json
from collections.abc import Callable
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from shared import VERSION
from shared.settings import Settings

_NAME: Final = "Personal Activity Analytics Service"
_HEADERS: Final = {
    "Cache-Control": "public, max-age=300",
    "Referrer-Policy": "no-referrer",
    "Vary": "Accept",
}


def start(chosen: Settings) -> Callable[[Request], Response]:
    """Return what answers programs at the start page."""
    document = {"name": _NAME, "version": VERSION} | _links(chosen)
    as_json = (json.dumps(document) + "\n").encode()

    def answer(_: Request) -> Response:
        return Response(as_json, headers=_HEADERS, media_type="application/json")

    return answer


def _links(chosen: Settings) -> dict[str, str]:
    """Return the addresses that there are."""
    base, auth = chosen.base_url, chosen.auth_url
    return {
        "account": f"{auth}/settings",
        "documentation": f"{base}/docs",
        "guide": f"{base}/docs/guide",
        "openapi": f"{base}/openapi.json",
        "capabilities": f"{base}/api/v1/capabilities",
        "ingest_schema": f"{base}/api/v1/ingest/schema",
        "mcp": f"{base}/mcp",
        "authorization_server_metadata": f"{auth}/.well-known/oauth-authorization-server",
        "protected_resource_metadata": f"{base}/.well-known/oauth-protected-resource",
        "health": f"{base}/healthz",
    }
