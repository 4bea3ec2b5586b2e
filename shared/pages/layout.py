"""Templates, static files and headers of pages.

Every page is rendered on the server and works without JavaScript. A page loads nothing from other origins
and has no inline scripts or styles; the content security policy enforces this. Pages after a sign-out load
one image of the other server (shared/dashboard.py).
"""

import hashlib
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from importlib import resources
from pathlib import Path
from types import CodeType
from typing import Final
from zoneinfo import ZoneInfo

from jinja2 import BytecodeCache, Environment, FileSystemLoader, StrictUndefined
from jinja2.bccache import Bucket
from markupsafe import Markup
from starlette.routing import Mount
from starlette.staticfiles import StaticFiles

from shared import PRODUCT

POLICY: Final = (
    "default-src 'none'; style-src 'self'; img-src 'self'; script-src 'self'; "
    "base-uri 'none'; frame-ancestors 'none'"
)
HEADERS: Final = {
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}
_COMMON: Final = "shared.pages"


class _Compiled(BytecodeCache):
    """The templates that this process has compiled, so that its applications compile each of them once."""

    def __init__(self) -> None:
        self._codes: dict[tuple[str, str], CodeType | None] = {}

    def load_bytecode(self, bucket: Bucket) -> None:
        """Give a template its code, if it is known."""
        bucket.code = self._codes.get((bucket.key, bucket.checksum))

    def dump_bytecode(self, bucket: Bucket) -> None:
        """Keep the code of a template."""
        self._codes[bucket.key, bucket.checksum] = bucket.code


_COMPILED: Final = _Compiled()


@dataclass(frozen=True)
class Layout:
    """The templates and the static files of a server: its own, and those of all pages."""

    packages: tuple[str, ...]
    """The packages that have folders ``templates`` and ``static``, such as ``authserver.web``."""

    def templates(self) -> Environment:
        """Return a new environment of all templates; a package's own come before the common ones."""
        folders = [_folder(package) / "templates" for package in (*self.packages, _COMMON)]
        environment = Environment(
            loader=FileSystemLoader(folders),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            # Keep the loaded templates even while an upgrade replaces the files.
            auto_reload=False,
            bytecode_cache=_COMPILED,
        )
        environment.globals.update(product=PRODUCT, static=self.address)
        return environment

    @cached_property
    def _addresses(self) -> dict[str, str]:
        return {
            path.name: f"/static/{path.name}?v={hashlib.sha256(path.read_bytes()).hexdigest()[:12]}"
            for package in (_COMMON, *self.packages)
            for path in (_folder(package) / "static").glob("*.*")
        }

    def address(self, name: str) -> str:
        """Return the address of a static file. It contains a hash of the file, so browsers can cache it."""
        return self._addresses[name]

    def mount(self) -> Mount:
        """Return the route of the static files."""
        folders: list[str | tuple[str, str]] = [
            (package, "static")
            for package in (*self.packages, _COMMON)
            if (_folder(package) / "static").is_dir()
        ]
        return Mount("/static", StaticFiles(packages=folders), name="static")


def _folder(package: str) -> Path:
    return Path(str(resources.files(package)))


def moment(at: datetime, zone: str) -> Markup:
    """Return an instant as text in a time zone, which it names."""
    local = at.astimezone(ZoneInfo(zone))
    text = f"{local.day} {local:%b %Y, %H:%M} {zone}"
    return Markup('<time datetime="{}">{}</time>').format(local.isoformat("T", "seconds"), text)
