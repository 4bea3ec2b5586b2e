"""GitHub with the person's own read-only token, by its GraphQL interface.

The events of the REST interface go back 90 days, 300 events at most, and since 2025 have neither commits nor
titles. GraphQL gives the whole history with counts of lines, 100 commits or 25 pull requests a request, to
fine-grained tokens too. It has no conditional requests; a pull that finds nothing new makes three requests.

- Pull requests and reviews are searched by the time of their last change (``history``).
- Commits are read by repository. The first pull puts the repositories of all years into a queue, a later one
  those that had a push. Only commits on default branches are found; ``svc import git`` reads the others.

The state has ``known``, the last push that was seen of each repository, ``queue``, the repositories to read,
and ``windows``, the times whose repositories are still to be listed.
"""

from collections.abc import Callable, Iterator
from copy import deepcopy
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, Final, NamedTuple

from resourceserver.integrations import values
from resourceserver.integrations.pulls import history
from resourceserver.integrations.pulls.code import TOO_LONG, change_key, lines, plain
from resourceserver.integrations.pulls.history import Entry, Page
from resourceserver.integrations.pulls.pulling import Item, Pulled, PullFailed, Source
from resourceserver.integrations.pulls.service import (
    Service,
    elements,
    items,
    member,
    resumable,
)
from resourceserver.integrations.records import CodeEvent, Refused
from resourceserver.integrations.values import Flaw
from shared.fetcher import FetchFailed

ADDRESS: Final = "https://api.github.com/graphql"
_OVERLAP_S: Final = 60 * 60
"""The search knows a change only after a while."""
_LATE: Final = timedelta(days=30)
"""How long before a push its commits can have been made; the service selects them by time alone."""
_RESERVE: Final = 20
"""Requests that are left for commits."""
_MOST_ATTEMPTS: Final = 3
_MOST_QUEUED: Final = 500
_MOST_REPOSITORIES: Final = 100
_MOST_FOUND: Final = 25

LOOK: Final = """
query Look {
  viewer {
    id
    login
    contributionsCollection { contributionYears }
    repositories(
      first: 100, isFork: false, ownerAffiliations: [OWNER],
      orderBy: {field: PUSHED_AT, direction: DESC}
    ) { nodes { id pushedAt } }
    repositoriesContributedTo(
      first: 100, contributionTypes: [COMMIT, PULL_REQUEST], includeUserRepositories: true,
      orderBy: {field: PUSHED_AT, direction: DESC}
    ) { nodes { id pushedAt } }
  }
}
"""
CONTRIBUTIONS: Final = """
query Contributions($from: DateTime!, $to: DateTime!) {
  viewer {
    contributionsCollection(from: $from, to: $to) {
      commitContributionsByRepository(maxRepositories: 100) { repository { id } }
    }
  }
}
"""
COMMITS: Final = """
query Commits($repository: ID!, $author: ID!, $since: GitTimestamp, $after: String) {
  node(id: $repository) {
    ... on Repository {
      nameWithOwner
      isPrivate
      defaultBranchRef {
        name
        target {
          ... on Commit {
            history(first: 100, author: {id: $author}, since: $since, after: $after) {
              pageInfo { hasNextPage endCursor }
              nodes {
                oid
                message
                authoredDate
                url
                additions
                deletions
                changedFilesIfAvailable
                parents(first: 1) { totalCount }
              }
            }
          }
        }
      }
    }
  }
}
"""
PULL_REQUESTS: Final = """
query PullRequests($search: String!) {
  search(type: ISSUE, first: 25, query: $search) {
    nodes {
      ... on PullRequest {
        number
        title
        url
        state
        createdAt
        updatedAt
        mergedAt
        closedAt
        additions
        deletions
        changedFiles
        headRefName
        repository { nameWithOwner isPrivate }
        timelineItems(first: 50, itemTypes: [CLOSED_EVENT, REOPENED_EVENT]) {
          nodes {
            __typename
            ... on ClosedEvent { createdAt }
            ... on ReopenedEvent { createdAt }
          }
        }
      }
    }
  }
}
"""
REVIEWS: Final = """
query Reviews($search: String!, $login: String!) {
  search(type: ISSUE, first: 25, query: $search) {
    nodes {
      ... on PullRequest {
        number
        title
        updatedAt
        headRefName
        repository { nameWithOwner isPrivate }
        reviews(first: 50, author: $login) { nodes { state submittedAt url } }
      }
    }
  }
}
"""


