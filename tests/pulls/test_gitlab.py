"""Commits, merge requests and reviews of a person at a server of GitLab."""

import hashlib
import json
import re
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from typing import Any, Final

import pytest

from resourceserver.integrations.pulls import gitlab
from resourceserver.integrations.pulls.service import MOST_REQUESTS
from resourceserver.integrations.records import CodeEvent
from tests.pulls.pulled import NOW, Answer, Call, Outcome, Service, again, service

ME, OTHER = 1, 2


TOKEN: Final = "read-only"


def sha(number: int) -> str:
    return f"{number:040x}"


def commit(number: int, email: str = "alice@example.org", **more: Any) -> dict[str, Any]:
    return {
        "id": sha(number),
        "title": f"Change {number}",
        "author_email": email,
        "authored_date": "2026-01-14T10:00:00.000+02:00",
        "committed_date": "2026-01-14T10:00:00.000+02:00",
        "web_url": f"https://gitlab.com/team/svc/-/commit/{sha(number)}",
        "parent_ids": [sha(0)],
        "stats": {"additions": 5, "deletions": 2, "total": 7},
    } | more


def request(
    number: int, updated: str = "2026-01-13T09:00:00.000Z", *, author: int = ME, **more: Any
) -> dict[str, Any]:
    return {
        "iid": number,
        "project_id": 10,
        "title": f"Merge request {number}",
        "state": "opened",
        "created_at": "2026-01-12T09:00:00.000Z",
        "updated_at": updated,
        "merged_at": None,
        "closed_at": None,
        "source_branch": "feature",
        "author": {"id": author},
        "references": {"full": f"team/svc!{number}"},
        "web_url": f"https://gitlab.com/team/svc/-/merge_requests/{number}",
    } | more


def event(action: str, number: int, at: str = "2026-01-13T10:00:00.000Z") -> dict[str, Any]:
    about: dict[str, Any] = {"project_id": 10, "created_at": at, "action_name": action}
    if action == "approved":
        return about | {"target_type": "MergeRequest", "target_iid": number}
    note = {"noteable_type": "MergeRequest", "noteable_iid": number, "system": False}
    return about | {"target_type": "DiffNote", "target_iid": 700, "note": note}


def project(number: int, activity: str = "2026-01-14T10:00:00.000Z") -> dict[str, Any]:
    return {
        "id": number,
        "path_with_namespace": f"team/p{number}",
        "visibility": "private",
        "last_activity_at": activity,
    }


class GitLab:
    """The interface, as far as the pull uses it."""

    def __init__(self) -> None:
        self.user: Any = {"id": ME, "username": "alice", "email": "alice@example.org"}
        self.authored: list[dict[str, Any]] = []
        self.others: list[dict[str, Any]] = []
        self.events: list[dict[str, Any]] = []
        self.projects: list[dict[str, Any]] = []
        self.commits: dict[int, list[dict[str, Any]]] = {}

    def __call__(self, call: Call) -> Answer:
        if call.headers.get("private-token") != TOKEN:
            return Answer({"message": "401 Unauthorized"}, 401)
        path = call.path.removeprefix("/sub/api/v4/")
        given = self.answer(path, call.query)
        etag = f'W/"{hashlib.sha256(json.dumps(given.value).encode()).hexdigest()}"'
        if given.status == 200 and call.headers.get("if-none-match") == etag:
            return Answer(None, 304)
        return Answer(given.value, given.status, {"ETag": etag})

    def answer(self, path: str, query: Any) -> Answer:
        within = re.fullmatch(r"projects/(\d+)/(\w+)(/commits)?", path)
        match within.group(2) if within else path:
            case "user":
                return Answer(self.user)
            case "user/emails":
                return Answer([{"email": "Alice@Work.example"}])
            case "merge_requests" if within:
                numbers = query["iids[]"].split(",")
                known = [*self.authored, *self.others]
                given = Answer([each for each in known if str(each["iid"]) in numbers])
            case "repository" if within:
                given = self.commits_of(int(within.group(1)), query)
            case "merge_requests":
                assert (query["scope"], query["state"]) == ("created_by_me", "all")
                after = _at(query.get("updated_after"))
                found = [each for each in self.authored if _at(each["updated_at"]) >= after]
                given = _page(sorted(found, key=lambda each: each["updated_at"]), query)
            case "events":
                given = self.events_after(query.get("after", ""), query)
            case "projects":
                found = [
                    each
                    for each in self.projects
                    if each["id"] > int(query.get("id_after", 0))
                    and _at(each["last_activity_at"]) > _at(query.get("last_activity_after"))
                ]
                given = _page(sorted(found, key=lambda each: each["id"]), query | {"page": "1"})
        return given

    def events_after(self, day: str, query: Any) -> Answer:
        found = [
            each
            for each in self.events
            if query["action"] in each["action_name"] and each["created_at"][:10] > day
        ]
        return _page(sorted(found, key=lambda each: each["created_at"]), query)

    def commits_of(self, project: int, query: Any) -> Answer:
        if project not in self.commits:
            return Answer({"message": "404 Repository Not Found"}, 404)
        # The address is a pattern.
        found = [each for each in self.commits[project] if query["author"] in each["author_email"]]
        found = [each for each in found if _at(each["committed_date"]) >= _at(query.get("since"))]
        return _page(found, query)


