"""The commands that send events to a resource server: ``svc ingest`` and ``svc bridge``."""

import json
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Final, NoReturn

import click
import httpx2

from resourceserver.trackers import posting
from resourceserver.trackers.activitywatch import ActivityWatch, ActivityWatchError
from resourceserver.trackers.bridge import Bridge, BridgeError
from resourceserver.trackers.posting import Found, Poster, PostingError, RefusedError, Result
from shared import VERSION, tokens
from shared.settings import Settings
from shared.tokens import Token

_token_option = click.option(
    "--token",
    envvar="SVC_TOKEN",
    required=True,
    help="Or set SVC_TOKEN, which other users cannot see.",
)


@click.command()
@click.argument("file")
@click.option(
    "--stream",
    type=click.Choice(posting.STREAMS),
    help="What kind of events these are; an export says so itself.",
)
@_token_option
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
    shown = _token(token)
    own_client = json.dumps({"name": f"svc-ingest/{VERSION}"})
    is_whole = True
    with _client(address, shown) as http:
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


def _token(text: str) -> Token:
    """Return the token, which is not asked for in vain if it is none. Raises ClickException."""
    token = tokens.parse(tokens.ACCESS, text.strip())
    if token is None:
        raise click.ClickException("the token is none of this service; is it whole?")
    return token


def _client(address: httpx2.URL, token: Token) -> httpx2.Client:
    headers = {"Authorization": f"Bearer {token.text}", "Content-Type": "application/json"}
    return httpx2.Client(base_url=address, headers=headers, timeout=_TIMEOUT)


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
    click.echo(f"{about}{_sums(results)}" + (f", not sent {unsent}" if unsent else ""))


def _sums(results: list[Result]) -> str:
    return (
        f"accepted {sum(result.accepted for result in results)}, "
        f"duplicates {sum(result.duplicates for result in results)}, "
        f"rejected {sum(len(result.rejected) for result in results)}"
    )


@click.group()
def bridge() -> None:
    """Send what other programs on this machine have recorded."""


@bridge.command()
@_token_option
@click.option(
    "--url",
    metavar="URL",
    default="http://127.0.0.1:5600",
    show_default=True,
    help="ActivityWatch.",
)
@click.option("--to", metavar="URL", help="The resource server; default: SVC_BASE_URL.")
@click.option(
    "--state",
    "state_file",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Where it notes how far it is; default: svc/bridge.json in XDG_STATE_HOME or ~/.local/state.",
)
@click.option("--once", is_flag=True, help="Send what there is, and end.")
@click.option(
    "--every",
    "every_s",
    metavar="SECONDS",
    type=click.IntRange(1, 86_400),
    default=60,
    show_default=True,
    help="How often to look for more.",
)
@click.pass_obj
def activitywatch(
    chosen: Settings,
    *,
    token: str,
    url: str,
    to: str | None,
    state_file: Path | None,
    once: bool,
    every_s: int,
) -> None:
    """Send what ActivityWatch records: windows while somebody is there, and work in editors.

    A session is sent when it has ended. This goes on until Ctrl-C, and waits where either side is away;
    with --once it ends when everything is sent, and the exit status is 1 if anything was rejected or could
    not be sent. Sending again does no harm: what is there already is counted as duplicates.
    """
    source, target, shown = _address(url), _address(to or chosen.base_url), _token(token)
    state_file = state_file or _state_file(chosen)
    say = partial(click.echo, err=True)
    with (
        # No proxy knows what listens on this machine.
        httpx2.Client(base_url=source, timeout=_TIMEOUT, trust_env=False) as watch,
        _client(target, shown) as http,
        _ended_by_sigterm(),
    ):
        client = json.dumps({"name": f"svc-bridge/{VERSION}"})
        retries = 5 if once else posting.FOREVER
        made = Bridge(
            ActivityWatch(watch),
            {
                stream: Poster(http, f"/api/v1/ingest/{stream}", client, retries, say)
                for stream in posting.STREAMS
            },
            state_file,
            account=f"{str(target).rstrip('/')} {shown.user_id}",
            say=say,
            now_ms=lambda: time.time_ns() // 1_000_000,
        )
        try:
            if once:
                is_whole = _carry(made)
            else:
                _carry_on(made, every_s)
        except (ActivityWatchError, BridgeError, PostingError) as error:
            raise click.ClickException(str(error)) from error
        except KeyboardInterrupt as error:
            if not once:
                return
            raise click.ClickException("interrupted") from error
    if not is_whole:
        sys.exit(1)


def _state_file(chosen: Settings) -> Path:
    try:
        return (chosen.state_dir / "bridge.json").expanduser()
    except RuntimeError as error:
        raise click.ClickException(
            "no home directory: say with --state where to note it"
        ) from error


def _carry(made: Bridge) -> bool:
    """Send what there is and report; tell whether all of it is there now."""
    results: dict[str, list[Result]] = {}
    try:
        for stream, result in made.run():
            results.setdefault(stream, []).append(result)
    finally:
        for stream, of_stream in sorted(results.items()):
            click.echo(f"{stream}: {_sums(of_stream)}")
    is_rejected = any(each.rejected for of_stream in results.values() for each in of_stream)
    return not is_rejected and not made.unreadable


def _carry_on(made: Bridge, every_s: int) -> NoReturn:
    """Send what there is, again and again. Raises RefusedError; everything else may pass."""
    problem = None
    while True:
        try:
            _carry(made)
            problem = None
        except RefusedError:
            raise
        except (ActivityWatchError, BridgeError, PostingError) as error:
            # Said once, and not once a minute; it may pass at any time.
            if str(error) != problem:
                problem = str(error)
                click.echo(f"{problem}; looking again every {every_s} s", err=True)
        time.sleep(every_s)


@contextmanager
def _ended_by_sigterm() -> Iterator[None]:
    """Have SIGTERM end this block as Ctrl-C does."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


_TIMEOUT: Final = httpx2.Timeout(60, connect=10)
_SHOWN: Final = 10
"""How many rejected events are named."""

COMMANDS: Final[tuple[click.Command, ...]] = (ingest, bridge)
