"""What a person sees: how pages are rendered, which headers they have, and under which name.

Every page is made on the server and works without JavaScript. Nothing in it comes from another origin
and nothing is inline, which the content security policy enforces.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Final
from urllib.parse import quote, urlsplit
from zoneinfo import ZoneInfo

from jinja2 import Environment, FileSystemLoader, StrictUndefined, pass_context
from jinja2.runtime import Context
from markupsafe import Markup
from starlette.datastructures import Headers
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from authserver import PRODUCT
from authserver.people.sessions import CSRF_FIELD, Browser, Person, Signer
from shared.settings import Settings
from shared.tokens import Token

_HERE: Final = Path(__file__).parent
STATIC: Final = _HERE / "static"


@dataclass(frozen=True)
class Section:
    """A part of what belongs to somebody who is signed in, with a place in the menu."""

    path: str
    title: str
    purpose: str


SECTIONS: Final = (
    Section(
        "/settings/api-access",
        "API access",
        "Tokens for your own programs: scripts, trackers, an assistant on your machine.",
    ),
    Section(
        "/settings/apps",
        "Connected apps",
        "Applications that you have let in, what they may do, and a way to end it.",
    ),
    Section(
        "/settings/categories",
        "Categories",
        "Which applications and sites count as what, and how productive that is.",
    ),
    Section(
        "/settings/account",
        "Account",
        "Your name and time zone, how you sign in and where, what happened, and your data.",
    ),
)

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
    may_end_at_provider: bool = False
    """The same of the provider, where there is one."""
    may_fetch_data: bool = False
    """Whether a script of it may ask the resource server, and nobody else."""
    current_path: str = ""
    """The path of a page of the menu, or of one below it."""


@dataclass(frozen=True)
class Pages:
    """Renders pages and redirects, with the cookie where it is due."""

    templates: Environment
    signer: Signer
    data_url: str
    """Where the resource server is."""
    has_provider: bool = False

    def render(self, page: Page, browser: Browser | None = None) -> Response:
        """Return ``page`` as ``browser`` gets it; without one it has no form and sets no cookie."""
        form_token = (
            None if browser is None else self.signer.form_token(browser.session, page.subject)
        )
        html = self.templates.get_template(page.template).render(
            {"done": None, "problem": None, **page.content},
            person=None if browser is None else browser.person,
            current_path=page.current_path,
            csrf_field=CSRF_FIELD,
            csrf_token=form_token,
        )
        may_leave = page.may_end_at_client or (page.may_end_at_provider and self.has_provider)
        policy = _POLICY if may_leave else f"{_POLICY}; form-action 'self'"
        if page.may_fetch_data:
            policy += f"; connect-src {self.data_url}"
        response = HTMLResponse(html, page.status, {**_HEADERS, "Content-Security-Policy": policy})
        if browser is not None and browser.is_cookie_due:
            self.signer.set_cookie(response, browser.session)
        return response

    def redirect(self, location: str, session: Token | None = None) -> Response:
        """Return a redirect that is always followed with GET, with a cookie for a new ``session``."""
        # Starlette's own redirect would encode once more what a registered URI may have in it.
        response = Response(status_code=303, headers={**_HEADERS, "Location": location})
        if session is not None:
            self.signer.set_cookie(response, session)
        return response

    def redirect_browser(self, location: str, browser: Browser) -> Response:
        """Return a redirect that gives ``browser`` its cookie where that is due."""
        return self.redirect(location, browser.session if browser.is_cookie_due else None)


def pages(signer: Signer, chosen: Settings) -> Pages:
    """Return the renderer of this deployment's pages."""
    templates = Environment(
        loader=FileSystemLoader(_HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        # What was read once is kept, also while the files of another version take its place.
        auto_reload=False,
    )
    templates.globals.update(
        product=PRODUCT,
        sections=SECTIONS,
        static=_static,
        provider_name=None if chosen.provider is None else chosen.provider.name,
    )
    templates.filters["moment"] = _moment
    return Pages(templates, signer, chosen.base_url, has_provider=chosen.provider is not None)


@cache
def _static(name: str) -> str:
    """Return the address of a static file. Browsers keep it, so a changed file needs another one."""
    digest = hashlib.sha256((STATIC / name).read_bytes()).hexdigest()[:12]
    return f"/static/{name}?v={digest}"


@pass_context
def _moment(context: Context, at: datetime) -> Markup:
    """Return an instant as the person who looks at the page reads it, in their time zone."""
    person = context.get("person")
    local = at.astimezone(ZoneInfo(person.timezone if isinstance(person, Person) else "UTC"))
    text = f"{local.day} {local:%b %Y, %H:%M}"
    return Markup('<time datetime="{}">{}</time>').format(local.isoformat("T", "seconds"), text)


@dataclass(frozen=True)
class CanonicalHost:
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
            or _with_port(Headers(scope=scope).get("host", ""), self.issuer)
            == _issuer_host(self.issuer)
        ):
            await self.app(scope, receive, send)
            return
        query = scope["query_string"].decode("latin-1")
        location = self.issuer + quote(scope["path"]) + (f"?{query}" if query else "")
        # Starlette's redirect encodes what must not stand in a header and leaves the rest as it is.
        await RedirectResponse(location, 303, _HEADERS)(scope, receive, send)


def _with_port(text: str, issuer: str) -> str:
    """Return a Host header with its port, also where that is the default one of the issuer's scheme."""
    host = text.lower()
    if host.rpartition(":")[2].isdecimal():
        return host
    return f"{host}:{443 if issuer.startswith('https:') else 80}"


def _issuer_host(issuer: str) -> str:
    return _with_port(urlsplit(issuer).netloc, issuer)
