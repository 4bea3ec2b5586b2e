"""The commits of a repository, as ``git log`` writes them.

``LOG`` is what git must be called with. The output does not name its repository, so a file of it has the name
of the repository, or a first line ``# repository ADDRESS`` with its name or its address at a code host. With
such an address, commits are the same records as those that the code host gives.
"""

import itertools
import re
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from resourceserver.integrations import reading, values
from resourceserver.integrations.format import File, Format, Head, Person
from resourceserver.integrations.records import CodeEvent, Record, Refused, Sourced
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
_FIRST: Final = re.compile(
    r"(?:# repository [^\n]+\n)?\x1e?(?:[0-9a-f]{40}|[0-9a-f]{64})\t\d{4}-\d\d-\d\dT\S+\t"
)

_HEADER: Final = re.compile(r"# repository (\S.*)")
# git@host:path and ssh://git@host:22/path
_SSH: Final = re.compile(r"(?:ssh://)?[^@/\s]+@([^:/\s]+)(?::\d+(?=/))?[:/]/?(.+)")


class Origin(NamedTuple):
    """Where a repository is."""

    source: str
    """The code host as the source of rows; ``git`` for any other."""
    repository: str
    commit_page: str | None
    """What is before the hash in the address of a commit's page."""


def origin(address: str) -> Origin:
    """Return where a repository is, from the address of its remote or its name."""
    ssh = _SSH.fullmatch(address)
    try:
        parts = urlsplit(f"https://{ssh.group(1)}/{ssh.group(2)}" if ssh else address)
        host = parts.hostname or ""
    except ValueError:
        return Origin("git", "repository", None)
    path = parts.path.strip("/").removesuffix(".git")
    if parts.scheme in {"http", "https"} and path:
        if host == "github.com":
            return Origin("github", path, f"https://github.com/{path}/commit/")
        if host.startswith("gitlab."):
            return Origin("gitlab", path, f"https://{host}/{path}/-/commit/")
    # Of any other address, which can be a path of the machine, only the last part is a name.
    return Origin("git", path.rpartition("/")[2] or "repository", None)


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


def _read(file: File, _person: Person) -> Iterator[Record | Sourced | Refused]:
    lines = reading.lines(file)
    first = next(lines, "")
    header = _HEADER.fullmatch(first)
    if header is None:
        repository = file.name.rpartition("/")[2].partition(".")[0] or "repository"
        yield from commits(itertools.chain([first], lines) if first else lines, repository)
        return
    place = origin(header.group(1))
    for commit in commits(lines, place.repository):
        if isinstance(commit, Refused):
            yield commit
        else:
            page = None if place.commit_page is None else place.commit_page + commit.key
            yield Sourced(place.source, commit._replace(url=page))


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
