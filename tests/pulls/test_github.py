"""Commits, pull requests and reviews of a person at GitHub."""

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, Final

import pytest

from resourceserver.integrations.imports import checks
from resourceserver.integrations.pulls import github
from resourceserver.integrations.pulls import service as pulls_service
from resourceserver.integrations.pulls.service import MOST_REQUESTS
from resourceserver.integrations.records import CodeEvent
from tests.pulls.pulled import NOW, Answer, Call, Outcome, Service, again, service

TOKEN: Final = "read-only"


def sha(number: int) -> str:
    return f"{number:040x}"


def commit(number: int, at: str = "2026-01-14T10:00:00+02:00", **more: Any) -> dict[str, Any]:
    return {
        "oid": sha(number),
        "message": f"Change {number}\n\nIn detail.",
        "authoredDate": at,
        "url": f"https://github.com/alice/svc/commit/{sha(number)}",
        "additions": 5,
        "deletions": 2,
        "changedFilesIfAvailable": 1,
        "parents": {"totalCount": 1},
    } | more


def change(number: int, updated: str = "2026-01-13T09:00:00Z", **more: Any) -> dict[str, Any]:
    return {
        "number": number,
        "title": f"Pull request {number}",
        "url": f"https://github.com/alice/svc/pull/{number}",
        "state": "OPEN",
        "createdAt": "2026-01-12T09:00:00Z",
        "updatedAt": updated,
        "mergedAt": None,
        "closedAt": None,
        "additions": 10,
        "deletions": 4,
        "changedFiles": 3,
        "headRefName": "feature",
        "repository": {"nameWithOwner": "alice/svc", "isPrivate": True},
        "timelineItems": {"nodes": []},
    } | more


class GitHub:
    """The GraphQL interface, as far as the pull uses it."""

    def __init__(self) -> None:
        self.commits: dict[str, list[dict[str, Any]]] = {}
        """Of each repository, the newest first."""
        self.own: dict[str, str] = {}
        """The last push of each repository that the person owns."""
        self.years: dict[int, list[str]] = {}
        """The repositories with commits of the person in a year."""
        self.authored: list[dict[str, Any]] = []
        self.reviewed: list[dict[str, Any]] = []
        self.page = 100

    def __call__(self, call: Call) -> Answer:
        if call.headers["authorization"] != f"Bearer {TOKEN}":
            return Answer({"message": "Bad credentials"}, 401)
        name = re.match(r"\s*query (\w+)", call.value["query"])
        assert name is not None
        answer = getattr(self, name.group(1))(**call.value["variables"])
        return Answer({"data": answer})

    def Look(self) -> Any:  # noqa: N802 -- the query's name
        own = [{"id": name, "pushedAt": at} for name, at in self.own.items()]
        return {
            "viewer": {
                "id": "U_1",
                "login": "alice",
                "contributionsCollection": {"contributionYears": sorted(self.years)},
                "repositories": {"nodes": own},
                "repositoriesContributedTo": {"nodes": [None]},
            }
        }

    def Contributions(self, **window: str) -> Any:  # noqa: N802 -- the query's name
        assert window["to"] > window["from"]
        found = self.years[int(window["from"][:4])]
        each = [{"repository": {"id": name}} for name in found]
        collection = {"commitContributionsByRepository": each}
        return {"viewer": {"contributionsCollection": collection}}

    def Commits(  # noqa: N802 -- the query's name
        self, repository: str, author: str, since: str | None, after: str | None
    ) -> Any:
        assert author == "U_1"
        if repository not in self.commits:
            return {"node": None}
        found = [
            each
            for each in self.commits[repository]
            if since is None or each["authoredDate"] >= since
        ]
        first = int(after or 0)
        last = first + self.page
        history = {
            "pageInfo": {"hasNextPage": last < len(found), "endCursor": str(last)},
            "nodes": found[first:last],
        }
        branch = {"name": "main", "target": {"history": history}}
        return {
            "node": {
                "nameWithOwner": f"alice/{repository}",
                "isPrivate": False,
                "defaultBranchRef": branch,
            }
        }

    def PullRequests(self, search: str) -> Any:  # noqa: N802 -- the query's name
        assert search.startswith("is:pr author:@me sort:updated-desc")
        return _found(self.authored, search)

    def Reviews(self, search: str, login: str) -> Any:  # noqa: N802 -- the query's name
        assert search.startswith("is:pr reviewed-by:@me -author:@me sort:updated-desc")
        assert login == "alice"
        return _found(self.reviewed, search)


