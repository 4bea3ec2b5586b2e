"""Names that people and applications choose: length limit, and invisible or misleading characters."""

import unicodedata
from typing import Final

MAX_CHARACTERS: Final = 100

_BLANK_LETTERS: Final = "\u115f\u1160\u2800\u3164\uffa0"
"""Letters and a pattern of dots that look like a space (Hangul fillers, blank Braille)."""
_DIRECTIONS: Final = frozenset(
    "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
)
"""Characters that change the direction of the text around them (Unicode property Bidi_Control)."""


class NameTooLong(ValueError):
    """The name is longer than MAX_CHARACTERS."""


def visible(text: str) -> str | None:
    """Return a name without the characters that are invisible and could mislead people.

    Control, format (including bidirectional), surrogate and unassigned characters and line and paragraph
    separators are removed. None: no visible character is left. Raises NameTooLong.
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
    """Return the problem of a name that a person gives to something of their own, or None.

    The name is not corrected silently: the person sees the problem and can change it.
    """
    if not any(map(_is_visible, name)):
        return "Give it a name."
    if len(name) > MAX_CHARACTERS:
        return f"A name has at most {MAX_CHARACTERS} characters; this one has {len(name)}."
    # Invisible joiners are accepted: Persian and many emoji need them.
    if any(
        letter in _DIRECTIONS or unicodedata.category(letter) in ("Cc", "Cs", "Zl", "Zp")
        for letter in name
    ):
        return "The name has characters in it that cannot be seen and change how it reads. Type it again."
    return None


def _is_visible(letter: str) -> bool:
    """Whether a character is visible by itself, unlike combining marks and spaces."""
    return letter not in _BLANK_LETTERS and unicodedata.category(letter)[0] not in "CMZ"
