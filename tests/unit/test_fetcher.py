"""The guarded fetcher: which addresses it connects to, and which redirects it follows."""

import socket
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared import special_addresses
from shared.fetcher import (
    AddressForbidden,
    Fetcher,
    FetchFailed,
    InvalidAddress,
    NotHTTPS,
    TLSFailed,
    TooManyRedirects,
    Unreachable,
)
from tests import https
from tests.https import LOOPBACK, Host, Request, plain

CALENDAR: Final = plain(b"BEGIN:VCALENDAR", headers={"Content-Type": "text/calendar"})


def redirect(location: str, status: str = "302 Found") -> tuple[bytes, ...]:
    return plain(b"", status=status, headers={"Location": location})


@pytest.fixture(scope="module")
def calendar() -> Iterator[Host]:
    """A host that answers every request with a calendar."""
    with https.host(lambda _: CALENDAR) as running:
        yield running


@pytest.fixture
def connects() -> Iterator[list[tuple[str, int]]]:
    """The addresses to which this process connects during a test."""
    _CONNECTS.clear()
    _IS_COUNTED.set()
    yield _CONNECTS
    _IS_COUNTED.clear()


_CONNECTS: Final[list[tuple[str, int]]] = []
_IS_COUNTED: Final = threading.Event()


def _count(event: str, arguments: tuple[Any, ...]) -> None:
    if event == "socket.connect" and _IS_COUNTED.is_set():
        _CONNECTS.append(arguments[1][:2])


# A hook cannot be removed, so one serves all tests of this module.
sys.addaudithook(_count)


def test_an_answer_has_status_headers_body_and_address(calendar: Host) -> None:
    url = calendar.url("/alice/private.ics?token=hunter2")

    answer = calendar.fetcher().fetch("GET", url, headers={"If-None-Match": '"1"'})

    assert (answer.status, answer.body, answer.url) == (200, b"BEGIN:VCALENDAR", url)
    assert answer.headers["content-type"] == "text/calendar"
    request = calendar.requests[-1]
    assert request.method == "GET"
    assert request.target == "/alice/private.ics?token=hunter2"
    assert request.headers["host"] == f"calendar.example:{calendar.port}"
    assert request.headers["if-none-match"] == '"1"'
    assert request.server_name == "calendar.example"
    assert "hunter2" not in repr(answer)


def test_a_request_has_its_method_and_body(calendar: Host) -> None:
    calendar.fetcher().fetch(
        "PROPFIND", calendar.url(), headers={"Depth": "1"}, body=b"<propfind/>"
    )

    request = calendar.requests[-1]
    assert (request.method, request.body) == ("PROPFIND", b"<propfind/>")
    assert request.headers["depth"] == "1"


@pytest.mark.parametrize(
    "status", ["204 No Content", "304 Not Modified", "404 Not Found", "503 Service Unavailable"]
)
def test_every_status_is_an_answer(status: str) -> None:
    with https.host(lambda _: plain(b"", status=status, headers={"ETag": '"2"'})) as host:
        answer = host.fetcher().fetch("GET", host.url(), types=("text/calendar",))

    assert answer.status == int(status[:3])
    assert answer.headers["etag"] == '"2"'


@pytest.mark.parametrize(
    "name", ["bücher.example", "BÜCHER.example", "xn--bcher-kva.example", "Calendar.EXAMPLE."]
)
def test_a_name_is_found_in_every_spelling(calendar: Host, name: str) -> None:
    assert calendar.fetcher().fetch("GET", calendar.url(name=name)).status == 200


