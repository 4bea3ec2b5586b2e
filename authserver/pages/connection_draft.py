"""A connection before it is stored: what is typed is checked by its shape, and what is secret is sealed."""

import json
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit
from uuid import UUID

from authserver.people import names
from authserver.rows import Parameters
from shared import keys, sealing
from shared.connections import Field, Kind

MAX_TYPED: Final = 2_000
"""The most characters of a field."""

_NEEDED: Final = "This is needed."
_INVISIBLE: Final = frozenset(("Cc", "Cf", "Cs", "Zl", "Zp"))
"""Categories of characters that cannot be seen, and that no address or key has."""


@dataclass(frozen=True, repr=False)
class Draft:
    """A connection that is not stored yet."""

    kind: Kind
    name: str
    typed: Mapping[str, str]
    """What was typed, by the names of the fields of the kind."""
    is_read: bool = False
    """Whether the application may also show totals."""
    draft_id: str = ""
    """The random id of its form."""

    @property
    def problems(self) -> dict[str, str]:
        """The problems by field."""
        found = {
            each.name: field_problem(each, self.typed.get(each.name, ""))
            for each in self.kind.fields
        }
        problems = {name: problem for name, problem in found.items() if problem is not None}
        name_problem = names.problem(self.name)
        return problems if name_problem is None else {"name": name_problem, **problems}

    @property
    def typed_problems(self) -> list[str]:
        """The problems of what was typed, each after its label: what was left empty stays as it is."""
        found = (
            (each.label, field_problem(each, self.typed[each.name]))
            for each in self.kind.fields
            if each.name in self.typed
        )
        return [f"{label}: {problem}" for label, problem in found if problem is not None]

    def parameters(
        self, user_id: UUID, connection_id: UUID, key: str | None, public: str | None
    ) -> Parameters:
        """Return the parameters with which it is stored (``svc.put_connection``).

        Its secrets are sealed to ``public``, the public key of the workers. Raises SealingError.
        """
        secret = {each.name for each in self.kind.fields if each.is_secret}
        sealed = {
            name: sealing.seal(
                public or "", text, user_id=user_id, connection_id=connection_id, field=name
            )
            for name, text in self.typed.items()
            if name in secret
        }
        settings = {name: text for name, text in self.typed.items() if name not in secret}
        return {
            "user_id": user_id,
            "connection_id": connection_id,
            "kind": self.kind.name,
            "data": self.kind.data,
            "name": self.name,
            "settings": json.dumps(settings),
            "key_hash": None if key is None else keys.hash_of(key),
            "scopes": [self.kind.reads] if self.is_read and self.kind.reads else [],
            "fields": list(sealed),
            "key_ids": [key_id for key_id, _ in sealed.values()],
            # Postgres reads bytes in an array from their digits.
            "sealed": [f"\\x{text.hex()}" for _, text in sealed.values()],
        }


def field_problem(field: Field, text: str) -> str | None:
    """Return what is wrong with what was typed into a field, or None."""
    if not text:
        return _NEEDED if field.is_required else None
    if len(text) > MAX_TYPED:
        return f"At most {MAX_TYPED} characters are possible; this has {len(text)}."
    if any(unicodedata.category(letter) in _INVISIBLE for letter in text):
        return "There are characters in it that cannot be seen. Copy it again."
    if field.name == "address":
        return address_problem(text)
    if field.name.endswith("_minutes"):
        is_possible = text.isdecimal() and text.isascii() and 1 <= int(text[:9]) <= 60
        return None if is_possible else "Type a whole number from 1 to 60."
    return None


def address_problem(text: str) -> str | None:
    """Return what is wrong with the shape of an address, or None. Nothing is looked up."""
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        return "This is no address."
    if parts.scheme.lower() not in ("https", "webcal"):
        return "The address must begin with https:// or webcal://."
    host = parts.hostname or ""
    if not host or any(letter.isspace() for letter in text) or port == 0:
        return "This is no address of a server."
    if parts.username is not None or parts.password is not None:
        return "Leave the name and the password out of the address: they have fields of their own."
    return None
