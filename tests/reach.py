"""The tests that a change can reach: ``python -m tests.reach BASE`` prints files and folders for pytest.

A file of tests that was removed stands for its folder.

The package of a changed file decides, since imports between packages are limited (``test_repo.py``): nothing
in ``tests/endpoints`` can be affected by a change of a page.
"""

import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path, PurePath
from typing import Final

ROOT: Final = Path(__file__).parent.parent
EVERYTHING: Final = "tests"

REACH: Final = {
    "authserver": (
        *(
            "browser",
            "cli",
            "dashboard",
            "deploy",
            "endpoints",
            "faults",
            "mcp",
            "monitoring",
            "oauth",
            "pages",
            "people",
            "sql",
            "unit",
        ),
    ),
    "resourceserver": (
        *(
            "bridge",
            "browser",
            "cli",
            "clients",
            "dashboard",
            "deploy",
            "endpoints",
            "faults",
            "ingest",
        ),
        *(
            "integrations",
            "mcp",
            "monitoring",
            "oauth",
            "pages",
            "people",
            "pulls",
            "receivers",
            "ruptures",
            "sql",
            "timeline",
            "unit",
            "uploads",
            "worker",
        ),
    ),
}
"""Folders of tests that import a package, or run its programs. All others reach everything."""
ALWAYS: Final = "tests/test_repo.py"
"""The rules of the repository read every file."""


def reached(changed: Iterable[str]) -> list[str]:
    """Return the arguments for pytest, for these files of the repository."""
    found = {ALWAYS}
    for name in changed:
        found.update(_reached_by(PurePath(name)))
    if EVERYTHING in found:
        return [EVERYTHING]
    whole = {each for each in found if not each.endswith(".py")}
    return sorted(each for each in found if str(PurePath(each).parent) not in whole)


def _reached_by(changed: PurePath) -> set[str]:
    match changed.parts:
        case ("tests", folder, *_, name) if folder != name:
            is_test = name.startswith("test_") and (ROOT / changed).is_file()
            return {str(changed) if is_test else f"tests/{folder}"}
        case ("tests", name) if name.startswith("test_"):
            return {str(changed)}
        case (package, *_) if package in REACH:
            return {f"tests/{folder}" for folder in REACH[package]}
        case (*_, name) if name.endswith(".md"):
            return {ALWAYS}
    return {EVERYTHING}


def changed_since(base: str) -> list[str]:
    """Return the files that differ from the commit ``base``, those that git does not know yet included."""
    commands = (
        ["git", "diff", "--name-only", base],
        ["git", "ls-files", "--others", "--exclude-standard"],
    )
    names: list[str] = []
    for command in commands:
        listed = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True)
        names += listed.stdout.splitlines()
    return names


if __name__ == "__main__":
    sys.stdout.write(" ".join(reached(changed_since(*sys.argv[1:]))) + "\n")
