"""Addresses to listen on: their spelling, their sources, and pairs that exclude each other."""

from contextlib import ExitStack

import pytest

from shared import listening, metrics_server, settings
from shared.listening import Address, AddressError
from shared.settings import SettingsError
from tests.processes import neighbouring_ports


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("", ()),
        ("127.0.0.1:8400", (Address("127.0.0.1", 8400),)),
        ("[::1]:8400", (Address("::1", 8400),)),
        ("localhost:1", (Address("localhost", 1),)),
        ("192.0.2.1:80 , [::]:80,", (Address("192.0.2.1", 80), Address("::", 80))),
        ("[0:0:0:0:0:0:0:1]:80", (Address("::1", 80),)),
        ("[FE80::0:1%eth0]:80", (Address("fe80::1%eth0", 80),)),
    ],
)
def test_addresses_are_read(text: str, read: tuple[Address, ...]) -> None:
    assert listening.parse(text) == read
    assert listening.parse(",".join(map(str, read))) == read


FORM = "must look like 127.0.0.1:8400, [::1]:8400 or localhost:8400"
PORT = "must end with a port between 1 and 65535"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("8400", f"'8400' {FORM}"),
        ("127.0.0.1", f"'127.0.0.1' {FORM}"),
        (":8400", f"':8400' {FORM}"),
        ("*:8400", f"'*:8400' {FORM}"),
        ("api.example:8400", f"'api.example:8400' {FORM}"),
        ("::1:8400", f"'::1:8400' {FORM}"),
        ("[127.0.0.1]:8400", f"'[127.0.0.1]:8400' {FORM}"),
        ("[localhost]:8400", f"'[localhost]:8400' {FORM}"),
        ("http://127.0.0.1:8400", f"'http://127.0.0.1:8400' {FORM}"),
        ("127.0.0.1:", f"'127.0.0.1:' {PORT}"),
        ("127.0.0.1:0", f"'127.0.0.1:0' {PORT}"),
        ("127.0.0.1:65536", f"'127.0.0.1:65536' {PORT}"),
        ("127.0.0.1:-1", f"'127.0.0.1:-1' {PORT}"),
        ("127.0.0.1:\u0661", f"'127.0.0.1:\u0661' {PORT}"),
        ("127.0.0.1:1,localhost:1", "localhost:1 is there twice"),
        ("[::]:1,[::1]:1", "[::1]:1 is there twice"),
        ("[::1]:1,[0::1]:1", "[::1]:1 is there twice"),
    ],
)
@pytest.mark.parametrize("name", ["SVC_AUTH_LISTEN", "SVC_BASE_LISTEN"])
def test_a_malformed_address_is_named_with_its_setting(name: str, text: str, said: str) -> None:
    with pytest.raises(SettingsError) as refused:
        settings.read({name: text})

    assert str(refused.value) == f"{name}: {said}"


def test_an_option_beats_the_setting_which_beats_the_public_address() -> None:
    public = settings.read({"SVC_AUTH_URL": "https://auth.example"})
    chosen = settings.read({"SVC_AUTH_LISTEN": "127.0.0.1:1"})

    option = listening.of_option(("127.0.0.1:2", "[::1]:3"))

    assert public.auth_listeners == listening.Listen("SVC_AUTH_URL", (Address("localhost", 443),))
    assert chosen.auth_listeners == listening.Listen("SVC_AUTH_LISTEN", (Address("127.0.0.1", 1),))
    assert chosen.base_listeners == listening.Listen("SVC_BASE_URL", (Address("localhost", 8401),))
    assert option == listening.Listen("--listen", (Address("127.0.0.1", 2), Address("::1", 3)))
    assert listening.of_option(()) is None
    with pytest.raises(AddressError, match="--listen: 'nowhere' must look like"):
        listening.of_option(("nowhere",))


@pytest.mark.parametrize(
    ("one", "other", "is_overlap"),
    [
        ("127.0.0.1:1", "127.0.0.1:1", True),
        ("127.0.0.1:1", "127.0.0.1:2", False),
        ("127.0.0.1:1", "127.0.0.2:1", False),
        ("localhost:1", "127.0.0.1:1", True),
        ("localhost:1", "[::1]:1", True),
        ("0.0.0.0:1", "127.0.0.2:1", True),
        ("0.0.0.0:1", "[::]:1", False),
        ("[::]:1", "[fe80::1]:1", True),
    ],
)
def test_two_servers_cannot_listen_on_one_address(one: str, other: str, is_overlap: bool) -> None:
    (first,), (second,) = listening.parse(one), listening.parse(other)

    assert bool(first.overlaps(second)) is is_overlap
    assert bool(second.overlaps(first)) is is_overlap


def test_processes_that_start_at_once_listen_for_metrics_at_ports_of_their_own() -> None:
    port = neighbouring_ports(3)
    listen = listening.Listen("SVC_AUTH_METRICS_LISTEN", (Address("127.0.0.1", port),))
    with ExitStack() as opened:
        numbers = []
        for _ in range(3):
            # Neither has a task yet that accepts connections.
            (each,) = metrics_server._free(listen, 3)
            numbers.append(opened.enter_context(each).getsockname()[1])
        with pytest.raises(AddressError) as refused:
            metrics_server._free(listen, 3)

    assert numbers == [port, port + 1, port + 2]
    assert str(refused.value) == (
        f"SVC_AUTH_METRICS_LISTEN: cannot listen on 127.0.0.1:{port + 2}: Address already in use"
    )


@pytest.mark.parametrize("name", ["SVC_AUTH_URL", "SVC_BASE_URL"])
def test_one_origin_with_two_paths_is_refused_with_the_reason(name: str) -> None:
    with pytest.raises(SettingsError) as refused:
        settings.read({name: "https://svc.example/here"})

    assert str(refused.value) == (
        f"{name}: 'https://svc.example/here' must have no path: each server needs a host name or a "
        "port of its own, because browsers keep cookies, passkeys and the permissions of pages by "
        "origin, and both servers answer at /.well-known"
    )
