"""The glossary names modules that exist, and names, comments and texts keep to plain words."""

import re
import subprocess
from collections.abc import Iterator
from inspect import CO_VARARGS, CO_VARKEYWORDS
from typing import Final

import pytest

from tests.rooms import PACKAGES, ROOT, code_of

GLOSSARY: Final = ROOT / "docs" / "GLOSSARY.md"
TIMELINE: Final = ROOT / "resourceserver" / "timeline" / "README.md"

BANNED: Final = frozenset(
    (
        *("asked", "bond", "came", "carried", "comes", "departed", "found", "happened", "judged"),
        *("made", "noted", "occasion", "pace", "seal", "shown", "somebody", "tells", "told"),
        *("unasked", "whoever", "withdrawal"),
    )
)
"""Words that do not say what a name holds or does."""
ALLOWED: Final = {
    "connection_made": "a method of every protocol of asyncio",
    "departed_user": "a table, which only a migration could rename",
    "forget_departed": "a function of the database that servers of two versions call",
    "seal": "what HPKE (RFC 9180) calls encrypting to a public key",
}
"""Names with such a word that stay, with the reason."""
DIALECT: Final = r"(^|[^a-z])(told|whoever|somebody)([^a-z]|$)"
"""Words for which every sentence has a plainer one, in comments, texts and names of tests too."""


def terms() -> list[tuple[str, str]]:
    """Return each term of the glossary with its module."""
    rows = re.findall(r"^\| \*\*(.+?)\*\* \| .+ \| `(.+?)` \|$", GLOSSARY.read_text(), re.MULTILINE)
    return [(term, module) for term, module in rows]


def names() -> set[str]:
    """Return the names of modules and SQL files, and of the statements and fragments in SQL files."""
    paths = [
        path
        for package in (*PACKAGES, "sql")
        for suffix in ("py", "sql")
        for path in (ROOT / package).rglob(f"*.{suffix}")
        if "migrations" not in path.parts
    ]
    blocks = {
        name
        for path in paths
        if path.suffix == ".sql"
        for name in re.findall(
            r"^ *(?:-- name: |-- fragment: |--include )(\w+)$", path.read_text(), re.MULTILINE
        )
    }
    return {path.stem for path in paths} | blocks


def python_names() -> Iterator[str]:
    """Yield the names of classes, functions and parameters."""
    for package in PACKAGES:
        for path in (ROOT / package).rglob("*.py"):
            for code in code_of(path):
                parameters = code.co_argcount + code.co_kwonlyargcount
                # The names of the remaining parameters, *rest and **rest, come next.
                rests = bool(code.co_flags & CO_VARARGS) + bool(code.co_flags & CO_VARKEYWORDS)
                yield from (code.co_name, *code.co_varnames[: parameters + rests])


def sql_names() -> Iterator[str]:
    """Yield the names of tables, common table expressions, aliases and parameters."""
    for package in (*PACKAGES, "sql"):
        for path in (ROOT / package).rglob("*.sql"):
            if "migrations" not in path.parts:
                code = re.sub(r"--.*|'[^']*'", "", path.read_text())
                # PL/pgSQL sets `found`, which says whether a statement had a row.
                yield from re.findall(
                    r"\w+", re.sub(r"\b(if (not )?found then|return found;)", "", code)
                )


def has_banned_word(name: str) -> bool:
    """Whether a word of a name, between underscores, is banned."""
    return not BANNED.isdisjoint(name.lower().split("_"))


def test_the_glossary_has_its_terms_once() -> None:
    found = [term for term, _ in terms()]

    assert len(found) >= 30
    assert len(set(found)) == len(found)


@pytest.mark.parametrize(("term", "module"), terms())
def test_the_module_of_a_term_exists(term: str, module: str) -> None:
    assert (ROOT / module).exists(), term


def test_every_row_of_the_glossary_has_a_module() -> None:
    rows = re.findall(r"^\| \*\*", GLOSSARY.read_text(), re.MULTILINE)

    assert len(rows) == len(terms())


def test_the_glossary_has_the_nine_words_of_the_timeline() -> None:
    words = re.findall(r"^\| \*\*(\w+)\*\* \|", TIMELINE.read_text(), re.MULTILINE)
    known = {term for term, _ in terms()} | {"session", "owner"}

    assert {"activity session", "owner (of an instant)"} <= {term for term, _ in terms()}
    assert len(words) == 9
    assert [word for word in words if word not in known] == []


def test_names_of_modules_and_sql_have_no_banned_words() -> None:
    banned = {name for name in names() if has_banned_word(name)}

    assert banned == set()


def test_names_in_python_and_sql_have_no_banned_words() -> None:
    banned = {name for name in (*python_names(), *sql_names()) if has_banned_word(name)}

    assert banned == set(ALLOWED)


def test_a_banned_word_is_detected_at_any_place_of_a_name() -> None:
    names = ["told", "told_streaks", "days_shown", "get_day", "untold"]

    assert [has_banned_word(name) for name in names] == [True, True, True, False, False]


def test_no_comment_text_or_name_has_the_plainest_words_of_dialect() -> None:
    files = ["*.html", "*.md", "*.py", "*.sql", ":!sql/migrations", ":!tests/test_glossary.py"]
    tracked = subprocess.run(
        ["git", "grep", "-nIiE", DIALECT, "--", *files],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )

    # 1 means that nothing was found, and larger numbers that the search failed.
    assert tracked.returncode in (0, 1), tracked.stderr
    assert tracked.stdout == ""


def test_dialect_is_detected_in_sentences_and_names() -> None:
    texts = ["Whoever writes", "test_what_is_told_first", "tolder", "is told.", "A plain sentence."]

    found = [bool(re.search(DIALECT, text, re.IGNORECASE)) for text in texts]
    assert found == [True, True, False, True, False]
