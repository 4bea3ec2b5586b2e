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
from resourceserver.trackers.posting import EventList, Poster, PostingError, RefusedError, Result
from shared import VERSION, tokens
from shared.settings import Settings
from shared.tokens import Token

_token_option = click.option(
    "--token",
    envvar="SVC_TOKEN",
    required=True,
    help="The token; other users cannot see it in the variable SVC_TOKEN.",
)


@click.command()
@click.argument("file")
@click.option(
    "--stream",
    type=click.Choice(posting.STREAMS),
    help="The stream of the events; not needed for an export.",
)
@_token_option
@click.option("--url", metavar="URL", help="The resource server; default: SVC_BASE_URL.")
@click.option(
    "--retries",
    type=click.IntRange(0, 100),
    default=5,
    show_default=True,
    help="How often to retry when the server does not answer.",
)
@click.pass_obj
def ingest(
    chosen: Settings, *, file: str, stream: str | None, token: str, url: str | None, retries: int
) -> None:
    """Post the events in FILE, or in standard input if it is "-".

    FILE is a JSON array, one JSON object a line, a whole request with "events" and "client", or a JSON
    export, whose sessions are sent. Sending a file again does no harm: the server counts events that it
    has already as duplicates. The exit status is 0 if the server has all events, and 1 if any was
    rejected or could not be sent.
    """
    lists = _event_lists(file, stream)
    address = _address(url or chosen.base_url)
    own_client = json.dumps({"name": f"svc-ingest/{VERSION}"})
    is_complete = True
    with _client(address, _token(token)) as http:
        for each in lists:
            poster = Poster(
                http,
                f"/api/v1/ingest/{each.stream}",
                each.client or own_client,
                retries,
                say=lambda line: click.echo(line, err=True),
            )
            # With several streams, each line begins with its stream.
            prefix = f"{each.stream}: " if len(lists) > 1 else ""
            is_complete &= _post(poster, each.events, prefix)
    if not is_complete:
        sys.exit(1)


def _post(poster: Poster, events: list[str], prefix: str) -> bool:
    """Post and report; return whether the server has all events now. Raises ClickException."""
    results: list[Result] = []
    failure = None
    progress = click.progressbar(
        length=len(events), file=sys.stderr, hidden=not sys.stderr.isatty()
    )
    with progress as bar:
        try:
            for result in poster.post(events):
                results.append(result)
                bar.update(result.sent)
        except PostingError as error:
            failure = str(error)
        except KeyboardInterrupt:
            failure = "interrupted"
    _report(len(events), results, prefix)
    if failure is not None:
        raise click.ClickException(failure)
    return not any(result.rejected for result in results)


def _event_lists(file: str, stream: str | None) -> list[EventList]:
    """Return the events of ``file``, only those of ``stream`` if it is given. Raises ClickException."""
    try:
        content = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
        lists = posting.parse_events(content)
    except OSError as error:
        raise click.ClickException(f"{file}: {error.strerror}") from error
    except PostingError as error:
        raise click.ClickException(f"{file}: {error}") from error
    if not lists:
        raise click.ClickException(f"{file} contains no sessions")
    if stream is not None:
        return [each._replace(stream=stream) for each in lists if each.stream in (None, stream)]
    if any(each.stream is None for each in lists):
        raise click.ClickException(f"{file} is not an export: name the stream with --stream")
    return lists


def _token(text: str) -> Token:
    """Return the token. Raises ClickException for malformed text, which no server needs to check."""
    token = tokens.parse(tokens.ACCESS, text.strip())
    if token is None:
        raise click.ClickException("this is not a token of this service; is it complete?")
    return token


def _client(address: httpx2.URL, token: Token) -> httpx2.Client:
    headers = {"Authorization": f"Bearer {token.text}", "Content-Type": "application/json"}
    return httpx2.Client(base_url=address, headers=headers, timeout=_TIMEOUT)


def _address(url: str) -> httpx2.URL:
    try:
        return posting.address(url)
    except PostingError as error:
        raise click.ClickException(str(error)) from error


def _report(count: int, results: list[Result], prefix: str) -> None:
    """Print the sums and the first rejections of ``count`` events; each line begins with ``prefix``."""
    rejected = [rejection for result in results for rejection in result.rejected]
    for rejection in rejected[:_MOST_REJECTIONS]:
        subject = f"{prefix}event {rejection.event}"
        click.echo(f"{subject}: {rejection.code}: {rejection.message}", err=True)
    if len(rejected) > _MOST_REJECTIONS:
        click.echo(f"{prefix}... and {len(rejected) - _MOST_REJECTIONS} more", err=True)
    unsent = count - sum(result.sent for result in results)
    click.echo(f"{prefix}{_sums(results)}" + (f", not sent {unsent}" if unsent else ""))


