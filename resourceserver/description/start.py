"""``/``: what there is. A browser gets a page, and a program JSON with the same addresses.

It needs no credential and contains no data.
"""

import json
from html import escape
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from shared import VERSION
from shared.settings import Settings

_NAME: Final = "Personal Activity Analytics Service"
_POLICY: Final = (
    "default-src 'none'; style-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
)
_HEADERS: Final = {
    "Cache-Control": "public, max-age=300",
    "Content-Security-Policy": _POLICY,
    "Referrer-Policy": "no-referrer",
    "Vary": "Accept",
}
_PAGE: Final = """<!doctype html>
<html lang="en">
<head>
  <meta charset="utf-8">
  <meta name="viewport" content="width=device-width, initial-scale=1">
  <meta name="color-scheme" content="light dark">
  <title>{name}</title>
  <link rel="icon" href="data:,">
  <link rel="stylesheet" href="/docs/start.css">
</head>
<body>
  <main>
    <h1>{name}</h1>
    <p>This is the address that programs use. People read and change their settings in their account.</p>
    <ul>
{items}
    </ul>
    <p class="hint">Version {version}</p>
  </main>
</body>
</html>
"""


def routes(chosen: Settings) -> list[Route]:
    """Return the route of the start page."""
    links = _links(chosen)
    document = {"name": _NAME, "version": VERSION} | {name: url for name, url, _ in links}
    as_json = (json.dumps(document) + "\n").encode()
    items = "\n".join(
        f'      <li><a href="{escape(url)}">{escape(text)}</a><br><code>{escape(url)}</code></li>'
        for _, url, text in links
    )
    as_page = _PAGE.format(name=_NAME, version=VERSION, items=items).encode()

    async def start(request: Request) -> Response:
        # Browsers name text/html in each navigation; programs that do not care get JSON.
        if "text/html" in request.headers.get("accept", ""):
            return Response(as_page, headers=_HEADERS, media_type="text/html")
        return Response(as_json, headers=_HEADERS, media_type="application/json")

    return [Route("/", start, name="start")]


def _links(chosen: Settings) -> list[tuple[str, str, str]]:
    """Return the addresses that there are: the member of the JSON document, the URL, the text of its link."""
    base, auth = chosen.base_url, chosen.auth_url
    return [
        ("account", f"{auth}/", "Your account: access, tokens, categories, download"),
        ("documentation", f"{base}/docs", "Documentation of every request"),
        ("openapi", f"{base}/openapi.json", "The same as an OpenAPI description"),
        ("capabilities", f"{base}/api/v1/capabilities", "What this deployment offers"),
        ("ingest_schema", f"{base}/api/v1/ingest/schema", "What trackers may send"),
        ("mcp", f"{base}/mcp", "The endpoint for assistants (Model Context Protocol)"),
        (
            "authorization_server_metadata",
            f"{auth}/.well-known/oauth-authorization-server",
            "How applications ask for access (OAuth 2.0)",
        ),
        (
            "protected_resource_metadata",
            f"{base}/.well-known/oauth-protected-resource",
            "Which authorization server this is protected by",
        ),
        ("health", f"{base}/healthz", "Whether the service works now"),
    ]
