"""GitLab with the person's own read-only token (scope ``read_api``), at gitlab.com or a server of one's own.

- Merge requests that the person opened, in the order of their last change.
- Approvals and comments from the person's events, which go back three years. Their merge requests are read
  for the titles; those of the person's own are left out.
- Commits on all branches of the projects of which the person is a member, for each of the person's addresses.
  The queue in the state has the projects that were active since they were read.

Lists are read in ascending order from a time (``_pages``), so that a full page says where the next one
begins. The service sends an ETag with each, and answers without content as long as a list stays the same.
"""

from collections.abc import Callable, Iterator
from copy import deepcopy
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

from resourceserver.integrations import values
from resourceserver.integrations.pulls.code import TOO_LONG, change_key, lines, plain
from resourceserver.integrations.pulls.pulling import Item, Pulled, PullFailed, Source
from resourceserver.integrations.pulls.service import Service, elements, items, member, resumable
from resourceserver.integrations.records import CodeEvent, Refused
from resourceserver.integrations.values import Flaw
from shared.fetcher import FetchFailed

ADDRESS: Final = "https://gitlab.com"
PAGE: Final = 100
"""The most elements of a page, which is the service's own limit."""
_LATE: Final = timedelta(days=30)
"""How long before a push its commits can have been made; the service selects them by time alone."""
_ACTIVITY_LATE: Final = timedelta(hours=3)
_MOST_LOOKS: Final = 3
"""The time of a project's last activity is written once an hour, so a project is read by several pulls."""
_MOST_ADDRESSES: Final = 5
_MOST_QUEUED: Final = 150
_MOST_ATTEMPTS: Final = 3
_NOT_READABLE: Final = (403, 404, 409)
"""A project that was removed, or whose repository is empty or switched off."""
_STATES: Final = {"opened": "open", "closed": "closed", "merged": "merged"}


def pull(source: Source) -> Pulled:
    """Return the commits, merge requests and reviews of a person."""
    state = deepcopy(dict(source.state))
    return resumable(_events(source, state), state)


def _events(source: Source, state: dict[str, Any]) -> Iterator[Item]:
    token = source.secrets["token"].strip()
    service = Service(source, {"PRIVATE-TOKEN": token})
    address = _interface(source.settings.get("address") or ADDRESS)
    user = service.get(f"{address}/user").value
    user_id = member(user, "id")
    if not isinstance(user_id, int):
        raise PullFailed("unreadable")
    if [address, user_id] != state.get("person"):
        # The history is another person's.
        state.clear()
        state.update(
            person=[address, user_id],
            lists={},
            queue=[],
            id_after=None,
            active_after=None,
            newest_activity=None,
            looks={},
        )
    addresses = _addresses(service, address, user)
    for page in _pages(service, address, state["lists"], _AUTHORED):
        for value in page:
            yield from _each(_merge_request, value)
    for wanted in _REVIEWED:
        for page in _pages(service, address, state["lists"], wanted):
            reviews = _reviews(service, address, page, user_id)
            if reviews is None:
                break
            yield from reviews
    _list_projects(service, address, state, addresses, source.person.now)
    yield from _commits(service, address, state)


def _interface(address: str) -> str:
    """Return the address of the interface of a server."""
    given = address.strip().rstrip("/").removesuffix("/api/v4")
    if not given.lower().startswith("https://"):
        raise PullFailed("not_https")
    return f"{given}/api/v4"


class _List(NamedTuple):
    """A list that is read in ascending order of a time."""

    name: str
    path: str
    parameters: dict[str, object]
    time: str
    """The member by which it is ordered."""
    bound: str
    """The parameter that leaves out what is older."""
    written: Callable[[datetime], str]
    """Returns a time as the bound takes it, so that everything of this time is still in the list."""
    overlap: timedelta
    """How much of a list that was read to its end is read again."""
    size: int
    """The most elements of a page."""


def _instant(at: datetime) -> str:
    return at.strftime("%Y-%m-%dT%H:%M:%SZ")


