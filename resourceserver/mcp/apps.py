"""MCP Apps: templates of pages that hosts show beside the answers of tools (``io.modelcontextprotocol/ui``).

    host ── resources/read ──► template, without anybody's data
      │
      └── iframe ── ui/initialize ──► host ── ui/notifications/tool-result ──► picture and table

A template is one HTML file: the layout, the style sheet and the scripts of ``templates/`` put together. It
loads nothing, so it works under the strictest content security policy of the extension. Hosts without the
extension show the text of the answer.
"""

from dataclasses import dataclass
from functools import cached_property
from html import escape
from pathlib import Path
from typing import Any, Final

MIME_TYPE: Final = "text/html;profile=mcp-app"
_FOLDER: Final = Path(__file__).with_name("templates")


@dataclass(frozen=True)
class App:
    """A template for the answers of one tool."""

    uri: str
    name: str
    title: str
    description: str

    @cached_property
    def html(self) -> str:
        """The template, which consists of one file."""
        style, library, script = (
            (_FOLDER / name).read_text() for name in ("app.css", "app.js", f"{self.name}.js")
        )
        page = (_FOLDER / "app.html").read_text()
        return (
            page.replace("{{title}}", escape(self.title))
            .replace("{{style}}", style)
            .replace("{{script}}", library + script)
        )

    def listing(self) -> dict[str, Any]:
        """Return the template's entry in ``resources/list``."""
        return {
            "uri": self.uri,
            "name": self.name,
            "title": self.title,
            "description": self.description,
            "mimeType": MIME_TYPE,
        }

    def contents(self) -> list[dict[str, Any]]:
        """Return the contents in the result of ``resources/read``."""
        ui = {"csp": {}, "prefersBorder": True}
        return [
            {"uri": self.uri, "mimeType": MIME_TYPE, "text": self.html, "_meta": {"ui": ui}},
        ]


def tool_meta(uri: str) -> dict[str, Any]:
    """Return the ``_meta`` by which a tool names its template, in the present and the earlier form."""
    return {"ui": {"resourceUri": uri}, "ui/resourceUri": uri}


DAY: Final = "ui://svc/day"
BREAKDOWN: Final = "ui://svc/breakdown"
SLEEP: Final = "ui://svc/sleep"

APPS: Final = (
    App(DAY, "day", "A day", "One day beside the usual one, for answers of get_day."),
    App(
        BREAKDOWN,
        "breakdown",
        "Time breakdown",
        "Time by one or two keys as bars, for answers of get_time_breakdown.",
    ),
    App(SLEEP, "sleep", "Sleep", "Nights and recovery, for answers of get_health."),
)
"""Every template, in the order in which they are listed."""
