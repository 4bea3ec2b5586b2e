"""The keys of ``svc up``: sealing.json in the data directory, with private keys, the newest first.

``svc up`` makes the file, and gives the public half to both servers and the private keys to the worker alone.
Deployments whose processes run alone have their keys in settings instead.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from shared import private_file, sealing
from shared.settings import Settings, SettingsError

_NAME: Final = "sealing.json"


def public_key(chosen: Settings) -> str | None:
    """Return the key to which a command seals secrets, or None without one. Raises SettingsError."""
    if chosen.sealing_public_key is not None:
        return chosen.sealing_public_key
    private_keys = read(chosen.data_dir)
    return sealing.public_key_of(private_keys[0]) if private_keys else None


def read(data_dir: Path) -> tuple[str, ...]:
    """Return the private keys in the data directory, none without a file. Raises SettingsError."""
    path = data_dir / _NAME
    try:
        private_keys = tuple(json.loads(path.read_text(encoding="utf-8"))["private_keys"])
        sealing.public_key_of(private_keys[0])
        sealing.Opener(private_keys)
    except FileNotFoundError:
        return ()
    except (OSError, ValueError, LookupError, TypeError, AttributeError, sealing.NotAKey) as error:
        # The text of an error could quote a key.
        raise SettingsError(f"{path} cannot be used: {type(error).__name__}") from None
    return private_keys


def make(data_dir: Path) -> tuple[str, ...]:
    """Return the private keys in the data directory, at least one. Raises SettingsError."""
    if not read(data_dir):
        try:
            private_file.create(data_dir / _NAME, _text([sealing.new_private_key()]))
        except OSError as error:
            raise _not_written(data_dir, error) from error
    return read(data_dir)


def add(data_dir: Path) -> None:
    """Put a new private key before the others. Raises SettingsError."""
    try:
        with private_file.locked(data_dir):
            text = _text([sealing.new_private_key(), *read(data_dir)])
            private_file.replace(data_dir / _NAME, text)
    except OSError as error:
        raise _not_written(data_dir, error) from error


def keep_newest(data_dir: Path) -> None:
    """Remove all private keys but the newest. Raises SettingsError."""
    try:
        with private_file.locked(data_dir):
            private_file.replace(data_dir / _NAME, _text(read(data_dir)[:1]))
    except OSError as error:
        raise _not_written(data_dir, error) from error


def _text(private_keys: Sequence[str]) -> str:
    return json.dumps({"private_keys": list(private_keys)})


def _not_written(data_dir: Path, error: OSError) -> SettingsError:
    return SettingsError(f"{data_dir / _NAME} cannot be written: {error.strerror}")
