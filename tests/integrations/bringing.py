"""What tests of imports share: a format of their own, and imports that run to their end."""

import hashlib
import json
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from zoneinfo import ZoneInfo

import psycopg

from resourceserver.integrations import records
from resourceserver.integrations.format import File, Format, Head, Person, Unreadable
from resourceserver.integrations.imports import files, receipts, running
from resourceserver.integrations.imports.receipts import Receipt
from resourceserver.integrations.records import Listen, Record, Refused, Sourced
from shared import database
from shared.settings import Settings

if TYPE_CHECKING:
    # A program of the tests imports this module, and needs neither pytest nor the servers.
    from tests import conftest

NOW: Final = datetime(2025, 6, 16, 12, tzinfo=UTC)


def listen(number: int, **members: Any) -> Listen:
    """Return the play of a track, one a minute."""
    at = datetime.fromtimestamp(1_750_000_000 + 60 * number, UTC)
    return Listen(f"play {number}", at, f"Track {number}", "Gorillaz")._replace(**members)


def of_listens(name: str = "plays", confidence: float = 1.0) -> Format:
    """Return a format whose lines are numbers of plays; ``bad`` is none, and ``stop`` ends the file."""

    def read(file: File, _: Person) -> Iterator[Record | Refused]:
        with file.open() as stream:
            for line in stream:
                text = line.decode().strip()
                if text == "stop":
                    raise Unreadable("it stops here")
                if text == "fault":
                    raise ZeroDivisionError
                yield listen(int(text)) if text.isdecimal() else Refused("bad", text)

    def recognise(head: Head) -> float:
        return confidence if head.name.endswith(".plays") else 0.0

    return Format(name, "Plays", "plays", (Listen,), recognise, read)


def of_records(yielded: Sequence[Record | Sourced | Refused]) -> Format:
    """Return a format that yields these, whatever is in the file."""
    kinds = tuple(records.Record.__args__)
    return Format("any", "Anything", "any", kinds, lambda _: 1.0, lambda *_: iter(yielded))


@dataclass(frozen=True)
class Importer:
    """Imports of one person."""

    settings: Settings
    person: "conftest.Person"
    zone: ZoneInfo = field(default_factory=lambda: ZoneInfo("Europe/Berlin"))

    def run(self, path: Path, *formats: Format, chosen: Format | None = None) -> Receipt:
        """Import what lies at ``path`` and return the receipt."""
        digest, size = files.digest(path)
        with (
            closing(psycopg.connect(self.settings.database_url or "", autocommit=True)) as owner,
            ExitStack() as within,
        ):
            planned = running.plan(files.bring(path, within), formats, chosen)
            begun = receipts.begin(
                owner,
                self.person.user_id,
                file_name=path.name,
                file_size=size,
                digest=digest,
                chosen_format=None,
            )
            with closing(self.ledger(begun)) as ledger:
                running.run(planned, Person(self.zone, begun.started_at), ledger)
            receipts.end(owner, begun, "done", None)
            receipt = receipts.read(owner, self.person.user_id, begun.import_id)
        assert receipt is not None
        return receipt

    def ledger(self, begun: receipts.Import) -> running.Database:
        """Return what writes the batches of an import."""
        login = database.login(self.settings, "importer")
        return running.Database(login, begun, self.zone, False, lambda _: None)

    def take(self, path: Path, *yielded: Record | Sourced | Refused) -> Receipt:
        """Import these records, as a file of their own that is written to ``path``."""
        path.write_bytes(hashlib.sha256(repr(yielded).encode()).digest() + str(NOW).encode())
        return self.run(path, of_records(yielded))


def archive(path: Path, members: dict[str, bytes]) -> Path:
    """Write a zip archive and return its path."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as packed:
        for name, content in members.items():
            packed.writestr(name, content)
    return path


def counts(receipt: Receipt) -> tuple[int, ...]:
    """Return how many records were read, new, known, changed and refused."""
    return tuple(
        receipt["records"][each] for each in ("read", "new", "known", "changed", "refused")
    )


def as_json(value: Any) -> Any:
    """Return a value as JSON has it."""
    return json.loads(json.dumps(value, default=str))
