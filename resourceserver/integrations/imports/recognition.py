"""Which format a file has: by its beginning, as each format judges it.

The surest format wins. Where two are equally sure, neither is taken: the person says which one it is.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from resourceserver.integrations.format import Format, Head

_MAGIC: Final = (
    (b"%PDF-", "a PDF document"),
    (b"\xff\xd8\xff", "a JPEG picture"),
    (b"\x89PNG\r\n", "a PNG picture"),
    (b"GIF8", "a GIF picture"),
    (b"SQLite format 3\0", "an SQLite database"),
    (b"PK\x03\x04", "a zip archive"),
    (b"\x1f\x8b", "a gzip file"),
    (b"7z\xbc\xaf\x27\x1c", "a 7z archive"),
    (b"Rar!", "a RAR archive"),
    (b"ID3", "an MP3 recording"),
    (b"OggS", "an Ogg recording"),
    (b"\x00\x00\x00\x18ftyp", "a video"),
    (b"\x00\x00\x00\x20ftyp", "a video"),
)
_MOST_NAMES: Final = 8


@dataclass(frozen=True)
class Recognised:
    """What a file is taken for."""

    format: Format | None
    ties: tuple[str, ...] = ()
    """The names of the formats between which the person has to choose."""


def recognise(head: Head, formats: Sequence[Format]) -> Recognised:
    """Return the format that is surest of a file; none if no format is, or several are equally."""
    sure = [(each.recognise(head), each) for each in formats]
    most = max((confidence for confidence, _ in sure), default=0.0)
    if most <= 0:
        return Recognised(None)
    best = [each for confidence, each in sure if confidence == most]
    if len(best) > 1:
        return Recognised(None, tuple(sorted(each.name for each in best)))
    return Recognised(best[0])


def likeness(head: Head) -> str:
    """Return what a file looks like that no format recognises, as the end of a sentence."""
    if not head.start:
        return "an empty file"
    for magic, words in _MAGIC:
        if head.start.startswith(magic):
            return words
    if head.start[257:262] == b"ustar":
        return "a tar archive, which has to be unpacked first"
    if b"\0" in head.start[:4096] and head.start[:2] not in (b"\xff\xfe", b"\xfe\xff"):
        return "a binary file"
    return _likeness_of_text(head.text.lstrip())


def _likeness_of_text(text: str) -> str:
    if text.startswith("<"):
        root = re.search(r"<([A-Za-z][\w:.-]*)", text)
        return f"XML with the root element {_plain(root[1])}" if root else "XML"
    if text.startswith(("{", "[")):
        names = list(dict.fromkeys(re.findall(r'"([^"\\]{1,40})"\s*:', text)))[:_MOST_NAMES]
        return f"JSON with {_listed(names)}" if names else "JSON"
    first = text.partition("\n")[0].strip()
    for delimiter in (",", ";", "\t"):
        if delimiter in first:
            cells = [each.strip('" ') for each in first.split(delimiter)]
            return f"a table with the columns {_listed(cells[:_MOST_NAMES])}"
    return f"text that begins with {json.dumps(_plain(first[:60]), ensure_ascii=False)}"


def _listed(names: Sequence[str]) -> str:
    return ", ".join(_plain(name[:40]) for name in names)


def _plain(text: str) -> str:
    return "".join(each if each.isprintable() else "\ufffd" for each in text)
