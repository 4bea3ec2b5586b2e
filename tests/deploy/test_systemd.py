"""The units of deploy/systemd: systemd accepts them, they may do little, and what they start exists."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from shared import settings
from shared.listening import Address
from tests.test_repo import is_of_parser

ROOT: Final = Path(__file__).parent.parent.parent
UNITS: Final = ROOT / "deploy" / "systemd"
SERVICES: Final = ("svc", "svc-auth", "svc-backup", "svc-resource", "svc-worker")
PROGRAM: Final = "/srv/svc/.venv/bin/svc"

needs_systemd = pytest.mark.skipif(
    shutil.which("systemd-analyze") is None, reason="as root: apt-get install systemd"
)


def lines(unit: Path, name: str) -> list[str]:
    """Return the values of a setting of a unit."""
    return re.findall(rf"^{name}=(.*)$", unit.read_text(), re.MULTILINE)


def test_each_service_has_its_unit() -> None:
    assert sorted(path.stem for path in UNITS.glob("*.service")) == sorted(SERVICES)


@needs_systemd
def test_systemd_finds_no_mistake_in_the_units(tmp_path: Path) -> None:
    installed = Path(sys.executable).with_name("svc")
    for unit in UNITS.glob("*.*"):
        text = unit.read_text().replace(PROGRAM, str(installed))
        (tmp_path / unit.name).write_text(text)

    units = [str(path) for path in sorted(tmp_path.glob("svc*.[st]*"))]
    checked = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", *units],
        capture_output=True,
        check=False,
        text=True,
    )

    own = [line for line in checked.stderr.splitlines() if "svc" in line]
    assert (own, checked.returncode) == ([], 0)


@needs_systemd
@pytest.mark.parametrize("name", SERVICES)
def test_a_service_may_do_little_besides_its_work(name: str) -> None:
    # From 0 (may do nothing) to 100. A unit without any limit has 96.
    checked = subprocess.run(
        [
            *("systemd-analyze", "security", "--offline=true", "--no-pager", "--threshold=15"),
            str(UNITS / f"{name}.service"),
        ],
        capture_output=True,
        check=False,
        text=True,
    )

    assert checked.returncode == 0, checked.stdout + checked.stderr


@pytest.mark.parametrize("name", SERVICES)
def test_a_unit_starts_a_command_that_exists(name: str) -> None:
    (command,) = lines(UNITS / f"{name}.service", "ExecStart")

    assert command.startswith(f"{PROGRAM} ")
    assert is_of_parser(command.removeprefix(f"{PROGRAM} "))


@pytest.mark.parametrize("name", ["svc", "svc-auth", "svc-resource", "svc-worker"])
def test_a_server_is_started_again_however_it_ends(name: str) -> None:
    unit = UNITS / f"{name}.service"

    assert lines(unit, "Type") == ["notify"]
    assert lines(unit, "Restart") == ["always"]
    assert lines(unit, "StartLimitIntervalSec") == ["0"]


def test_the_installation_creates_what_the_service_needs_before_its_first_command() -> None:
    # A restoration and the migration of servers apart run before systemd has created any directory.
    steps = (ROOT / "docs/INSTALL.md").read_text()

    created = steps.index("\ninstall -d -o svc -g svc -m 0700 /var/lib/svc\n")

    assert steps.index("\nuseradd ") < created < steps.index("\nsvc user first-link\n")


def test_files_with_secrets_are_closed_to_others_in_the_installation() -> None:
    steps = (ROOT / "docs/INSTALL.md").read_text()
    files = {file for unit in UNITS.glob("*.service") for file in lines(unit, "EnvironmentFile")}

    assert files == {"/etc/svc/svc.env", "-/etc/svc/owner.env", "-/etc/svc/worker.env"}
    assert "install -D -m 0600 deploy/systemd/svc.env /etc/svc/svc.env" in steps
    assert "`/etc/svc/owner.env`, mode 0600" in steps
    assert "`/etc/svc/worker.env`, mode 0600" in steps


def test_the_sample_of_settings_agrees_with_the_samples_of_reverse_proxies() -> None:
    given = dict(re.findall(r"^(\w+)=(.*)$", (UNITS / "svc.env").read_text(), re.MULTILINE))
    chosen = settings.read(given)

    assert chosen.auth_url == "https://auth.example.org"
    assert chosen.base_url == "https://api.example.org"
    assert chosen.auth_listen == (Address("127.0.0.1", 8400),)
    assert chosen.base_listen == (Address("127.0.0.1", 8401),)
    assert (
        f"svc backup {given.pop('SVC_BACKUP_DIR')} " in (UNITS / "svc-backup.service").read_text()
    )
    for sample in ("Caddyfile", "nginx.conf"):
        proxy = (ROOT / "deploy/proxy" / sample).read_text()
        assert all(f"{name}={value}" in re.sub(" +", " ", proxy) for name, value in given.items())


@pytest.mark.skipif(sys.platform != "linux", reason="needs setpriv of util-linux")
def test_the_command_of_operators_runs_as_the_service_with_its_settings(tmp_path: Path) -> None:
    environment = tmp_path / "svc.env"
    environment.write_text(
        "SVC_OPERATOR_CONTACT='Ada, $room 12'\nDATABASE_URL=postgresql://db.example/svc\n"
    )
    script = (UNITS / "svc").read_text()
    for old, new in {
        "/etc/svc/svc.env": str(environment),
        f"{PROGRAM} ": "/bin/sh -c 'id -un; echo $SVC_OPERATOR_CONTACT; echo $DATABASE_URL; echo $1' sh ",
        "--reuid=svc --regid=svc": "--reuid=nobody --regid=nogroup",
    }.items():
        assert old in script
        script = script.replace(old, new)

    run = subprocess.run(
        ["/bin/sh", "-c", script, "svc", "user list"],
        env={"PATH": os.environ["PATH"], "DATABASE_URL": "postgresql://owner@db.example/svc"},
        capture_output=True,
        check=False,
        text=True,
    )

    if os.geteuid() == 0:
        assert run.stdout == (
            "nobody\nAda, $room 12\npostgresql://owner@db.example/svc\nuser list\n"
        )
        assert (run.stderr, run.returncode) == ("", 0)
    else:
        assert run.stderr == "svc: this needs the rights of root: sudo svc user list\n"
        assert run.returncode == 1
