"""The committed copy of the description, so that reviews show its changes: ``make openapi``."""

from pathlib import Path
from typing import Final

from resourceserver.description import openapi
from shared.settings import Settings

PATH: Final = Path(__file__).parent.parent.parent / "docs" / "openapi.json"
NEUTRAL: Final = Settings(auth_url="https://auth.svc.example", base_url="https://data.svc.example")
"""Addresses of no real deployment."""

if __name__ == "__main__":
    PATH.write_text(openapi.text(NEUTRAL), encoding="utf-8")
