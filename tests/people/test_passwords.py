"""Which passwords are acceptable."""

import time

import anyio
import pytest
from argon2 import PasswordHasher, Type, extract_parameters
from argon2.exceptions import InvalidHashError, VerificationError, VerifyMismatchError
from hypothesis import given
from hypothesis import strategies as st

from authserver.people import passwords, single_thread
from authserver.people.passwords import UnacceptablePassword


@pytest.mark.parametrize(
    "password",
    [
        "an owl reads under the lamp",
        "Tr0ub4dour&3x",
        "8f!2#9@4$7%1a&",
        "пароль из трёх слов",
        "パスワードではない文字列です",
        "hunter2 hunter2 hunter2",
        "gw9-Lk2-pq7-Zx",
        "password manager made this one up",
        "jennifer carries nine umbrellas",
        "abc-vQ7mh2kXw9",
        "the quick lamp " * 60,
    ],
)
def test_long_and_unusual_passwords_are_accepted(password: str) -> None:
    passwords.check(password, "alice@example.org")


@pytest.mark.parametrize(
    "password",
    [
        "password1234",
        "P@ssw0rd!2024",
        "passwordpassword",
        "Welcome2024!!!",
        "letmein-letmein",
        "iloveyou1234",
        "Sunshine2025!",
        "qwertyuiop12",
        "1q2w3e4r5t6y",
        "1qaz2wsx3edc",
        "abcdefghijkl",
        "zyxwvutsrqpo",
        "123456789012",
        "098765432109",
        "aaaaaaaaaaaa",
        "abababababab",
        "201806231999",
        "administrator1",
        "adminadmin!!",
        "changeme12345",
        "correcthorsebatterystaple",
        "C0rrectHorseBatteryStaple!",
        "thisisapassword",
        "ThisIsMyPassword1",
        "liverpool123",
        "charlie12345",
        "chelsea12345",
        "jennifer1234",
        "alexander123",
        "letmeinplease",
        "iloveyouforever",
        "q1w2e3r4t5y6",
        "123qweasdzxc",
        "1234qwerasdf",
        "abc123abc123",
        "xk4-2xk4-2xk4-2",
        "november2024",
        "Oktober-2023!",
    ],
)
def test_common_passwords_and_their_variants_are_refused(password: str) -> None:
    with pytest.raises(UnacceptablePassword, match="easy to guess"):
        passwords.check(password, "alice@example.org")


def test_a_password_like_the_e_mail_address_is_refused() -> None:
    with pytest.raises(UnacceptablePassword, match="easy to guess"):
        passwords.check("alice.cooper2024", "alice.cooper@example.org")


def test_the_minimum_length_is_in_characters_and_the_maximum_in_bytes() -> None:
    with pytest.raises(UnacceptablePassword, match="12 characters"):
        passwords.check("eleven char", "")
    with pytest.raises(UnacceptablePassword, match="1024 bytes"):
        passwords.check("éa" * 342, "")


MARKS = "\u0301" * 200_000 + "\u0316" * 200_000
"""Marks of one letter in the wrong order: some minutes' work to normalize."""


def test_the_length_is_checked_before_anything_slow() -> None:
    with pytest.raises(UnacceptablePassword, match="1024 bytes"):
        passwords.check(f"a{MARKS}", "")

    hasher = passwords.Hasher()
    assert anyio.run(hasher.verify, None, f"a{MARKS}") is False


def test_the_decoy_has_the_same_parameters_and_never_matches() -> None:
    hasher = passwords.Hasher()

    assert extract_parameters(hasher.decoy) == extract_parameters(hasher.argon2.hash(""))
    # Another error would say that nothing has been computed.
    with pytest.raises(VerifyMismatchError):
        hasher.argon2.verify(hasher.decoy, "")
    assert hasher.decoy != passwords.Hasher().decoy


@pytest.mark.parametrize("lanes", [1, 2, 4, 7])
@pytest.mark.parametrize("variant", Type)
def test_one_thread_verifies_the_hashes_of_several(lanes: int, variant: Type) -> None:
    argon2 = PasswordHasher(2, 64, lanes, hash_len=20 + lanes, type=variant)
    stored = argon2.hash("an owl's Äpfel")

    single_thread.verify(stored, "an owl's Äpfel")

    with pytest.raises(VerifyMismatchError):
        single_thread.verify(stored, "an owl's Apfel")
    with pytest.raises(VerifyMismatchError):
        single_thread.verify(stored, "")


@pytest.mark.parametrize(
    "stored",
    [
        "",
        "a hash",
        "$argon2id$v=19$m=64,t=1,p=1$c2FsdHNhbHQ$",
        "$argon2id$v=19$m=64,t=1,p=1$c2FsdHNhbHQ$not base64",
        "$argon2id$v=19$m=1,t=1,p=1$c2FsdHNhbHQ$aGFzaGhhc2hoYXNo",
        "$argon2id$v=19$m=64,t=0,p=1$c2FsdHNhbHQ$aGFzaGhhc2hoYXNo",
    ],
)
def test_one_thread_refuses_what_is_no_hash(stored: str) -> None:
    with pytest.raises((InvalidHashError, VerificationError)):
        single_thread.verify(stored, "an owl")


@pytest.mark.parametrize("is_known", [False, True])
def test_the_passwords_of_strangers_are_verified_in_one_thread(is_known: bool) -> None:
    hasher = passwords.Hasher()
    place = hasher.known_place if is_known else hasher.place

    async def verified() -> tuple[float, float]:
        of_thread, of_all = await place.run(time.thread_time), time.process_time()
        await hasher.verify(None, "an owl", is_known=is_known)
        return await place.run(time.thread_time) - of_thread, time.process_time() - of_all

    of_thread, of_all = anyio.run(verified)

    # A thread that only waits for those that it has started uses no processor.
    assert (of_thread > of_all / 2) is not is_known


def test_the_queue_for_hashing_is_bounded() -> None:
    async def crowd() -> None:
        hasher = passwords.Hasher()
        async with hasher.place.limiter, anyio.create_task_group() as waiting:
            for _ in range(40):
                waiting.start_soon(hasher.verify, hasher.decoy, "an owl")
            await anyio.wait_all_tasks_blocked()

            with pytest.raises(passwords.TooManySignIns):
                await hasher.verify(hasher.decoy, "an owl")

            waiting.cancel_scope.cancel()

    anyio.run(crowd)


def test_composed_and_decomposed_letters_are_the_same_password() -> None:
    assert passwords.normalized("caf\u00e9") == passwords.normalized("cafe\u0301")


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=60), st.text(max_size=30))
def test_any_text_is_accepted_or_refused(password: str, email: str) -> None:
    try:
        passwords.check(password, email)
    except UnacceptablePassword:
        return

    assert len(passwords.normalized(password)) >= 12