@pytest.mark.usefixtures("calendar")
@pytest.mark.parametrize(
    ("url", "failure"),
    [
        ("http://calendar.example/", NotHTTPS),
        ("webcal://calendar.example/", NotHTTPS),
        ("file:///etc/passwd", NotHTTPS),
        (" https://calendar.example/", NotHTTPS),
        ("", NotHTTPS),
        ("https://", InvalidAddress),
        ("https://alice:hunter2@calendar.example/", InvalidAddress),
        ("https://calendar.example:0/", InvalidAddress),
        ("https://calendar.example:65536/", InvalidAddress),
        ("https://calendar.example\\@other.example/", InvalidAddress),
        ("https://calendar example/", InvalidAddress),
        ("https://calendar%2eexample/", InvalidAddress),
        ("https://calendar.example/a\nb", InvalidAddress),
        (f"https://{'a' * 64}.example/", InvalidAddress),
        ("https://calendar..example/", InvalidAddress),
        ("https://[::1/", InvalidAddress),
    ],
)
def test_an_address_that_may_not_be_fetched_is_refused_before_any_connection(
    connects: list[tuple[str, int]], url: str, failure: type[FetchFailed]
) -> None:
    with pytest.raises(failure) as raised:
        Fetcher(context=https.trust()).fetch("GET", url)

    assert connects == []
    assert "calendar" not in str(raised.value)
    assert "hunter2" not in str(raised.value)


SPECIAL: Final = """
    127.0.0.1 127.0.0.1. 127\u30020\u30020\u30021 0.0.0.0 10.0.0.1 169.254.169.254
    100.64.0.1 255.255.255.255 localhost [::1] [::] [::ffff:127.0.0.1] [::ffff:7f00:1] [::127.0.0.1]
    [64:ff9b::7f00:1] [64:ff9b:1::a00:1] [2002:7f00:1::] [2001:0:7f00:1::] [fe80::1] [fe80::1%25lo] [fc00::1]
    [fd12::1] [fec0::1] [ff02::1] [2001:db8::1] [100::1]
"""


@pytest.mark.parametrize("host", SPECIAL.split())
def test_an_ip_address_that_is_not_public_is_refused_in_every_spelling(
    connects: list[tuple[str, int]], host: str
) -> None:
    with pytest.raises(AddressForbidden):
        Fetcher(context=https.trust()).fetch("GET", f"https://{host}/")

    assert connects == []


@pytest.mark.parametrize(
    "host",
    [
        *("0x7f.0.0.1", "0x7f000001", "2130706433", "127.1", "0177.0.0.1", "127.0.0.01"),
        "\uff11\uff12\uff17.0.0.1",  # digits of full width
        "\u24dbocalhost",  # a letter in a circle
        "[::ffff:127.0.0.1%25lo]",
    ],
)
def test_an_ip_address_in_an_unusual_spelling_is_refused_even_if_it_is_allowed(
    connects: list[tuple[str, int]], host: str
) -> None:
    with pytest.raises((AddressForbidden, InvalidAddress)):
        Fetcher([LOOPBACK], context=https.trust()).fetch("GET", f"https://{host}/")

    assert connects == []


REFUSED: Final = st.one_of(
    *(
        st.ip_addresses(network=str(network))
        for network in (
            *special_addresses.SPECIAL_IPV4,
            *special_addresses.SPECIAL_IPV6,
            *("::/8", "64:ff9b::/96", "100::/64", "5f00::/16", "fc00::/7", "fe80::/10", "ff00::/8"),
        )
    ),
    st.ip_addresses(v=4).map(lambda each: IPv6Address(b"\0" * 10 + b"\xff\xff" + each.packed)),
    st.ip_addresses(v=4).map(lambda each: IPv6Address(b"\0\x64\xff\x9b" + bytes(8) + each.packed)),
    st.ip_addresses(v=4).map(lambda each: IPv6Address(b"\x20\x02" + each.packed + bytes(10))),
)


@given(
    before=st.lists(REFUSED, max_size=3),
    after=st.lists(REFUSED, max_size=3),
    is_reachable=st.booleans(),
)
def test_no_refused_address_is_ever_connected_to(
    calendar: Host,
    connects: list[tuple[str, int]],
    before: list[IPv4Address | IPv6Address],
    after: list[IPv4Address | IPv6Address],
    is_reachable: bool,
) -> None:
    connects.clear()
    refused = [str(each) for each in before + after if each != ip_address(LOOPBACK)]
    place = len(before)
    listed = [*refused[:place], *([LOOPBACK] if is_reachable else []), *refused[place:]]
    fetching = calendar.fetcher({"calendar.example": listed})

    if is_reachable:
        assert fetching.fetch("GET", calendar.url()).status == 200
    else:
        with pytest.raises(AddressForbidden if listed else Unreachable):
            fetching.fetch("GET", calendar.url())

    assert connects == ([(LOOPBACK, calendar.port)] if is_reachable else [])


