"""Last.fm by user name: pages of ``user.getRecentTracks``, with the API key of the person.

It gives scrobbles before a time, the newest first, and above them the track that is playing, without a time.
Errors are numbers in the answer, with the status 200 or another.
"""

from collections.abc import Iterator
from copy import deepcopy
from datetime import timedelta
from functools import partial
from typing import Any, Final

from resourceserver.integrations import values
from resourceserver.integrations.formats import lastfm
from resourceserver.integrations.pulls import history
from resourceserver.integrations.pulls.history import Entry, Page
from resourceserver.integrations.pulls.pulling import Item, Pulled, PullFailed, Source
from resourceserver.integrations.pulls.service import Service, items, member, resumable
from resourceserver.integrations.values import Flaw

ADDRESS: Final = "https://ws.audioscrobbler.com/2.0/"
MOST_SCROBBLES: Final = 200
"""The most scrobbles of an answer, which is the service's own limit."""
_ERROR_STATUSES: Final = (400, 401, 403, 404, 429, 500, 502, 503, 504)
_WAIT: Final = timedelta(minutes=5)
"""The service does not say how long to wait."""


def pull(source: Source, address: str = ADDRESS) -> Pulled:
    """Return the scrobbles of a user; ``address`` is another one only in tests."""
    state = deepcopy(dict(source.state))
    return resumable(_scrobbles(source, state, address), state)


def _scrobbles(source: Source, state: dict[str, Any], address: str) -> Iterator[Item]:
    service = Service(source, {})
    now = int(source.person.now.timestamp())
    parameters = {
        "method": "user.getrecenttracks",
        "user": source.settings["user"].strip(),
        "api_key": source.secrets["key"].strip(),
        "format": "json",
        "limit": MOST_SCROBBLES,
    }
    page = partial(_page, service, address, parameters)
    yield from history.walk_listens(state, page, service, now)


def _page(
    service: Service,
    address: str,
    parameters: dict[str, object],
    before: int | None,
    _after: int | None,
) -> Page:
    reply = service.get(address, {**parameters, "to": before}, allowed=_ERROR_STATUSES)
    error = member(reply.value, "error")
    if error is not None:
        raise _failure(values.count(error))
    if reply.status in _ERROR_STATUSES:
        raise service.failure(reply)
    tracks = member(reply.value, "recenttracks", "track")
    # A list of one is written as its only element.
    given = [tracks] if isinstance(tracks, dict) else items(tracks)
    return Page([_entry(track) for track in given if not lastfm.is_playing(track)])


def _failure(error: int | None) -> PullFailed:
    match error:
        case 6 | 7:
            return PullFailed("not_found")
        case 4 | 9 | 10 | 13 | 14 | 26:
            return PullFailed("key_refused", is_refused=True)
        case 17:
            return PullFailed("history_private")
        case 8 | 11 | 16:
            return PullFailed("server_error", _WAIT)
        case 29:
            return PullFailed("rate_limited", _WAIT)
    return PullFailed("unreadable")


def _entry(track: Any) -> Entry:
    at = values.count(member(track, "date", "uts"))
    try:
        return Entry(at, [lastfm.listen_of(track)])
    except Flaw as flaw:
        return Entry(at, [values.refused(flaw, track)])
