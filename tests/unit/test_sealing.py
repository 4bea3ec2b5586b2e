"""Sealed secrets: who can open them, where, and that their format stays the same."""

import base64
from uuid import UUID

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from shared import sealing
from shared.sealing import NotAKey, NotOpened, Opener, UnknownKey

ALICE = UUID("a11ce000-0000-4000-8000-000000000001")
BOB = UUID("b0b00000-0000-4000-8000-000000000002")
CALENDAR = UUID("c0000000-0000-4000-8000-000000000003")
GITHUB = UUID("c0000000-0000-4000-8000-000000000004")

PRIVATE = "svc_sealing_private_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8-ZGEM"
PUBLIC = "svc_sealing_public_j0DFrbaPJWJK5bIU6nZ6bslNgp09e14a0bpvPiE4KF-QdfNb"


def sealed_for_alice(text: str) -> bytes:
    _, sealed = sealing.seal(PUBLIC, text, user_id=ALICE, connection_id=CALENDAR, field="address")
    return sealed


def opened(
    sealed: bytes,
    *,
    user_id: UUID = ALICE,
    connection_id: UUID = CALENDAR,
    field: str = "address",
) -> str:
    return Opener([PRIVATE]).open(
        "eedd883da0a94515", sealed, user_id=user_id, connection_id=connection_id, field=field
    )


@given(text=st.text(st.characters(codec="utf-8")))
def test_the_private_key_opens_what_is_sealed_to_its_public_half(text: str) -> None:
    assert opened(sealed_for_alice(text)) == text


def test_a_secret_that_an_earlier_version_sealed_still_opens() -> None:
    sealed = base64.b64decode(
        "AfmZyRXvf0U9NckXgtj04wduDAuN3gVOtjPyXAJXNZEpFssiAPPcHZWsCTl2RVdD+X1mOU6LQdf4aCwEFAB1swdfeHjd4s3O"
        "adZNrhoNtuyYAbCGL7Ed59rKcWe9yCcnd2AHbtezMfeBC/PW2sHLIr34LRMM/y2YC8JMIzfgWI0lfxzSSfiOP23TnnXxutdZ"
        "CW35NX4jplb9Rc4bJiiWJpVIhbucEWa9XpPgY8aKhysz0WFBtzc+Ct+wwwM+zv0CDUskMvERNzwNM7SQKq0LlGwLVr2R6SiZ"
        "BCBj4b7XH7AQIy27/oCvP5xk+mXF0i75jyWEu0LluF9YaTu5FvpzduZlaTfTUN3vWNbYfcd759sSjPs6+7Q6x2ATa7+ZdxjM"
        "nRl/3GXzyU8gS4QKBqZ0t7I="
    )

    text = Opener([PRIVATE]).open(
        "eedd883da0a94515",
        sealed,
        user_id=UUID(int=1),
        connection_id=UUID(int=2),
        field="token",
    )

    assert text == "ghp_secret ä"
    assert sealing.public_key_of(PRIVATE) == PUBLIC
    assert sealing.key_id_of(PUBLIC) == "eedd883da0a94515"


@pytest.mark.parametrize(
    ("user_id", "connection_id", "field"),
    [
        (BOB, CALENDAR, "address"),
        (ALICE, GITHUB, "address"),
        (ALICE, CALENDAR, "password"),
        (CALENDAR, ALICE, "address"),
    ],
)
def test_a_secret_that_was_moved_to_another_row_does_not_open(
    user_id: UUID, connection_id: UUID, field: str
) -> None:
    sealed = sealed_for_alice("https://calendar.example/secret.ics")

    with pytest.raises(NotOpened):
        opened(sealed, user_id=user_id, connection_id=connection_id, field=field)


# X25519 ignores the highest bit of a public key (RFC 7748, section 5); HPKE must not.
@example(index=32, bit=7)
@given(index=st.integers(0, 304), bit=st.integers(0, 7))
def test_a_changed_secret_does_not_open(index: int, bit: int) -> None:
    sealed = bytearray(sealed_for_alice("hunter2"))
    sealed[index] ^= 1 << bit

    with pytest.raises(NotOpened):
        opened(bytes(sealed))


@pytest.mark.parametrize("length", [0, 1, 33, 48, 304])
def test_a_secret_that_was_cut_off_does_not_open(length: int) -> None:
    with pytest.raises(NotOpened):
        opened(sealed_for_alice("hunter2")[:length])


def test_an_opener_opens_what_is_sealed_to_any_of_its_keys_and_names_an_unknown_one() -> None:
    newest, lost = sealing.new_private_key(), sealing.new_private_key()
    opener = Opener([newest, PRIVATE])

    def sealed_and_opened(private: str) -> str:
        key_id, sealed = sealing.seal(
            sealing.public_key_of(private),
            "hunter2",
            user_id=ALICE,
            connection_id=CALENDAR,
            field="address",
        )
        return opener.open(key_id, sealed, user_id=ALICE, connection_id=CALENDAR, field="address")

    assert sealed_and_opened(newest) == "hunter2"
    assert sealed_and_opened(PRIVATE) == "hunter2"
    with pytest.raises(UnknownKey):
        sealed_and_opened(lost)


def test_the_length_of_a_sealed_secret_does_not_tell_a_short_secret_from_a_longer_one() -> None:
    assert {len(sealed_for_alice("x" * length)) for length in (0, 1, 40, 93, 255)} == {305}
    assert len(sealed_for_alice("x" * 256)) == 305 + 256


@pytest.mark.parametrize(
    "text",
    [
        "",
        PRIVATE,
        PUBLIC.removeprefix("svc_sealing_public_"),
        PRIVATE.replace("private", "public"),
        PUBLIC.replace("j0", "k0"),
        PUBLIC[:-1],
        f"{PUBLIC}\n",
    ],
)
def test_nothing_is_sealed_to_a_text_that_is_no_public_key(text: str) -> None:
    with pytest.raises(NotAKey) as raised:
        sealing.seal(text, "hunter2", user_id=ALICE, connection_id=CALENDAR, field="address")

    assert "svc_sealing" not in str(raised.value)


def test_a_public_key_is_no_private_key() -> None:
    with pytest.raises(NotAKey):
        Opener([PUBLIC])


def test_no_text_about_an_opener_has_its_keys() -> None:
    assert "AAECAwQF" not in repr(vars(Opener([PRIVATE])))