def pull(source: Source, address: str = ADDRESS) -> Pulled:
    """Return the commits, pull requests and reviews of a person; ``address`` is another one only in tests."""
    state = deepcopy(dict(source.state))
    return resumable(_events(source, state, address), state)


def _events(source: Source, state: dict[str, Any], address: str) -> Iterator[Item]:
    github = _GitHub(source, address)
    now = int(source.person.now.timestamp())
    viewer = member(github.ask(LOOK), "viewer")
    login, author = plain(member(viewer, "login")), plain(member(viewer, "id"))
    if login is None or author is None:
        raise PullFailed("unreadable")
    if state.get("login") != login:
        # The history is another person's.
        state.clear()
        state["login"] = login
    _note_pushes(state, viewer)
    for kind in _KINDS:
        yield from history.walk(
            state,
            kind.name,
            partial(github.search, kind, login),
            github.service,
            now=now,
            overlap_s=_OVERLAP_S,
            reserve=_RESERVE,
        )
    _list_repositories(github, state)
    yield from _commits(github, state, author)


class _GitHub:
    """The interface, with the token of the person."""

    def __init__(self, source: Source, address: str) -> None:
        token = source.secrets["token"].strip()
        self.service = Service(source, {"Authorization": f"Bearer {token}"})
        self._address = address

    def ask(self, query: str, **variables: Any) -> Any:
        """Return the data that answers a query. Raises PullFailed if there is none."""
        reply = self.service.post(self._address, {"query": query, "variables": variables})
        errors = member(reply.value, "errors")
        kinds = {plain(member(error, "type")) for error in elements(errors)}
        if kinds & {"RATE_LIMITED", "RATE_LIMIT"}:
            raise self.service.limited(reply.headers)
        data = member(reply.value, "data")
        # Errors of some nodes, such as those of an organization that forbids tokens, leave the others.
        if not isinstance(data, dict):
            if kinds & {"FORBIDDEN", "INSUFFICIENT_SCOPES"}:
                raise PullFailed("access_denied", is_refused=True)
            raise PullFailed("unreadable")
        return data

    def search(self, kind: "_Kind", login: str, before: int | None, after: int | None) -> Page:
        """Return the pull requests that changed last between two times."""
        words = [kind.search, "sort:updated-desc"]
        if after is not None:
            words.append(f"updated:>={_written(after)}")
        if before is not None:
            words.append(f"updated:<{_written(before)}")
        more = {"login": login} if kind.query is REVIEWS else {}
        found = self.ask(kind.query, search=" ".join(words), **more)
        nodes = items(member(found, "search", "nodes"))
        return Page([_entry(node, kind.read) for node in nodes if node], len(nodes) < _MOST_FOUND)


