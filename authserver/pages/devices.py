"""Settings → Devices: the machines that send activity, with names for people, and those no longer in use.

Trackers know a device by a name that never changes here. A retired device is listed last, and by the API
only on request; its records remain, and once it sends something again it is in use again. The role of this
server may not read activity; it calls functions that check the sign-in session themselves
(``sql/functions/devices.sql``).
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

from starlette.requests import Request
from starlette.responses import Response

from authserver import rows
from authserver.errors import InvalidRequest, NotFound
from authserver.pages import back, sign_in
from authserver.people import names
from authserver.people.sessions import SignInNeeded, Visit
from authserver.rows import Parameters
from authserver.web.page import Page
from authserver.web.server import Server

SQL: Final = rows.load("pages/devices.sql")

PATH: Final = "/settings/devices"
PAGE_SIZE: Final = 50
"""How many devices a page lists."""

_DONE: Final = {
    "renamed": "The name is saved.",
    "retired": "The device is retired. Its records remain.",
    "used": "The device is in use again.",
}


@dataclass(frozen=True)
class Device:
    """A device of a person."""

    device_id: UUID
    name: str
    """The name by which trackers know it."""
    display_name: str | None
    platform: str | None
    source: str | None
    """The tracker that sent last."""
    first_seen_at: datetime
    last_event_at: datetime | None
    event_count: int
    retired_at: datetime | None

    @property
    def title(self) -> str:
        """What the person calls it."""
        return self.display_name or self.name


@dataclass(frozen=True)
class _Change:
    is_done: bool


async def show(server: Server, request: Request) -> Response:
    """Show a page of the list, or the device that the query names."""
    query, linked, visit = await back.read_link(server, request, PATH, "device")
    if linked:
        device = await _device(server, visit, linked["device"])
        return _one(server, visit, device, done=_DONE.get(query.get("done") or ""))
    number = query.get("page") or ""
    page_number = int(number) if re.fullmatch("[1-9][0-9]{0,2}", number) else 1
    listed = await _devices(server, visit, PAGE_SIZE + 1, (page_number - 1) * PAGE_SIZE)
    content = {
        "back": visit.back,
        "devices": listed[:PAGE_SIZE],
        "page_number": page_number,
        "has_more": len(listed) > PAGE_SIZE,
    }
    return server.pages.render(Page("devices.html", content, current_path=PATH), visit.browser)


async def rename(server: Server, request: Request) -> Response:
    """Give a device a name for people; without one it has that of its trackers."""
    form, visit = await back.read_form(server, request, PATH, "device")
    device = await _device(server, visit, form.get("device"))
    typed = form.get("name") or ""
    if server.is_stale_form(request, form, visit):
        return _one(server, visit, device, typed, problem=sign_in.OUT_OF_DATE, status=403)
    name = typed.strip()
    problem = names.problem(name) if name and name != device.name else None
    if problem is not None:
        return _one(server, visit, device, typed, name_problem=problem, status=400)
    display_name = name if name != device.name else ""
    return await _change(server, visit, device, "rename", {"display_name": display_name or None})


async def retire(server: Server, request: Request) -> Response:
    """Retire a device, or end that."""
    form, visit = await back.read_form(server, request, PATH, "device")
    device = await _device(server, visit, form.get("device"))
    what = form.get("what")
    if what not in ("retire", "use"):
        raise InvalidRequest("the parameter what must be one of the page")
    if server.is_stale_form(request, form, visit):
        return _one(server, visit, device, problem=sign_in.OUT_OF_DATE, status=403)
    return await _change(server, visit, device, "retire", {"is_retired": what == "retire"})


async def _change(
    server: Server, visit: Visit, device: Device, statement: str, given: Parameters
) -> Response:
    parameters = {**visit.browser.session_parameters, "device_id": device.device_id, **given}
    changed = await rows.one(server.database, _Change, SQL[statement], parameters)
    if changed is None or not changed.is_done:
        raise SignInNeeded(visit.browser, back.address(PATH, {}, visit.back))
    done = "renamed" if statement == "rename" else ("retired" if given["is_retired"] else "used")
    query: Mapping[str, str] = {"device": str(device.device_id), "done": done}
    return server.pages.redirect_browser(back.address(PATH, query, visit.back), visit.browser)


async def _devices(
    server: Server, visit: Visit, most: int, skipped: int, device_id: UUID | None = None
) -> list[Device]:
    given = {"most": most, "skipped": skipped, "device_id": device_id}
    parameters = {**visit.browser.session_parameters, **given}
    return await rows.every(server.database, Device, SQL["devices"], parameters)


async def _device(server: Server, visit: Visit, text: str | None) -> Device:
    """Return the device that a link or form names. Raises NotFound, also for another person's."""
    try:
        device_id = UUID(text or "")
    except ValueError:
        raise NotFound from None
    listed = await _devices(server, visit, 1, 0, device_id)
    if not listed:
        raise NotFound
    return listed[0]


def _one(
    server: Server,
    visit: Visit,
    device: Device,
    typed: str | None = None,
    *,
    name_problem: str | None = None,
    problem: str | None = None,
    done: str | None = None,
    status: int = 200,
) -> Response:
    """Return the page of one device, with the name that was typed."""
    content = {
        "back": visit.back,
        "device": device,
        "typed": device.title if typed is None else typed,
        "name_problem": name_problem,
        "problem": problem,
        "done": done,
    }
    page = Page("device.html", content, status, current_path=f"{PATH}/one")
    return server.pages.render(page, visit.browser)