def _at(written: str | None) -> datetime:
    return datetime.fromisoformat(written or "0001-01-01T00:00:00Z")


def _page(found: list[Any], query: Any) -> Answer:
    size = int(query["per_page"])
    first = (int(query["page"]) - 1) * size
    return Answer(found[first : first + size])


@pytest.fixture(scope="module")
def running() -> Iterator[Service]:
    with service(GitLab()) as started:
        yield started


@pytest.fixture
def lab(running: Service) -> GitLab:
    running.answering = answering = GitLab()
    return answering


def pull(running: Service, state: Any = None, token: str = TOKEN, **more: Any) -> Outcome:
    about = {"address": running.address + "/sub/"} | more
    outcome = running.pull(gitlab.pull, state=state, settings=about, secrets={"token": token})
    assert len(running.received) <= MOST_REQUESTS
    return outcome


def test_a_commit_has_its_lines_and_the_time_of_its_author(running: Service, lab: GitLab) -> None:
    lab.projects = [project(10), project(11)]
    others = commit(3, "alice@example.org.evil")
    merge = commit(2, "ALICE@work.example", parent_ids=[sha(0), sha(1)])
    lab.commits = {10: [commit(1), merge, others]}
    merge["author_email"] = "alice@work.example"

    records = pull(running).records

    assert records[0] == CodeEvent(
        key=sha(1),
        type="commit",
        action="pushed",
        occurred_at=datetime(2026, 1, 14, 8, tzinfo=UTC),
        repository="team/p10",
        is_private=True,
        title="Change 1",
        url=f"https://gitlab.com/team/svc/-/commit/{sha(1)}",
        sha=sha(1),
        additions=5,
        deletions=2,
    )
    assert [(each.sha, each.additions) for each in records] == [(sha(1), 5), (sha(2), 0)]


def test_what_happened_to_a_merge_request_are_events(running: Service, lab: GitLab) -> None:
    merged, closed = "2026-01-12T12:00:00.000Z", "2026-01-12T13:00:00.000Z"
    lab.authored = [
        request(7, state="merged", merged_at=merged),
        request(8, state="closed", closed_at=closed, references=None),
    ]

    records = pull(running).records

    assert [(each.action, each.key, each.state) for each in records] == [
        ("opened", "team/svc#7:opened:1768208400000", "merged"),
        ("merged", "team/svc#7:merged:1768219200000", "merged"),
        ("opened", "team/svc#8:opened:1768208400000", "closed"),
        ("closed", "team/svc#8:closed:1768222800000", "closed"),
    ]
    assert records[0]._replace(state=None, occurred_at=NOW) == CodeEvent(
        key="team/svc#7:opened:1768208400000",
        type="pull_request",
        action="opened",
        occurred_at=NOW,
        repository="team/svc",
        title="Merge request 7",
        url="https://gitlab.com/team/svc/-/merge_requests/7",
        ref="feature",
        number=7,
    )


