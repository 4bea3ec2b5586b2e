"""``svc import git``: the commits of local clones."""

import json
from pathlib import Path

import pytest

from shared.settings import Settings
from tests.conftest import Person
from tests.integrations.formats.test_git import git
from tests.integrations.test_command import Command, Rows

ROWS = (
    "select provider, repository, title, url, is_private, additions, deletions, changed_files"
    " from code.event order by occurred_at, title"
)


@pytest.fixture
def command(deployment: Settings, alice: Person, monkeypatch: pytest.MonkeyPatch) -> Command:
    # The clones have their own settings alone.
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", "")
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    return Command(deployment, alice.email)


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A clone with two commits of alice and one of bob."""
    path = tmp_path / "my clone"
    path.mkdir()
    git(path, "init", "-q", "-b", "main")
    git(path, "config", "user.email", "alice@example.org")
    (path / "a.py").write_text("one\ntwo\n")
    git(path, "add", ".")
    git(path, "commit", "-q", "-m", "First")
    bob = "Bob <malice@example.org>"
    git(path, "commit", "-q", "--allow-empty", "-m", "Of bob", f"--author={bob}")
    git(path, "checkout", "-q", "-b", "side")
    (path / "a.py").write_text("one\nthree\n")
    git(path, "commit", "-q", "-a", "-m", "Second", at="2025-06-16T11:00:00+02:00")
    git(path, "checkout", "-q", "main")
    return path


def test_commits_of_all_branches_come_with_their_lines(
    command: Command, clone: Path, owner: Rows
) -> None:
    done = command.bring("git", clone)
    again = json.loads(command.bring("git", clone, "--json").stdout)

    assert done.stdout.splitlines()[1] == "  2 records read, 2 new, 0 known, 0 changed, 0 refused"
    assert done.stdout.startswith(f"{clone}: git_log (import ")
    assert again["records"]["known"] == 2
    assert owner.execute(ROWS).fetchall() == [
        ("git", "my clone", "First", None, None, 2, 0, 1),
        ("git", "my clone", "Second", None, None, 1, 1, 1),
    ]


def test_a_clone_and_its_code_host_give_each_commit_once(
    command: Command, clone: Path, owner: Rows
) -> None:
    git(clone, "remote", "add", "origin", "https://alice:secret@github.com/alice/svc.git")
    sha = git(clone, "rev-parse", "side").decode().strip()
    owner.execute(
        "insert into code.event (user_id, provider, provider_key, type, action, occurred_at,"
        " repository, is_private, url, sha)"
        " select user_id, 'github', %s, 'commit', 'pushed', '2025-06-16T09:00:00Z', 'alice/svc',"
        " true, 'https://github.com/x', %s from identity.user where email = %s",
        [sha, sha, command.email],
    )

    done = json.loads(command.bring("git", clone, "--json").stdout)

    first = git(clone, "rev-parse", "main~1").decode().strip()
    assert [done["records"][each] for each in ("new", "changed")] == [1, 1]
    page = "https://github.com/alice/svc/commit"
    assert owner.execute(ROWS).fetchall() == [
        ("github", "alice/svc", "First", f"{page}/{first}", None, 2, 0, 1),
        ("github", "alice/svc", "Second", f"{page}/{sha}", True, 1, 1, 1),
    ]


def test_another_author_can_be_chosen(command: Command, clone: Path, owner: Rows) -> None:
    command.bring("git", clone, "--author", "Bob")

    assert [row[2] for row in owner.execute(ROWS)] == ["Of bob"]


def test_what_is_no_clone_ends_the_command_with_its_reason(
    command: Command, clone: Path, tmp_path: Path
) -> None:
    nothing = command.bring("git", tmp_path / "nothing", "--author", "x")
    folder = command.bring("git", tmp_path, "--author", "x")
    unknown = command.bring("git", clone, tmp_path)
    none = command.bring("git")
    author = command.bring(clone, "--author", "x")

    assert (nothing.exit_code, folder.exit_code, unknown.exit_code) == (1, 1, 1)
    assert "No such file or directory" in nothing.stderr
    assert f"{tmp_path}: fatal: not a git repository" in folder.stderr
    assert "2 records read" in unknown.stdout
    assert f"{tmp_path}: it has no user.email; use --author" in unknown.stderr
    assert (none.exit_code, author.exit_code) == (2, 2)


def test_a_machine_without_git_is_named(
    command: Command, clone: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")

    assert "git does not start: No such file or directory" in command.bring("git", clone).stderr
