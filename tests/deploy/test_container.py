"""The container files, without an engine: what they name exists, and the steps of the image work."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import psycopg
import pytest
import yaml
from psycopg.conninfo import make_conninfo

from deploy.postgres.embedded import EmbeddedPostgres
from shared import settings
from tests.conftest import FAST, person
from tests.deploy.conftest import ON_DISK, reachable_directory
from tests.deploy.runner import get
from tests.processes import free_ports
from tests.test_repo import is_of_parser
from tests.waiting import wait_for

ROOT: Final = Path(__file__).parent.parent.parent
FILES: Final = ROOT / "deploy" / "container"
PLACE: Final = "/srv/svc"
USER: Final = 10001


def steps() -> list[tuple[str, str]]:
    """Return the instructions of the Containerfile with their arguments."""
    text = (FILES / "Containerfile").read_text()
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return [(name, rest) for name, _, rest in (line.partition(" ") for line in lines)]


STEPS: Final = steps()
COMPOSE: Final = yaml.safe_load((FILES / "compose.yaml").read_text())
SERVICES: Final[Mapping[str, Any]] = COMPOSE["services"]
OURS: Final = {name: each for name, each in SERVICES.items() if each["image"] == "localhost/svc"}


def environment(service: Mapping[str, Any], **written: str) -> dict[str, str]:
    """Return the environment of a service, with values for the names in .env, some of them given."""
    given = {
        "SVC_AUTH_NAME": "auth.example.org",
        "SVC_BASE_NAME": "api.example.org",
        "OWNER_PASSWORD": "a password",
        "SVC_SEALING_PUBLIC_KEY": "",
        "SVC_SEALING_PRIVATE_KEYS": "",
        "SVC_READER_REPLICA_URL": "",
    } | written
    image = dict(rest.split("=", 1) for name, rest in STEPS if name == "ENV")
    own = service["environment"]
    return image | {
        name: re.sub(r"\$\{(\w+):[?-]\}", lambda match: given[match[1]], value)
        for name, value in own.items()
    }


@pytest.mark.parametrize("name", OURS)
def test_a_container_runs_a_command_that_exists(name: str) -> None:
    assert is_of_parser(shlex.join(OURS[name]["command"]))


def test_the_image_runs_everything_by_default() -> None:
    by_name = dict(STEPS)

    assert json.loads(by_name["ENTRYPOINT"]) == [f"{PLACE}/.venv/bin/svc"]
    assert is_of_parser(shlex.join(json.loads(by_name["CMD"])))


@pytest.mark.parametrize("name", OURS)
def test_a_container_has_settings_that_exist(name: str) -> None:
    text = (ROOT / "shared/settings.py").read_text()
    known = {*re.findall(r'^ +"""((?:SVC|DATABASE)_\w+)', text, re.MULTILINE), "PGPASSWORD"}
    given = environment(OURS[name])

    assert {"SVC_AUTH_URL", "DATABASE_URL"} < known
    assert given.keys() - known == set()
    assert settings.read(given).auth_url == "https://auth.example.org"


def test_the_owners_password_is_where_the_database_is_prepared_alone() -> None:
    assert [name for name, each in SERVICES.items() if "OWNER_PASSWORD" in str(each)] == [
        "database",
        "migrate",
    ]


def test_the_worker_alone_has_the_keys_that_open_secrets() -> None:
    having = [name for name, each in SERVICES.items() if "SEALING_PRIVATE" in str(each)]

    assert having == ["worker"]


@pytest.mark.parametrize("name", OURS)
def test_a_container_may_do_little_besides_its_work(name: str) -> None:
    service = OURS[name]

    assert (service["read_only"], service["cap_drop"]) == (True, ["ALL"])
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert service["user"] == f"{USER}:{USER}" == dict(STEPS)["USER"]


def test_no_instruction_has_a_secret_and_none_runs_as_root_at_the_end() -> None:
    words = [
        rest
        for name, rest in STEPS
        if name in ("ARG", "ENV") and re.search("PASSWORD|KEY|SECRET|TOKEN|DATABASE", rest)
    ]
    after = [name for name, _ in STEPS[[name for name, _ in STEPS].index("USER") :]]

    assert words == []
    assert "RUN" not in after


def test_the_secrets_beside_the_compose_file_are_not_copied_into_the_image() -> None:
    assert "**/.env" in (ROOT / ".dockerignore").read_text().splitlines()


def test_servers_start_when_the_database_is_prepared_and_caddy_when_they_are_ready() -> None:
    needed = {
        name: {other: each["condition"] for other, each in service.get("depends_on", {}).items()}
        for name, service in SERVICES.items()
    }

    prepared = {"migrate": "service_completed_successfully"}
    assert needed == {
        "database": {},
        "migrate": {"database": "service_healthy"},
        "auth": prepared,
        "resource": prepared,
        "worker": prepared,
        "caddy": {"auth": "service_healthy", "resource": "service_healthy"},
    }