def test_approvals_and_comments_on_what_others_opened_are_reviews(
    running: Service, lab: GitLab
) -> None:
    issue = event("commented on", 20)
    issue["note"]["noteable_type"] = "Issue"
    lab.authored = [request(1)]
    lab.others = [request(20, author=OTHER, state="opened")]
    lab.events = [
        event("approved", 20),
        event("commented on", 20, "2026-01-13T11:00:00.000Z"),
        event("commented on", 1),
        event("approved", 404),
        issue,
    ]

    pulled = pull(running)

    reviews = [each for each in pulled.records if each.type == "review"]
    assert [(each.action, each.key, each.title, each.state) for each in reviews] == [
        ("approved", "team/svc#20:approved:1768298400000", "Merge request 20", "approved"),
        ("commented", "team/svc#20:commented:1768302000000", "Merge request 20", "commented"),
    ]
    assert [each.reason for each in pulled.refused] == ["merge_request_not_readable"]


def test_the_whole_history_comes_once_and_then_what_is_new(
    running: Service, lab: GitLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gitlab, "PAGE", 5)
    monkeypatch.setattr(gitlab, "_AUTHORED", gitlab._AUTHORED._replace(size=5))
    monkeypatch.setattr(
        gitlab, "_REVIEWED", tuple(each._replace(size=5) for each in gitlab._REVIEWED)
    )
    first = date(2025, 1, 1)
    days = [(first + timedelta(days=number)).isoformat() for number in range(60)]
    lab.projects = [project(number) for number in range(10, 22)]
    # The server had a wrong clock at that time.
    lab.projects[1]["last_activity_at"] = "2027-01-01T00:00:00.000Z"
    lab.commits = {
        number: [commit(100 * number + each) for each in range(13)] for number in range(10, 22)
    }
    lab.authored = [request(number, f"{day}T09:00:00.000Z") for number, day in enumerate(days)]
    # More than a page of them has changed at the same instant, and as many events are of one day.
    lab.authored += [request(number) for number in range(100, 113)]
    lab.others = [request(number, author=OTHER) for number in range(200, 260)]
    lab.events = [
        event("approved", 200 + number, f"{day}T10:00:00.000Z") for number, day in enumerate(days)
    ]
    lab.events += [event("approved", 200 + number) for number in range(13)]

    records, state = again(lambda state: pull(running, state))
    shas = {each.sha for each in records if each.type == "commit"}
    assert shas == {sha(100 * number + each) for number in range(10, 22) for each in range(13)}
    numbers = {each.number for each in records if each.type == "pull_request"}
    assert numbers == {*range(60), *range(100, 113)}
    reviews = {each.key for each in records if each.type == "review"}
    assert len(reviews) == 73

    lab.authored.append(request(300, "2026-01-15T12:00:00.000Z"))
    lab.others.append(request(400, author=OTHER))
    lab.events.append(event("approved", 400, "2026-01-15T12:00:00.000Z"))
    lab.projects[0]["last_activity_at"] = "2026-01-15T11:50:00.000Z"
    lab.commits[10].insert(0, commit(9999))
    new, _ = again(lambda given: pull(running, given or state))
    assert {(each.type, each.number, each.sha) for each in new} >= {
        ("pull_request", 300, None),
        ("review", 400, None),
        ("commit", None, sha(9999)),
    }


def test_a_list_that_did_not_change_is_not_sent_again(running: Service, lab: GitLab) -> None:
    lab.authored = [request(7)]
    state = pull(running, pull(running).state).state

    quiet = pull(running, state)

    assert quiet.records == []
    assert quiet.state == state
    conditional = [call.path for call in running.received if "if-none-match" in call.headers]
    assert conditional == ["/sub/api/v4/merge_requests"] + 2 * ["/sub/api/v4/events"]


