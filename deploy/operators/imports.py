"""``svc import`` and ``svc imports``: the import of files of other services, with receipts.

The command logs in twice: as the owner of the database, which begins and ends an import, and as the importer,
which writes the records and reaches only the rows of the import's person.
"""

import asyncio
import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, NamedTuple
from uuid import UUID
from zoneinfo import ZoneInfo

import click
import psycopg

from authserver.cli import terminal
from authserver.cli.terminal import Column
from deploy.operators import clones, people
from resourceserver.derived import derivation
from resourceserver.integrations.format import Format, Person, named
from resourceserver.integrations.formats import FORMATS
from resourceserver.integrations.formats.git import GIT_LOG
from resourceserver.integrations.imports import files, receipts, running, undo
from resourceserver.integrations.imports.files import CannotOpen
from resourceserver.integrations.imports.receipts import AlreadyRunning, Connection, Import, Receipt
from resourceserver.integrations.imports.running import Database, DryRun, Interrupted, Over
from resourceserver.timeline import rollups, rounds, summaries
from shared import database, queries, screen
from shared.settings import Settings
from shared.storage import Storage

SQL: Final = queries.load(Path(__file__).with_name("imports.sql"))

_COLUMNS: Final = (
    *(Column("IMPORT"), Column("STARTED AT"), Column("FILE", longest=40), Column("STATUS")),
    Column("FORMATS", separator=", "),
    *map(Column, ("READ", "NEW", "KNOWN", "CHANGED", "REFUSED")),
)
_AGAIN: Final = "import the same file again to continue"
_SOON_S: Final = 2
"""How long a command that is to end waits for a connection; libpq waits no shorter."""
_MOST_NAMES: Final = 3
"""The most names of a list that are printed; the receipt has all of them."""
_MOST_REASONS: Final = 10
"""The most reasons of refusals that are printed; the receipt has all of them."""
_SIMILAR_S: Final = 54
"""How far apart two sources may date the same listen: services differ in when a track counts as played."""


class _Account(NamedTuple):
    user_id: UUID
    zone: ZoneInfo


class _Outcome(NamedTuple):
    receipt: Receipt | None
    is_usable: bool
    is_stopped: bool = False
    """Whether Ctrl-C was pressed."""


@click.command("import")
@click.argument("paths", metavar="FILE...", nargs=-1, callback=lambda *given: given[2])
@click.option(
    "--user", "email", metavar="EMAIL", callback=terminal.text, help="The account to import into."
)
@click.option(
    "--author",
    metavar="TEXT",
    help="With git: a part of the author's name or address; by default user.email of each clone.",
)
@click.option("--as", "format_name", metavar="FORMAT", help="The format, if several are possible.")
@click.option("--dry-run", is_flag=True, help="Read and check everything, and write nothing.")
@click.option("--json", "is_json", is_flag=True, help="Print the receipt as JSON.")
@click.option(
    "--undo", "undone", metavar="IMPORT_ID", help="Remove the records that an import added."
)
@click.pass_obj
def import_files(
    chosen: Settings,
    *,
    paths: tuple[str, ...],
    email: str | None,
    author: str | None,
    format_name: str | None,
    dry_run: bool,
    is_json: bool,
    undone: str | None,
) -> None:
    """Import each FILE, folder or archive of another service into the account of EMAIL.

    The format is recognised by content. Importing a file again, or a newer export, adds only new records. If
    a run is interrupted, importing the same file again continues it. The exit status is 0 if the files had
    any usable records, otherwise 1; after Ctrl-C it is always 1.

    "svc import git DIR..." imports the commits of one author from local clones of repositories, with
    counts of lines.
    """
    if undone is not None:
        if paths:
            raise click.ClickException("--undo takes no files")
        _undo(chosen, undone)
        return
    if not paths or email is None:
        raise click.UsageError("name the files, and the account with --user")
    run = partial(_import_files, chosen, email, is_dry=dry_run, is_json=is_json)
    if paths[0] == "git":
        if format_name is not None or len(paths) == 1:
            raise click.UsageError("name the folders of clones, without --as")
        with TemporaryDirectory() as directory:
            run(paths[1:], partial(clones.log, author=author, within=Path(directory)), GIT_LOG)
    elif author is not None:
        raise click.UsageError("--author is for clones: svc import git DIR...")
    else:
        run(paths, Path, _format(format_name))


