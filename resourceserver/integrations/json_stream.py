"""A parser for JSON texts that may be larger than memory.

Memory holds only a window of the text, so each yielded value must fit into ``WINDOW_LENGTH``. Other values
are skipped; those longer than the window, member by member. The standard library's decoder reads the values:
it is written in C, and it refuses deep nesting. A reader that builds the path of each value would need memory
that grows with the square of the depth.
"""

import json
import re
from collections.abc import Iterator
from typing import Any, Final, TextIO

from resourceserver.integrations.format import Unreadable

WINDOW_LENGTH: Final = 8 * 1024 * 1024
"""The most characters of one value."""
CHUNK_LENGTH: Final = 256 * 1024
"""The number of characters that are read at a time."""
DEPTH: Final = 500
"""The most levels of objects and arrays that are skipped member by member."""
BLOCK_LENGTH: Final = 32 * 1024
"""About how many characters of a long array of objects are decoded at once. Larger ones leave the cache."""

_VISIBLE: Final = re.compile(r"[^ \t\n\r]")
_MOST_SINGLY: Final = 256
"""The most elements that are decoded one by one before a block is tried again."""
_BETWEEN: Final = re.compile(r"[ \t\n\r]*,[ \t\n\r]*[^ \t\n\r]")
_NEXT_OBJECT: Final = re.compile(
    r'([ \t\n\r]{0,99},[ \t\n\r]{0,99})(\{[ \t\n\r]{0,99}"[^"\\]{1,99}":)'
)
"""What stands between two objects of an array, and the beginning of the second one."""
_CLOSING: Final = {"{": "}", "[": "]"}


