"""The lines of the neighbours' table, and how they are measured.

Each line has servers of its own. Bob's calls are timed before mallory begins and while she goes on, in turns,
so that each of them meets the whole attack. His 95th percentile beside her should be within three times the
quiet one. The outcomes of her requests stand under the line, since an attack that is refused at once, or
never gets through, proves nothing.
"""

import statistics
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

import click
import httpx2
import psycopg
from click.testing import CliRunner

from deploy.demo.command import demo
from deploy.migrate import migrate
from deploy.postgres.embedded import EmbeddedPostgres
from shared.settings import Settings
from tests import processes
from tests.bench import scratch
from tests.bench.neighbours import accounts, bob, mallory
from tests.bench.neighbours.accounts import Owner, Preparation, person, refresh_token
from tests.bench.neighbours.bob import USUAL, Bob, Call
from tests.bench.neighbours.mallory import Attack, Target
from tests.processes import Service

TIMES: Final = 40
"""How often bob does all his calls in turn, quiet and beside mallory."""
OFTEN: Final = 3
"""How often he does a quick call each time: of 120 calls, the 95th percentile is no single one's chance."""
WITHIN: Final = 3.0
WARM_UP_S: Final = 3.0
"""How long mallory goes on before bob is timed: until free attempts are used up, which is the worst of it."""
GRANTS: Final = 4
"""How many applications of mallory's have a grant."""

Calls = dict[str, Call]


@dataclass(frozen=True)
class Line:
    """One way in which one person could take the service from another."""

    name: str
    attack: Attack | None
    """What mallory does; None where the jobs that her account causes are all."""
    at_once: int
    """How many of her threads do it."""
    also: Calls
    """The call of bob's that is closest to the attack, beside the usual ones."""
    preparation: Preparation | None = None


DEVICES: Final[Calls] = {"devices": bob.list_devices}
LARGE_BATCH: Final[Calls] = {"large batch": bob.send_a_large_batch}
EXPORT: Final[Calls] = {"export": bob.export_a_day}
TOKEN: Final[Calls] = {"token": bob.refresh}

LINES: Final = (
    Line("devices without end", mallory.send_devices, 8, DEVICES),
    Line("long questions on one token", mallory.ask_long_questions, 9, DEVICES, accounts.add_years),
    Line("rules that are slow", mallory.ask_for_categories, 9, DEVICES, accounts.add_slow_rules),
    Line("slow readers of exports", mallory.export_slowly, 9, EXPORT, accounts.add_years),
    Line("idle uploads", mallory.hold_an_upload, 16, LARGE_BATCH),
    Line("gzip of three gigabytes", mallory.send_a_bomb, 4, LARGE_BATCH),
    Line("half-open heads", mallory.leave_heads_open, 12, DEVICES),
    Line("anonymous authorization requests", mallory.begin_authorizations, 8, TOKEN),
    Line("rotations of four grants", mallory.rotate, GRANTS, TOKEN),
    Line("sign-ins of one account", mallory.sign_in_again, 8, TOKEN),
    Line("wrong passwords from 12 addresses", mallory.guess, 48, TOKEN),
    Line("a job that takes too long", None, 0, DEVICES, accounts.add_crowded_days),
)


@dataclass
class Timing:
    """How long a call of bob's took each time, and which refusals there were."""

    took_ms: list[float] = field(default_factory=list)
    refusals: Counter[int] = field(default_factory=Counter)

    @property
    def p95_ms(self) -> float:
        """The 95th percentile."""
        return statistics.quantiles(self.took_ms, n=20)[-1]


def measure(neighbour: Bob, calls: Calls) -> dict[str, Timing]:
    """Do all calls in turn, ``TIMES`` times, and quick ones ``OFTEN`` times as often."""
    timings = {name: Timing() for name in calls}
    in_turn = [name for name in calls for _ in range(OFTEN if name in bob.QUICK else 1)]
    with bob.with_own_machine():
        for _ in range(TIMES):
            for name in in_turn:
                begun = time.perf_counter()
                answer = calls[name](neighbour)
                timings[name].took_ms.append((time.perf_counter() - begun) * 1000)
                if answer.is_error:
                    timings[name].refusals[answer.status_code] += 1
    return timings