def test_a_name_is_looked_up_once_so_that_another_answer_changes_nothing(
    calendar: Host, connects: list[tuple[str, int]]
) -> None:
    answers = iter([[LOOPBACK], ["127.0.0.2"], ["127.0.0.2"]])
    fetching = Fetcher([LOOPBACK], resolve=lambda _: next(answers), context=https.trust())

    assert fetching.fetch("GET", calendar.url()).status == 200

    assert connects == [(LOOPBACK, calendar.port)]
    assert next(answers) == ["127.0.0.2"]


def test_the_target_of_a_redirect_is_looked_up_and_checked_anew() -> None:
    answers = {"calendar.example": [LOOPBACK], "other.example": ["127.0.0.2"]}

    with (
        https.host(lambda _: redirect("https://other.example/")) as host,
        pytest.raises(AddressForbidden),
    ):
        host.fetcher(answers).fetch("GET", host.url())


def test_a_name_whose_address_changes_is_checked_again_after_a_redirect() -> None:
    answers = iter([[LOOPBACK], ["10.0.0.1"]])

    with https.host(lambda _: redirect("/again")) as host, pytest.raises(AddressForbidden):
        Fetcher([LOOPBACK], resolve=lambda _: next(answers), context=https.trust()).fetch(
            "GET", host.url()
        )


@pytest.mark.parametrize(
    ("location", "failure"),
    [
        ("http://169.254.169.254/latest/meta-data/", NotHTTPS),
        ("https://169.254.169.254/latest/meta-data/", AddressForbidden),
        ("//[::ffff:169.254.169.254]/", AddressForbidden),
        ("http://calendar.example/", NotHTTPS),
        ("https://alice:hunter2@calendar.example/", InvalidAddress),
        ("https://[", InvalidAddress),
    ],
)
def test_a_redirect_to_what_may_not_be_fetched_is_refused(
    connects: list[tuple[str, int]], location: str, failure: type[FetchFailed]
) -> None:
    with https.host(lambda _: redirect(location)) as host, pytest.raises(failure):
        host.fetcher().fetch("GET", host.url())

    assert connects == [(LOOPBACK, host.port)]


def test_redirects_are_followed_up_to_their_number() -> None:
    def answer(request: Request) -> tuple[bytes, ...]:
        count = int(request.target.rpartition("/")[2])
        return CALENDAR if count == 0 else redirect(f"./{count - 1}")

    with https.host(answer) as host:
        reached = host.fetcher().fetch("GET", host.url("/feed/3"))
        with pytest.raises(TooManyRedirects):
            host.fetcher().fetch("GET", host.url("/feed/4"))
        with pytest.raises(TooManyRedirects):
            host.fetcher().fetch("GET", host.url("/feed/1"), redirects=0)

    assert (reached.status, reached.url) == (200, host.url("/feed/0"))


SECRETS: Final[Mapping[str, str]] = {
    "Authorization": "Basic hunter2",
    "Cookie": "hunter2",
    "PRIVATE-TOKEN": "hunter2",
    "X-Anything": "hunter2",
}


def test_headers_without_credentials_alone_go_to_another_origin() -> None:
    def answer(request: Request) -> tuple[bytes, ...]:
        match request.target:
            case "/same":
                return redirect("/elsewhere")
            case "/elsewhere":
                return redirect(host.url("/back", name="other.example"))
            case "/back":
                return redirect(host.url("/end"))
        return CALENDAR

    with https.host(answer) as host:
        host.fetcher().fetch(
            "GET",
            host.url("/same"),
            headers={**SECRETS, "Accept": "text/calendar", "If-Match": "1"},
        )

    same, elsewhere, back, end = (request.headers for request in host.requests)
    for request in (same, elsewhere):
        assert {name: request[name.lower()] for name in SECRETS} == SECRETS
    for request in (back, end):
        assert "hunter2" not in str(request)
        assert (request["accept"], request["if-match"]) == ("text/calendar", "1")


