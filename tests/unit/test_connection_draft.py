"""What a person types to connect is checked by its shape, and sealed where it is secret."""

from typing import Any
from uuid import UUID

import pytest

from authserver.pages import connection_draft
from authserver.pages.connection_draft import Draft
from shared import keys, sealing
from shared.connections import KINDS

PRIVATE = sealing.new_private_key()
PUBLIC = sealing.public_key_of(PRIVATE)
USER = UUID(int=1)
CONNECTION = UUID(int=2)
ADDRESS = "https://calendar.example/private-0123456789/basic.ics"


def draft(kind: str, *, name: str = "Mine", is_read: bool = False, **typed: str) -> Draft:
    return Draft(KINDS[kind], name, typed, is_read)


@pytest.mark.parametrize(
    ("address", "problem"),
    [
        ("http://calendar.example/a.ics", "must begin with https:// or webcal://"),
        ("calendar.example/a.ics", "must begin with https:// or webcal://"),
        ("file:///etc/passwd", "must begin with https:// or webcal://"),
        ("https://", "no address of a server"),
        ("https:///a.ics", "no address of a server"),
        ("https://calendar.example:0/", "no address of a server"),
        ("https://calendar.example/a b", "no address of a server"),
        ("https://calendar.example:99999/", "This is no address."),
        ("https://[::1/", "This is no address."),
        ("https://al:secret@calendar.example/", "Leave the name and the password out"),
        ("https://calendar.example/\u202e", "characters in it that cannot be seen"),
        ("https://calendar.example/\r\nHost: x", "characters in it that cannot be seen"),
        ("https://calendar.example/" + "a" * 2_000, "At most 2000 characters"),
        ("", "This is needed."),
    ],
)
def test_a_wrong_address_is_recognised_by_its_shape(address: str, problem: str) -> None:
    problems = draft("calendar", address=address).problems

    assert problems.keys() == {"address"}
    assert problem in problems["address"]
    assert not address or address not in problems["address"]


@pytest.mark.parametrize(
    "address", ["webcal://c.example/a", "HTTPS://C.example:8443/a?b=c", "https://[2001:db8::1]/a"]
)
def test_addresses_of_both_schemes_are_accepted(address: str) -> None:
    assert draft("calendar", address=address).problems == {}
    assert connection_draft.address_problem(address) is None


@pytest.mark.parametrize("minutes", ["0", "61", "1.5", "-1", "٣", "²", "9" * 1_000])
def test_minutes_are_a_whole_number_within_an_hour(minutes: str) -> None:
    problems = draft("wakatime", gap_minutes=minutes).problems

    assert problems == {"gap_minutes": "Type a whole number from 1 to 60."}
    assert draft("wakatime", gap_minutes="60").problems == {}


@pytest.mark.parametrize("name", ["x" * 10_000, "a\u202eb", "line\u2028break", "\u200b", ""])
def test_a_name_is_short_and_can_be_seen(name: str) -> None:
    assert draft("overland", name=name).problems.keys() == {"name"}


def test_secrets_are_sealed_and_stand_in_no_other_parameter() -> None:
    given = draft("calendar", address=ADDRESS, user="al").parameters(USER, CONNECTION, None, PUBLIC)

    (field,), (key_id,), (sealed,) = given["fields"], given["key_ids"], given["sealed"]
    opener = sealing.Opener([PRIVATE])
    whose: dict[str, Any] = {"user_id": USER, "connection_id": CONNECTION, "field": field}
    assert field == "address"
    assert opener.open(key_id, bytes.fromhex(sealed.removeprefix("\\x")), **whose) == ADDRESS
    assert given["settings"] == '{"user": "al"}'
    assert ADDRESS not in str(given)
    assert "calendar.example" not in repr(draft("calendar", address=ADDRESS))


def test_a_scope_is_given_only_for_totals_of_a_kind_that_shows_some() -> None:
    key = keys.new(KINDS["wakatime"], USER)

    scopes = {
        (kind, is_read): draft(kind, is_read=is_read).parameters(USER, CONNECTION, key, None)[
            "scopes"
        ]
        for kind in ("wakatime", "overland")
        for is_read in (False, True)
    }

    assert scopes == {
        ("wakatime", False): [],
        ("wakatime", True): ["read:activity"],
        ("overland", False): [],
        ("overland", True): [],
    }
