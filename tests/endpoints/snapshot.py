"""The committed copy of the description, by which a change of it is seen in review: ``make openapi``."""

from pathlib import Path
from typing import Final

from resourceserver.description import openapi
from shared.settings import Settings

PATH: Final = Path(__file__).parent.parent.parent / "docs" / "openapi.json"
NEUTRAL: Final = Settings(auth_url="https://auth.svc.example", base_url="https://data.svc.example")
"""Addresses that are nobody's."""

if __name__ == "__main__":
    PATH.write_text(openapi.text(NEUTRAL), encoding="utf-8")
