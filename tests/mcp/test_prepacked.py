"""Answers with a part that was compressed before: every decoder must read them as any other."""

import gzip
import subprocess
import zlib
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resourceserver.mcp.prepacked import Prepacked
from tests.mcp.assistant import Assistant

LONG: Final = bytes(range(256)) * 300
"""Longer than a stored block may be."""


@given(plain=st.binary(), end=st.binary())
def test_a_stitched_answer_is_one_gzip_member(plain: bytes, end: bytes) -> None:
    packed = Prepacked.of(plain).then(end)

    decoder = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
    assert decoder.decompress(packed) == plain + end
    assert decoder.eof
    assert decoder.unused_data == b""


def test_parts_may_be_long() -> None:
    packed = Prepacked.of(LONG).then(LONG)

    assert gzip.decompress(packed) == LONG * 2
    unpacked = subprocess.run(["gzip", "-dc"], input=packed, capture_output=True, check=True)
    assert unpacked.stdout == LONG * 2


@pytest.mark.parametrize("era", ["modern", "legacy"])
@pytest.mark.parametrize(
    ("method", "params"), [("tools/list", {}), ("resources/read", {"uri": "ui://svc/day"})]
)
def test_a_compressed_list_is_the_plain_one(
    assistant: Assistant, era: str, method: str, params: dict[str, str]
) -> None:
    answers = []
    for coding in ("gzip", "identity", "gzip;q=0"):
        assistant.headers["Accept-Encoding"] = coding
        # Half of a surrogate pair in the id would be escaped.
        answers.append(getattr(assistant, era)(method, params, id='é"'))

    packed, plain, refused = answers
    assert packed.headers["content-encoding"] == "gzip"
    assert "content-encoding" not in plain.headers
    assert "content-encoding" not in refused.headers
    assert packed.content == plain.content == refused.content
    assert packed.json()["id"] == 'é"'
    assert int(packed.headers["content-length"]) < len(plain.content)
    for response in answers:
        vary = response.headers["vary"].replace(" ", "").split(",")
        assert sorted(vary) == ["Accept-Encoding", "Authorization", "Origin"]
