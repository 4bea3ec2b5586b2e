"""``svc doctor``: examine a deployment, and print each failure with its cure."""

import json
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict
from urllib.parse import urlsplit

import click

from deploy import owner
from deploy.doctor import checks, inside, outside
from deploy.doctor.checks import Outcome, Result
from deploy.doctor.deployment import Deployment
from deploy.doctor.outside import Service
from deploy.doctor.web import Site
from shared import screen, settings
from shared.listening import AddressError
from shared.settings import SettingsError


@click.command("doctor")
@click.argument("addresses", nargs=-1, metavar="[AUTH_URL BASE_URL]")
@click.option("--json", "is_json", is_flag=True, help="Print the results as JSON.")
def doctor(addresses: tuple[str, ...], *, is_json: bool) -> None:
    """Examine a deployment, and say for each failure what to do.

    Without addresses, it examines settings, database and disks on the operator's machine, with the
    environment of the servers. With the addresses of the authorization server and the resource server, it
    examines what clients see, from any machine. It changes nothing.

    The exit status is 0 if everything is right, 1 if anything is wrong, and 2 if nothing is wrong but
    something could not be examined.
    """
    if len(addresses) not in (0, 2):
        raise click.UsageError("either no address, or those of both servers: AUTH_URL BASE_URL")
    examined = _outside(*map(_origin, addresses)) if addresses else _inside()
    results = []
    for result in examined:
        results.append(result)
        if not is_json:
            for line in checks.lines(result):
                click.echo(screen.plain(line))
    if is_json:
        click.echo(json.dumps(_document(results), indent=2))
    else:
        click.echo(checks.summary(results))
    sys.exit(checks.exit_status(results))


def _document(results: list[Result]) -> dict[str, object]:
    counts = Counter(result.outcome for result in results)
    return {
        **{outcome.value: counts[outcome] for outcome in Outcome},
        "results": [{"check": result.check} | asdict(result) for result in results],
    }


def _origin(address: str) -> Site:
    """Return the site at an address. Raises UsageError."""
    try:
        parts = urlsplit(address)
        is_right = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        is_right = False
    if not is_right or parts.path.strip("/") or parts.query or parts.fragment:
        raise click.UsageError(f"{address!r} must look like https://host or http://host:port")
    return Site(f"{parts.scheme}://{parts.netloc.lower()}")


def _outside(auth: Site, base: Site) -> Iterator[Result]:
    return checks.run(outside.CHECKS, Service(auth, base))


def _inside() -> Iterator[Result]:
    try:
        chosen = owner.with_database(settings.read(), is_start=False)
    except (SettingsError, AddressError, *owner.FIXABLE) as error:
        yield Result(
            Outcome.FAILED,
            str(error),
            "Correct this setting; docs/OPERATING.md describes it.",
            check="settings",
        )
        return
    yield Result(Outcome.PASSED, "they can be read", check="settings")
    yield from checks.run(inside.CHECKS, Deployment(chosen))
