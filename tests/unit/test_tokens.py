"""Token text, checksum and hash."""

import hashlib
import re
import zlib
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from shared import tokens

ALICE = UUID("0190a5c0-0000-7000-8000-0000000000a1")
PREFIXES = [tokens.ACCESS, tokens.REFRESH, tokens.CODE, tokens.SESSION, tokens.LINK]


@given(st.sampled_from(PREFIXES), st.uuids())
def test_a_minted_token_is_parsed_back(prefix: str, user_id: UUID) -> None:
    token = tokens.mint(prefix, user_id)

    assert tokens.parse(prefix, token.text) == token
    assert token.user_id == user_id
    assert len(token.text) == 78
    assert re.fullmatch(tokens.SCANNER_PATTERN, token.text)


@given(st.sampled_from(PREFIXES), st.text(max_size=90))
def test_arbitrary_text_is_not_a_token(prefix: str, text: str) -> None:
    assert tokens.parse(prefix, text) is None
    assert tokens.parse(prefix, prefix + text) is None


@given(st.integers(0, 77), st.characters())
def test_a_changed_character_is_noticed(position: int, replacement: str) -> None:
    text = tokens.mint(tokens.ACCESS, ALICE).text
    changed = text[:position] + replacement + text[position + 1 :]

    assert (tokens.parse(tokens.ACCESS, changed) is not None) == (changed == text)


def test_a_token_of_another_kind_is_refused() -> None:
    refresh = tokens.mint(tokens.REFRESH, ALICE)

    assert tokens.parse(tokens.ACCESS, refresh.text) is None


def test_a_user_part_above_128_bits_is_no_token() -> None:
    body = tokens.ACCESS + "z" * 22 + "0" * 43
    number = zlib.crc32(body.encode())
    digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
    checksum = "".join(digits[number // 62**n % 62] for n in reversed(range(6)))

    assert tokens.parse(tokens.ACCESS, body + checksum) is None


def test_the_hash_is_sha256_of_the_whole_text() -> None:
    token = tokens.mint(tokens.ACCESS, ALICE)

    assert token.hash == hashlib.sha256(token.text.encode()).digest()


def test_a_token_is_never_printed() -> None:
    token = tokens.mint(tokens.ACCESS, ALICE)

    assert token.text[10:] not in f"{token!r} {token}"


def test_two_tokens_and_two_client_ids_differ() -> None:
    assert tokens.mint(tokens.ACCESS, ALICE).text != tokens.mint(tokens.ACCESS, ALICE).text
    assert tokens.mint_client_id() != tokens.mint_client_id()
    assert tokens.is_client_id(tokens.mint_client_id())
    assert not tokens.is_client_id("svc_client_")
