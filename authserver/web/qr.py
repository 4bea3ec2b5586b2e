"""QR codes, drawn as SVG within a page: the policy of pages allows no styles and no images of scripts."""

from typing import Final

import segno
from markupsafe import Markup

_MOST_BYTES: Final = 1_500
"""A code of more bytes has modules too small for a phone that reads it from a screen."""


def svg(text: str, title: str) -> Markup | None:
    """Return the QR code that says ``text``; None if it is too long for one that a phone can read.

    The code is dark on light in every colour scheme, with the quiet zone around it that readers need.
    """
    if len(text.encode()) > _MOST_BYTES:
        return None
    code = segno.make(text, error="l", micro=False)
    drawn = code.svg_inline(
        svgclass="qr", lineclass=None, omitsize=True, light="white", title=title
    )
    return Markup(drawn.replace("<svg ", '<svg role="img" ', 1))  # noqa: S704 -- segno escapes the title
