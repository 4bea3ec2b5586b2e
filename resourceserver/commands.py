"""The resource server's commands."""

import json
import sys
from pathlib import Path
from typing import Final

import click
import httpx2

from resourceserver import posting
from resourceserver.posting import Found, Poster, PostingError, Result
from shared import VERSION, database, serving, tokens
from shared.settings import Settings

_ROLES: Final = ("reader", "ingester", "worker")


@click.group()
def resource() -> None:
    """The resource server: REST and ingest."""


@resource.command()
@click.option(
    "--host", "hosts", multiple=True, help="Address to listen on; default: both loopback ones."
)
@click.option("--port", type=click.IntRange(1, 65535), help="Default: the port of SVC_BASE_URL.")
@click.option("--workers", type=click.IntRange(1, 64), default=1, show_default=True)
@click.pass_obj
def serve(chosen: Settings, hosts: tuple[str, ...], port: int | None, workers: int) -> None:
    """Run the resource server alone."""
    serving.serve(
        "resourceserver.app:create",
        chosen,
        {role: database.role_url(chosen, role) for role in _ROLES},
        hosts=hosts or serving.LOOPBACK,
        port=port or serving.port_of(chosen.base_url),
        workers=workers,
    )


@click.command()
@click.argument("file")
@click.option(
    "--stream",
    type=click.Choice(posting.STREAMS),
    help="What kind of events these are; an export says so itself.",
)
@click.option(
    "--token",
    envvar="SVC_TOKEN",
    required=True,
    help="Or set SVC_TOKEN, which other users cannot see.",
)
@click.option("--url", metavar="URL", help="The resource server; default: SVC_BASE_URL.")
@click.option(
    "--retries",
    type=click.IntRange(0, 100),
    default=5,
    show_default=True,
    help="How often to try again where the server does not answer.",
)
@click.pass_obj
def ingest(
    chosen: Settings, *, file: str, stream: str | None, token: str, url: str | None, retries: int
) -> None:
    """Post the events in FILE, or in standard input if it is "-".

    FILE is a JSON array, one JSON object a line, or a whole request with "events" and "client"; or an
    export in JSON, of which the sessions are sent. Sending it again does no harm: events that are there
    already are counted as duplicates. The exit status is 0 if all events are there now, and 1 if any was
    rejected or could not be sent.
    """
    found = _found(file, stream)
    address = _address(url or chosen.base_url)
    if tokens.parse(tokens.ACCESS, token.strip()) is None:
        raise click.ClickException("the token is none of this service; is it whole?")
    own_client = json.dumps({"name": f"svc-ingest/{VERSION}"})
    headers = {"Authorization": f"Bearer {token.strip()}", "Content-Type": "application/json"}
    is_whole = True
    with httpx2.Client(base_url=address, headers=headers, timeout=_TIMEOUT) as http:
        for each in found:
            poster = Poster(
                http,
                f"/api/v1/ingest/{each.stream}",
                each.client or own_client,
                retries,
                say=lambda line: click.echo(line, err=True),
            )
            # Of several streams it is said which one a line is about.
            about = f"{each.stream}: " if len(found) > 1 else ""
            is_whole &= _post(poster, each, about)
    if not is_whole:
        sys.exit(1)


def _post(poster: Poster, found: Found, about: str) -> bool:
    """Post and report; tell whether all events are there now. Raises ClickException."""
    results: list[Result] = []
    failure = None
    progress = click.progressbar(
        length=len(found.events), file=sys.stderr, hidden=not sys.stderr.isatty()
    )
    with progress as bar:
        try:
            for result in poster.post(found.events):
                results.append(result)
                bar.update(result.sent)
        except PostingError as error:
            failure = str(error)
        except KeyboardInterrupt:
            failure = "interrupted"
    _report(found, results, about)
    if failure is not None:
        raise click.ClickException(failure)
    return not any(result.rejected for result in results)


def _found(file: str, stream: str | None) -> list[Found]:
    """Return the events of ``file``, of ``stream`` alone where it is given. Raises ClickException."""
    try:
        content = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
        found = posting.find_events(content)
    except OSError as error:
        raise click.ClickException(f"{file}: {error.strerror}") from error
    except PostingError as error:
        raise click.ClickException(f"{file}: {error}") from error
    if not found:
        raise click.ClickException(f"{file} holds no sessions")
    if stream is not None:
        return [each._replace(stream=stream) for each in found if each.stream in (None, stream)]
    if any(each.stream is None for each in found):
        raise click.ClickException(f"{file} is no export: say with --stream what its events are")
    return found


def _address(url: str) -> httpx2.URL:
    try:
        return posting.address(url)
    except PostingError as error:
        raise click.ClickException(str(error)) from error


def _report(found: Found, results: list[Result], about: str) -> None:
    """Print what became of the events, the first rejected ones by name, each line after ``about``."""
    rejected = [rejection for result in results for rejection in result.rejected]
    for rejection in rejected[:_SHOWN]:
        place = f"{about}event {rejection.event}"
        click.echo(f"{place}: {rejection.code}: {rejection.message}", err=True)
    if len(rejected) > _SHOWN:
        click.echo(f"{about}... and {len(rejected) - _SHOWN} more", err=True)
    unsent = len(found.events) - sum(result.sent for result in results)
    click.echo(
        f"{about}accepted {sum(result.accepted for result in results)}, "
        f"duplicates {sum(result.duplicates for result in results)}, "
        f"rejected {len(rejected)}" + (f", not sent {unsent}" if unsent else "")
    )


_TIMEOUT: Final = httpx2.Timeout(60, connect=10)
_SHOWN: Final = 10
"""How many rejected events are named."""

COMMANDS: Final[tuple[click.Command, ...]] = (resource, ingest)