def _import_files(
    chosen: Settings,
    email: str,
    names: Sequence[str],
    path_of: Callable[[str], Path],
    form: Format | None,
    *,
    is_dry: bool,
    is_json: bool,
) -> None:
    """Import the files of these names. Raises ClickException, SystemExit."""
    outcomes: list[_Outcome] = []
    failure: click.ClickException | None = None
    for name in names:
        try:
            outcome = _import_file(
                chosen, email, path_of(name), form, name=name, is_dry=is_dry, is_json=is_json
            )
        except click.ClickException as error:
            # What earlier files have become is printed first.
            failure = error
            break
        outcomes.append(outcome)
        if outcome.is_stopped:
            break
    found = [each.receipt for each in outcomes if each.receipt is not None]
    if is_json and (found or failure is None):
        click.echo(json.dumps(found[0] if len(names) == 1 and found else found, indent=2))
    is_stopped = bool(outcomes) and outcomes[-1].is_stopped
    # After Ctrl-C, the next run or a server derives from the days, and sums them up.
    if not (is_dry or is_stopped) and any(each.receipt is not None for each in outcomes):
        with _connected(chosen) as owner:
            user_id = _account(owner, email).user_id
        _finish(chosen, user_id)
    if failure is not None:
        raise failure
    if is_stopped or not any(each.is_usable for each in outcomes):
        sys.exit(1)


def _finish(chosen: Settings, user_id: UUID) -> None:
    """Derive from the days that were touched, and sum them up. What fails, a server does later."""
    steps = {
        "visits": derivation.derive,
        "rollups": rollups.make_now,
        "summaries": summaries.make_now,
    }

    async def run() -> None:
        for name, step in steps.items():
            try:
                async with rounds.connected(database.login(chosen, "worker")) as worker:
                    await step(worker, user_id)
            except psycopg.Error as error:
                click.echo(f"{name} are made later by a server: {type(error).__name__}", err=True)

    asyncio.run(run())


def _format(name: str | None) -> Format | None:
    """Return the format with this name. Raises ClickException for an unknown one."""
    if name is None:
        return None
    found = named(name, FORMATS)
    if found is None:
        names = ", ".join(sorted(each.name for each in FORMATS))
        raise click.ClickException(f"there is no format {screen.plain(name)}; there are {names}")
    return found


@contextmanager
def _connected(chosen: Settings, timeout_s: int = 5) -> Iterator[Connection]:
    """A connection of the owner's login. Raises ClickException."""
    if chosen.database_url is None:
        raise database.no_database(chosen)
    try:
        with closing(
            psycopg.connect(chosen.database_url, autocommit=True, connect_timeout=timeout_s)
        ) as connection:
            yield connection
    except psycopg.Error as error:
        raise terminal.failure(error) from error


def _account(connection: Connection, email: str) -> _Account:
    with receipts.as_owner(connection):
        user_id = people.account(connection, email)
        row = connection.execute(people.SQL["timezone"], {"user_id": user_id}).fetchone()
    return _Account(user_id, ZoneInfo("UTC" if row is None else row[0]))


def _import_file(
    chosen: Settings,
    email: str,
    path: Path,
    form: Format | None,
    *,
    name: str,
    is_dry: bool,
    is_json: bool,
) -> _Outcome:
    """Import one file and print its receipt and problem under a name."""
    name = screen.plain(name)
    is_stopped = False
    receipt: Receipt | None
    try:
        with _connected(chosen) as owner, ExitStack() as within:
            account = _account(owner, email)
            with _progress(files.size(path), f"{name[-40:]}, checksum") as on_read:
                digest, size = files.digest(path, on_read)
            brought = files.bring(path, within)
            planned = running.plan(brought, FORMATS, form)
            with _progress(planned.size, name[-40:]) as on_read:
                for part in planned.parts:
                    part.member.on_read = on_read
                if is_dry:
                    receipt = _read_only(planned, account, path, size, digest)
                    problem = running.failure(receipt, planned)
                else:
                    begun = receipts.begin(
                        owner,
                        account.user_id,
                        file_name=_file_name(path),
                        file_size=size,
                        digest=digest,
                        chosen_format=None if form is None else form.name,
                    )
                    receipt, problem, is_stopped = _write(chosen, account, planned, begun)
    except CannotOpen as error:
        click.echo(f"{name}: {error}", err=True)
        return _Outcome(None, is_usable=False)
    except AlreadyRunning as error:
        click.echo(f"{name}: {error.__doc__}", err=True)
        return _Outcome(None, is_usable=False)
    if not is_json and receipt is not None:
        _report(name, receipt)
    if problem is not None:
        click.echo(screen.plain(f"{name}: {problem}"), err=True)
    return _Outcome(receipt, problem is None, is_stopped)


