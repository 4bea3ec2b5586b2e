"""The service run by an ordinary user; if the tests run as root, they create that user."""

import os
import pwd
import shutil
import stat
import subprocess
import sys
import sysconfig
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from tests.deploy.conftest import ON_DISK, reachable_directory
from tests.deploy.runner import (
    ENVIRONMENT,
    SELF,
    Login,
    Runner,
    addresses,
    get,
    owner,
    wait_until_gone,
)

ROOT = Path(__file__).parent.parent.parent
OURS = ("authserver", "deploy", "resourceserver", "shared", "sql")
# Only for tests and checks, and large.
NOT_NEEDED = ("playwright", "mypy", "mypyc", "hypothesis", "pip", "_pytest", "pygments")
PATH = "/usr/sbin:/sbin:/usr/bin:/bin"


@pytest.fixture(scope="module")
def home() -> Iterator[Path]:
    """A directory of the ordinary user's own."""
    with reachable_directory() as parent:
        home = parent / "home"
        home.mkdir()
        yield home


@pytest.fixture(scope="module")
def login(home: Path) -> Iterator[Login]:
    """The ordinary user, with a Python and the project's code where this user can read them."""
    if os.geteuid() != 0:
        yield SELF
        return
    name = f"svc-test-{os.getpid()}"
    add_user(name, home)
    try:
        entry = pwd.getpwnam(name)
        os.chown(home, entry.pw_uid, entry.pw_gid)
        # In the directory of the tests' own Python if possible, so that its files can be hard links.
        with reachable_directory(ON_DISK) as equipment:
            yield equipped(entry, equipment)
    finally:
        administer(["userdel", name] if shutil.which("userdel", path=PATH) else ["deluser", name])


def add_user(name: str, home: Path) -> None:
    if shutil.which("useradd", path=PATH):
        administer(["useradd", "--home-dir", str(home), "--no-create-home", name])
    else:  # BusyBox
        administer(["adduser", "-D", "-H", "-h", str(home), name])


def administer(command: list[str]) -> None:
    """Change /etc/passwd, on which another worker may have its hands."""
    for _ in range(50):
        result = subprocess.run(
            command, env={"PATH": PATH}, capture_output=True, check=False, text=True
        )
        if "lock" not in result.stderr:
            break
        time.sleep(0.1)
    assert result.returncode == 0, result.stderr


def equipped(entry: pwd.struct_passwd, parent: Path) -> Login:
    """Return the login of a user of this machine, with copies of files that are closed to it."""
    code = parent / "code"
    for package in OURS:
        copy(ROOT / package, code / package)
    login = with_python(entry, parent / "python")
    packages = Path(sysconfig.get_path("purelib"))
    if can(login, "import psycopg_binary, uvicorn", packages):
        return replace(login, variables=login.variables | {"PYTHONPATH": f"{code}:{packages}"})
    copy(packages, parent / "packages", *NOT_NEEDED)
    return replace(
        login, variables=login.variables | {"PYTHONPATH": f"{code}:{parent / 'packages'}"}
    )


def with_python(entry: pwd.struct_passwd, place: Path) -> Login:
    """Return a login with a Python like ours: the tests' own, the system's, or a copy."""
    variables = ENVIRONMENT | {"HOME": entry.pw_dir, "PATH": PATH}
    ours = Path(sys.base_prefix) / "bin" / f"python3.{sys.version_info.minor}"
    for python in (ours, Path("/usr/bin/python3")):
        login = Login((str(python), *SELF.command[1:]), variables, entry.pw_uid, entry.pw_gid)
        if can(login, f"import sys; sys.exit(sys.version_info[:2] != {sys.version_info[:2]})"):
            return login
    copy(Path(sys.base_prefix), place, "test", "idlelib", "site-packages", "share", "include")
    variables |= {"LD_LIBRARY_PATH": str(place / "lib")}
    command = (str(place / "bin" / ours.name), *SELF.command[1:])
    return Login(command, variables, entry.pw_uid, entry.pw_gid)


def can(login: Login, script: str, packages: Path | None = None) -> bool:
    """Whether the login's Python runs ``script``."""
    found = {} if packages is None else {"PYTHONPATH": str(packages)}
    try:
        result = subprocess.run(
            [login.command[0], "-c", script],
            env=login.variables | found,
            capture_output=True,
            check=False,
            cwd="/",
            user=login.uid,
            group=login.gid,
            extra_groups=[],
        )
    except OSError:
        return False
    return result.returncode == 0


def copy(source: Path, place: Path, *left_out: str) -> None:
    """Copy a directory so that everybody can read it."""
    ignored = shutil.ignore_patterns(*left_out)
    shutil.copytree(source, place, ignore=ignored, symlinks=True, copy_function=copy_file)
    for directory, _, _ in os.walk(place):
        Path(directory).chmod(0o755)