def run(line: Line, service: Service, owner: Owner) -> None:
    """Measure a line and print it."""
    calls = USUAL | line.also
    client_id = register(service)
    him = person(owner, bob.EMAIL)
    with Bob.at(service, client_id, him.token(), refresh_token(owner, him, client_id)) as neighbour:
        # The first sign-in makes his browser known, and first answers prepare their statements.
        for call in calls.values():
            call(neighbour)
        quiet = measure(neighbour, calls)
        with attacked(line, service, owner, client_id) as outcomes:
            beside = measure(neighbour, calls)
    cells = "".join(cell(quiet[name], beside[name]) for name in calls)
    click.echo(f"{line.name:34}{cells} {', '.join(line.also)}")
    if outcomes:
        counts = ", ".join(f"{outcome} ({count})" for outcome, count in outcomes.most_common())
        click.echo(f"    mallory: {counts}")


@contextmanager
def attacked(line: Line, service: Service, owner: Owner, client_id: str) -> Iterator[Counter[str]]:
    """Have mallory attack for the time of the block; yields her outcomes, which are counted at its end."""
    her = person(owner, f"mallory-{LINES.index(line)}@example.org")
    if line.preparation is not None:
        line.preparation(owner, her.user_id)
    if line.attack is None:
        yield Counter()
        return
    target = Target(
        service.auth_url,
        service.base_url,
        client_id,
        her.email,
        her.token(),
        tuple(refresh_token(owner, her, client_id) for _ in range(GRANTS)),
    )
    with mallory.attacking(line.attack, target, line.at_once) as outcomes:
        time.sleep(WARM_UP_S)
        yield outcomes


def cell(quiet: Timing, beside: Timing) -> str:
    """Return both percentiles and their ratio, marked where it is too large, or the refusals."""
    refusals = quiet.refusals + beside.refusals
    if refusals:
        return f"{dict(refusals)!s:>18}"
    ratio = beside.p95_ms / quiet.p95_ms
    mark = "!" if ratio > WITHIN else " "
    return f"{quiet.p95_ms:6.0f}{beside.p95_ms:6.0f}{ratio:5.1f}{mark}"


def register(service: Service) -> str:
    """Return the id of a new client."""
    metadata = {"redirect_uris": ["https://app.example/callback"]}
    answer = httpx2.post(f"{service.auth_url}/oauth/register", json=metadata)
    client_id: str = answer.json()["client_id"]
    return client_id


def bench(directory: Path, lines: tuple[Line, ...]) -> None:
    """Run the lines and print the table."""
    with EmbeddedPostgres(directory / "postgres") as postgres:
        chosen = Settings(data_dir=directory / "deployment", database_url=postgres.url)
        migrate(chosen, lambda _: None)
        chosen = replace(chosen, trusted_proxies=("127.0.0.0/8", "::1/128"))
        with closing(psycopg.connect(postgres.url, autocommit=True)) as owner:
            person(owner, bob.EMAIL)
            done = CliRunner().invoke(demo, [bob.EMAIL, f"--days={bob.DAYS}"], obj=chosen)
            if done.exit_code != 0:
                raise click.ClickException(done.output)
            click.echo(
                f"bob's p95 of {TIMES} calls, or {TIMES * OFTEN} ({', '.join(bob.QUICK)}), in ms: quiet,"
                " beside mallory, and the ratio"
            )
            click.echo(f"{'':34}" + "".join(f"{name:>17} " for name in (*USUAL, "closest")))
            for line in lines:
                with processes.service(chosen, directory) as service:
                    run(line, service, owner)
                owner.execute("delete from identity.throttle")


@click.command()
@click.argument("names", nargs=-1)
def main(names: tuple[str, ...]) -> None:
    """Measure all lines, or those whose names begin with one of NAMES."""
    lines = tuple(line for line in LINES if not names or line.name.startswith(names))
    with scratch.directory() as directory:
        bench(directory, lines)


if __name__ == "__main__":
    main()