def _read_only(
    planned: running.Plan, account: _Account, path: Path, size: int, digest: bytes
) -> Receipt:
    dry = DryRun()
    running.run(planned, Person(account.zone, datetime.now(UTC)), dry)
    return dry.receipt(_file_name(path), size, digest)


def _write(
    chosen: Settings, account: _Account, planned: running.Plan, begun: Import
) -> tuple[Receipt | None, str | None, bool]:
    """Run an import; return its receipt, the reason if it is not done, and whether Ctrl-C was pressed.

    The receipt is None if the import is not done and the database is away. Raises ClickException.
    """
    problem, is_stopped = None, False
    ledger = Database(
        database.login(chosen, "importer"),
        begun,
        account.zone,
        chosen.full_urls,
        _to_stderr,
        prepare=chosen.prepare,
        storage=Storage.of(chosen),
    )
    try:
        with closing(ledger):
            running.run(planned, Person(account.zone, begun.started_at), ledger)
    except KeyboardInterrupt:
        problem, is_stopped = f"interrupted: {_AGAIN}", True
    except Interrupted as error:
        problem = f"{error}: {_AGAIN}"
    except Over as error:
        raise click.ClickException(str(error.__doc__)) from error
    if problem is None:
        # The connection that holds the lock may have ended meanwhile, with a server that was restarted.
        with _connected(chosen) as owner:
            problem = running.failure(_receipt(owner, account, begun.import_id), planned)
            receipts.end(owner, begun, "done" if problem is None else "failed", problem)
            return _receipt(owner, account, begun.import_id), problem, False
    try:
        with _connected(chosen, _SOON_S if is_stopped else 5) as owner:
            receipts.end(owner, begun, "interrupted", problem)
            return _receipt(owner, account, begun.import_id), problem, is_stopped
    except click.ClickException:
        # The import stays unfinished as it is, and the next run continues it all the same.
        return None, problem, is_stopped


def _receipt(owner: Connection, account: _Account, import_id: UUID) -> Receipt:
    receipt = receipts.read(owner, account.user_id, import_id)
    if receipt is None:
        raise click.ClickException(str(Over.__doc__))
    return receipt


def _to_stderr(line: str) -> None:
    click.echo(line, err=True)


def _file_name(path: Path) -> str:
    """Return the name of a file in the form of receipts."""
    name = path.resolve().name or str(path)
    return name.encode("utf-8", "replace").decode().replace("\0", "")[:1024]


@contextmanager
def _progress(size: int, label: str) -> Iterator[files.OnRead]:
    """A progress bar with bytes, rate and remaining time; hidden without a terminal."""
    started, count = time.monotonic(), 0

    def rate(_: object) -> str:
        spent = time.monotonic() - started
        return f"{count / 1e6:.0f} MB, {count / 1e6 / spent:.1f} MB/s" if spent > 0.5 else ""

    with click.progressbar(
        length=max(size, 1),
        label=label,
        file=sys.stderr,
        hidden=not sys.stderr.isatty(),
        item_show_func=rate,
        show_eta=True,
    ) as bar:

        def on_read(more: int) -> None:
            nonlocal count
            count += more
            bar.update(more, more)

        yield on_read


def _report(name: str, receipt: Receipt) -> None:
    """Print a receipt as text."""
    counts = receipt["records"]
    head = f"{name}: {_few(receipt['formats']) or 'no known format'}"
    if receipt["import_id"] is not None:
        head += f" (import {receipt['import_id']}, {receipt['status']})"
    click.echo(head)
    if not receipt["formats"] and receipt["ignored"]["count"] == 1:
        # The line after the receipt says what it looks like.
        return
    sums = [f"{counts['read']} records read"]
    sums += [
        f"{counts[each]} {each}"
        for each in ("new", "known", "changed", "refused")
        if counts[each] is not None
    ]
    click.echo(f"  {', '.join(sums)}")
    if receipt["first_at"] is not None:
        click.echo(f"  from {receipt['first_at']} to {receipt['last_at']}")
    for refusal in receipt["refused"][:_MOST_REASONS]:
        click.echo(f"  refused {refusal['count']}: {refusal['reason']}")
        for example in refusal["examples"]:
            click.echo(screen.plain(f"    {example}"))
    for part in receipt["parts"]:
        if part["problem"] is not None:
            click.echo(screen.plain(f"  {part['name']}: {part['problem']}"))
    if receipt["ignored"]["count"]:
        names = ", ".join(receipt["ignored"]["names"][:_MOST_NAMES])
        count = screen.counted(receipt["ignored"]["count"], "file")
        click.echo(screen.plain(f"  {count} with an unknown format: {names}"))
    unproven = [
        each.title
        for each in FORMATS
        if not each.is_proven
        and each.name in {name.partition(":")[0] for name in receipt["formats"]}
    ]
    if unproven:
        click.echo(
            f"  never tested with files that the services themselves have made: {_few(unproven)}"
        )