def copy_file(source: str, target: str) -> None:
    """Hard-link a file that everybody can read, else copy it for everybody."""
    mode = Path(source).stat().st_mode
    if mode & stat.S_IROTH:
        with suppress(OSError):
            os.link(source, target)
            return
    # With its modification time, else each process would compile the bytecode again.
    shutil.copy2(source, target)
    Path(target).chmod(0o755 if mode & stat.S_IXUSR else 0o644)


def test_an_ordinary_user_starts_stops_and_starts_again(
    login: Login, home: Path, ports: tuple[int, int]
) -> None:
    uid = os.geteuid() if login.uid is None else login.uid

    with Runner(home.parent, addresses(ports), login=login, cwd=home) as first:
        first.wait_until_up()
        children = [pid for pid, _ in first.children()]
        owners = {owner(pid) for pid in children}
        probe = get("127.0.0.1", ports[1], "/healthz")
        added = first.run(
            *("user", "add", "alice@example.org", "--password-stdin"),
            stdin="correct horse battery staple\n",
        )
        stopped = first.stop()
    wait_until_gone(*children)
    with Runner(home.parent, addresses(ports), login=login, cwd=home) as second:
        second.wait_until_up()
    lines = second.out.read_text().partition("Stopping")[0].splitlines()

    assert stopped == 0
    assert probe[0] == 200
    assert added.returncode == 0
    assert added.stderr == ""
    assert len(children) == 3
    assert owners == {uid}
    assert lines[0] == f"Data directory: {home / '.data'}"
    assert lines[-2:] == [f"    http://localhost:{ports[1]}/", ""]
    assert stat.S_IMODE((home / ".data").stat().st_mode) == 0o700
    assert not list((home / ".data").glob("postgresql-*"))


def test_a_data_directory_that_an_ordinary_user_cannot_write_is_named(
    login: Login, home: Path, ports: tuple[int, int]
) -> None:
    closed = home.parent / "closed"
    closed.mkdir(mode=0o555)

    result = login.run({"SVC_DATA_DIR": str(closed / "data")} | addresses(ports), "up")

    assert result.returncode == 1
    assert result.stderr == (
        f"svc: data directory {closed / 'data'} cannot be written: Permission denied "
        f"({closed / 'data'})\n"
    )


def test_an_ordinary_user_cannot_use_the_database_of_another(
    login: Login, home: Path, ports: tuple[int, int]
) -> None:
    closed = home.parent / "others"
    (closed / "postgres").mkdir(parents=True, mode=0o700)
    closed.chmod(0o777)
    if login.uid is None:
        (closed / "postgres").chmod(0)

    result = login.run({"SVC_DATA_DIR": str(closed)} | addresses(ports), "up")

    (closed / "postgres").chmod(0o700)
    assert result.returncode == 1
    assert "Permission denied" in result.stderr
    assert len(result.stderr.splitlines()) == 1


@pytest.fixture
def closed(home: Path) -> Iterator[Path]:
    """A data directory closed to the ordinary user, with a file in it that holds a URL."""
    closed = home.parent / "closed-altogether"
    closed.mkdir()
    (closed / "url").write_text("postgresql://db.example/svc")
    closed.chmod(0)
    yield closed
    closed.chmod(0o700)
    shutil.rmtree(closed)


@pytest.mark.parametrize(
    "words", [("ingest", "--help"), ("token", "list", "-h"), ("psql", "-h"), ("up", "--help")]
)
def test_help_needs_no_database(login: Login, closed: Path, words: tuple[str, ...]) -> None:
    variables = {"SVC_DATA_DIR": str(closed), "DATABASE_URL_FILE": str(closed / "url")}

    result = login.run(variables, *words)

    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.startswith("Usage: svc")


def test_events_are_posted_without_the_servers_secrets(login: Login, closed: Path) -> None:
    result = login.run(
        {
            "SVC_DATA_DIR": str(closed),
            "DATABASE_URL_FILE": str(closed / "url"),
            "SVC_TOKEN": "none",
        },
        *("ingest", "-", "--stream", "app-sessions"),
        stdin="[]",
    )

    assert result.returncode == 1
    assert result.stderr == "Error: this is not a token of this service; is it complete?\n"


def test_a_data_directory_that_cannot_be_read_is_named(login: Login, closed: Path) -> None:
    result = login.run({"SVC_DATA_DIR": str(closed)}, "psql")

    assert result.returncode == 1
    assert result.stderr == (
        f"svc: data directory {closed} cannot be read: Permission denied "
        f"({closed}/postgres/postmaster.pid)\n"
    )