def _found(changes: list[dict[str, Any]], search: str) -> Any:
    after = re.search(r"updated:>=(\S+)", search)
    before = re.search(r"updated:<(\d\S+)", search)
    found = [
        each
        for each in changes
        if (after is None or each["updatedAt"] >= after.group(1))
        and (before is None or each["updatedAt"] < before.group(1))
    ]
    return {"search": {"nodes": sorted(found, key=lambda each: each["updatedAt"])[::-1][:25]}}


@pytest.fixture(scope="module")
def running() -> Iterator[Service]:
    with service(GitHub()) as started:
        yield started


@pytest.fixture
def hub(running: Service) -> GitHub:
    running.answering = answering = GitHub()
    return answering


def pull(running: Service, state: Any = None, token: str = TOKEN, **more: Any) -> Outcome:
    about = partial(github.pull, address=running.address + "/graphql")
    outcome = running.pull(about, state=state, secrets={"token": token}, **more)
    assert len(running.received) <= MOST_REQUESTS
    return outcome


def test_a_commit_has_its_lines_and_the_time_of_its_author(running: Service, hub: GitHub) -> None:
    hub.own = {"svc": "2026-01-14T11:00:00Z"}
    hub.commits = {"svc": [commit(1), commit(2, parents={"totalCount": 2})]}

    records = pull(running).records

    assert records[0] == CodeEvent(
        key=sha(1),
        type="commit",
        action="pushed",
        occurred_at=datetime(2026, 1, 14, 8, tzinfo=UTC),
        repository="alice/svc",
        is_private=False,
        title="Change 1",
        url=f"https://github.com/alice/svc/commit/{sha(1)}",
        ref="main",
        sha=sha(1),
        additions=5,
        deletions=2,
        changed_files=1,
    )
    # The lines of a merge are those of its commits.
    assert (records[1].additions, records[1].deletions, records[1].changed_files) == (0, 0, 0)


def test_what_happened_to_a_pull_request_are_events(running: Service, hub: GitHub) -> None:
    closed, reopened = "2026-01-12T10:00:00Z", "2026-01-12T11:00:00Z"
    merged = "2026-01-12T12:00:00Z"
    timeline = [
        {"__typename": "ClosedEvent", "createdAt": closed},
        {"__typename": "ReopenedEvent", "createdAt": reopened},
        {"__typename": "ClosedEvent", "createdAt": "2026-01-12T12:00:01Z"},
    ]
    hub.authored = [change(7, state="MERGED", mergedAt=merged, timelineItems={"nodes": timeline})]

    records = pull(running).records

    assert [(each.action, each.key, each.state) for each in records] == [
        ("opened", "alice/svc#7:opened:1768208400000", "merged"),
        ("closed", "alice/svc#7:closed:1768212000000", "merged"),
        ("reopened", "alice/svc#7:reopened:1768215600000", "merged"),
        ("merged", "alice/svc#7:merged:1768219200000", "merged"),
    ]
    assert records[0]._replace(state=None, occurred_at=NOW) == CodeEvent(
        key="alice/svc#7:opened:1768208400000",
        type="pull_request",
        action="opened",
        occurred_at=NOW,
        repository="alice/svc",
        is_private=True,
        title="Pull request 7",
        url="https://github.com/alice/svc/pull/7",
        ref="feature",
        number=7,
        additions=10,
        deletions=4,
        changed_files=3,
    )


def test_reviews_of_others_pull_requests_are_events(running: Service, hub: GitHub) -> None:
    reviews = [
        {"state": "COMMENTED", "submittedAt": "2026-01-12T10:00:00Z", "url": "https://a/1"},
        {"state": "APPROVED", "submittedAt": "2026-01-12T11:00:00Z", "url": "https://a/2"},
        {"state": "PENDING", "submittedAt": None, "url": "https://a/3"},
    ]
    hub.reviewed = [change(9, reviews={"nodes": reviews})]

    pulled = pull(running)

    records = pulled.records
    assert pulled.refused == []
    assert [(each.type, each.action, each.state, each.url) for each in records] == [
        ("review", "commented", "commented", "https://a/1"),
        ("review", "approved", "approved", "https://a/2"),
    ]
    assert records[1].key == "alice/svc#9:approved:1768215600000"