def test_a_project_that_the_server_cannot_read_comes_last_and_is_then_left_out(
    running: Service, lab: GitLab
) -> None:
    lab.projects = [project(10), project(11)]
    lab.commits = {10: [commit(1)], 11: [commit(2)]}
    running.answering = lambda call: (
        Answer("<html>", 500) if "/10/repository" in call.path else lab(call)
    )

    first = pull(running)
    second = pull(running, first.state)
    third = pull(running, second.state)

    assert [first.problem, second.problem] == [None, None]
    assert [each.sha for each in second.records] == [sha(2)]
    assert ("repository_not_readable", "team/p10") in third.refused
    assert third.problem is None
    running.answering = lab
    assert pull(running, third.state).problem is None
    assert not [call for call in running.received if "/10/repository" in call.path]


def test_a_list_that_repeats_costs_so_many_requests_a_pull(running: Service, lab: GitLab) -> None:
    repeated = [request(number) for number in range(100)]
    running.answering = lambda call: (
        Answer(repeated) if call.path.endswith("/v4/merge_requests") else lab(call)
    )

    first = pull(running)
    second = pull(running, first.state)

    assert len(running.received) == MOST_REQUESTS
    assert len({each.key for each in first.records + second.records}) == 100


def test_another_person_or_server_begins_anew(running: Service, lab: GitLab) -> None:
    lab.authored = [request(7)]
    state = pull(running, pull(running).state).state
    lab.user = {"id": 3, "email": None}

    assert pull(running, state).records != []


@pytest.mark.parametrize("address", ["http://gitlab.example", "gitlab.example", "file:///etc"])
def test_an_address_without_https_is_a_problem(running: Service, address: str) -> None:
    assert pull(running, address=address).problem == ("not_https", False, None)


def test_a_wrong_token_is_refused(running: Service, lab: GitLab) -> None:
    assert pull(running, token="wrong").problem == ("key_refused", True, None)


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        (Answer({"error": "insufficient_scope"}, 403), ("access_denied", True, None)),
        (
            Answer({}, 429, {"Retry-After": "30", "RateLimit-Reset": "1"}),
            ("rate_limited", False, timedelta(seconds=30)),
        ),
        (Answer("<html>", 404), ("not_found", False, None)),
        (Answer("<html>", 503), ("server_error", False, None)),
        (Answer("<html>"), ("unreadable", False, None)),
        (Answer([]), ("unreadable", False, None)),
        (Answer({"id": "1"}), ("unreadable", False, None)),
    ],
)
def test_an_answer_without_a_user_is_a_problem(
    running: Service, given: Answer, problem: Any
) -> None:
    running.answering = lambda _: given

    assert pull(running).problem == problem


def test_values_of_another_shape_are_refused_or_left_out(running: Service, lab: GitLab) -> None:
    hostile: dict[str, Any] = {
        "merge_requests": [
            7,
            request(1, created_at=None),
            request(2, references={}, web_url="https://["),
        ],
        "events": [7, {"project_id": 10, "note": 7}, event("approved", 1) | {"created_at": "x"}],
        "projects": [7, {"id": "x"}, project(10) | {"path_with_namespace": "a\0"}, project(11)],
        "projects/11/repository/commits": [
            7,
            commit(1, id=None),
            commit(2, authored_date="\ud800"),
            commit(3, stats=[], parent_ids=7, title="\0"),
        ],
        "projects/10/merge_requests": [7, {"iid": []}, request(1, author=OTHER)],
    }
    running.answering = lambda call: (
        Answer(hostile[path])
        if (path := call.path.removeprefix("/sub/api/v4/")) in hostile
        else lab(call)
    )

    pulled = pull(running)

    assert [each.reason for each in pulled.refused] == [
        "missing_repository",
        "missing_time",
        "missing_repository",
        "invalid_time",
        "invalid_time",
        "missing_sha",
        "invalid_time",
    ]
    assert [(each.sha, each.title, each.additions) for each in pulled.records] == [
        (sha(3), None, None)
    ]
