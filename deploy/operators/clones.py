"""Logs of local clones of repositories, as files to import."""

import os
import re
import subprocess
from pathlib import Path
from typing import Final

import click

from resourceserver.integrations.formats.git import LOG
from shared import screen

_CREDENTIALS: Final = re.compile(r"(?<=://)[^/@]*@")


def log(name: str, *, author: str | None, within: Path) -> Path:
    """Write the commits of an author in a clone to a new file in ``within``.

    Without an author, it is the ``user.email`` of the clone. Raises ClickException.
    """
    if author is None:
        address = _git(name, "config", "user.email")
        if not address:
            raise click.ClickException(f"{screen.plain(name)}: it has no user.email; use --author")
        author = f"<{address}>"
    remote = _CREDENTIALS.sub("", _git(name, "config", "remote.origin.url"))
    # The folder can be given as a dot.
    folder = Path(name).resolve().name
    path = within / f"{len(os.listdir(within))}" / f"{folder[:200]}.log"
    path.parent.mkdir()
    with path.open("wb") as file:
        # The name of a folder can have several lines.
        words = " ".join((remote or folder).split())
        file.write(f"# repository {words}\n".encode("utf-8", "replace"))
        file.flush()
        _run(name, *LOG, "--fixed-strings", f"--author={author}", output=file.fileno())
    return path


def _git(name: str, *words: str) -> str:
    """Return the first line of a value; empty if there is none."""
    written = _run(name, *words, allowed=(0, 1)).decode("utf-8", "replace")
    return written.partition("\n")[0].strip()


def _run(
    name: str, *words: str, output: int = subprocess.PIPE, allowed: tuple[int, ...] = (0,)
) -> bytes:
    """Run git in a clone; return what it wrote, unless ``output`` takes it. Raises ClickException."""
    try:
        done = subprocess.run(  # noqa: S603 (the words are our own but for values of options)
            ["git", "-C", name, *words],  # noqa: S607 (the operator's own git)
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.PIPE,
            check=False,
        )
    except OSError as error:
        raise click.ClickException(f"git does not start: {error.strerror}") from error
    if done.returncode not in allowed:
        problem = done.stderr.decode("utf-8", "replace").strip().rpartition("\n")[2]
        raise click.ClickException(screen.plain(f"{name}: {problem}"))
    return done.stdout or b""