def _day(at: datetime) -> str:
    # The bound leaves out its own day, and the server can have another time zone.
    return (at - timedelta(days=2)).strftime("%Y-%m-%d")


_AUTHORED: Final = _List(
    name="authored",
    path="merge_requests",
    parameters={
        "scope": "created_by_me",
        "state": "all",
        "order_by": "updated_at",
        "sort": "asc",
    },
    time="updated_at",
    bound="updated_after",
    written=_instant,
    overlap=timedelta(minutes=10),
    size=100,
)
_REVIEWED: Final = tuple(
    _List(
        name=action,
        path="events",
        parameters={"action": action, "sort": "asc"},
        time="created_at",
        bound="after",
        written=_day,
        overlap=timedelta(0),
        # Each event of a page can need a request for its merge request.
        size=40,
    )
    for action in ("approved", "commented")
)


def _pages(
    service: Service, address: str, cursors: dict[str, Any], wanted: _List
) -> Iterator[list[Any]]:
    """Yield pages of a list. The cursor moves when the next page is wanted, so that each is read whole.

    ``cursors`` has for each list the bound from which it is unread, the page from there, and the ETag of that
    page if it was the last one.
    """
    cursor = cursors.setdefault(wanted.name, {"after": None, "page": 1, "etag": None})
    while service.requests_left > 0:
        after, number = cursor["after"], cursor["page"]
        reply = service.get(
            f"{address}/{wanted.path}",
            {**wanted.parameters, wanted.bound: after, "page": number, "per_page": wanted.size},
            headers={"If-None-Match": cursor["etag"]} if cursor["etag"] else {},
            allowed=(304,),
        )
        if reply.status == 304:
            return
        found = items(reply.value)
        yield found
        is_last = len(found) < wanted.size
        times = [at for value in found if (at := _time(value, wanted.time)) is not None]
        if times:
            following = wanted.written(max(times) - (wanted.overlap if is_last else timedelta(0)))
            cursor["after"] = following if after is None else max(after, following)
        is_moved = cursor["after"] != after
        cursor["page"] = 1 if is_last or is_moved else number + 1
        # The ETag is that of the request which comes next only if it is the same request.
        is_same = not is_moved and cursor["page"] == number
        cursor["etag"] = plain(reply.headers.get("etag")) if is_same else None
        if is_last:
            return


def _time(value: Any, name: str) -> datetime | None:
    try:
        return values.instant(member(value, name))
    except Flaw:
        return None


def _merge_request(value: Any) -> Iterator[CodeEvent]:
    """Yield what happened to a merge request of the person."""
    yield _change(value, "pull_request", "opened", member(value, "created_at"))
    merged, closed = member(value, "merged_at"), member(value, "closed_at")
    if merged is not None:
        yield _change(value, "pull_request", "merged", merged)
    elif closed is not None and member(value, "state") == "closed":
        yield _change(value, "pull_request", "closed", closed)


def _change(value: Any, kind: Any, action: str, at: Any) -> CodeEvent:
    repository = _repository(value)
    number = values.count(member(value, "iid"))
    if repository is None or number is None:
        raise Flaw("missing_repository" if repository is None else "missing_number")
    occurred_at = values.instant(at)
    state = values.text(member(value, "state"))
    return CodeEvent(
        key=change_key(repository, number, action, occurred_at),
        type=kind,
        action=action,
        occurred_at=occurred_at,
        repository=repository,
        title=values.text(member(value, "title")),
        url=values.text(member(value, "web_url")),
        ref=values.text(member(value, "source_branch")),
        number=number,
        state=action if kind == "review" else _STATES.get(state or "", state),
    )


def _repository(value: Any) -> str | None:
    """Return the path of a merge request's project, without which the list has only its number."""
    reference = values.text(member(value, "references", "full"))
    if reference is not None:
        return reference.rpartition("!")[0] or None
    try:
        path = urlsplit(values.text(member(value, "web_url")) or "").path
    except ValueError:
        return None
    return path.partition("/-/")[0].strip("/") or None


