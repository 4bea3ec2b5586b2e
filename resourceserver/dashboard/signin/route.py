"""Signing in to the dashboard: authorization code with PKCE (RFC 6749, 7636, 8707 and 9207).

    GET /week/… ──► GET {auth_url}/oauth/authorize ──► GET /signed-in ──► GET /week/…
       no cookie                                          exchanges the code
       or expired                                         and sets the cookie

A view gets the token in the cookie from ``SignIn.credential``. Without one, ``SignIn.begin`` sends the
browser to the authorization server, which sends it back without a question while its sign-in session has a
grant for the dashboard. So an expired token goes unnoticed.

Each attempt has a cookie of its own, so that tabs do not disturb each other. An attempt is over when the
browser comes back, however that ends. From then on no view starts another one for a minute: a page with a
link stands instead, because a failure would otherwise repeat itself without end.
"""

import base64
import hashlib
import logging
import re
import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from urllib.parse import quote, unquote, urlencode, urlsplit

from jinja2 import Environment
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route, compile_path

from resourceserver.api.session import Credential
from resourceserver.dashboard.signin import cookie
from resourceserver.dashboard.signin.cookie import Cookies
from shared import dashboard, settings, tokens, web
from shared.pages.layout import HEADERS, POLICY, Layout
from shared.scopes import SCOPES
from shared.settings import Settings
from shared.tokens import Token

if TYPE_CHECKING:
    from resourceserver.dashboard.signin.exchange import Exchanged

log = logging.getLogger("svc.dashboard")

HOME: Final = "/"
SIGN_IN_PATH: Final = "/sign-in"
SIGN_OUT_PATH: Final = "/sign-out"
PRIVATE: Final = {**HEADERS, "Cache-Control": "private, no-store", "Vary": "Cookie"}
"""The headers of every page that depends on the cookie."""
_FORGET: Final = {"Clear-Site-Data": '"cache"'}
_EMPTY_IMAGE: Final = '<svg xmlns="http://www.w3.org/2000/svg"/>'

_SCOPE: Final = " ".join(scope for scope in SCOPES if scope.startswith("read:"))
_ATTEMPT_S: Final = 600
_ROUND_S: Final = 60
_MOST_ATTEMPTS: Final = 16
"""The most attempts that a browser may have under way; with more, all earlier ones end."""
# At most 256 characters, so that the cookies of many tabs and all others fit into the headers of a request.
_DESTINATION: Final = re.compile(r"/(?!/)[A-Za-z0-9._~!$&'()*+,;=:@%/?-]{0,255}")
_ERROR: Final = re.compile(r"[a-z_]{1,40}")


@dataclass(frozen=True)
class Notice:
    """The content of a page about a sign-in that did not work."""

    status: int
    title: str
    text: str
    link: str = "Try again"


_NOT_SET_UP: Final = Notice(
    503,
    "The dashboard is not set up",
    "This server has no key for the dashboard's cookies. The operator of this service can set "
    "SVC_DASHBOARD_KEY, or run 'svc migrate', which makes a key, and start the server again.",
    "Your account",
)
_DID_NOT_LAST: Final = Notice(
    403,
    "Signing in did not last",
    "You have just been sent to the sign-in and back, and this page is still closed. The access may have "
    "been revoked, or the browser does not keep cookies of this site.",
    "Sign in",
)
_GONE: Final = Notice(
    400,
    "This sign-in is no longer open",
    "It was completed already, took longer than ten minutes, or began in another browser.",
    "Sign in",
)
_DECLINED: Final = Notice(
    403,
    "The dashboard may not show your data",
    "You declined, so there is nothing to see here. You can allow it at any time, also for only some kinds "
    "of data.",
    "Choose again",
)
_UNCHANGED: Final = Notice(
    403,
    "Nothing was changed",
    "You declined, so the dashboard still shows what you allowed before.",
    "Back to the dashboard",
)
_WRONG_SERVER: Final = Notice(
    400,
    "This sign-in was refused",
    "The answer to it did not come from the authorization server of this service.",
)
_REFUSED: Final = Notice(
    400,
    "Signing in did not work",
    "The authorization server did not accept the sign-in. If that happens again, tell the operator of this "
    "service the reference below.",
)
_AWAY: Final = Notice(
    503,
    "The authorization server does not answer",
    "Nobody can sign in at this moment. Try again in a while.",
)