def elements(stream: TextIO, paths: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
    """Yield the values at ``paths`` in the order of the text, each with its path.

    The parts of a path are names of members, ``item`` for each element of an array, and ``*`` for any
    member: ``locations.item``. No path may be the beginning of another one. Raises Unreadable if the text is
    not valid JSON.
    """
    window = _Window(stream)
    if not window.next():
        raise Unreadable("the file is empty")
    yield from _walk(window, {path: path.split(".") for path in paths})


class _Window:
    """The part of the text in memory. ``text`` begins at or shortly before the end of the last value."""

    def __init__(self, stream: TextIO) -> None:
        self.text = ""
        self.at = 0
        self._stream = stream
        self._decode = json.JSONDecoder(strict=False, parse_constant=lambda _: None).raw_decode
        self._dropped = 0

    def fill(self) -> bool:
        """Read more of the text; return False at its end."""
        rest = self.text[self.at :]
        if len(rest) > WINDOW_LENGTH:
            raise self.unreadable("a value is too long")
        # A long value is decoded again after each read; doubling the length keeps the total time linear.
        more = self._stream.read(max(CHUNK_LENGTH, len(rest)))
        self._dropped += self.at
        self.text, self.at = rest + more, 0
        return bool(more)

    def next(self) -> str:
        """Move to the next character that is not white space, and return it; "" at the end of the text."""
        while True:
            found = _VISIBLE.search(self.text, self.at)
            if found:
                self.at = found.start()
                return found.group()
            self.at = len(self.text)
            if not self.fill():
                return ""

    def take(self, expected: str) -> None:
        """Consume the next character, which must be ``expected``. Raises Unreadable."""
        if self.next() != expected:
            is_end = self.at == len(self.text)
            raise self.unreadable("it ends here" if is_end else f"{expected!r} is missing")
        self.at += 1

    def value(self) -> Any:
        """Consume the value that begins here, and return it. Raises Unreadable."""
        while True:
            try:
                found, end = self._decode(self.text, self.at)
            except json.JSONDecodeError as error:
                if self._is_broken(error):
                    raise self.unreadable(error.msg) from error
                is_end = error.pos >= len(self.text) or error.msg.startswith("Unterminated")
                if not self.fill():
                    why = "it ends in the middle of a value" if is_end else error.msg
                    raise self.unreadable(why) from error
            except RecursionError as error:
                raise self.unreadable("it is nested too deeply") from error
            except ValueError as error:
                raise self.unreadable("a number is too long") from error
            else:
                # A number may continue after the window: 1.25, 1e-9.
                if end + 3 < len(self.text):
                    self.at = end
                    return found
                length = end - self.at
                if not self.fill():
                    self.at = length
                    return found

    def skip(self, depth: int = 0) -> None:
        """Consume the value that begins here."""
        opening = self.next()
        if opening not in _CLOSING:
            self.value()
            return
        try:
            _, self.at = self._decode(self.text, self.at)
        except (ValueError, RecursionError):
            # The value is longer than the window, or invalid; reading its members finds out which.
            if depth == DEPTH:
                raise self.unreadable("it is nested too deeply") from None
            for _ in self.members(opening):
                self.skip(depth + 1)

    def members(self, opening: str) -> Iterator[str]:
        """Yield the name of each member of the object or array that begins here, ``item`` in an array.

        After each name, the next character is the first of the member's value, which the caller must consume.
        """
        closing = _CLOSING[opening]
        self.at += 1
        if self.next() == closing:
            self.at += 1
            return
        while True:
            name = "item"
            if opening == "{":
                name = self.value()
                if not isinstance(name, str):
                    raise self.unreadable("a name is not a string")
                self.take(":")
                self.next()
            yield name
            between = _BETWEEN.match(self.text, self.at)
            if between:
                # Most elements of a long array, in one step.
                self.at = between.end() - 1
                continue
            if self.next() == closing:
                self.at += 1
                return
            self.take(",")
            self.next()

    def elements(self) -> Iterator[Any]:
        """Yield the elements of the array that begins here.

        Objects are decoded in blocks, which takes two thirds of the time that one by one takes. Where a
        block cannot be decoded, the next objects are decoded one by one, which finds out why.
        """
        failures = singly = 0
        for _ in self.members("["):
            yield self.value()
            if singly:
                singly -= 1
                continue
            while (block := self._block()) is not None:
                failures = 0
                yield from block
            failures += 1
            singly = min(2**failures, _MOST_SINGLY)

    def _block(self) -> list[Any] | None:
        """Consume as many objects of an array, after the end of one, as are a block; None if none are."""
        between = _NEXT_OBJECT.match(self.text, self.at)
        if between is None:
            return None
        # Most objects of an array begin with the same name, and those within them do not.
        end = self.text.rfind(f"}}{between.group()}", between.end(), between.end() + BLOCK_LENGTH)
        if end < 0:
            return None
        block = f"[{self.text[between.end(1) : end + 1]}]"
        try:
            found: list[Any]
            found, length = self._decode(block, 0)
        except (ValueError, RecursionError):
            return None
        # The end of a shorter array would leave a rest.
        if length != len(block):
            return None
        self.at = end + 1
        return found

    def unreadable(self, why: str) -> Unreadable:
        """Return the error for this point of the text."""
        return Unreadable(f"the file is no JSON at character {self._dropped + self.at + 1}: {why}")

    def _is_broken(self, error: json.JSONDecodeError) -> bool:
        # An error near the end of the window, or in an unterminated string, may vanish with more of the file.
        is_near_the_end = error.pos > len(self.text) - 16
        return not is_near_the_end and not error.msg.startswith("Unterminated")


def _walk(window: _Window, wanted: dict[str, list[str]]) -> Iterator[tuple[str, Any]]:
    opening = window.next()
    if opening not in _CLOSING:
        window.value()
        return
    if opening == "[" and all(
        parts[0] in {"item", "*"} and len(parts) == 1 for parts in wanted.values()
    ):
        [path] = wanted
        for value in window.elements():
            yield path, value
        return
    for name in window.members(opening):
        below = {path: parts for path, parts in wanted.items() if parts[0] in {name, "*"}}
        whole = [path for path, parts in below.items() if len(parts) == 1]
        if whole:
            yield whole[0], window.value()
        elif below:
            yield from _walk(window, {path: parts[1:] for path, parts in below.items()})
        else:
            window.skip()