def test_ports_and_names_agree() -> None:
    caddy = (FILES / "Caddyfile").read_text()
    chosen = settings.read(environment(OURS["auth"]))
    (network,) = COMPOSE["networks"]["inside"]["ipam"]["config"]

    assert re.findall(r"reverse_proxy (\S+)", caddy) == ["auth:8400", "resource:8401"]
    assert [address.port for address in chosen.auth_listen + chosen.base_listen] == [8400, 8401]
    assert OURS["auth"]["healthcheck"]["test"][-1] == "8400"
    assert OURS["resource"]["healthcheck"]["test"][-1] == "8401"
    assert dict(STEPS)["EXPOSE"] == "8400 8401"
    assert chosen.auth_internal_url == "http://auth:8400"
    assert chosen.trusted_proxies == (network["subnet"],)


def test_caddy_does_the_same_as_without_containers() -> None:
    sample = (ROOT / "deploy/proxy/Caddyfile").read_text().partition("\n\n")[2]
    own = (FILES / "Caddyfile").read_text().partition("\n\n")[2]
    for old, new in {
        "auth.example.org": "{$SVC_AUTH_NAME}",
        "api.example.org": "{$SVC_BASE_NAME}",
        "127.0.0.1:8400": "auth:8400",
        "127.0.0.1:8401": "resource:8401",
    }.items():
        sample = sample.replace(old, new)

    assert sample.endswith(own)


# The steps of the image


@dataclass(frozen=True)
class Image:
    """The root directory of an image, which is a directory here."""

    root: Path

    def inside(self, path: str) -> Path:
        """Return where a path of the image is."""
        return self.root / path.lstrip("/")

    def translated(self, words: list[str]) -> list[str]:
        """Return a command with the paths of the image as they are here."""
        place = str(self.inside(PLACE))
        return [word.replace(PLACE, place) for word in words]


def build(image: Image) -> None:
    """Do the steps of the first stage, and what the second copies from it."""
    first = [name for name, _ in STEPS].index("FROM", 1)
    directory = image.root
    for name, rest in STEPS[:first]:
        words = rest.split()
        match name:
            case "WORKDIR":
                directory = image.inside(rest)
                directory.mkdir(parents=True)
            case "COPY":
                *sources, target = words
                for source in sources:
                    copy(ROOT / source, directory / target, is_one=len(sources) == 1)
            case "RUN":
                command = [sys.executable if word == "python" else word for word in words]
                subprocess.run(command, cwd=directory, check=True, env=build_environment())
            case _:
                assert name == "FROM"
    # The program keeps its place, so its environment works in the second stage as it is.
    assert f"--from=build {PLACE} {PLACE}" in [rest for name, rest in STEPS if name == "COPY"]


def copy(source: Path, target: Path, *, is_one: bool) -> None:
    if source.is_dir():
        shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
    else:
        shutil.copy(source, target if is_one else target / source.name)


def build_environment() -> dict[str, str]:
    """Return the environment of the tests without what concerns Python and this service."""
    return {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PYTHON", "SVC_", "VIRTUAL_ENV"))
    }


@pytest.fixture(scope="module")
def image() -> Iterator[Image]:
    """The image."""
    with reachable_directory(ON_DISK) as root:
        made = Image(root)
        build(made)
        yield made


READ_ONLY: Final = 'mount --bind "$0" "$0" && mount -o remount,bind,ro "$0" && exec "$@"'


def as_user(image: Image) -> list[str]:
    """Return the words before a command that let the image's user run it where nothing can be written."""
    if os.geteuid() != 0:
        return []
    place = str(image.inside(PLACE))
    # The user may use the tests' Python and database, although these are closed to everybody but root.
    rights = ["--inh-caps=-all,+dac_override", "--ambient-caps=-all,+dac_override"]
    user = ["setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups", *rights, "--"]
    return ["unshare", "--mount", "sh", "-c", READ_ONLY, place, *user]


@contextmanager
def container(
    image: Image, service: Mapping[str, Any], variables: dict[str, str], log: Path
) -> Iterator[subprocess.Popen[bytes]]:
    """Run the entry point with the command of a service, in its environment."""
    lifeline, held = os.pipe()
    with log.open("wb") as output:
        process = subprocess.Popen(
            [*as_user(image), *entry(image), *service["command"]],
            cwd=image.inside(PLACE),
            env={"PATH": "/usr/bin:/bin", "SVC_LIFELINE": str(lifeline), **variables},
            pass_fds=[lifeline],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
        )
    os.close(lifeline)
    try:
        yield process
    finally:
        os.close(held)
        process.wait(60)


def entry(image: Image) -> list[str]:
    return image.translated(json.loads(dict(STEPS)["ENTRYPOINT"]))


