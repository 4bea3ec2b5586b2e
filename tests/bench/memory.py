"""The memory of a whole deployment: ``svc up`` with its own PostgreSQL, both servers and the worker.

``python -m tests.bench.memory`` starts one in a temporary directory and prints the proportional set size
(PSS) of each process: its own memory, and its part of what it shares with others, so that the sum is what all
take together. It measures at rest after the start, under load with the data of ``svc demo``, and at rest
then. ``--limit 512`` puts all processes into a memory cgroup of so many MiB first, where the kernel has
version 1 of them.
"""

import re
import secrets
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Final

import click
import httpx2

from resourceserver.endpoints import ENDPOINTS
from tests.deploy.runner import Runner, addresses, fields, kernel_file
from tests.processes import free_ports

CGROUPS: Final = Path("/sys/fs/cgroup/memory")
"""Where version 1 of memory cgroups is mounted."""
_PERSON: Final = "demo@example.org"
_SCOPES: Final = (
    "read:activity read:code read:health read:location read:music read:content read:profile"
)
_CLIENTS: Final = 8


@dataclass(frozen=True)
class Process:
    """A process of a deployment, and its memory in MiB."""

    pid: int
    name: str
    pss: float
    private: float


def processes(runner: Runner) -> list[Process]:
    """Return the runner and everything below it."""
    children = defaultdict(list)
    for path in Path("/proc").glob("[0-9]*"):
        children[fields(int(path.name)).get("PPid")].append(int(path.name))
    waiting, pids = [runner.process.pid], list[int]()
    while waiting:
        pids.append(waiting.pop())
        waiting += children[str(pids[-1])]
    return [process for pid in sorted(pids) if (process := _process(pid)) is not None]


def _process(pid: int) -> Process | None:
    rows = re.findall(r"^(\w+): +(\d+) kB", kernel_file(pid, "smaps_rollup"), re.MULTILINE)
    if not rows:
        return None  # It has ended meanwhile.
    mib = {name: int(size) / 1024 for name, size in rows}
    private = mib["Private_Clean"] + mib["Private_Dirty"]
    return Process(pid, _name(pid), mib["Pss"], private)


def _name(pid: int) -> str:
    words = " ".join(kernel_file(pid, "cmdline").replace("\0", " ").split())
    if (own := re.search(r"(?:deploy\.cli|^svc) (\w+ (?:serve|work))", words)) is not None:
        return own[1]
    if "deploy.runner.supervisor" in words:
        return "supervisor"
    return re.sub(r" (\[local\]|-D ).*", "", re.sub(r".*/postgres ", "postgres ", words))


def total(measured: list[Process]) -> float:
    """Return the memory of all processes together, in MiB."""
    return sum(process.pss for process in measured)


@contextmanager
def deployment(directory: Path, *, limit_mib: int | None = None) -> Iterator[Runner]:
    """Yield a ``svc up`` with a database of its own, in a memory cgroup of ``limit_mib`` if that is given."""
    ports = free_ports(2)
    variables = addresses(ports) | {"SVC_DATA_DIR": str(directory / "data"), "SVC_JOBS": "on"}
    with ExitStack() as running:
        group = None if limit_mib is None else running.enter_context(cgroup(limit_mib))
        runner = running.enter_context(Runner(directory, variables))
        if group is not None:
            # What it starts from now on is in the group too.
            (group / "cgroup.procs").write_text(str(runner.process.pid))
        runner.wait_until_up()
        yield runner


@contextmanager
def cgroup(limit_mib: int) -> Iterator[Path]:
    """Yield a new memory cgroup, which is removed at the end. Raises OSError where there can be none."""
    group = CGROUPS / f"svc-{secrets.token_hex(8)}"
    group.mkdir()
    try:
        (group / "memory.limit_in_bytes").write_text(str(limit_mib << 20))
        # Where the kernel counts it, swap would be no limit.
        with suppress(OSError):
            (group / "memory.memsw.limit_in_bytes").write_text(str(limit_mib << 20))
        yield group
    finally:
        group.rmdir()


def has_demo(runner: Runner) -> dict[str, str]:
    """Fill an account with an invented year; return the headers of its requests."""
    password = secrets.token_urlsafe(16)
    added = runner.run("user", "add", _PERSON, "--password-stdin", stdin=f"{password}\n")
    assert added.returncode == 0, added.stderr
    filled = runner.run("demo", _PERSON)
    assert filled.returncode == 0, filled.stderr
    made = runner.run("token", "create", _PERSON, "--scope", _SCOPES)
    assert made.returncode == 0, made.stderr
    return {"Authorization": f"Bearer {made.stdout.split()[-1]}"}


def load(base_url: str, headers: Mapping[str, str], *, rounds: int) -> Counter[int]:
    """Ask every endpoint about the last week ``rounds`` times, eight at once; return the statuses."""
    last = datetime.now(UTC).date()
    questions = [(path, params) for path, params in _questions(last)] * rounds
    with httpx2.Client(base_url=base_url, timeout=60, headers=headers) as client:

        def status(question: tuple[str, dict[str, str]]) -> int:
            path, params = question
            return client.get(path, params=params).status_code

        with ThreadPoolExecutor(_CLIENTS) as pool:
            return Counter(pool.map(status, questions))


def _questions(last: date) -> Iterator[tuple[str, dict[str, str]]]:
    first = last - timedelta(days=6)
    of_type: dict[object, dict[str, str]] = {
        date: {"from": str(first), "to": str(last), "date": str(last)},
        datetime: {"from": f"{first}T00:00:00Z", "to": f"{last}T00:00:00Z"},
        str: {"metric_type": "steps"},
    }
    for endpoint in ENDPOINTS:
        needed = {
            each.alias or name: each.annotation
            for name, each in endpoint.params.model_fields.items()
            if each.is_required()
        }
        if "{" not in endpoint.path and all(
            name in of_type.get(kind, {}) for name, kind in needed.items()
        ):
            yield endpoint.path, {name: of_type[kind][name] for name, kind in needed.items()}


def _print(when: str, measured: list[Process]) -> None:
    click.echo(f"\n{when}: {total(measured):.0f} MiB PSS in {len(measured)} processes")
    for process in sorted(measured, key=lambda each: -each.pss):
        click.echo(f"  {process.pss:7.1f}  {process.private:7.1f} private  {process.name}")


@click.command()
@click.option("--limit", type=int, help="MiB of a memory cgroup around all processes.")
@click.option("--rounds", type=int, default=3, show_default=True, help="Rounds of the load.")
@click.option("--rest", type=float, default=20, show_default=True, help="Seconds before each rest.")
@click.option("--load/--no-load", "is_loaded", default=True, help="Demo data and load.")
def main(limit: int | None, rounds: int, rest: float, is_loaded: bool) -> None:
    """Print the memory of a deployment, at rest and after load."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as name:
        directory = Path(name)
        directory.chmod(0o755)
        with deployment(directory, limit_mib=limit) as runner:
            time.sleep(rest)
            _print("At rest after the start", processes(runner))
            if is_loaded:
                headers = has_demo(runner)
                base_url = runner.variables["SVC_BASE_URL"]
                statuses = load(base_url, headers, rounds=rounds)
                _print(f"After {statuses.total()} requests ({dict(statuses)})", processes(runner))
                time.sleep(rest)
                _print("At rest after the load", processes(runner))


if __name__ == "__main__":
    sys.exit(main())
