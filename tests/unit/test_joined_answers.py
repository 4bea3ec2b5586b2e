"""Heads of answers, which the web server writes before the body, and which are sent with it."""

import asyncio
from collections.abc import Iterable

import pytest

from shared.heads import Joining

HEAD = b"HTTP/1.1 200 OK\r\n\r\n"


class Wire(asyncio.Transport):
    """A transport that remembers what each system call would send, and then the end."""

    def __init__(self) -> None:
        super().__init__()
        self.sent: list[bytes] = []

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.sent.append(bytes(data))

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview]) -> None:
        self.sent.append(b"".join(list_of_data))

    def write_eof(self) -> None:
        self.sent.append(b"end")

    def close(self) -> None:
        self.sent.append(b"closed")


@pytest.mark.parametrize("body", [b"{}", b"", b"x" * 100_000])
def test_a_head_is_sent_with_its_body(body: bytes) -> None:
    async def answer() -> list[bytes]:
        wire = Wire()
        joining = Joining(wire, asyncio.get_running_loop())
        for _ in range(2):
            joining.write(HEAD)
            joining.write(body)
        await asyncio.sleep(0)
        return wire.sent

    assert asyncio.run(answer()) == [HEAD + body] * 2


def test_a_head_does_not_wait_for_a_later_body() -> None:
    async def answer() -> tuple[list[bytes], list[bytes]]:
        wire = Wire()
        joining = Joining(wire, asyncio.get_running_loop())
        joining.write(HEAD)
        await asyncio.sleep(0)
        before = wire.sent.copy()
        joining.write(b"later")
        return before, wire.sent

    before, sent = asyncio.run(answer())
    assert before == [HEAD]
    assert sent == [HEAD, b"later"]


@pytest.mark.parametrize(("end", "mark"), [("close", b"closed"), ("write_eof", b"end")])
def test_a_head_that_waits_is_sent_before_the_end(end: str, mark: bytes) -> None:
    async def answer() -> list[bytes]:
        wire = Wire()
        joining = Joining(wire, asyncio.get_running_loop())
        joining.write(HEAD)
        getattr(joining, end)()
        await asyncio.sleep(0)
        return wire.sent

    assert asyncio.run(answer()) == [HEAD, mark]