def test_the_history_of_all_years_comes_once_and_then_what_is_new(
    running: Service, hub: GitHub
) -> None:
    hub.page = 2
    hub.own = {"svc": "2026-01-14T11:00:00Z"}
    hub.years = {2019: ["old", "gone"], 2025: ["svc", "other"]}
    hub.commits = {
        "svc": [commit(number) for number in range(150)],
        "old": [commit(1000, "2019-05-01T00:00:00Z")],
        "other": [commit(2000, "2025-05-01T00:00:00Z")],
    }
    # More than a page of them has changed in the same second.
    hub.authored = [change(number) for number in range(20)]
    hub.authored += [change(number, f"2025-01-{number:02}T00:00:00Z") for number in range(1, 29)]

    records, state = again(lambda state: pull(running, state))
    shas = {each.sha for each in records if each.type == "commit"}
    assert shas == {sha(number) for number in (*range(150), 1000, 2000)}
    assert {each.number for each in records if each.type == "pull_request"} == set(range(29))

    assert pull(running, state).state == state
    assert len(running.received) == 3

    hub.own["svc"] = "2026-01-15T12:30:00Z"
    hub.commits["svc"].insert(0, commit(151, "2026-01-15T12:00:00Z"))
    hub.commits["svc"].append(commit(152, "2025-12-30T00:00:00Z"))
    hub.own["new"] = "2026-01-15T12:40:00Z"
    hub.commits["new"] = [commit(3000, "2024-01-01T00:00:00Z")]
    hub.authored.append(change(99, "2026-01-15T12:00:00Z"))
    new, _ = again(lambda given: pull(running, given or state))
    assert {each.sha for each in new} >= {sha(151), sha(152), sha(3000)}
    assert 99 in {each.number for each in new}
    assert sha(1000) not in {each.sha for each in new}


