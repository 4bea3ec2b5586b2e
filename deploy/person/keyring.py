"""The keyring of the system, through the package `keyring`, which is used where it is installed.

Its backends are foreign programs, which fail in many ways; each failure is a ClickException.
"""

import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import click

_NAME: Final = "svc"
_LEAST_PRIORITY: Final = 1
"""Backends with a lower priority are not recommended: some keep secrets in plain files."""


def check() -> None:
    """Raise ClickException if this machine has no keyring that can keep tokens."""
    with _backend() as keyring:
        priority = keyring.get_keyring().priority
    if priority < _LEAST_PRIORITY:
        raise click.ClickException("this machine has no keyring that can keep tokens")


def read(server: str) -> str:
    """Return what is kept for a server, or nothing."""
    with _backend() as keyring:
        return keyring.get_password(_NAME, server) or ""


def write(server: str, secret: str) -> None:
    """Keep a secret for a server."""
    with _backend() as keyring:
        keyring.set_password(_NAME, server, secret)


def delete(server: str) -> None:
    """Remove what is kept for a server."""
    with _backend() as keyring:
        if keyring.get_password(_NAME, server) is not None:
            keyring.delete_password(_NAME, server)


@contextmanager
def _backend() -> Iterator[Any]:
    try:
        keyring = importlib.import_module("keyring")
    except ImportError as error:
        raise click.ClickException(
            "--keyring needs the package keyring, which is not here"
        ) from error
    try:
        yield keyring
    except Exception as error:
        reason = str(error) or type(error).__name__
        raise click.ClickException(f"the keyring of this machine: {reason}") from error
