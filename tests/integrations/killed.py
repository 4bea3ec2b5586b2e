"""An import in a process of its own, which a test kills while it waits at a point of its choice.

It reads from standard input: the login of the owner, the data directory, the person, the file, and after how
many lines its reader waits until it is killed.
"""

import json
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from uuid import UUID

from resourceserver.integrations.format import File, Format, Person
from resourceserver.integrations.imports import running
from resourceserver.integrations.records import Listen
from shared.settings import Settings
from tests.integrations.bringing import Importer, of_listens


def main() -> None:
    """Import, and say when the reader waits."""
    given = json.loads(sys.stdin.readline())
    running.BATCH = given["batch"]  # type: ignore[misc] # smaller, so that there are many transactions
    plain = of_listens()

    def read(file: File, person: Person):  # type: ignore[no-untyped-def] # as of_listens
        for place, item in enumerate(plain.read(file, person)):
            if place == given["stop_after"]:
                sys.stdout.write("waiting\n")
                sys.stdout.flush()
                time.sleep(600)
            yield item

    form = Format("plays", "Plays", "plays", (Listen,), plain.recognise, read)
    settings = Settings(database_url=given["database_url"], data_dir=Path(given["data_dir"]))
    person = SimpleNamespace(user_id=UUID(given["user_id"]))
    importer = Importer(settings, person)  # type: ignore[arg-type] # of the person it needs the id alone
    importer.run(Path(given["file"]), form)


if __name__ == "__main__":
    main()