def _sums(results: list[Result]) -> str:
    return (
        f"accepted {sum(result.accepted for result in results)}, "
        f"duplicates {sum(result.duplicates for result in results)}, "
        f"rejected {sum(len(result.rejected) for result in results)}"
    )


@click.group()
def bridge() -> None:
    """Send the records of other programs on this machine."""


@bridge.command()
@_token_option
@click.option(
    "--url",
    metavar="URL",
    default="http://127.0.0.1:5600",
    show_default=True,
    help="The ActivityWatch server.",
)
@click.option("--to", metavar="URL", help="The resource server; default: SVC_BASE_URL.")
@click.option(
    "--state",
    "state_file",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="The state file; default: svc/bridge.json in XDG_STATE_HOME or ~/.local/state.",
)
@click.option("--once", is_flag=True, help="Send what has been recorded, and end.")
@click.option(
    "--every",
    "every_s",
    metavar="SECONDS",
    type=click.IntRange(1, 86_400),
    default=60,
    show_default=True,
    help="The pause between two runs.",
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
    """Send what ActivityWatch records: windows during presence at the computer, and work in editors.

    A session is sent when it has ended. The command runs until Ctrl-C, and waits while either side is
    unreachable. With --once it ends when everything is sent, and the exit status is 1 if anything was
    rejected or could not be sent. Sending again does no harm: the server counts duplicates.
    """
    source, target, parsed = _address(url), _address(to or chosen.base_url), _token(token)
    state_file = state_file or _state_file(chosen)
    say = partial(click.echo, err=True)
    with (
        # A proxy cannot reach a server on this machine's loopback address.
        httpx2.Client(base_url=source, timeout=_TIMEOUT, trust_env=False) as watch,
        _client(target, parsed) as http,
        _sigterm_as_interrupt(),
    ):
        client = json.dumps({"name": f"svc-bridge/{VERSION}"})
        retries = 5 if once else posting.FOREVER
        sender = Bridge(
            ActivityWatch(watch),
            {
                stream: Poster(http, f"/api/v1/ingest/{stream}", client, retries, say)
                for stream in posting.STREAMS
            },
            state_file,
            account=f"{str(target).rstrip('/')} {parsed.user_id}",
            say=say,
            now_ms=lambda: time.time_ns() // 1_000_000,
        )
        try:
            if once:
                is_complete = _send(sender)
            else:
                _send_forever(sender, every_s)
        except (ActivityWatchError, BridgeError, PostingError) as error:
            raise click.ClickException(str(error)) from error
        except KeyboardInterrupt as error:
            if not once:
                return
            raise click.ClickException("interrupted") from error
    if not is_complete:
        sys.exit(1)


def _state_file(chosen: Settings) -> Path:
    try:
        return (chosen.state_dir / "bridge.json").expanduser()
    except RuntimeError as error:
        raise click.ClickException(
            "there is no home directory: name the state file with --state"
        ) from error


def _send(sender: Bridge) -> bool:
    """Send what has been recorded and report; return whether the server has all of it now."""
    results: dict[str, list[Result]] = {}
    try:
        for stream, result in sender.run():
            results.setdefault(stream, []).append(result)
    finally:
        for stream, of_stream in sorted(results.items()):
            click.echo(f"{stream}: {_sums(of_stream)}")
    is_rejected = any(each.rejected for of_stream in results.values() for each in of_stream)
    return not is_rejected and not sender.unreadable


def _send_forever(sender: Bridge, every_s: int) -> NoReturn:
    """Send again and again. Raises RefusedError; all other errors may be temporary."""
    problem = None
    while True:
        try:
            _send(sender)
            problem = None
        except RefusedError:
            raise
        except (ActivityWatchError, BridgeError, PostingError) as error:
            # Print a lasting problem once, and not at each attempt.
            if str(error) != problem:
                problem = str(error)
                click.echo(f"{problem}; looking again every {every_s} s", err=True)
        time.sleep(every_s)


@contextmanager
def _sigterm_as_interrupt() -> Iterator[None]:
    """Make SIGTERM end this block as Ctrl-C does."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


_TIMEOUT: Final = httpx2.Timeout(60, connect=10)
_MOST_REJECTIONS: Final = 10
"""How many rejected events are printed."""

COMMANDS: Final[tuple[click.Command, ...]] = (ingest, bridge)
