"""Names that people and applications choose, of which not every character can be seen."""

import unicodedata
from typing import Final

MAX_CHARACTERS: Final = 100

_BLANK_LETTERS: Final = "\u115f\u1160\u2800\u3164\uffa0"
"""Letters and a pattern of dots that look like a space (Hangul fillers, blank Braille)."""
_DIRECTIONS: Final = frozenset(
    "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
)
"""What turns the direction of the text around it (Unicode's Bidi_Control)."""


class NameTooLong(ValueError):
    """A name of more characters than are taken."""


def visible(text: str) -> str | None:
    """Return the name that people will see, without what they would not see but be misled by.

    Control, format (bidirectional among them), surrogate and unassigned characters go, and line and
    paragraph separators. None: nothing of it can be seen. Raises NameTooLong.
    """
    kept = "".join(
        letter
        for letter in text
        if unicodedata.category(letter)[0] != "C"
        and unicodedata.category(letter) not in ("Zl", "Zp")
    ).strip()
    if len(kept) > MAX_CHARACTERS:
        raise NameTooLong
    return kept if any(map(_is_visible, kept)) else None


def problem(name: str) -> str | None:
    """Return what is wrong with a name that somebody gives to something of theirs, None for nothing.

    It is told and not mended, since they see what they typed.
    """
    if not any(map(_is_visible, name)):
        return "Give it a name."
    if len(name) > MAX_CHARACTERS:
        return f"A name has at most {MAX_CHARACTERS} characters; this one has {len(name)}."
    # Invisible joiners are left alone: Persian and many emoji are written with them.
    if any(
        letter in _DIRECTIONS or unicodedata.category(letter) in ("Cc", "Cs", "Zl", "Zp")
        for letter in name
    ):
        return "The name has characters in it that cannot be seen and change how it reads. Type it again."
    return None


def _is_visible(letter: str) -> bool:
    """Whether a letter can be seen by itself, as marks and spaces cannot."""
    return letter not in _BLANK_LETTERS and unicodedata.category(letter)[0] not in "CMZ"