def _reviews(
    service: Service, address: str, page: list[Any], user_id: int
) -> Iterator[Item] | None:
    """Return the reviews among events; None if their merge requests need more requests than are left."""
    events: dict[int, list[tuple[int, Any]]] = {}
    for event in page:
        project, number = member(event, "project_id"), _reviewed(event)
        if isinstance(project, int) and number is not None:
            events.setdefault(project, []).append((number, event))
    if len(events) > service.requests_left:
        return None
    return _reviews_of(service, address, events, user_id)


def _reviewed(event: Any) -> int | None:
    """Return the number of the merge request that an event is about; None if it is about something else."""
    note = member(event, "note")
    if isinstance(note, dict):
        is_review = note.get("noteable_type") == "MergeRequest" and note.get("system") is not True
        return values.count(note.get("noteable_iid")) if is_review else None
    is_review = member(event, "target_type") == "MergeRequest"
    return values.count(member(event, "target_iid")) if is_review else None


def _reviews_of(
    service: Service, address: str, events: dict[int, list[tuple[int, Any]]], user_id: int
) -> Iterator[Item]:
    for project, numbered in events.items():
        numbers = sorted({number for number, _ in numbered})
        reply = service.get(
            f"{address}/projects/{project}/merge_requests",
            {"iids[]": numbers, "state": "all", "per_page": PAGE},
            allowed=_NOT_READABLE,
        )
        found = {values.count(member(each, "iid")): each for each in elements(reply.value)}
        for number, event in numbered:
            request = found.get(number)
            if request is None:
                yield Refused("merge_request_not_readable", values.example(event))
            elif member(request, "author", "id") != user_id:
                action = "commented" if member(event, "note") is not None else "approved"
                try:
                    yield _change(request, "review", action, member(event, "created_at"))
                except Flaw as flaw:
                    yield values.refused(flaw, event)


def _addresses(service: Service, address: str, user: Any) -> list[str]:
    """Return the person's mail addresses, by which commits are found."""
    reply = service.get(f"{address}/user/emails", allowed=_NOT_READABLE)
    given = [member(each, "email") for each in elements(reply.value)]
    given += [member(user, name) for name in ("email", "commit_email", "public_email")]
    found = {written.lower() for each in given if (written := plain(each)) is not None}
    return sorted(found)[:_MOST_ADDRESSES]


def _list_projects(
    service: Service, address: str, state: dict[str, Any], addresses: list[str], now: datetime
) -> None:
    """Put the projects that were active since the last list of them into the queue."""
    active_after, queue = state["active_after"], state["queue"]
    # The list goes on when the queue is shorter: the state has a bounded size.
    while service.requests_left > 0 and len(queue) < _MOST_QUEUED:
        reply = service.get(
            f"{address}/projects",
            {
                "membership": "true",
                # Only developers and above can push.
                "min_access_level": 30,
                "order_by": "id",
                "sort": "asc",
                "pagination": "keyset",
                "id_after": state["id_after"],
                "last_activity_after": active_after,
                "per_page": PAGE,
            },
        )
        found = items(reply.value)
        for project in found:
            at = _time(project, "last_activity_at")
            if at is not None:
                # An activity of the future must not hide those until then.
                at = min(at, now)
                state["newest_activity"] = max(state["newest_activity"] or "", _instant(at))
            if active_after is None or _is_to_read(state["looks"], project):
                _enqueue(queue, project, active_after, addresses)
        ids = [each for project in found if isinstance(each := member(project, "id"), int)]
        last = max(ids, default=None)
        if len(found) < PAGE or last is None or last <= (state["id_after"] or 0):
            state["id_after"] = None
            if state["newest_activity"]:
                newest = values.instant(state["newest_activity"])
                state["active_after"] = _instant(newest - _ACTIVITY_LATE)
                # Earlier projects are listed again only after another activity.
                state["looks"] = {
                    number: look
                    for number, look in state["looks"].items()
                    if (look[0] or "") >= state["active_after"][:10]
                }
            return
        state["id_after"] = last


