"""Commits, pull requests and reviews of an invented week."""

from typing import Any, Final

import pytest

from tests.conftest import Person
from tests.mcp.assistant import Assistant

WEEK: Final = {"from_": "2025-06-16", "to": "2025-06-22", "tz": "Europe/Berlin"}


def happen(alice: Person, at: str, type_: str, action: str, repository: str, **more: Any) -> None:
    given = {
        "user_id": alice.user_id,
        "provider": "github",
        "provider_key": f"{type_} {at}",
        "type": type_,
        "action": action,
        "occurred_at": at,
        "repository": repository,
        **more,
    }
    alice.connection.execute(
        f"insert into code.event ({', '.join(given)})"  # noqa: S608 -- names from here
        f" values ({', '.join('%s' for _ in given)})",
        list(given.values()),
    )


@pytest.fixture
def week(alice: Person) -> Person:
    """Alice, who worked on two repositories in that week, and also just before and after it."""
    lines = {"additions": 10, "deletions": 1, "changed_files": 1}
    happen(alice, "2025-06-15T21:59:59Z", "commit", "pushed", "alice/svc", title="before", **lines)
    happen(alice, "2025-06-15T22:00:00Z", "commit", "pushed", "alice/svc", title="first", **lines)
    happen(alice, "2025-06-17T10:00:00Z", "commit", "pushed", "alice/svc", title="second", **lines)
    happen(alice, "2025-06-17T11:00:00Z", "commit", "pushed", "bob/Site", title="third")
    happen(
        alice,
        "2025-06-18T10:00:00Z",
        "pull_request",
        "opened",
        "alice/svc",
        number=5,
        additions=20,
        deletions=2,
        changed_files=2,
    )
    happen(alice, "2025-06-19T10:00:00Z", "pull_request", "merged", "alice/svc", number=5)
    happen(alice, "2025-06-22T21:59:59Z", "review", "approved", "bob/Site", number=7, title="last")
    happen(alice, "2025-06-22T22:00:00Z", "review", "approved", "bob/Site", number=8, title="after")
    return alice


def test_a_pull_request_counts_once_even_if_it_is_reopened(
    assistant: Assistant, week: Person
) -> None:
    happen(week, "2025-06-18T11:00:00Z", "pull_request", "opened", "alice/svc", number=5)
    happen(week, "2025-06-18T12:00:00Z", "pull_request", "opened", "bob/Site", number=5)
    happen(week, "2025-06-18T13:00:00Z", "pull_request", "opened", "bob/Site")

    answer = assistant.ask("get_code_activity", **WEEK)

    # Number 5 of both repositories, and one with an unknown number.
    assert (answer["pull_requests_opened"], answer["pull_requests_merged"]) == (3, 1)
    (opened,) = [each for each in answer["actions"] if each["action"] == "opened"]
    assert opened["count"] == 4


def test_events_are_counted_by_type_action_and_repository(
    assistant: Assistant, week: Person
) -> None:
    answer = assistant.ask("get_code_activity", **WEEK)

    assert answer["totals"] == {"count": 6, "additions": 20, "deletions": 2}
    assert [(row["type"], row["count"], row["additions"]) for row in answer["types"]] == [
        ("commit", 3, 20),
        ("pull_request", 2, 20),
        ("review", 1, 0),
    ]
    assert [(row["type"], row["action"], row["count"]) for row in answer["actions"]] == [
        ("commit", "pushed", 3),
        ("pull_request", "merged", 1),
        ("pull_request", "opened", 1),
        ("review", "approved", 1),
    ]
    assert answer["repositories"] == [
        {
            "name": "alice/svc",
            "provider": "github",
            "commits": 2,
            "pull_requests": 2,
            "reviews": 0,
            "additions": 20,
            "deletions": 2,
        },
        {
            "name": "bob/Site",
            "provider": "github",
            "commits": 1,
            "pull_requests": 0,
            "reviews": 1,
            "additions": 0,
            "deletions": 0,
        },
    ]
    assert [(row.get("title"), row.get("number")) for row in answer["recent"]] == [
        ("last", 7),
        (None, 5),
        (None, 5),
        ("third", None),
        ("second", None),
        ("first", None),
    ]
    assert answer["truncated"] is False


def test_the_newest_events_are_listed_and_all_are_counted(
    assistant: Assistant, week: Person
) -> None:
    answer = assistant.ask("get_code_activity", limit=2, **WEEK)

    assert [row["action"] for row in answer["recent"]] == ["approved", "merged"]
    assert (answer["totals"]["count"], answer["truncated"]) == (6, True)


@pytest.mark.parametrize(
    ("given", "actions"),
    [
        ({"type": "review"}, ["approved"]),
        ({"repository": "alice/svc"}, ["merged", "opened", "pushed", "pushed"]),
        ({"repository": "SVC"}, ["merged", "opened", "pushed", "pushed"]),
        ({"repository": "site"}, ["approved", "pushed"]),
        ({"repository": "svc", "type": "review"}, []),
        ({"repository": "svc", "type": "commit"}, ["pushed", "pushed"]),
    ],
)
def test_events_can_be_filtered_by_repository_and_type(
    assistant: Assistant, week: Person, given: dict[str, Any], actions: list[str]
) -> None:
    answer = assistant.ask("get_code_activity", **given, **WEEK)

    assert [row["action"] for row in answer["recent"]] == actions
    assert answer["totals"]["count"] == len(actions)
    assert [row["type"] for row in answer["types"]] == ["commit", "pull_request", "review"]


def test_more_than_twenty_repositories_are_cut(assistant: Assistant, alice: Person) -> None:
    for n in range(21):
        happen(alice, f"2025-06-17T10:00:{n:02}Z", "commit", "pushed", f"alice/r{n:02}")

    answer = assistant.ask("get_code_activity", limit=50, **WEEK)

    assert [row["name"] for row in answer["repositories"]][-1] == "alice/r19"
    assert (len(answer["repositories"]), len(answer["recent"])) == (20, 21)
    assert answer["truncated"] is True


def test_texts_of_any_length_fit_an_answer(assistant: Assistant, alice: Person) -> None:
    for n in range(50):
        long = f"{n:02}" + "\x01" * 100_000
        happen(
            alice, f"2025-06-17T10:00:{n:02}Z", "commit", "pushed", long, title=long, url=long, ref=long
        )  # fmt: skip

    response = assistant.call("get_code_activity", limit=50, **WEEK)

    assert len(response.content) <= 64 * 1024
    answer = response.json()["result"]["structuredContent"]
    assert answer["totals"]["count"] == 50
    assert answer["truncated"] is True
    assert answer["recent"]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"type": "push"}, "type: input should be 'commit', 'pull_request' or 'review'"),
        ({"type": ["commit"]}, "type: input should be 'commit', 'pull_request' or 'review'"),
        ({"repository": ""}, "repository: must have between 1 and 1024 characters"),
        ({"repository": 5}, "repository: must be a string"),
        ({"limit": 0}, "limit: input should be greater than or equal to 1"),
        ({"limit": 51}, "limit: input should be less than or equal to 50"),
        ({"limit": True}, "limit: input should be a valid integer"),
    ],
)
def test_invalid_arguments_are_an_error(
    assistant: Assistant, alice: Person, given: dict[str, Any], said: str
) -> None:
    assert assistant.mistake("get_code_activity", **given) == said
