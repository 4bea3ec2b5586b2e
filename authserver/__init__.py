"""The authorization server: accounts, sign-in, consent, grants and tokens (OAuth 2.0)."""

from typing import Final

PRODUCT: Final = "Personal Activity Analytics"
