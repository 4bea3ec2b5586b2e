"""Descriptions of browsers, from their User-Agent headers.

A ``User-Agent`` is a browser's own claim, and most browsers also name several others. So the patterns that
only one browser uses are tried first. An unknown text is shown as it is, shortened.
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
    """Return for example "Firefox on Linux", or the shortened header if it is unknown."""
    if user_agent is None:
        return "A browser that does not say what it is"
    browser, system = _first(_BROWSERS, user_agent), _first(_SYSTEMS, user_agent)
    if user_agent.startswith("Mozilla/5.0 (") and browser and system:
        return f"{browser} on {system}"
    words = " ".join(user_agent.split())
    return words if len(words) <= _LONGEST else f"{words[: _LONGEST - 1]}…"


def _first(names: tuple[tuple[str, str], ...], text: str) -> str | None:
    return next((name for pattern, name in names if re.search(pattern, text)), None)
