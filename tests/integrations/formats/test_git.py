"""Commits from the output of git."""

import os
import subprocess
from datetime import UTC, datetime
from pathlib import Path

import pytest

from resourceserver.integrations.formats.git import GIT_LOG, LOG, origin
from resourceserver.integrations.records import CodeEvent
from tests.integrations.memory import read, recognise

SHA = "9fceb02d0ae598e95dc970b74767f19372d61af8"


def git(directory: Path, *arguments: str, at: str = "2025-06-16T10:00:00+02:00") -> bytes:
    identity = {
        f"GIT_{role}_{field}": value
        for role in ("AUTHOR", "COMMITTER")
        for field, value in (("NAME", "Alice"), ("EMAIL", "alice@example.org"), ("DATE", at))
    }
    return subprocess.run(
        ["git", *arguments],
        cwd=directory,
        env=os.environ | identity | {"GIT_CONFIG_GLOBAL": "", "GIT_CONFIG_NOSYSTEM": "1"},
        check=True,
        capture_output=True,
    ).stdout


def test_what_git_writes_of_a_repository_is_read(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", "-b", "main")
    (tmp_path / "a\tb.py").write_text("one\ntwo\n")
    (tmp_path / "picture").write_bytes(b"\0\1\2")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-q", "-m", "Add\tboth é\n\nWith a body.")
    (tmp_path / "a\tb.py").write_text("one\nthree\nfour\n")
    git(tmp_path, "commit", "-q", "-a", "-m", "Change", at="2025-06-16T11:00:00Z")
    git(tmp_path, "commit", "-q", "--allow-empty", "-m", "", "--allow-empty-message")
    shas = git(tmp_path, "log", "--format=%H").decode().split()

    output = git(tmp_path, *LOG)
    reading = read(GIT_LOG, output, "repositories/svc.log")

    assert recognise(GIT_LOG, output) == 1.0
    assert reading.refused == []
    eight = datetime(2025, 6, 16, 8, tzinfo=UTC)

    def commit(sha: str, at: datetime, title: str | None, *counts: int) -> CodeEvent:
        additions, deletions, changed_files = counts
        return CodeEvent(
            key=sha,
            type="commit",
            action="pushed",
            occurred_at=at,
            repository="svc",
            title=title,
            sha=sha,
            additions=additions,
            deletions=deletions,
            changed_files=changed_files,
        )

    assert reading.records == [
        commit(shas[0], eight, None, 0, 0, 0),
        commit(shas[1], eight.replace(hour=11), "Change", 2, 1, 1),
        commit(shas[2], eight, "Add\tboth é", 2, 0, 2),
    ]


def test_lines_that_are_no_commit_are_refused_and_a_broken_end_keeps_what_came_before() -> None:
    output = (
        f"1\t1\tbefore.py\n\x1e{SHA}\t2025-06-16T10:00:00+02:00\tFirst\n\n3\t4\ta.py\n"
        f"fatal: bad object\n\x1e{SHA}\tyesterday\tSecond\n3\t4\ta.py\n\x1e{SHA[:20]}"
    )

    reading = read(GIT_LOG, output)

    assert [(each.title, each.additions) for each in reading.records] == [("First", 3)]
    assert reading.reasons == ["no_commit", "invalid_time", "no_commit"]


def test_other_text_is_not_recognised() -> None:
    assert recognise(GIT_LOG, f"{SHA}  file.txt\n") == 0.0
    assert recognise(GIT_LOG, "commit " + SHA) == 0.0


def test_a_first_line_names_the_repository_at_its_code_host() -> None:
    output = f"# repository git@github.com:alice/svc.git\n\x1e{SHA}\t2025-06-16T10:00:00Z\tFirst\n"

    reading = read(GIT_LOG, output, "clone.log")

    assert recognise(GIT_LOG, output) == 1.0
    assert reading.records == [
        CodeEvent(
            key=SHA,
            type="commit",
            action="pushed",
            occurred_at=datetime(2025, 6, 16, 10, tzinfo=UTC),
            repository="alice/svc",
            title="First",
            url=f"https://github.com/alice/svc/commit/{SHA}",
            sha=SHA,
            additions=0,
            deletions=0,
            changed_files=0,
        )
    ]


@pytest.mark.parametrize(
    ("address", "place"),
    [
        ("https://github.com/alice/svc", ("github", "alice/svc")),
        ("ssh://git@gitlab.example.org:2222/team/sub/svc.git", ("gitlab", "team/sub/svc")),
        ("git@code.example.org:svc.git", ("git", "svc")),
        ("https://code.example.org/alice/svc/", ("git", "svc")),
        ("/srv/git/svc.git", ("git", "svc")),
        ("my.repository", ("git", "my.repository")),
        ("https://github.com", ("git", "repository")),
        ("https://[", ("git", "repository")),
    ],
)
def test_addresses_of_remotes_are_read(address: str, place: tuple[str, str]) -> None:
    assert origin(address)[:2] == place
