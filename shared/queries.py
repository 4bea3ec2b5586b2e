"""Named SQL, kept in ``.sql`` files beside the module that runs it.

A file is a series of blocks, each opened by a header line:

    -- name: app_usage          a statement, with named parameters such as %(from)s
    -- fragment: timeline       common table expressions that several statements share

A statement or a fragment takes a fragment in with a line of its own, ``--include timeline``. There is no
other templating: what is executed can be read in the file.
"""

import re
from pathlib import Path
from typing import Final

ANSWER: Final = Path(__file__).with_name("answer.sql")
"""The fragments that all files may use."""

_HEADER = re.compile(r"^-- (name|fragment): (\w+)$", re.MULTILINE)
_INCLUDE = re.compile(r"^ *--include (\w+)$", re.MULTILINE)


def load(*paths: Path) -> dict[str, str]:
    """Return the statements of ``paths`` by name; fragments may be used across these files.

    Raises ValueError for a name given twice, KeyError for a fragment that is not there.
    """
    statements: dict[str, str] = {}
    fragments: dict[str, str] = {}
    for path in (ANSWER, *paths):
        parts = _HEADER.split(path.read_text(encoding="utf-8"))
        for kind, name, text in zip(parts[1::3], parts[2::3], parts[3::3], strict=True):
            blocks = statements if kind == "name" else fragments
            if name in blocks:
                raise ValueError(f"{path.name}: {name} is defined twice")
            blocks[name] = text.strip()

    def whole(text: str) -> str:
        return _INCLUDE.sub(lambda include: whole(fragments[include[1]]), text)

    return {name: whole(text) for name, text in statements.items()}
