"""A parser for XML texts that may be larger than memory.

A few lines of entity declarations can expand to fill all memory, so a text that declares entities is refused.
Names of elements are without their namespaces, of which programs write many versions.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import BinaryIO, Final
from xml.parsers import expat

from resourceserver.integrations.format import Unreadable

CHUNK: Final = 64 * 1024
DEPTH: Final = 200
"""The most levels of elements."""
ELEMENT_LENGTH: Final = 8 * 1024 * 1024
"""The most characters of one yielded element."""
TAG_LENGTH: Final = 4 * 1024 * 1024
"""The most bytes of one tag or comment."""


@dataclass(slots=True)
class Element:
    """An element with its contents."""

    name: str
    path: tuple[str, ...]
    """The names of the enclosing elements, the outermost first."""
    attributes: dict[str, str]
    text: str = ""
    children: list["Element"] = field(default_factory=list)

    def child(self, *names: str) -> "Element | None":
        """Return the descendant at a path of names, the first of each name, or None."""
        found: Element | None = self
        for name in names:
            if found is None:
                return None
            found = next((each for each in found.children if each.name == name), None)
        return found

    def text_of(self, *names: str) -> str | None:
        """Return the text of the descendant at a path of names, or None."""
        found = self.child(*names)
        return found.text if found is not None else None

    def inside(self, name: str) -> Iterator["Element"]:
        """Yield the descendants with this name, at any depth."""
        for each in self.children:
            if each.name == name:
                yield each
            yield from each.inside(name)


def elements(
    stream: BinaryIO, whole: frozenset[str], opened: frozenset[str] = frozenset()
) -> Iterator[Element]:
    """Yield each element whose name is in ``whole`` at its end, with its contents.

    Elements with a name in ``opened`` are yielded at their start, without contents, unless an element of
    ``whole`` contains them. Raises Unreadable at the first place where the text is not valid XML.
    """
    reader = _Reader(whole, opened)
    chunk, is_first = b"-", True
    while chunk:
        chunk = stream.read(CHUNK)
        if is_first:
            # Files in Strava's export begin with spaces, before which XML allows no declaration.
            chunk, is_first = chunk.lstrip(b" \t\r\n"), False
        problem = reader.feed(chunk)
        yield from reader.take()
        if problem is not None:
            raise Unreadable(problem)


class _Reader:
    """The handlers of one parser."""

    def __init__(self, whole: frozenset[str], opened: frozenset[str]) -> None:
        self._whole = whole
        self._opened = opened
        self._path: list[str] = []
        self._branch: list[Element] = []
        """The elements that are open now, from the one in ``whole`` to the innermost."""
        self._length = 0
        self._complete: list[Element] = []
        self._fed = 0
        self._parser = expat.ParserCreate(namespace_separator=" ")
        self._parser.buffer_text = True
        self._parser.StartElementHandler = self._start
        self._parser.EndElementHandler = self._end
        self._parser.CharacterDataHandler = self._text
        self._parser.EntityDeclHandler = self._entity

    def feed(self, chunk: bytes) -> str | None:
        """Parse a part of the text, or its end if the part is empty; return the problem, or None."""
        self._fed += len(chunk)
        try:
            self._parser.Parse(chunk, not chunk)
            # The parser buffers an unfinished tag, and parses it again from its beginning with each part.
            if self._fed - self._parser.CurrentByteIndex > TAG_LENGTH:
                return "a tag is too long"
        except expat.ExpatError as error:
            words = expat.errors.messages.get(error.code, "")
            return f"the file is no XML at line {error.lineno}: {words}"
        except (LookupError, ValueError) as error:
            # The text declares an encoding that Python does not know, or a multi-byte encoding.
            return f"the encoding of the file cannot be read: {error}"
        except Unreadable as error:
            return str(error)
        return None

    def take(self) -> list[Element]:
        """Return the complete elements, and forget them."""
        complete, self._complete = self._complete, []
        return complete

    def _start(self, full_name: str, attributes: dict[str, str]) -> None:
        name = _local(full_name)
        if self._branch or name in self._whole:
            bare = {_local(key): value for key, value in attributes.items()}
            each = Element(name, tuple(self._path), bare)
            if self._branch:
                self._branch[-1].children.append(each)
            self._branch.append(each)
            self._grow(50 + sum(len(value) for value in bare.values()))
        elif name in self._opened:
            bare = {_local(key): value for key, value in attributes.items()}
            self._complete.append(Element(name, tuple(self._path), bare))
        self._path.append(name)
        if len(self._path) > DEPTH:
            raise Unreadable("the file is nested too deeply")

    def _end(self, _full_name: str) -> None:
        self._path.pop()
        if self._branch:
            each = self._branch.pop()
            each.text = each.text.strip()
            if not self._branch:
                self._complete.append(each)
                self._length = 0

    def _text(self, text: str) -> None:
        if self._branch:
            self._branch[-1].text += text
            self._grow(len(text))

    def _grow(self, more: int) -> None:
        self._length += more
        if self._length > ELEMENT_LENGTH:
            raise Unreadable("an element is too long")

    def _entity(self, *_: object) -> None:
        raise Unreadable("the file declares entities, which are not expanded")


def _local(name: str) -> str:
    return name.rpartition(" ")[2]