def _written(at: int) -> str:
    return datetime.fromtimestamp(max(0, at), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _entry(node: Any, read: Callable[[Any], Iterator[CodeEvent]]) -> Entry:
    try:
        at = int(values.instant(member(node, "updatedAt")).timestamp())
    except Flaw as flaw:
        return Entry(None, [values.refused(flaw, node)])
    found: list[Item] = []
    try:
        found.extend(read(node))
    except Flaw as flaw:
        # What was read before stays in the list.
        found.append(values.refused(flaw, node))
    return Entry(at, found)


def _pull_request(node: Any) -> Iterator[CodeEvent]:
    """Yield what happened to a pull request, from its opening on."""
    yield _change(node, "opened", node.get("createdAt"))
    merged = node.get("mergedAt")
    for event in elements(member(node, "timelineItems", "nodes")):
        at = member(event, "createdAt")
        if member(event, "__typename") == "ReopenedEvent":
            yield _change(node, "reopened", at)
        # A merge closes as well, at about the same time.
        elif at and (merged is None or _seconds(at, merged) > 5):
            yield _change(node, "closed", at)
    if merged is not None:
        yield _change(node, "merged", merged)


def _seconds(first: Any, second: Any) -> float:
    return (values.instant(second) - values.instant(first)).total_seconds()


def _change(node: Any, action: str, at: Any) -> CodeEvent:
    event = _about(node, "pull_request", action, at)
    return event._replace(
        url=values.text(node.get("url")),
        state=(values.text(node.get("state")) or "").lower() or None,
        additions=values.count(node.get("additions")),
        deletions=values.count(node.get("deletions")),
        changed_files=values.count(node.get("changedFiles")),
    )


def _reviews(node: Any) -> Iterator[CodeEvent]:
    for review in elements(member(node, "reviews", "nodes")):
        state = (values.text(member(review, "state")) or "").lower()
        # A review that was not submitted has no time.
        if state != "pending":
            event = _about(node, "review", state, member(review, "submittedAt"))
            yield event._replace(url=values.text(member(review, "url")), state=state)


class _Kind(NamedTuple):
    """What is searched for among pull requests."""

    name: str
    query: str
    search: str
    read: Callable[[Any], Iterator[CodeEvent]]


_KINDS: Final = (
    _Kind("authored", PULL_REQUESTS, "is:pr author:@me", _pull_request),
    _Kind("reviewed", REVIEWS, "is:pr reviewed-by:@me -author:@me", _reviews),
)


def _about(node: Any, kind: Any, action: str, at: Any) -> CodeEvent:
    repository = values.text(member(node, "repository", "nameWithOwner"))
    number = values.count(node.get("number"))
    if repository is None or number is None:
        raise Flaw("missing_repository" if repository is None else "missing_number")
    occurred_at = values.instant(at)
    is_private = member(node, "repository", "isPrivate")
    return CodeEvent(
        key=change_key(repository, number, action, occurred_at),
        type=kind,
        action=action,
        occurred_at=occurred_at,
        repository=repository,
        is_private=is_private if isinstance(is_private, bool) else None,
        title=values.text(node.get("title")),
        ref=values.text(node.get("headRefName")),
        number=number,
    )


def _note_pushes(state: dict[str, Any], viewer: Any) -> None:
    """Put repositories that had a push since the last look into the queue; at the first look, all years."""
    is_first = not isinstance(state.get("known"), dict)
    known: dict[str, Any] = {} if is_first else state["known"]
    pushes: dict[str, str | None] = {}
    for name in ("repositories", "repositoriesContributedTo"):
        for node in elements(member(viewer, name, "nodes")):
            repository = plain(member(node, "id"))
            if repository is not None:
                pushes[repository] = plain(member(node, "pushedAt"))
    if is_first:
        years = member(viewer, "contributionsCollection", "contributionYears")
        state["queue"] = []
        state["windows"] = [
            [f"{year}-01-01T00:00:00Z", f"{year}-12-31T23:59:59Z"]
            for year in elements(years)
            if isinstance(year, int) and 1970 <= year <= 9999
        ]
    for repository, pushed_at in pushes.items():
        if repository not in known:
            _enqueue(state, repository, None)
        elif pushed_at is not None and pushed_at != known[repository]:
            _enqueue(state, repository, _before(known[repository]))
    state["known"] = pushes


def _before(pushed_at: Any) -> str | None:
    try:
        return _written(int((values.instant(pushed_at) - _LATE).timestamp()))
    except Flaw:
        return None


def _enqueue(state: dict[str, Any], repository: str, since: str | None) -> None:
    """Put a repository into the queue, unless an entry that was not begun reads the same commits."""
    for entry in state["queue"]:
        is_begun = entry["after"] is not None
        if entry["repository"] == repository and not is_begun and entry["since"] in (None, since):
            return
    new = {"repository": repository, "since": since, "after": None, "attempts": 0}
    state["queue"].append(new)


def _list_repositories(github: _GitHub, state: dict[str, Any]) -> None:
    """Put the repositories of each year into the queue."""
    windows, queue = state["windows"], state["queue"]
    # The list goes on when the queue is shorter: the state has a bounded size.
    while windows and github.service.requests_left > 0 and len(queue) < _MOST_QUEUED:
        begin, end = windows[0]
        data = github.ask(CONTRIBUTIONS, **{"from": begin, "to": end})
        found = member(data, "viewer", "contributionsCollection", "commitContributionsByRepository")
        repositories = [plain(member(each, "repository", "id")) for each in elements(found)]
        for repository in repositories:
            if repository is not None and repository not in state["known"]:
                _enqueue(state, repository, None)
        windows[:1] = _halves(begin, end) if len(repositories) >= _MOST_REPOSITORIES else []


def _halves(begin: str, end: str) -> list[list[str]]:
    """Return the halves of a window with more repositories than an answer holds."""
    first, last = values.instant(begin), values.instant(end)
    if last - first < timedelta(days=2):
        return []
    middle = _written(int((first + (last - first) / 2).timestamp()))
    return [[begin, middle], [middle, end]]


def _commits(github: _GitHub, state: dict[str, Any], author: str) -> Iterator[Item]:
    queue = state["queue"]
    while queue and github.service.requests_left > 0:
        entry = queue[0]
        after = entry["after"]
        try:
            data = github.ask(
                COMMITS,
                repository=entry["repository"],
                author=author,
                since=entry["since"],
                after=after,
            )
        except (PullFailed, FetchFailed) as failure:
            if failure.code in TOO_LONG:
                # The service gives up on a history that is too long. The others come first.
                queue.append(queue.pop(0))
                entry["attempts"] += 1
                if entry["attempts"] >= _MOST_ATTEMPTS:
                    queue.pop()
                    yield Refused("repository_not_readable", entry["repository"])
                    continue
            raise
        node = member(data, "node")
        branch = member(node, "defaultBranchRef")
        commits = member(branch, "target", "history")
        for commit in elements(member(commits, "nodes")):
            yield _commit(node, branch, commit)
        cursor = plain(member(commits, "pageInfo", "endCursor"))
        has_more = member(commits, "pageInfo", "hasNextPage") is True and cursor is not None
        # A page that repeats has no end.
        if has_more and cursor != after:
            entry["after"] = cursor
        else:
            queue.pop(0)


def _commit(node: Any, branch: Any, commit: Any) -> CodeEvent | Refused:
    try:
        sha = plain(member(commit, "oid"))
        repository = values.text(member(node, "nameWithOwner"))
        if sha is None or repository is None:
            raise Flaw("missing_sha" if sha is None else "missing_repository")
        is_merge = (values.count(member(commit, "parents", "totalCount")) or 0) > 1
        is_private = member(node, "isPrivate")
        return CodeEvent(
            key=sha,
            type="commit",
            action="pushed",
            occurred_at=values.instant(member(commit, "authoredDate")),
            repository=repository,
            is_private=is_private if isinstance(is_private, bool) else None,
            title=values.text((values.text(member(commit, "message")) or "").partition("\n")[0]),
            url=values.text(member(commit, "url")),
            ref=values.text(member(branch, "name")),
            sha=sha,
            additions=lines(member(commit, "additions"), is_merge=is_merge),
            deletions=lines(member(commit, "deletions"), is_merge=is_merge),
            changed_files=lines(member(commit, "changedFilesIfAvailable"), is_merge=is_merge),
        )
    except Flaw as flaw:
        return values.refused(flaw, commit)
