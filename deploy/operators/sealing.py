"""``svc sealing``: the keys that seal the secrets of connections (shared/sealing.py)."""

import sys

import click
import psycopg

from authserver.cli import terminal
from deploy import resealing
from shared import database, screen, sealing, sealing_keys
from shared.settings import Settings, SettingsError


@click.group("sealing")
def sealing_group() -> None:
    """The keys that seal the secrets of connections, such as addresses of calendars."""


@sealing_group.command("new")
def make_key() -> None:
    """Print a new key as two settings: one for all processes, and one for the worker alone."""
    private = sealing.new_private_key()
    click.echo(f"SVC_SEALING_PUBLIC_KEY={sealing.public_key_of(private)}")
    click.echo(f"SVC_SEALING_PRIVATE_KEYS={private}")


@sealing_group.command("rotate")
@click.pass_obj
def rotate(chosen: Settings) -> None:
    """Seal all secrets to the newest key.

    With SVC_SEALING_PRIVATE_KEYS: open each secret with one of these keys, and seal it to the first of them.
    The exit status is 1 if none of them opens a secret.

    With the key of 'svc up': make a new key; the next start of 'svc up' seals all secrets to it.
    """
    if not chosen.sealing_private_keys:
        if not sealing_keys.read(chosen.data_dir):
            raise SettingsError(
                "SVC_SEALING_PRIVATE_KEYS is not set, and 'svc up' has made no key in"
                f" {chosen.data_dir}"
            )
        sealing_keys.add(chosen.data_dir)
        click.echo("made a new key: the next start of 'svc up' seals all secrets to it")
        return
    if chosen.database_url is None:
        raise database.no_database(chosen)
    try:
        resealed = resealing.reseal(chosen.database_url, chosen.sealing_private_keys)
    except psycopg.Error as error:
        raise terminal.failure(error) from error
    click.echo(f"sealed {screen.counted(resealed.changed, 'secret')} anew")
    if resealed.unopened:
        unopened = screen.counted(resealed.unopened, "secret")
        click.echo(f"svc: none of these keys opens {unopened}", err=True)
        sys.exit(1)