class _Failed(Exception):
    """An attempt that ended without a token."""

    def __init__(self, notice: Notice) -> None:
        """Keep what the page says."""
        super().__init__(notice.title)
        self.notice = notice


@dataclass(frozen=True)
class SignIn:
    """The dashboard as an OAuth client."""

    settings: Settings
    cookies: Cookies | None
    """None if the deployment has no key for them."""
    templates: Environment
    views: tuple[re.Pattern[str], ...]
    """The paths of the views, to which a browser may be sent after it has signed in."""

    @classmethod
    def of(cls, chosen: Settings, paths: Iterable[str]) -> "SignIn":
        """Return the OAuth client of a deployment. ``paths`` are those of the views' routes."""
        key = settings.sealing_key(chosen)
        templates = Layout(("resourceserver.dashboard.signin",)).templates()
        templates.globals["reference"] = web.current_request_id
        views = tuple(compile_path(path)[0] for path in paths)
        return cls(chosen, None if key is None else cookie.cookies(chosen, key), templates, views)

    def credential(self, request: Request) -> Credential | None:
        """Return the token in the cookie of a GET request to a view; None if it has none that is valid.

        The session may still refuse it (Unauthorized): the grant is revoked, or the token is for another
        resource. That counts as no cookie.
        """
        token = self._token(request) if request.method in ("GET", "HEAD") else None
        if token is None:
            return None
        return Credential(token, (), (self.settings.base_url,), web.notes(request))

    def begin(self, request: Request) -> Response:
        """Return the answer that sends a browser to the authorization server, and from there back here.

        If it has just been there, the answer is a page with a link.
        """
        path = _path(request)
        if self.cookies is None:
            return self._page(_NOT_SET_UP, path)
        if self.cookies.open(request, self.cookies.round_name) is not None:
            return self._page(_DID_NOT_LAST, path)
        if not self._is_own_host(request):
            # Cookies belong to one host name. This address never leads to another host name again, so that a
            # proxy that replaces the Host header causes no endless redirects.
            query = urlencode({"to": self.destination(path)})
            return _redirect(f"{self.settings.base_url}{SIGN_IN_PATH}?{query}")
        return self._start(self.cookies, request, path)

    def destination(self, path: str | None) -> str:
        """Return ``path`` with its query if it is a view of this server, else the home page."""
        if path is None or _DESTINATION.fullmatch(path) is None:
            return HOME
        plain = unquote(path.partition("?")[0])
        return path if any(view.fullmatch(plain) for view in self.views) else HOME

    def routes(self) -> list[Route]:
        """Return the routes of signing in and out."""
        return [
            Route(SIGN_IN_PATH, self.sign_in, name="sign_in"),
            Route(dashboard.SIGNED_IN_PATH, self.signed_in, name="signed_in"),
            Route(SIGN_OUT_PATH, self.show_sign_out, name="show_sign_out"),
            Route(SIGN_OUT_PATH, self.sign_out, methods=["POST"], name="sign_out"),
            Route(dashboard.SIGNED_OUT_IMAGE_PATH, self.signed_out_image, name="signed_out_image"),
        ]

    async def sign_in(self, request: Request) -> Response:
        """Send a person who followed a link to the authorization server; ``ask`` shows the consent again."""
        path = request.query_params.get("to") or HOME
        if self.cookies is None:
            return self._page(_NOT_SET_UP, path)
        return self._start(
            self.cookies, request, path, is_consent_wanted="ask" in request.query_params
        )

    async def signed_in(self, request: Request) -> Response:
        """Receive the authorization response (RFC 6749, section 4.1.2)."""
        if self.cookies is None:
            return self._page(_NOT_SET_UP, HOME)
        given = request.query_params
        state = _sole(request, "state") or ""
        name = self.cookies.attempt_name(state)
        attempt = self.cookies.open(request, name)
        if attempt is None or not secrets.compare_digest(
            attempt["state"].encode(), state.encode(errors="replace")
        ):
            return self._page(_GONE, HOME)
        path = self.destination(attempt["path"])
        try:
            if _sole(request, "iss") != self.settings.auth_url:
                raise _Failed(_WRONG_SERVER)
            if "error" in given:
                is_open = self.cookies.open(request, self.cookies.name) is not None
                raise _Failed(_notice(given["error"], is_open=is_open))
            exchanged = await self._redeem(_sole(request, "code"), attempt["verifier"])
        except _Failed as failure:
            response = self._page(failure.notice, path)
        else:
            response = _redirect(path)
            content = {"token": exchanged.token.text}
            self.cookies.set(response, self.cookies.name, content, exchanged.lifetime_s)
        self.cookies.delete(response, name)
        self.cookies.set(response, self.cookies.round_name, {}, _ROUND_S)
        return response

    async def show_sign_out(self, request: Request) -> Response:
        """Show the button that ends the cookie, or that it has ended."""
        is_signed_in = self.cookies is not None and self.cookies.name in self.cookies.names(request)
        return self._render(
            "sign_out.html",
            200,
            is_signed_in=is_signed_in,
            account=f"{self.settings.auth_url}{SIGN_OUT_PATH}",
        )

    async def sign_out(self, request: Request) -> Response:
        """End all cookies of the dashboard in this browser, its token, and the pages that it has kept.

        The cookies end whether or not the authorization server answers.
        """
        if not self._is_own_form(request):
            return self._render("forged.html", 403)
        token = self._token(request)
        if token is not None:
            await self._revoke(token)
        response = _redirect(SIGN_OUT_PATH)
        response.headers.update(_FORGET)
        if self.cookies is not None:
            for name in self.cookies.names(request):
                self.cookies.delete(response, name)
        return response

    async def signed_out_image(self, _: Request) -> Response:
        """Return an image without content, whose answer removes the pages that the browser has kept.

        Only this origin can do that, so the authorization server's page after a sign-out loads it. A view
        that is opened next leads to the sign-in, and not to the page that says that signing in did not last.
        Any site may load the image: the browser then reads pages again, and the cookie with the token stays.
        """
        response = Response(
            _EMPTY_IMAGE, headers={**PRIVATE, **_FORGET}, media_type="image/svg+xml"
        )
        if self.cookies is not None:
            self.cookies.delete(response, self.cookies.round_name)
        return response

    def _start(
        self, cookies: Cookies, request: Request, path: str, *, is_consent_wanted: bool = False
    ) -> Response:
        # The first part names the cookie, and the second is secret.
        state = f"{secrets.token_hex(8)}.{secrets.token_urlsafe(32)}"
        verifier = secrets.token_urlsafe(32)
        parameters = {
            "response_type": "code",
            "client_id": dashboard.DASHBOARD_CLIENT_ID,
            "redirect_uri": dashboard.redirect_uri(self.settings.base_url),
            "scope": _SCOPE,
            "resource": self.settings.base_url,
            "state": state,
            "code_challenge": _challenge(verifier),
            "code_challenge_method": "S256",
        }
        if is_consent_wanted:
            parameters["prompt"] = "consent"
        response = _redirect(f"{self.settings.auth_url}/oauth/authorize?{urlencode(parameters)}")
        under_way = [
            name for name in cookies.names(request) if name.startswith(cookies.attempt_name(""))
        ]
        if len(under_way) >= _MOST_ATTEMPTS:
            for name in under_way:
                cookies.delete(response, name)
        attempt = {"state": state, "verifier": verifier, "path": self.destination(path)}
        cookies.set(response, cookies.attempt_name(state), attempt, _ATTEMPT_S)
        return response

    def _token(self, request: Request) -> Token | None:
        content = None
        if self.cookies is not None:
            content = self.cookies.open(request, self.cookies.name)
        return None if content is None else tokens.parse(tokens.ACCESS, content["token"])

    async def _revoke(self, token: Token) -> None:
        """Revoke a token, or log that this failed."""
        from resourceserver.dashboard.signin import exchange  # noqa: PLC0415 -- it imports an HTTP client

        try:
            await exchange.revoke(self.settings, token)
        except exchange.ExchangeFailed as error:
            log.warning("revoking a token at sign-out failed: %s", error)

    async def _redeem(self, code: str | None, verifier: str) -> "Exchanged":
        """Return the token for a code. Raises _Failed."""
        from resourceserver.dashboard.signin import exchange  # noqa: PLC0415 -- it imports an HTTP client

        if code is None:
            raise _Failed(_REFUSED)
        try:
            return await exchange.redeem(self.settings, code, verifier)
        except exchange.ExchangeFailed as error:
            log.warning("sign-in at the authorization server failed: %s", error)
            is_away = isinstance(error, exchange.AuthorizationServerAway)
            raise _Failed(_AWAY if is_away else _REFUSED) from error

    def _is_own_host(self, request: Request) -> bool:
        usual_port = ":443" if self.settings.base_url.startswith("https:") else ":80"
        host = request.headers.get("host", "").lower().removesuffix(usual_port)
        return host == urlsplit(self.settings.base_url).netloc

    def _is_own_form(self, request: Request) -> bool:
        """Whether a form is a page's of this server, as far as the browser says.

        One that says neither sends no cookie with the form of another site either (SameSite).
        """
        site = request.headers.get("sec-fetch-site", "same-origin")
        # The pages send no referrer, so browsers send "Origin: null" with their forms.
        origin = request.headers.get("origin", "null")
        return site == "same-origin" and origin in ("null", self.settings.base_url)

    def _page(self, notice: Notice, path: str) -> Response:
        view = self.destination(path)
        sign_in = f"{SIGN_IN_PATH}?{urlencode({'to': view})}"
        # Without a key, trying again leads to the same page. The account's own pages work.
        link = (
            self.settings.auth_url
            if notice is _NOT_SET_UP
            else view
            if notice is _UNCHANGED
            else sign_in
        )
        return self._render("problem.html", notice.status, notice=notice, link=link)

    def _render(self, template: str, status: int, **content: object) -> Response:
        html = self.templates.get_template(template).render(content)
        policy = f"{POLICY}; form-action 'self'"
        return HTMLResponse(html, status, {**PRIVATE, "Content-Security-Policy": policy})


def _path(request: Request) -> str:
    """Return the path and the query of a request, as an address has them."""
    query = request.scope["query_string"].decode("latin-1")
    return quote(request.scope["path"]) + (f"?{query}" if query else "")


def _redirect(location: str) -> Response:
    return Response(status_code=303, headers={**PRIVATE, "Location": location})


def _sole(request: Request, name: str) -> str | None:
    """Return the value of a parameter that the query has exactly once."""
    values = request.query_params.getlist(name)
    return values[0] if len(values) == 1 else None


def _challenge(verifier: str) -> str:
    """Return the S256 challenge of a verifier (RFC 7636, section 4.2)."""
    digest = hashlib.sha256(verifier.encode()).digest()
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


def _notice(error: str, *, is_open: bool) -> Notice:
    """Return what a page says about an error response (RFC 6749, section 4.1.2.1).

    ``is_open``: the browser still has the access of an earlier consent.
    """
    log.info("sign-in: error %s", error if _ERROR.fullmatch(error) else "malformed")
    match error:
        case "access_denied":
            return _UNCHANGED if is_open else _DECLINED
        case "temporarily_unavailable" | "server_error":
            return _AWAY
    return _REFUSED
