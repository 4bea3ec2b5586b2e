"""The login of the person who uses this machine: which server, and the tokens, in a file for them alone.

A refresh token is valid once: presenting it again revokes the grant. So a process that refreshes holds the
lock of the store, reads the login again once it has the lock, and stores the new pair before using it
(access.py). A file is replaced as a whole: written beside the old one, flushed to the disk, and renamed. If
a process is killed between these steps, the next one with the lock finds the new file and renames it.

The tokens may lie in the keyring of the system instead. The file then has everything else.
"""

import fcntl
import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Final

import click

from deploy.person import keyring
from shared.settings import Settings

_VERSION: Final = 1
_RESERVED: Final = 16 * 1024
"""The bytes that a new file reserves on the disk; several times what a login needs."""
_LONGEST_WAIT_S: Final = 60.0
_PAUSE_S: Final = 0.02


class NotSignedIn(click.ClickException):
    """Nobody is signed in on this machine."""

    def __init__(self) -> None:
        """Say what to do."""
        super().__init__("not signed in: run 'svc login'")


@dataclass(frozen=True)
class Tokens:
    """A token pair, which no ``repr`` contains."""

    access_token: str = field(repr=False)
    refresh_token: str = field(repr=False)
    expires_at: float
    """When the access token expires, by the clock of this machine."""


@dataclass(frozen=True)
class Login:
    """A grant to this machine, and where its tokens are renewed, revoked and used."""

    server: str
    """The address of the resource server, which is also the resource of the tokens (RFC 8707)."""
    issuer: str
    token_endpoint: str
    revocation_endpoint: str | None
    client_id: str
    scope: str
    """The granted scopes, with spaces between them."""
    is_in_keyring: bool
    tokens: Tokens

    @property
    def scopes(self) -> tuple[str, ...]:
        """The granted scopes."""
        return tuple(self.scope.split())


Replace = Callable[[Login], None]


@dataclass(frozen=True)
class Store:
    """The files in one directory."""

    directory: Path

    @property
    def file(self) -> Path:
        """The file of the login."""
        return self.directory / "login.json"

    @property
    def _new(self) -> Path:
        """The file that will replace it."""
        return self.directory / "login.json.new"

    def read(self) -> Login:
        """Return the login. Raises NotSignedIn, and ClickException for a file that cannot be read."""
        return self._read(self.file)

    def _read(self, file: Path) -> Login:
        try:
            with file.open(encoding="utf-8") as stored:
                _close_to_others(stored.fileno(), file)
                members = json.load(stored)
        except FileNotFoundError:
            raise NotSignedIn from None
        except OSError as error:
            raise _unusable(file, error) from error
        except ValueError as error:
            raise _damaged(file) from error
        try:
            if members.pop("version") != _VERSION:
                raise click.ClickException(f"{file} is of another version of svc: run 'svc login'")
            tokens = members.pop("tokens")
            if members["is_in_keyring"]:
                tokens = json.loads(keyring.read(members["server"]))
            return Login(**members, tokens=Tokens(**tokens))
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise _damaged(file) from error

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the lock of the store. Raises ClickException if another process keeps it."""
        try:
            self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            # It is never removed: a process that waits for a removed file would share it with nobody.
            lock = os.open(
                self.directory / "login.lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600
            )
        except OSError as error:
            raise _unusable(self.directory, error) from error
        try:
            _lock(lock)
            self._recover()
            yield
        finally:
            os.close(lock)

    def _recover(self) -> None:
        """Rename a new file whose writer was killed before it could. It is the latest login."""
        with suppress(click.ClickException):
            self._read(self._new)
            self._new.rename(self.file)

    @contextmanager
    def replacement(self) -> Iterator[Replace]:
        """Yield what replaces the login, after the disk has room for it. The caller holds the lock.

        So a full disk is noticed before a refresh token is spent, and not after. Raises ClickException.
        """
        new = self._new
        try:
            flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
            descriptor = os.open(new, flags, 0o600)
        except OSError as error:
            raise _unusable(new, error) from error
        try:
            os.fchmod(descriptor, 0o600)
            os.write(descriptor, b" " * _RESERVED)
            os.fsync(descriptor)
            yield lambda login: self._replace(login, descriptor)
        except OSError as error:
            raise _unusable(new, error) from error
        finally:
            os.close(descriptor)
            new.unlink(missing_ok=True)

    def _replace(self, login: Login, descriptor: int) -> None:
        if login.is_in_keyring:
            keyring.write(login.server, json.dumps(asdict(login.tokens)))
        content = (json.dumps({"version": _VERSION, **_members(login)}, indent=2) + "\n").encode()
        os.pwrite(descriptor, content, 0)
        os.ftruncate(descriptor, len(content))
        os.fsync(descriptor)
        self._new.rename(self.file)
        _flush(self.directory)

    def forget(self, before: Login, login: Login) -> None:
        """Remove the tokens of the login ``before`` from the keyring, now that ``login`` has replaced it.

        In the keyring, those for the same server are replaced already. Raises ClickException.
        """
        if before.is_in_keyring and (not login.is_in_keyring or login.server != before.server):
            keyring.delete(before.server)

    def remove(self, login: Login) -> None:
        """Remove the login. The caller holds the lock. Raises ClickException."""
        try:
            if login.is_in_keyring:
                keyring.delete(login.server)
            self._new.unlink(missing_ok=True)
            self.file.unlink(missing_ok=True)
            _flush(self.directory)
        except OSError as error:
            raise _unusable(self.file, error) from error


def of(chosen: Settings) -> Store:
    """Return the store of the person who runs this command. Raises ClickException."""
    try:
        return Store(chosen.config_dir.expanduser())
    except RuntimeError as error:
        raise click.ClickException("there is no home directory: set XDG_CONFIG_HOME") from error


def _members(login: Login) -> dict[str, Any]:
    members = {each.name: getattr(login, each.name) for each in fields(login)}
    return members | {"tokens": None if login.is_in_keyring else asdict(login.tokens)}


def _close_to_others(descriptor: int, file: Path) -> None:
    """Take the rights of others from a file with tokens, and say so."""
    if os.fstat(descriptor).st_mode & 0o077:
        os.fchmod(descriptor, 0o600)
        click.echo(
            f"{file} was open to other users of this machine, and is closed now;"
            " if they may have read it, run 'svc logout' and 'svc login'",
            err=True,
        )


def _lock(descriptor: int) -> None:
    """Wait for the lock. Not for ever: its holder may have been stopped (Ctrl-Z)."""
    until = time.monotonic() + _LONGEST_WAIT_S
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > until:
                raise click.ClickException(
                    "another svc has held the lock of the login for a minute; is it stopped?"
                ) from None
            # flock itself waits without a limit or not at all.
            time.sleep(_PAUSE_S)
        else:
            return


def _flush(directory: Path) -> None:
    """Flush the names in a directory to the disk."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _unusable(path: Path, error: OSError) -> click.ClickException:
    return click.ClickException(f"{path}: {error.strerror}")


def _damaged(file: Path) -> click.ClickException:
    return click.ClickException(f"{file} is damaged: run 'svc login'")
