"""Pages: rendering, security headers, and redirects to the canonical host.

Every page is rendered on the server and works without JavaScript. ``shared/pages/layout.py`` says what a
page may load.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final
from urllib.parse import quote, urlsplit

from jinja2 import Environment, pass_context
from jinja2.runtime import Context
from markupsafe import Markup
from starlette.datastructures import Headers
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from authserver.people.sessions import CSRF_FIELD, Browser, Person, Signer
from shared.dashboard import SIGNED_OUT_IMAGE_PATH
from shared.pages import layout
from shared.pages.layout import HEADERS, POLICY, Layout
from shared.settings import Settings
from shared.tokens import Token
from shared.web import current_request_id

LAYOUT: Final = Layout(("authserver.web",))


@dataclass(frozen=True)
class Section:
    """A section of the pages for signed-in people, with an entry in the menu."""

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
        "Applications that have access to your data, what they may do, and how to end it.",
    ),
    Section(
        "/settings/bring",
        "Bring your data",
        "Files that other services hold about you: bring them in, see what became of them, remove them.",
    ),
    Section(
        "/settings/connections",
        "Connections",
        "Applications and services that keep your data up to date by themselves.",
    ),
    Section(
        "/settings/categories",
        "Categories",
        "Which applications and sites count as what, and how productive that is.",
    ),
    Section(
        "/settings/goals",
        "Goals",
        "What you want of your days, weeks and months, such as three hours of coding on weekdays.",
    ),
    Section(
        "/settings/devices",
        "Devices",
        "The machines that send your activity: what you call them, and which you no longer use.",
    ),
    Section(
        "/settings/account",
        "Account",
        "Your name and time zone, how you sign in and where, what happened, and your data.",
    ),
)


@dataclass(frozen=True)
class Page:
    """A template and its content."""

    template: str
    content: Mapping[str, object]
    status: int = 200
    subject: str = ""
    """What the page's form is about; its CSRF token is valid only for that."""
    may_end_at_client: bool = False
    """Whether submitting a form may redirect to a client: browsers check the policy for all redirects."""
    may_end_at_provider: bool = False
    """The same for the provider, if one is configured."""
    may_end_at_dashboard: bool = False
    """The same for the dashboard."""
    shows_dashboard_image: bool = False
    """Whether it loads the dashboard's image whose answer removes the pages that the browser has kept."""
    may_ask_own_server: bool = False
    """Whether its scripts may send requests to this server."""
    may_fetch_data: bool = False
    """Whether its scripts may send requests to the resource server."""
    may_upload: bool = False
    """The same; its forms may send files there too, and its scripts requests to this server."""
    current_path: str = ""
    """The path that the menu marks as current."""


@dataclass(frozen=True)
class Pages:
    """Renders pages and redirects, and sets the session cookie if it is due."""

    templates: Environment
    signer: Signer
    data_url: str
    """The base URL of the resource server."""
    has_provider: bool = False

    def render(self, page: Page, browser: Browser | None = None) -> Response:
        """Return ``page`` for ``browser``. Without one, the page has no form token and sets no cookie."""
        form_token = (
            None if browser is None else self.signer.form_token(browser.session, page.subject)
        )
        html = self.templates.get_template(page.template).render(
            {"done": None, "problem": None, "back": "", **page.content},
            person=None if browser is None else browser.person,
            current_path=page.current_path,
            csrf_field=CSRF_FIELD,
            csrf_token=form_token,
        )
        may_leave = page.may_end_at_client or (page.may_end_at_provider and self.has_provider)
        policy = POLICY if may_leave else f"{POLICY}; form-action 'self'"
        if page.may_end_at_dashboard and not may_leave:
            policy += f" {self.data_url}"
        if page.may_upload:
            policy += f" {self.data_url}; connect-src 'self' {self.data_url}"
        elif page.may_ask_own_server:
            policy += "; connect-src 'self'"
        elif page.may_fetch_data:
            policy += f"; connect-src {self.data_url}"
        if page.shows_dashboard_image:
            image = f"{self.data_url}{SIGNED_OUT_IMAGE_PATH}"
            policy = policy.replace("img-src 'self'", f"img-src 'self' {image}")
        response = HTMLResponse(html, page.status, {**HEADERS, "Content-Security-Policy": policy})
        if browser is not None and browser.is_cookie_due:
            self.signer.set_cookie(response, browser.session, browser.known_id)
        return response

    def redirect(
        self, location: str, session: Token | None = None, known_id: str | None = None
    ) -> Response:
        """Return a redirect that is followed with GET. It sets the cookie of a new ``session``."""
        # Starlette's RedirectResponse would encode characters of a registered URI again.
        response = Response(status_code=303, headers={**HEADERS, "Location": location})
        if session is not None:
            self.signer.set_cookie(response, session, known_id)
        return response

    def redirect_browser(self, location: str, browser: Browser) -> Response:
        """Return a redirect that sets the cookie of ``browser`` if it is due."""
        session = browser.session if browser.is_cookie_due else None
        return self.redirect(location, session, browser.known_id)


def pages(signer: Signer, chosen: Settings) -> Pages:
    """Return the page renderer of a deployment."""
    templates = LAYOUT.templates()
    templates.globals.update(
        sections=SECTIONS,
        dashboard=chosen.base_url,
        signed_out_image=f"{chosen.base_url}{SIGNED_OUT_IMAGE_PATH}",
        reference=current_request_id,
        operator_contact=chosen.operator_contact,
        provider_name=None if chosen.provider is None else chosen.provider.name,
    )
    templates.filters["moment"] = _moment
    return Pages(templates, signer, chosen.base_url, has_provider=chosen.provider is not None)


@pass_context
def _moment(context: Context, at: datetime) -> Markup:
    """Format an instant in the time zone of the signed-in person, and name the zone."""
    person = context.get("person")
    zone = person.timezone if isinstance(person, Person) else "UTC"
    return layout.moment(at, zone)


@dataclass(frozen=True)
class CanonicalHost:
    """Middleware that redirects pages requested under another host name to the issuer's host.

    Cookies and passkeys belong to one host name, and ``127.0.0.1`` is not ``localhost``. Endpoints for
    clients (``except_paths``) respond under any name, and always with the issuer's URL.
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
        # Starlette's RedirectResponse encodes the characters that a header cannot hold.
        await RedirectResponse(location, 303, HEADERS)(scope, receive, send)


def _with_port(text: str, issuer: str) -> str:
    """Return a Host header with its port, adding the default port of the issuer's scheme if missing."""
    host = text.lower()
    if host.rpartition(":")[2].isdecimal():
        return host
    return f"{host}:{443 if issuer.startswith('https:') else 80}"


def _issuer_host(issuer: str) -> str:
    return _with_port(urlsplit(issuer).netloc, issuer)
