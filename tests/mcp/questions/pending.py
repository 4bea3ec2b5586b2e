"""Questions that are not answered with these calls yet, by reason. Who changes that removes them here."""

from typing import Final

_BY_REASON: Final[dict[str, tuple[str, ...]]] = {}

PENDING: Final = {text: reason for reason, texts in _BY_REASON.items() for text in texts}
"""The reason by the text of a question."""