def output_of(image: Image, variables: dict[str, str], *words: str) -> str:
    """Run a command of the program to its end, and return what it prints."""
    done = subprocess.run(
        [*as_user(image), *entry(image), *words],
        cwd=image.inside(PLACE),
        env={"PATH": "/usr/bin:/bin", **variables},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    printed: str = done.stdout
    assert done.returncode == 0, printed + done.stderr
    return printed


def wait_until_healthy(
    image: Image, service: Mapping[str, Any], port: int, process: subprocess.Popen[bytes]
) -> None:
    """Wait until the health check of a service succeeds for this port, or the process has ended."""
    check = [*image.translated(service["healthcheck"]["test"][1:-1]), str(port)]

    def is_healthy() -> bool:
        return subprocess.run(check, cwd=image.inside(PLACE), check=False).returncode == 0

    wait_for(lambda: process.poll() is not None or is_healthy(), "a health check")


@pytest.fixture
def address(data_dir: Path) -> Iterator[str]:
    """The address of an empty database whose owner has a password, as the image of PostgreSQL makes one."""
    with EmbeddedPostgres(data_dir, settings=FAST) as server:
        with psycopg.connect(server.url, autocommit=True) as superuser:
            superuser.execute("create role owner superuser login password 'a password'")
        yield make_conninfo(server.url, user="")


def documented(command: str, backups: Path) -> list[str]:
    """Return the words of a command for the service `migrate` in BACKUP.md, which mounts this directory."""
    prefix = "podman compose run --rm --volume /var/backups/svc:/backups migrate "
    (line,) = re.findall(
        f"^{prefix}({command} .+)$", (ROOT / "docs/BACKUP.md").read_text(), re.MULTILINE
    )
    assert is_of_parser(line)
    return [word.replace("/backups", str(backups)) for word in shlex.split(line)]


@pytest.mark.long
@pytest.mark.timeout(900)
def test_the_services_of_the_compose_file_start_twice_and_their_database_is_restored(
    image: Image, address: str, tmp_path: Path
) -> None:
    ports = dict(zip(("auth", "resource"), free_ports(2), strict=True))
    volume = image.inside("/var/lib/svc")
    volume.mkdir(mode=0o700, parents=True)
    os.chown(volume, USER if os.geteuid() == 0 else -1, -1)
    keys = output_of(image, environment(OURS["worker"]), "sealing", "new")
    written = dict(line.split("=", 1) for line in keys.splitlines() if line.startswith("SVC_"))
    assert written.keys() == {"SVC_SEALING_PUBLIC_KEY", "SVC_SEALING_PRIVATE_KEYS"}

    def variables(name: str) -> dict[str, str]:
        user = "owner" if name == "migrate" else ""
        given = environment(OURS[name], **written) | {
            "DATABASE_URL": make_conninfo(address, user=user),
            "SVC_DATA_DIR": str(volume),
        }
        if name in ports:
            given |= {
                f"SVC_{server}_LISTEN": f"127.0.0.1:{ports[name]}" for server in ("AUTH", "BASE")
            }
        return given

    for start in ("first", "second"):
        output_of(image, variables("migrate"), *OURS["migrate"]["command"])
        with ExitStack() as running:
            for name in ("auth", "resource", "worker"):
                log = tmp_path / f"{name} {start}.log"
                process = running.enter_context(container(image, OURS[name], variables(name), log))
                if name in ports:
                    wait_until_healthy(image, OURS[name], ports[name], process)
                assert process.poll() is None, log.read_text()
            statuses = [get("127.0.0.1", port, "/readyz")[0] for port in ports.values()]
            status, metadata = get(
                "127.0.0.1", ports["auth"], "/.well-known/oauth-authorization-server"
            )
            link = output_of(image, variables("auth"), "user", "first-link")
            worker = tmp_path / f"worker {start}.log"
            wait_for(
                lambda: "turn" in worker.read_text(),  # noqa: B023 -- called at once
                f"a turn in {worker}",
            )
        assert statuses == [200, 200]
        assert (status, json.loads(metadata)["issuer"]) == (200, "https://auth.example.org")
        assert "https://auth.example.org/" in link

    backups = volume.parent / "backups"
    backups.mkdir(mode=0o700)
    os.chown(backups, USER if os.geteuid() == 0 else -1, -1)
    owner = make_conninfo(address, user="owner", password="a password")
    with psycopg.connect(owner, autocommit=True) as connection:
        person(connection, "alice")
        output_of(image, variables("migrate"), *documented("backup", backups))
        connection.execute("create database restored")
    (taken,) = backups.iterdir()
    restored = variables("migrate") | {
        "DATABASE_URL": make_conninfo(address, user="owner", dbname="restored")
    }
    *words, _ = documented("restore", backups)
    output_of(image, restored, *words, str(taken))
    with psycopg.connect(owner, dbname="restored") as connection:
        emails = connection.execute("select email from identity.user").fetchall()
    assert emails == [("alice@example.org",)]
