"""ListenBrainz by user name: ``GET /1/user/NAME/listens`` of the public history.

It gives listens before a time, the newest first, without conditional requests and without an order by
arrival. The state is that of ``history.walk_listens``.
"""

from collections.abc import Iterator
from copy import deepcopy
from functools import partial
from typing import Any, Final
from urllib.parse import quote

from resourceserver.integrations import values
from resourceserver.integrations.formats import listenbrainz
from resourceserver.integrations.pulls import history
from resourceserver.integrations.pulls.history import Entry, Page
from resourceserver.integrations.pulls.pulling import Item, Pulled, Source
from resourceserver.integrations.pulls.service import Service, items, member, resumable
from resourceserver.integrations.values import Flaw

ADDRESS: Final = "https://api.listenbrainz.org"
MOST_LISTENS: Final = 1000
"""The most listens of an answer, which is the service's own limit."""
_FEW_LISTENS: Final = 200


def pull(source: Source, address: str = ADDRESS) -> Pulled:
    """Return the listens of a user; ``address`` is another one only in tests."""
    state = deepcopy(dict(source.state))
    return resumable(_listens(source, state, address), state)


def _listens(source: Source, state: dict[str, Any], address: str) -> Iterator[Item]:
    service = Service(source, {})
    now = int(source.person.now.timestamp())
    name = quote(source.settings["user"].strip(), safe="")
    page = partial(_page, service, f"{address}/1/user/{name}/listens", now)
    yield from history.walk_listens(state, page, service, now)


def _page(service: Service, url: str, now: int, before: int | None, after: int | None) -> Page:
    # The service takes one bound at a time.
    count = _FEW_LISTENS if history.is_short(before, after, now) else MOST_LISTENS
    reply = service.get(url, {"count": count, "max_ts": before})
    return Page([_entry(value) for value in items(member(reply.value, "payload", "listens"))])


def _entry(value: Any) -> Entry:
    at = values.count(member(value, "listened_at"))
    try:
        return Entry(at, [listenbrainz.listen_of(value)])
    except Flaw as flaw:
        return Entry(at, [values.refused(flaw, value)])