@pytest.mark.parametrize(
    ("status", "method", "followed"),
    [
        ("301 Moved Permanently", "POST", ("GET", b"")),
        ("303 See Other", "REPORT", ("GET", b"")),
        ("303 See Other", "HEAD", ("HEAD", b"<query/>")),
        ("302 Found", "REPORT", ("REPORT", b"<query/>")),
        ("307 Temporary Redirect", "POST", ("POST", b"<query/>")),
        ("308 Permanent Redirect", "POST", ("POST", b"<query/>")),
    ],
)
def test_a_redirect_keeps_method_and_body_as_its_status_says(
    status: str, method: str, followed: tuple[str, bytes]
) -> None:
    def answer(request: Request) -> tuple[bytes, ...]:
        return CALENDAR if request.target == "/end" else redirect("/end", status)

    with https.host(answer) as host:
        host.fetcher().fetch(
            method, host.url(), headers={"Content-Type": "text/xml"}, body=b"<query/>"
        )

    end = host.requests[-1]
    assert (end.method, end.body) == followed
    assert ("content-type" in end.headers) == (end.body != b"")


def test_a_certificate_of_another_name_or_authority_is_refused() -> None:
    with https.host(lambda _: CALENDAR, names=["other.example"]) as host:
        with pytest.raises(TLSFailed):
            host.fetcher().fetch("GET", host.url())
        with pytest.raises(TLSFailed):
            Fetcher([LOOPBACK], resolve=lambda _: [LOOPBACK]).fetch(
                "GET", host.url(name="other.example")
            )

    assert host.requests == []


def test_an_ip_address_needs_a_certificate_of_its_own(calendar: Host) -> None:
    with (
        https.host(lambda _: CALENDAR, names=["calendar.example"]) as host,
        pytest.raises(TLSFailed),
    ):
        host.fetcher().fetch("GET", host.url(name=LOOPBACK))

    assert calendar.fetcher().fetch("GET", calendar.url(name=LOOPBACK)).status == 200


def test_the_next_ip_address_is_tried_where_one_refuses(calendar: Host) -> None:
    fetching = Fetcher(
        ["127.0.0.0/8"], resolve=lambda _: ["127.0.0.2", LOOPBACK], context=https.trust()
    )

    assert fetching.fetch("GET", calendar.url()).status == 200


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have one loopback address")
def test_an_ip_address_that_does_not_answer_leaves_time_for_the_next_one(calendar: Host) -> None:
    fetching = Fetcher(
        ["127.0.0.0/8"], resolve=lambda _: ["127.0.0.2", LOOPBACK], context=https.trust()
    )

    with ExitStack() as held:
        full = held.enter_context(socket.create_server(("127.0.0.2", calendar.port), backlog=0))
        for _ in range(4):
            waiting = held.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(full.getsockname())
        assert fetching.fetch("GET", calendar.url(), within_s=2).status == 200


def test_a_host_that_does_not_exist_or_does_not_listen_is_unreachable() -> None:
    def resolve(_: str) -> list[str]:
        raise socket.gaierror

    with socket.create_server((LOOPBACK, 0)) as closed:
        url = f"https://{LOOPBACK}:{closed.getsockname()[1]}/"

    with pytest.raises(Unreachable):
        Fetcher([LOOPBACK], context=https.trust()).fetch("GET", url)
    with pytest.raises(Unreachable):
        Fetcher(resolve=resolve, context=https.trust()).fetch("GET", "https://host.example/")


def test_no_proxy_of_the_environment_is_used(
    calendar: Host, connects: list[tuple[str, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "HTTP_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.2:3128")

    assert calendar.fetcher().fetch("GET", calendar.url()).status == 200

    assert connects == [(LOOPBACK, calendar.port)]
