"""The routes of the dashboard's views.

They are for people with a browser: GET alone, the token from the sealed cookie, HTML out, also for errors.
"""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from jinja2 import Environment
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import BaseRoute, Route

from resourceserver.api import errors
from resourceserver.api.errors import (
    DatabaseUnavailable,
    ParameterProblem,
    Problem,
    TooManyRequests,
    Unauthorized,
)
from resourceserver.api.packing import packed
from resourceserver.api.parameters import parse_zone
from resourceserver.api.session import Credential, Reader
from resourceserver.dashboard import period
from resourceserver.dashboard.charts.svg import cut
from resourceserver.dashboard.figures import Figures, escaped, is_alone, stands_out
from resourceserver.dashboard.period import Misaddressed
from resourceserver.dashboard.signin.route import HOME, SignIn
from resourceserver.dashboard.view import Answers, Scene, View
from shared.pages.layout import HEADERS, POLICY, Layout
from shared.settings import Settings
from shared.web import current_request_id

_POLICY: Final = f"{POLICY}; form-action 'self'"
_PRIVATE: Final = {"Cache-Control": "private, no-cache", "Vary": "Cookie"}
_RELOAD_S: Final = 5
"""After how many seconds a page loads itself again that waits for the end of a short failure, or for data."""


@dataclass(frozen=True)
class Dashboard:
    """The pages of a deployment."""

    chosen: Settings
    reader: Reader
    views: Sequence[View]
    start: Callable[[Request], Response]
    """Answers programs at ``/``."""

    @cached_property
    def sign_in(self) -> SignIn:
        """The dashboard as an OAuth client, which sends people back to views alone."""
        return SignIn.of(self.chosen, [path for view in self.views for path in view.paths])

    @cached_property
    def layout(self) -> Layout:
        """The templates and static files."""
        return Layout(
            (
                "resourceserver.dashboard",
                "resourceserver.dashboard.views",
                "resourceserver.dashboard.charts",
            )
        )

    @cached_property
    def templates(self) -> Environment:
        """The environment of all templates."""
        templates = self.layout.templates()
        templates.globals.update(
            views=self.views,
            base_url=self.chosen.base_url,
            auth_url=self.chosen.auth_url,
            reference=current_request_id,
            operator_contact=self.chosen.operator_contact,
            reload_s=_RELOAD_S,
            long_day=period.long_day,
            cut=cut,
            month_of=period.month_of,
            week_of=period.week_of,
        )
        templates.filters["pointer"] = escaped
        return templates

    def routes(self) -> list[BaseRoute]:
        """Return the routes of all views, of signing in, and of static files."""
        # Before the server answers: the first visitor of a view would wait for the compiler of templates.
        for name in self.templates.list_templates(extensions=["html"]):
            self.templates.get_template(name)
        views = [self._route(view, path) for view in self.views for path in view.paths]
        return [*views, *self.sign_in.routes(), self.layout.mount()]

    def _route(self, view: View, path: str) -> Route:
        async def show(request: Request) -> Response:
            # Browsers name text/html in each navigation; programs that do not care get JSON.
            if path == HOME and "text/html" not in request.headers.get("accept", ""):
                return self.start(request)
            return await self.show(view, request)

        return Route(path, show, methods=["GET"], name=f"view_{view.name}")

    async def show(self, view: View, request: Request) -> Response:
        """Return the page of a view, or one that says what is wrong. Never raises a problem of the API."""
        who = self.sign_in.credential(request)
        if who is None:
            return self.sign_in.begin(request)
        try:
            return await self._page(view, request, who)
        except (Misaddressed, ParameterProblem) as error:
            return self._problem(404, "There is no such page", str(error))
        except Unauthorized:
            # The grant was revoked, or it has ended.
            return self.sign_in.begin(request)
        except TooManyRequests as error:
            return self._problem(429, "Too much at once", "Wait a moment.", error)
        except DatabaseUnavailable as error:
            return self._problem(
                503,
                "Your data cannot be read at the moment",
                "The database does not answer.",
                error,
            )

    async def _page(self, view: View, request: Request, who: Credential) -> Response:
        parts = {**request.query_params, **request.path_params, "path": request.scope["path"]}
        if parts.pop("tz", ""):
            parts["tz"] = _zone(request.query_params["tz"])
        address = view.address.parse(parts)
        page = view.page(address, parts, self.chosen.base_url)
        scene, known = page.read(await self.reader.read_parts(who, page.question))
        html = self.templates.get_template(f"{view.name}.html").render(
            {**self._common(view, scene, known), **view.show(scene, known)}
        )
        response = _conditional(request, html)
        if view.is_waiting(known):
            response.headers["Refresh"] = str(_RELOAD_S)
        return response

    @staticmethod
    def _common(view: View, scene: Scene, answers: Answers) -> dict[str, Any]:
        """Return what every template of a view has."""
        figures = Figures(scene.tz)
        return {
            "view": view,
            "scene": scene,
            "answers": answers,
            "is_waiting": view.is_waiting(answers),
            "figure": figures.figure,
            "as_text": figures.text,
            "stands_out": stands_out,
            "is_alone": is_alone,
            "link": scene.link,
        }

    def _problem(
        self, status: int, title: str, text: str, problem: Problem | None = None
    ) -> Response:
        """Return a page about a failure. One that passes loads itself again."""
        if problem is not None:
            errors.count(problem)
        is_short = status in (429, 503)
        html = self.templates.get_template("problem.html").render(
            title=title, text=text, is_short=is_short
        )
        headers = dict(problem.headers) if problem is not None else {}
        if is_short:
            headers["Refresh"] = str(_RELOAD_S)
        return HTMLResponse(html, status, {**_headers(), **headers})


def _zone(text: str) -> str:
    try:
        return parse_zone(text)
    except ValueError as error:
        raise Misaddressed(f"The time zone {error}.") from error


def _headers() -> dict[str, str]:
    return {**HEADERS, **_PRIVATE, "Content-Security-Policy": _POLICY}


def _conditional(request: Request, html: str) -> Response:
    """Return a page, or 304 if the browser has this version of it (RFC 9110, section 13.1.2)."""
    body = html.encode()
    tag = f'W/"{hashlib.sha256(body).hexdigest()[:16]}"'
    headers: Mapping[str, str] = {**_headers(), "ETag": tag}
    if tag in request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers=headers)
    return packed(HTMLResponse(body, headers=headers))
