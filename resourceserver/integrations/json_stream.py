"""Values of a JSON text that need not fit into memory.

Of the text only a window is held, so each value that is yielded must fit into ``WINDOW_LENGTH``. Values
that nobody wants are skipped, member by member where they are longer than the window. The standard
library's decoder reads the values: it is written in C, and it refuses deep nesting, where a reader that
builds the path of each value would need memory that grows with the square of the depth.
"""

import json
import re
from collections.abc import Iterator
from typing import Any, Final, TextIO

from resourceserver.integrations.format import Unreadable

WINDOW_LENGTH: Final = 8 * 1024 * 1024
"""Most characters of one value."""
CHUNK_LENGTH: Final = 256 * 1024
"""How many characters are read at a time."""
DEPTH: Final = 500
"""Most levels of objects and arrays that are skipped member by member."""

_VISIBLE: Final = re.compile(r"[^ \t\n\r]")
_CLOSING: Final = {"{": "}", "[": "]"}


def elements(stream: TextIO, paths: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
    """Yield the values at ``paths`` in the order of the text, each with its path.

    The parts of a path are names of members, ``item`` for each element of an array, and ``*`` for any
    member: ``locations.item``. No path may begin with another. Raises Unreadable where the text is no JSON.
    """
    window = _Window(stream)
    if not window.next():
        raise Unreadable("the file is empty")
    yield from _walk(window, {path: path.split(".") for path in paths})


class _Window:
    """The part of the text that is held. ``text`` begins where the last value ended, or a little before."""

    def __init__(self, stream: TextIO) -> None:
        self.text = ""
        self.at = 0
        self._stream = stream
        self._decode = json.JSONDecoder(strict=False, parse_constant=lambda _: None).raw_decode
        self._dropped = 0

    def fill(self) -> bool:
        """Read more of the text; return whether there was more."""
        rest = self.text[self.at :]
        if len(rest) > WINDOW_LENGTH:
            raise self.unreadable("a value is too long")
        # Doubling keeps the time for a long value linear, which is decoded again after each reading.
        more = self._stream.read(max(CHUNK_LENGTH, len(rest)))
        self._dropped += self.at
        self.text, self.at = rest + more, 0
        return bool(more)

    def next(self) -> str:
        """Return the next character that is no white space, "" at the end of the text."""
        while True:
            found = _VISIBLE.search(self.text, self.at)
            if found:
                self.at = found.start()
                return found.group()
            self.at = len(self.text)
            if not self.fill():
                return ""

    def take(self, expected: str) -> None:
        """Go past the next character, which must be ``expected``."""
        if self.next() != expected:
            is_end = self.at == len(self.text)
            raise self.unreadable("it ends here" if is_end else f"{expected!r} is missing")
        self.at += 1

    def value(self) -> Any:
        """Return the value whose first character is the next one."""
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
                # A number may go on behind the window: 1.25, 1e-9.
                if end + 3 < len(self.text):
                    self.at = end
                    return found
                length = end - self.at
                if not self.fill():
                    self.at = length
                    return found

    def skip(self, depth: int = 0) -> None:
        """Go past the value that begins here."""
        opening = self.next()
        if opening not in _CLOSING:
            self.value()
            return
        try:
            _, self.at = self._decode(self.text, self.at)
        except (ValueError, RecursionError):
            # It is longer than the window, or broken, which its members show.
            if depth == DEPTH:
                raise self.unreadable("it is nested too deeply") from None
            for _ in self.members(opening):
                self.skip(depth + 1)

    def members(self, opening: str) -> Iterator[str]:
        """Yield the name of each member of the object or array that begins here, ``item`` in an array.

        The next character is then the first of the value, and the caller goes past the value.
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
                    raise self.unreadable("a name is no text")
                self.take(":")
                self.next()
            yield name
            if self.next() == closing:
                self.at += 1
                return
            self.take(",")
            self.next()

    def unreadable(self, why: str) -> Unreadable:
        """Return what to raise at this point of the text."""
        return Unreadable(f"the file is no JSON at character {self._dropped + self.at + 1}: {why}")

    def _is_broken(self, error: json.JSONDecodeError) -> bool:
        # Near the end of the window, and in a text without an end, more of the file may mend it.
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
        # The same as below, for the long arrays of which files consist.
        [path] = wanted
        for _ in window.members(opening):
            yield path, window.value()
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