def test_a_year_of_a_hundred_repositories_is_listed_in_parts(
    running: Service, hub: GitHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub.years = {2025: [f"r{number}" for number in range(100)]}
    windows: list[tuple[str, str]] = []
    listing = hub.Contributions

    def contributions(**window: str) -> Any:
        windows.append((window["from"], window["to"]))
        found = listing(**window)
        if len(windows) > 1:
            collection = found["viewer"]["contributionsCollection"]
            collection["commitContributionsByRepository"] = [{"repository": {"id": "more"}}]
        return found

    monkeypatch.setattr(hub, "Contributions", contributions)

    pull(running)

    assert windows == [
        ("2025-01-01T00:00:00Z", "2025-12-31T23:59:59Z"),
        ("2025-01-01T00:00:00Z", "2025-07-02T11:59:59Z"),
        ("2025-07-02T11:59:59Z", "2025-12-31T23:59:59Z"),
    ]


def test_a_repository_that_the_service_cannot_read_comes_last_and_is_then_left_out(
    running: Service, hub: GitHub
) -> None:
    hub.own = {"huge": "2026-01-14T11:00:00Z", "svc": "2026-01-14T11:00:00Z"}
    hub.commits = {"huge": [commit(1)], "svc": [commit(2)]}
    running.answering = lambda call: (
        Answer("<html>", 502) if call.value["variables"].get("repository") == "huge" else hub(call)
    )

    first = pull(running)
    second = pull(running, first.state)
    third = pull(running, second.state)

    assert [first.problem, second.problem] == [None, None]
    assert third.problem is None
    assert [each.sha for each in second.records] == [sha(2)]
    assert [(each.reason, each.example) for each in third.refused] == [
        ("repository_not_readable", "huge")
    ]


def test_a_history_without_an_end_costs_so_many_requests_a_pull(
    running: Service, hub: GitHub
) -> None:
    hub.own = {"endless": "2026-01-14T11:00:00Z"}
    hub.commits = {"endless": [commit(number) for number in range(10_000)]}
    hub.page = 1

    first = pull(running)
    second = pull(running, first.state)

    assert len(running.received) == MOST_REQUESTS
    assert [each.key for each in (first.records[0], second.records[0])] == [sha(0), sha(57)]


def test_a_slow_service_is_left_after_a_time(
    running: Service, hub: GitHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pulls_service, "LONGEST_S", 0)
    hub.own = {"svc": "2026-01-14T11:00:00Z"}
    hub.commits = {"svc": [commit(1)]}

    late = pull(running)
    requests = len(running.received)
    monkeypatch.undo()
    rest = pull(running, late.state)

    assert (requests, late.records) == (1, [])
    assert [each.sha for each in rest.records] == [sha(1)]


def test_the_token_of_another_person_begins_anew(running: Service, hub: GitHub) -> None:
    hub.own = {"svc": "2026-01-14T11:00:00Z"}
    hub.commits = {"svc": [commit(1)]}
    state = pull(running).state

    assert pull(running, state | {"login": "bob"}).records != []
    assert pull(running, state).records == []


def test_a_wrong_token_is_refused(running: Service, hub: GitHub) -> None:
    assert pull(running, token="wrong").problem == ("key_refused", True, None)


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        (Answer({"message": "Forbidden"}, 403), ("access_denied", True, None)),
        (
            Answer({"message": "secondary"}, 403, {"Retry-After": "60"}),
            ("rate_limited", False, timedelta(minutes=1)),
        ),
        (
            # The clock of the service is a year behind ours.
            Answer(
                {"errors": [{"type": "RATE_LIMITED"}], "data": None},
                headers={
                    "Date": "Wed, 15 Jan 2025 12:00:00 GMT",
                    "X-RateLimit-Remaining": "0",
                    "X-RateLimit-Reset": "1736943000",
                },
            ),
            ("rate_limited", False, timedelta(minutes=10)),
        ),
        (
            Answer({}, 429, {"Retry-After": "Thu, 15 Jan 2026 12:05:00 GMT"}),
            ("rate_limited", False, timedelta(minutes=5)),
        ),
        (
            # A time that has passed.
            Answer({}, 429, {"X-RateLimit-Reset": "1"}),
            ("rate_limited", False, timedelta(0)),
        ),
        (
            Answer("<html>", 502, {"X-RateLimit-Reset": "99999999999"}),
            ("server_error", False, None),
        ),
        (Answer({"errors": [{"message": "no"}]}), ("unreadable", False, None)),
        (Answer({"errors": [{"type": "INSUFFICIENT_SCOPES"}]}), ("access_denied", True, None)),
        (Answer({"errors": [{"type": []}, 7]}), ("unreadable", False, None)),
        (Answer({"data": {"viewer": None}}), ("unreadable", False, None)),
        (Answer({"data": {"viewer": {"login": "a\0", "id": 7}}}), ("unreadable", False, None)),
        (Answer([]), ("unreadable", False, None)),
        (Answer("NaN"), ("unreadable", False, None)),
    ],
)
def test_an_answer_without_data_is_a_problem(running: Service, given: Answer, problem: Any) -> None:
    running.answering = lambda _: given

    assert pull(running).problem == problem


def test_values_of_another_shape_are_refused_or_left_out(running: Service, hub: GitHub) -> None:
    hub.own = {"svc": "2026-01-14T11:00:00Z"}
    hub.commits = {
        "svc": [
            commit(1, oid=None),
            commit(2, authoredDate="soon"),
            commit(3, additions="x", parents=None, url=7, message="\ud800 \0é"),
            7,  # type: ignore[list-item]  # a hostile answer
        ]
    }
    hub.page = 4
    nodes = [
        None,
        {},
        7,
        change(1, repository=None),
        change(2) | {"number": "two"},
        change(3, timelineItems={"nodes": [{"__typename": "ReopenedEvent"}, 7]}),
    ]
    running.answering = lambda call: (
        Answer({"data": {"search": {"nodes": nodes}}})
        if "is:pr author:@me" in str(call.value["variables"].get("search"))
        else hub(call)
    )

    pulled = pull(running)

    reasons = [each.reason for each in pulled.refused]
    assert reasons == [
        "missing_time",
        "missing_repository",
        "missing_number",
        "missing_time",
        "missing_sha",
        "invalid_time",
        "missing_sha",
    ]
    assert checks.refusal(pulled.records[-1]) == "unstorable_text"
