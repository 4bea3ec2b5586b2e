"""``/docs/guide``: what the reference does not say, as pages for those who write clients.

The texts are Markdown files, readable in the repository too. Their addresses are those of a service on this
machine; a page has the deployment's own ones instead.
"""

from dataclasses import dataclass
from functools import cache, cached_property
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Final

from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from shared.pages.layout import HEADERS, POLICY, Layout
from shared.settings import Settings

if TYPE_CHECKING:
    from markdown_it.token import Token

PATH: Final = "/docs/guide"
TEXTS: Final = Path(__file__).with_name("guides")
NAMES: Final = ("index", "trackers", "applications", "programs", "numbers", "measures")
"""The texts in the order of the menu."""
_FRESH: Final = "public, max-age=300"
_AUTH_URL: Final = "http://localhost:8400"
_BASE_URL: Final = "http://localhost:8401"


@dataclass(frozen=True)
class Guide:
    """One text."""

    name: str

    @property
    def path(self) -> str:
        """Its address on this server."""
        return PATH if self.name == "index" else f"{PATH}/{self.name}"

    @cached_property
    def text(self) -> str:
        """The Markdown."""
        return (TEXTS / f"{self.name}.md").read_text()

    @property
    def title(self) -> str:
        """The first heading."""
        return self.text.partition("\n")[0].removeprefix("# ")

    def html(self, chosen: Settings) -> Markup:
        """Return the text as HTML, with the addresses of a deployment."""
        from markdown_it import MarkdownIt  # noqa: PLC0415 -- the library takes 30 ms of each start

        text = self.text.replace(_AUTH_URL, chosen.auth_url).replace(_BASE_URL, chosen.base_url)
        parser = MarkdownIt("commonmark", {"html": False}).enable("table")
        tokens = parser.parse(text)
        _complete(tokens)
        return Markup(parser.renderer.render(tokens, parser.options, {}))  # noqa: S704 -- our own text


def _complete(tokens: "list[Token]") -> None:
    """Give each heading an id for links, and let the keyboard reach what scrolls on narrow pages."""
    for opening, inline in pairwise(tokens):
        if opening.type == "heading_open":
            words = "".join(each if each.isalnum() else " " for each in inline.content.lower())
            opening.attrSet("id", "-".join(words.split()))
        elif opening.type == "table_open":
            opening.attrSet("tabindex", "0")


GUIDES: Final = tuple(Guide(name) for name in NAMES)


def routes(chosen: Settings) -> list[Route]:
    """Return a route for each text."""
    template = Layout(("resourceserver.description",)).templates().get_template("guide.html")

    def route(guide: Guide) -> Route:
        @cache
        def page() -> str:
            return template.render(guide=guide, guides=GUIDES, text=guide.html(chosen))

        async def show(_: Request) -> Response:
            headers = {**HEADERS, "Content-Security-Policy": POLICY, "Cache-Control": _FRESH}
            return HTMLResponse(page(), headers=headers)

        return Route(guide.path, show, name="guide")

    return [route(guide) for guide in GUIDES]