def _is_to_read(looks: dict[str, list[Any]], project: Any) -> bool:
    """Return whether a project can have commits that no pull has read, and count the look at it."""
    number, activity = str(member(project, "id")), plain(member(project, "last_activity_at"))
    look = looks.get(number)
    if look is None or look[0] != activity:
        looks[number] = [activity, 1]
        return True
    is_to_read: bool = look[1] < _MOST_LOOKS
    look[1] = min(look[1] + 1, _MOST_LOOKS)
    return is_to_read


def _enqueue(
    queue: list[dict[str, Any]], project: Any, active_after: str | None, addresses: list[str]
) -> None:
    """Put a project into the queue, unless an entry that was not begun reads the same commits."""
    number, name = member(project, "id"), plain(member(project, "path_with_namespace"))
    if not isinstance(number, int) or name is None or not addresses:
        return
    since = None if active_after is None else _instant(values.instant(active_after) - _LATE)
    for entry in queue:
        is_begun = entry["page"] > 1 or entry["addresses"] != addresses
        if entry["project"] == number and not is_begun and entry["since"] in (None, since):
            return
    visibility = member(project, "visibility")
    queue.append(
        {
            "project": number,
            "name": name,
            "is_private": None if visibility is None else visibility != "public",
            "since": since,
            "addresses": addresses,
            "page": 1,
            "attempts": 0,
        }
    )


def _commits(service: Service, address: str, state: dict[str, Any]) -> Iterator[Item]:
    queue = state["queue"]
    while queue and service.requests_left > 0:
        entry = queue[0]
        author = entry["addresses"][0]
        try:
            reply = service.get(
                f"{address}/projects/{entry['project']}/repository/commits",
                {
                    "all": "true",
                    "with_stats": "true",
                    "author": author,
                    "since": entry["since"],
                    "page": entry["page"],
                    "per_page": PAGE,
                },
                allowed=_NOT_READABLE,
            )
        except (PullFailed, FetchFailed) as failure:
            if failure.code in TOO_LONG:
                # The history can be too long for the service. The other projects come first.
                queue.append(queue.pop(0))
                entry["attempts"] += 1
                if entry["attempts"] >= _MOST_ATTEMPTS:
                    queue.pop()
                    state["looks"].get(str(entry["project"]), [None, 0])[1] = _MOST_LOOKS
                    yield Refused("repository_not_readable", entry["name"])
                    continue
            raise
        found = elements(reply.value)
        for commit in found:
            # The service takes the address for a pattern, which can match others.
            if str(member(commit, "author_email")).lower() == author:
                yield from _each(partial(_commit, entry), commit)
        if len(found) == PAGE:
            entry["page"] += 1
        elif len(entry["addresses"]) > 1:
            entry["addresses"], entry["page"] = entry["addresses"][1:], 1
        else:
            queue.pop(0)


def _commit(entry: dict[str, Any], commit: Any) -> Iterator[CodeEvent]:
    sha = plain(member(commit, "id"))
    if sha is None:
        raise Flaw("missing_sha")
    is_merge = len(elements(member(commit, "parent_ids"))) > 1
    yield CodeEvent(
        key=sha,
        type="commit",
        action="pushed",
        occurred_at=values.instant(member(commit, "authored_date")),
        repository=entry["name"],
        is_private=entry["is_private"],
        title=values.text(member(commit, "title")),
        url=values.text(member(commit, "web_url")),
        sha=sha,
        additions=lines(member(commit, "stats", "additions"), is_merge=is_merge),
        deletions=lines(member(commit, "stats", "deletions"), is_merge=is_merge),
    )


def _each(read: Callable[[Any], Iterator[CodeEvent]], value: Any) -> Iterator[Item]:
    """Yield what is read from a value, and a Refused for the rest of it if there is a flaw."""
    try:
        yield from read(value)
    except Flaw as flaw:
        yield values.refused(flaw, value)
