"""``svc doctor``: examine a deployment, and print each failure with its cure."""

import json
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict

import click

from deploy import owner
from deploy.doctor import checks, inside
from deploy.doctor.checks import Outcome, Result
from deploy.doctor.deployment import Deployment
from shared import screen, settings
from shared.listening import AddressError
from shared.settings import SettingsError


@click.command("doctor")
@click.option("--json", "is_json", is_flag=True, help="Print the results as JSON.")
def doctor(*, is_json: bool) -> None:
    """Examine a deployment, and say for each failure what to do.

    It examines settings, database and disks on the operator's machine, with the environment of the servers.
    It changes nothing.

    The exit status is 0 if everything is right, 1 if anything is wrong, and 2 if nothing is wrong but
    something could not be examined.
    """
    results = []
    for result in _inside():
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
        "results": [asdict(result) for result in results],
    }


def _inside() -> Iterator[Result]:
    try:
        chosen = owner.with_database(settings.read(), is_start=False)
    except (SettingsError, AddressError, *owner.FIXABLE) as error:
        yield Result(
            "settings", Outcome.FAILED, str(error), "Correct this setting; the README describes it."
        )
        return
    yield Result("settings", Outcome.PASSED, "they can be read", "")
    yield from checks.run(inside.CHECKS, Deployment(chosen))
