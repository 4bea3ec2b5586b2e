"""The commits of a repository, as ``git log`` writes them.

``LOG`` is what git must be called with. The output does not name its repository, so a file of it has the name
of the repository.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Final

from resourceserver.integrations import reading, values
from resourceserver.integrations.format import File, Format, Head, Person
from resourceserver.integrations.records import CodeEvent, Record, Refused
from resourceserver.integrations.values import Flaw

LOG: Final = (
    *("-c", "core.quotePath=true", "-c", "log.showSignature=false"),
    *("log", "--all", "--numstat", "--no-renames", "--no-color", "--format=%x1e%H%x09%aI%x09%s"),
)
"""The arguments of git; an ``--author`` may follow."""

# Git counts no lines of what it takes for binary.
_CHANGE: Final = re.compile(r"(\d+|-)\t(\d+|-)\t")
# The mark before a commit is left out by those who write such a file by hand.
_COMMIT: Final = re.compile(r"\x1e?([0-9a-f]{40}|[0-9a-f]{64})\t(\S*)\t(.*)", re.DOTALL)
_FIRST: Final = re.compile(r"\x1e?(?:[0-9a-f]{40}|[0-9a-f]{64})\t\d{4}-\d\d-\d\dT\S+\t")


def commits(lines: Iterable[str], repository: str) -> Iterator[CodeEvent | Refused]:
    """Yield the commits of git's output, whose lines are without their ends."""
    commit: CodeEvent | None = None
    for line in lines:
        if begun := _COMMIT.fullmatch(line):
            if commit is not None:
                yield commit
            sha, written, subject = begun.groups()
            try:
                commit = CodeEvent(
                    key=sha,
                    type="commit",
                    action="pushed",
                    occurred_at=values.instant(written),
                    repository=repository,
                    title=values.text(subject),
                    sha=sha,
                    additions=0,
                    deletions=0,
                    changed_files=0,
                )
            except Flaw as flaw:
                commit = None
                yield Refused(str(flaw), values.example(line))
        elif change := _CHANGE.match(line):
            if commit is not None:
                commit = commit._replace(
                    additions=(commit.additions or 0) + _lines(change.group(1)),
                    deletions=(commit.deletions or 0) + _lines(change.group(2)),
                    changed_files=(commit.changed_files or 0) + 1,
                )
        else:
            yield Refused("no_commit", values.example(line))
    if commit is not None:
        yield commit


def _lines(written: str) -> int:
    return 0 if written == "-" else int(written[:9])


def _read(file: File, _person: Person) -> Iterator[Record | Refused]:
    repository = file.name.rpartition("/")[2].partition(".")[0] or "repository"
    yield from commits(reading.lines(file), repository)


def _recognise(head: Head) -> float:
    return 1.0 if _FIRST.match(head.text.lstrip("\r\n")) else 0.0


GIT_LOG: Final = Format(
    name="git_log",
    title="Output of git log",
    source="git",
    records=(CodeEvent,),
    recognise=_recognise,
    read=_read,
    is_proven=True,
)
