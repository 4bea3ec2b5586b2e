"""Browsers in words, by what they call themselves.

A ``User-Agent`` is a browser's own claim, and most of them claim to be several others. What is asked for
here first is what only one browser says of itself. Where it says nothing that is known, its words are
shown as they are, shortened.
"""

import re
from typing import Final

_BROWSERS: Final = (
    (r"\b(?:Edg|EdgA|EdgiOS)/", "Edge"),
    (r"\bOPR/", "Opera"),
    (r"\bVivaldi/", "Vivaldi"),
    (r"\bSamsungBrowser/", "Samsung Internet"),
    (r"\b(?:Firefox|FxiOS)/", "Firefox"),
    (r"\b(?:Chrome|CriOS|HeadlessChrome)/", "Chrome"),
    (r"\bVersion/[\d.]+ (?:Mobile/\w+ )?Safari/", "Safari"),
)
_SYSTEMS: Final = (
    (r"\bAndroid\b", "Android"),
    (r"\biPhone\b", "iPhone"),
    (r"\biPad\b", "iPad"),
    (r"\bCrOS\b", "ChromeOS"),
    (r"\bWindows NT\b", "Windows"),
    (r"\bMacintosh\b", "macOS"),
    (r"\bLinux\b", "Linux"),
)
_LONGEST: Final = 80


def describe(user_agent: str | None) -> str:
    """Return such as "Firefox on Linux", or the browser's own words where these are not known."""
    if user_agent is None:
        return "A browser that does not say what it is"
    browser, system = _first(_BROWSERS, user_agent), _first(_SYSTEMS, user_agent)
    if user_agent.startswith("Mozilla/5.0 (") and browser and system:
        return f"{browser} on {system}"
    words = " ".join(user_agent.split())
    return words if len(words) <= _LONGEST else f"{words[: _LONGEST - 1]}…"


def _first(names: tuple[tuple[str, str], ...], text: str) -> str | None:
    return next((name for pattern, name in names if re.search(pattern, text)), None)
