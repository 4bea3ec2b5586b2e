"""The keys of a deployment, which a backup of the database does not contain.

    secrets.json    signs refresh tokens and cookies; the passwords of the roles
    sealing.json    opens the secrets of connections

Dump and keys together open everything; each alone opens little. So they are kept apart, unless the operator
wants them together. Keys that are set in the environment (SVC_COOKIE_KEY and others) are in no file, and
stay where the operator has them.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from deploy.backup.backups import BackupError
from shared import private_file, sealing_keys, settings
from shared.settings import Settings, SettingsError

_SECRETS: Final = "secrets.json"
_SEALING: Final = "sealing.json"


def copy(data_dir: Path, to: Path) -> list[Path]:
    """Copy the keys of a data directory to ``to``, and return the files; none where it has none.

    A sealing key that ``to`` has already stays behind the others: an older backup may need it. Raises
    BackupError where ``to`` has keys of another deployment or cannot be written.
    """
    try:
        to.mkdir(mode=0o700, exist_ok=True)
        return list(_copy(data_dir, to))
    except OSError as error:
        raise BackupError(f"the keys cannot be written to {to}: {error.strerror}") from error


def _copy(data_dir: Path, to: Path) -> Iterator[Path]:
    _refuse_other(data_dir, to, "name a new directory, and keep this one as long as its backups")
    if (data_dir / _SECRETS).exists():
        settings.read_secrets(data_dir)
        private_file.replace(to / _SECRETS, (data_dir / _SECRETS).read_text(encoding="utf-8"))
        yield to / _SECRETS
    if newest := sealing_keys.read(data_dir):
        both = dict.fromkeys((*newest, *sealing_keys.read(to)))
        private_file.replace(to / _SEALING, json.dumps({"private_keys": list(both)}))
        yield to / _SEALING


def adopt(keys: Path, data_dir: Path) -> None:
    """Give a data directory the keys of a copy; its own sealing keys stay the newest.

    Raises BackupError where it has the keys of another deployment.
    """
    files = [keys / name for name in (_SECRETS, _SEALING) if (keys / name).is_file()]
    if not files:
        raise BackupError(f"{keys} has neither {_SECRETS} nor {_SEALING}")
    _refuse_other(keys, data_dir, "restore into another SVC_DATA_DIR")
    _copy_missing(keys, data_dir)


def _copy_missing(keys: Path, data_dir: Path) -> None:
    try:
        data_dir.mkdir(parents=True, exist_ok=True)
        if (keys / _SECRETS).exists():
            text = (keys / _SECRETS).read_text(encoding="utf-8")
            private_file.create(data_dir / _SECRETS, text)
        if copied := sealing_keys.read(keys):
            both = dict.fromkeys((*sealing_keys.read(data_dir), *copied))
            private_file.replace(data_dir / _SEALING, json.dumps({"private_keys": list(both)}))
    except OSError as error:
        raise BackupError(f"the keys cannot be written to {data_dir}: {error.strerror}") from error


def opening(chosen: Settings) -> tuple[str, ...]:
    """Return the private keys that this deployment has for the secrets of connections."""
    return chosen.sealing_private_keys or sealing_keys.read(chosen.data_dir)


def _refuse_other(directory: Path, other: Path, cure: str) -> None:
    """Raise BackupError where both have secrets, and not the same keys."""
    if not all((each / _SECRETS).exists() for each in (directory, other)):
        return
    try:
        first, second = settings.read_secrets(directory), settings.read_secrets(other)
    except SettingsError as error:
        raise BackupError(str(error)) from error
    if first.cookie_key != second.cookie_key:
        raise BackupError(
            f"{other} has the keys of another deployment than {directory}, or older ones: {cure}"
        )