def _few(names: Sequence[str]) -> str:
    """Return the first of the names, and how many more there are."""
    more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    return ", ".join(names[:_MOST_NAMES]) + more


def _undo(chosen: Settings, text: str) -> None:
    with _connected(chosen) as owner:
        user_id, import_id = _find(owner, text)
        try:
            undo.undo(owner, user_id, import_id)
        except AlreadyRunning as error:
            raise click.ClickException(str(error.__doc__)) from error
    with _connected(chosen) as owner, receipts.as_owner(owner):
        removed = owner.execute(people.SQL["removed_before"], {"user_id": user_id}).fetchone()
    _finish(chosen, user_id)
    click.echo(f"removed the records that import {import_id} added")
    if removed is not None:
        click.echo(
            f"sums of days before {removed[0]} stay as they are, since single sessions of that time are"
            " removed"
        )


def _find(owner: Connection, text: str) -> tuple[UUID, UUID]:
    """Return the person and the id of an import. Raises ClickException for an unknown one."""
    try:
        import_id = UUID(text)
        with receipts.as_owner(owner):
            row = owner.execute(people.SQL["person_of_import"], {"import_id": import_id}).fetchone()
    except ValueError:
        row = None
    if row is None:
        raise click.ClickException(f"there is no import {screen.plain(text)}")
    return row[0], import_id


@click.group()
def imports() -> None:
    """Imports of files, and their receipts."""


@imports.command("list")
@click.argument("email", callback=terminal.text)
@terminal.json_option
@click.pass_obj
def list_imports(chosen: Settings, email: str, *, is_json: bool) -> None:
    """List the imports of EMAIL, newest first."""
    with _connected(chosen) as owner:
        account = _account(owner, email)
        with receipts.as_owner(owner):
            rows: Sequence[Any] = owner.execute(
                receipts.SQL["imports"], {"user_id": account.user_id}
            ).fetchall()
    if not is_json:
        rows = [(*row[:4], _few(row[4] or ()), *row[5:]) for row in rows]
    terminal.print_list(_COLUMNS, rows, is_json=is_json)


@imports.command("show")
@click.argument("import_id", callback=terminal.text)
@click.option("--json", "is_json", is_flag=True, help="Print the receipt as JSON.")
@click.pass_obj
def show(chosen: Settings, import_id: str, *, is_json: bool) -> None:
    """Print the receipt of an import."""
    with _connected(chosen) as owner:
        user_id, found = _find(owner, import_id)
        receipt = receipts.read(owner, user_id, found)
    if receipt is None:
        raise click.ClickException(f"there is no import {screen.plain(import_id)}")
    if is_json:
        click.echo(json.dumps(receipt, indent=2))
    else:
        _report(screen.plain(receipt["file"]), receipt)


@imports.command("similar")
@click.argument("email", callback=terminal.text)
@click.option("--json", "is_json", is_flag=True, help="Print JSON instead of text.")
@click.pass_obj
def similar(chosen: Settings, email: str, *, is_json: bool) -> None:
    """Count the listens of EMAIL that two sources have both brought.

    Two listens are the same if they have the same title and artist and are at most 54 seconds apart. Both are
    kept, and the command changes nothing. To keep one, remove the import of the other with
    "svc import --undo IMPORT_ID".
    """
    with _connected(chosen) as owner:
        account = _account(owner, email)
        with receipts.as_owner(owner):
            rows = owner.execute(
                SQL["similar_listens"],
                {
                    "user_id": account.user_id,
                    "most_s": _SIMILAR_S,
                    "examples": receipts.EXAMPLES,
                },
            ).fetchall()
    if is_json:
        members = ("first_source", "second_source", "listens", "examples")
        click.echo(json.dumps([dict(zip(members, row, strict=True)) for row in rows], indent=2))
        return
    if not rows:
        click.echo("no two sources have the same listens")
    for first, second, count, examples in rows:
        click.echo(screen.plain(f"{first} and {second}: {screen.counted(count, 'listen')}"))
        for each in examples:
            times = f"{each['first_at']} and {each['second_at']}"
            click.echo(screen.plain(f"  {times}: {each['artist']}, {each['track']}"))


COMMANDS: Final[tuple[click.Command, ...]] = (import_files, imports)
