"""What a person sees: how pages are rendered, which headers they have, and under which name.

Every page is made on the server and works without JavaScript. Nothing in it comes from another origin
and nothing is inline, which the content security policy enforces.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import quote, urlsplit

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.datastructures import Headers
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from authserver.sessions import CSRF_FIELD, Browser, Seal
from shared.tokens import Token

_HERE: Final = Path(__file__).parent
STATIC: Final = _HERE / "static"

_POLICY: Final = (
    "default-src 'none'; style-src 'self'; img-src 'self'; script-src 'self'; "
    "base-uri 'none'; frame-ancestors 'none'"
)
_HEADERS: Final = {
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}


@dataclass(frozen=True)
class Page:
    """A template and what it is filled with."""

    template: str
    content: Mapping[str, object]
    status: int = 200
    subject: str = ""
    """What the page's form is about; its token is good for that alone."""
    may_end_at_client: bool = False
    """Whether a form of it may end in a redirect to a client: browsers check the whole chain."""


@dataclass(frozen=True)
class Pages:
    """Renders pages and redirects, with the cookie where it is due."""

    templates: Environment
    seal: Seal

    def render(self, page: Page, browser: Browser | None = None) -> Response:
        """Return ``page`` as ``browser`` gets it; without one it has no form and sets no cookie."""
        form_token = (
            None if browser is None else self.seal.form_token(browser.session, page.subject)
        )
        html = self.templates.get_template(page.template).render(
            page.content,
            person=None if browser is None else browser.person,
            csrf_field=CSRF_FIELD,
            csrf_token=form_token,
        )
        policy = _POLICY if page.may_end_at_client else f"{_POLICY}; form-action 'self'"
        response = HTMLResponse(html, page.status, {**_HEADERS, "Content-Security-Policy": policy})
        if browser is not None and browser.is_cookie_due:
            self.seal.set_cookie(response, browser.session)
        return response

    def redirect(self, location: str, session: Token | None = None) -> Response:
        """Return a redirect that is always followed with GET, with a cookie for a new ``session``."""
        # Starlette's own redirect would encode once more what a registered URI may have in it.
        response = Response(status_code=303, headers={**_HEADERS, "Location": location})
        if session is not None:
            self.seal.set_cookie(response, session)
        return response

    def redirect_browser(self, location: str, browser: Browser) -> Response:
        """Return a redirect that gives ``browser`` its cookie where that is due."""
        return self.redirect(location, browser.session if browser.is_cookie_due else None)


def pages(seal: Seal) -> Pages:
    """Return the renderer of this deployment's pages."""
    templates = Environment(
        loader=FileSystemLoader(_HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    # Browsers keep the style sheet under its address, so a changed one needs another address.
    digest = hashlib.sha256((STATIC / "style.css").read_bytes()).hexdigest()[:12]
    templates.globals["style_url"] = f"/static/style.css?v={digest}"
    return Pages(templates, seal)


@dataclass(frozen=True)
class OneName:
    """A middleware that sends whoever asks for a page under another host name to the issuer's.

    Cookies and passkeys belong to a name, and ``127.0.0.1`` is not ``localhost``. Endpoints for
    machines (``except_paths``) answer under any name, and never say another than the issuer's.
    """

    app: ASGIApp
    issuer: str
    except_paths: frozenset[str]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request (ASGI)."""
        if (
            scope["type"] != "http"
            or scope["path"] in self.except_paths
            or scope["path"].startswith("/.well-known/")
            or scope["method"] not in ("GET", "HEAD")
            or _host(Headers(scope=scope).get("host", ""), self.issuer) == _host_of(self.issuer)
        ):
            await self.app(scope, receive, send)
            return
        query = scope["query_string"].decode("latin-1")
        location = self.issuer + quote(scope["path"]) + (f"?{query}" if query else "")
        # Starlette's redirect encodes what must not stand in a header and leaves the rest as it is.
        await RedirectResponse(location, 303, _HEADERS)(scope, receive, send)


def _host(text: str, issuer: str) -> str:
    """Return a Host header with its port, also where that is the default one of the issuer's scheme."""
    host = text.lower()
    if host.rpartition(":")[2].isdecimal():
        return host
    return f"{host}:{443 if issuer.startswith('https:') else 80}"


def _host_of(issuer: str) -> str:
    return _host(urlsplit(issuer).netloc, issuer)
