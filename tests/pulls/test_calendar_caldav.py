"""The pull of a CalDAV account from servers that do not behave like Radicale, and from hostile ones."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from html import escape
from typing import Final

import pytest

from resourceserver.integrations.pulls import caldav
from resourceserver.integrations.pulls.pulling import PullFailed
from shared.fetcher import NotHTTPS
from tests import https
from tests.https import Host, Request, plain
from tests.pulls.calendars import NOW, PASSWORD, Reading, event, pull, text

ABOUT: Final = "PROPFIND"
QUERY: Final = "REPORT"
CALENDAR: Final = "<resourcetype><collection/><C:calendar/></resourcetype>"

Answers = Mapping[str, str | tuple[bytes, ...]]


def resource(path: str, properties: str) -> str:
    """Return what a server says of a resource."""
    return (
        f"<response><href>{path}</href><propstat><prop>{properties}</prop>"
        "<status>HTTP/1.1 200 OK</status></propstat></response>"
    )


def status(*resources: str) -> str:
    """Return the answer about resources."""
    names = 'xmlns="DAV:" xmlns:C="urn:ietf:params:xml:ns:caldav"'
    return f'<?xml version="1.0"?><multistatus {names}>{"".join(resources)}</multistatus>'


def of_calendar(path: str, name: str, more: str = "") -> str:
    """Return what a server says of a calendar."""
    return resource(path, f"{CALENDAR}<displayname>{name}</displayname>{more}")


def of_event(calendar: str, tag: str = "1") -> str:
    """Return an event, whose text is the calendar ``calendar``."""
    data = f"<C:calendar-data>{escape(calendar)}</C:calendar-data>"
    return resource("/a/b.ics", f"<getetag>{tag}</getetag>{data}")


@contextmanager
def serving(answers: Answers) -> Iterator[Host]:
    """Run a host with an answer for each method and path; it has nothing else."""

    def answer(request: Request) -> tuple[bytes, ...]:
        found = answers.get(f"{request.method} {request.target}")
        if isinstance(found, str):
            return plain(found.encode(), status="207 Multi-Status")
        return found or plain(b"", status="404 Not Found")

    with https.host(answer) as host:
        yield host


def read(host: Host, path: str = "/", **options: object) -> Reading:
    return pull(host, path, user="alice", password=PASSWORD, **options)  # type: ignore[arg-type] # passed on


HOME: Final = {
    "PROPFIND /": status(
        resource("/", "<current-user-principal><href>/me/</href></current-user-principal>")
    ),
    "PROPFIND /me/": status(
        resource(
            "/me/",
            "<C:calendar-home-set><href>/own/</href></C:calendar-home-set>"
            "<C:calendar-user-address-set><href>mailto:Alice@Example.org</href>"
            "</C:calendar-user-address-set>",
        )
    ),
}


def test_all_calendars_of_an_account_that_can_have_events_are_read() -> None:
    tasks = (
        "<C:supported-calendar-component-set><C:comp name='VTODO'/>"
        "</C:supported-calendar-component-set>"
    )
    zone = "<C:calendar-timezone>BEGIN:VCALENDAR\nTZID:Asia/Tokyo\nEND</C:calendar-timezone>"
    own = "ATTENDEE;PARTSTAT=DECLINED:mailto:alice@example.org"
    answers = HOME | {
        "PROPFIND /own/": status(
            resource("/own/", "<resourcetype><collection/></resourcetype>"),
            of_calendar("/own/work/", "Work", zone),
            of_calendar("/own/tasks/", "Tasks", tasks),
            of_calendar("/own/more/", "Work"),
        ),
        "REPORT /own/work/": status(of_event(text(event("1", "20250616T090000", own)))),
        "REPORT /own/more/": status(
            of_event(text(event("1"), event("2"))), of_event(text(event("3")))
        ),
    }

    with serving(answers) as host:
        reading = read(host)

    first, *others = reading.events.values()
    assert (first.key, first.response, first.starts_at.hour) == ("ics:1", "declined", 0)
    assert (first.calendar.key, first.calendar.timezone) == ("Work", "Asia/Tokyo")
    assert [each.key for each in others] == ["ics:2", "ics:3"]
    # The name of the first one is taken.
    assert {each.calendar.name for each in others} == {"Work"}
    assert others[0].calendar.key.startswith("Work:")
    assert reading.refused == []


def test_a_server_without_marks_of_its_calendars_is_asked_for_those_of_events() -> None:
    answers = {
        "PROPFIND /own/work/": status(of_calendar("/own/work/", "Work")),
        "REPORT /own/work/": status(of_event(text(event("1")))),
    }

    with serving(answers) as host:
        first = read(host, "/own/work/")
        second = read(host, "/own/work/", state=first.state, now=NOW + timedelta(hours=1))
        answers["REPORT /own/work/"] = status(of_event(text(event("1")), tag="2"))
        third = read(host, "/own/work/", state=second.state, now=NOW + timedelta(hours=2))

    assert [len(each.events) for each in (first, second, third)] == [1, 0, 1]
    queries = [b"calendar-data" in each.body for each in host.requests if each.method == QUERY]
    assert queries == [False, True, False, False, True]


def test_a_server_without_any_marks_is_read_each_time() -> None:
    answers = {
        "PROPFIND /work/": status(of_calendar("/work/", "Work")),
        "REPORT /work/": status(of_event(text(event("1"))).replace("getetag", "other")),
    }

    with serving(answers) as host:
        first = read(host, "/work/")
        second = read(host, "/work/", state=first.state)

    assert second.events.keys() == {"ics:1"}


def test_the_marks_of_calendars_say_that_nothing_has_changed() -> None:
    def home(*tags: int) -> str:
        return status(
            *(
                of_calendar(f"/own/{n}/", f"C{n}", f"<sync-token>t{tag}</sync-token>")
                for n, tag in enumerate(tags)
            )
        )

    answers = HOME | {
        "PROPFIND /own/": home(1, 1),
        "REPORT /own/0/": status(of_event(text(event("1")))),
        "REPORT /own/1/": status(of_event(text(event("2")))),
    }

    with serving(answers) as host:
        first = read(host)
        second = read(host, state=first.state, now=NOW + timedelta(hours=23))
        count = len(host.requests)
        third = read(host, state=first.state, now=NOW + timedelta(hours=24))
        answers["PROPFIND /own/"] = home(1, 2)
        fourth = read(host, state=third.state, now=NOW + timedelta(hours=25))

    assert [len(each.events) for each in (first, second, third, fourth)] == [2, 0, 2, 2]
    assert (second.pulled.finish, count) == (None, 8)


def test_an_account_is_found_through_the_well_known_address() -> None:
    moved = plain(b"", status="301 Moved Permanently", headers={"Location": "/dav/"})
    answers: Answers = {
        "PROPFIND /.well-known/caldav": moved,
        "PROPFIND /dav/": HOME["PROPFIND /"],
        "PROPFIND /me/": HOME["PROPFIND /me/"],
        "PROPFIND /own/": status(of_calendar("/own/work/", "Work")),
        "REPORT /own/work/": status(of_event(text(event("1")))),
    }

    with serving(answers) as host:
        reading = read(host)

    assert reading.events.keys() == {"ics:1"}


def test_the_password_goes_to_hosts_beside_the_address_and_to_no_others() -> None:
    """As at iCloud, where each account is on another host than the address that all people enter."""
    address = "https://caldav.example.org/a/"

    near = ["https://caldav.example.org/b", "https://p01-caldav.example.org:443/c"]
    far = [
        "http://caldav.example.org/b",
        "https://example.org.evil.example/",
        "https://evilexample.org/",
        "https://[::1",
        "https://127.0.0.1/",
    ]

    assert [each for each in near + far if caldav._is_beside(each, address)] == near
    assert not caldav._is_beside("https://10.0.0.2/", "https://10.0.0.1/")
    assert not caldav._is_beside("https://other.example/", "https://calendar.example/")


def test_a_server_that_names_a_foreign_host_does_not_get_the_password_there() -> None:
    with https.host(lambda _: plain(b"", status="207 Multi-Status")) as other:
        foreign = other.url("/me/", name="other.example")
        principal = f"<current-user-principal><href>{foreign}</href></current-user-principal>"
        answers = {"PROPFIND /": status(resource("/", principal))}
        with serving(answers) as host, pytest.raises(PullFailed, match="other_server"):
            read(host)

    assert other.requests == []


@pytest.mark.parametrize(
    ("answers", "code"),
    [
        ({"PROPFIND /": plain(b"", status="401 Unauthorized")}, "key_refused"),
        ({"PROPFIND /": plain(b"", status="429 Too Many Requests")}, "rate_limited"),
        ({"PROPFIND /": plain(b"", status="503 Service Unavailable")}, "server_error"),
        # A server without CalDAV may fail at its methods.
        ({"PROPFIND /": plain(b"", status="500 Internal Server Error")}, "not_found"),
        (HOME | {"PROPFIND /me/": plain(b"", status="502 Bad Gateway")}, "server_error"),
        ({"PROPFIND /": "<multistatus><response>"}, "unreadable"),
        (
            {"PROPFIND /": '<!DOCTYPE a [<!ENTITY b "cc">]><multistatus>&b;</multistatus>'},
            "unreadable",
        ),
        ({"PROPFIND /": status(resource("/", "<resourcetype/>"))}, "no_calendar"),
        (HOME | {"PROPFIND /own/": status()}, "no_calendar"),
        (HOME, "not_found"),
        (
            HOME
            | {
                "PROPFIND /own/": status(of_calendar("/own/work/", "Work")),
                "REPORT /own/work/": plain(b"", status="503 Service Unavailable"),
            },
            "server_error",
        ),
    ],
)
def test_a_server_that_does_not_answer_as_it_should_ends_the_pull(
    answers: Answers, code: str
) -> None:
    with serving(answers) as host, pytest.raises(PullFailed) as failed:
        read(host)

    assert failed.value.code == code


def test_a_password_is_not_sent_without_tls() -> None:
    with serving({}) as host, pytest.raises(NotHTTPS):
        read(host, host.url("/").replace("https://", "http://"))

    assert host.requests == []


@pytest.mark.parametrize(
    "report",
    [
        plain(b"", status="403 Forbidden"),
        status(resource("/own/work/2.ics", "<getetag>1</getetag>")),
        status(of_event(text(event("2")).removesuffix("END:VCALENDAR\r\n"))),
    ],
)
def test_what_a_server_withholds_is_not_taken_for_removed(report: str | tuple[bytes, ...]) -> None:
    answers = HOME | {
        "PROPFIND /own/": status(
            of_calendar("/own/work/", "Work", "<sync-token>1</sync-token>"),
            of_calendar("/own/more/", "More", "<sync-token>1</sync-token>"),
        ),
        "REPORT /own/work/": report,
        "REPORT /own/more/": status(of_event(text(event("1")))),
    }

    with serving(answers) as host:
        reading = read(host)

    assert "ics:1" in reading.events
    assert not reading.is_complete


def test_only_so_many_calendars_and_bytes_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(caldav, "MOST_CALENDARS", 2)
    many = (of_calendar(f"/own/{n}/", f"C{n}", "<sync-token>1</sync-token>") for n in range(3))
    answers = HOME | {
        "PROPFIND /own/": status(*many),
        "REPORT /own/0/": status(of_event(text(event("1")))),
        "REPORT /own/1/": status(of_event(text(event("2")))),
    }

    with serving(answers) as host:
        reading = read(host)
        monkeypatch.setattr(caldav, "MOST_REQUESTS", 3)
        with pytest.raises(PullFailed, match="too_large"):
            read(host)

    assert sorted(reading.events) == ["ics:1", "ics:2"]
    assert [(each.reason, each.example) for each in reading.refused] == [
        ("too_many_calendars", "C2")
    ]
    assert not reading.is_complete
