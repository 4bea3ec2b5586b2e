"""Rules of the repository that a machine can hold."""

import ast
import re
import subprocess
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import click
import pytest

from deploy.cli import svc
from shared import VERSION, tokens

ROOT = Path(__file__).parent.parent
PACKAGES = ("authserver", "deploy", "resourceserver", "shared")
ALLOWED = {
    "authserver": {"authserver", "shared"},
    "resourceserver": {"resourceserver", "shared"},
    "shared": {"shared"},
    "deploy": set(PACKAGES),
}
MODULES = [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]

each_module = pytest.mark.parametrize(
    "path", MODULES, ids=[str(path.relative_to(ROOT)) for path in MODULES]
)


def imported(tree: ast.Module) -> set[str]:
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            assert node.level == 0, "imports name their package"
            names.add(node.module.split(".")[0])
    return names


@each_module
def test_imports_run_only_along_the_allowed_edges(path: Path) -> None:
    package = path.relative_to(ROOT).parts[0]

    ours = imported(ast.parse(path.read_text())) & set(PACKAGES)

    assert ours <= ALLOWED[package]


@each_module
def test_only_the_settings_read_the_environment(path: Path) -> None:
    # Servers hand settings on to their workers, and psql takes its connection, through the
    # environment; both write it and read nothing out of it.
    text = path.read_text()
    writers = {"shared/settings.py", "shared/serving.py", "deploy/cli.py", "deploy/up.py"}
    if str(path.relative_to(ROOT)) in writers:
        return

    assert not re.search(r"\bos\.(environ|getenv)\b", text)


@each_module
def test_statements_stand_in_sql_files(path: Path) -> None:
    strings = [
        node.value
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]

    statements = [
        text
        for text in strings
        if re.match(
            r"\s*(select\s.+\sfrom|insert\s+into|update\s+\w+(\.\w+)?\s+set|delete\s+from|create\s+"
            r"(table|role|schema)|alter\s+\w+|grant\s|revoke\s|with\s+\w+\s+as\s*\()",
            text,
        )
    ]

    assert statements == []


def test_no_tracked_file_names_a_registry_or_a_path_of_some_machine() -> None:
    tracked = subprocess.run(
        [
            "git",
            "grep",
            "-nIE",
            r"/(home|root|work|Users)/[A-Za-z.]|--(extra-)?index[-]url|\"resolved\": *\"http",
            "--",
            ".",
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    # 1 is for nothing found, and everything above for a search that did not take place.
    assert tracked.returncode in (0, 1), tracked.stderr
    assert tracked.stdout == ""


def test_named_queries_say_what_they_answer() -> None:
    silent = []
    for path in sorted(ROOT.glob("[a-z]*/**/*.sql")):
        if ".venv" in path.parts:
            continue
        lines = path.read_text().splitlines()
        silent += [
            f"{path.relative_to(ROOT)}: {line}"
            for line, following in pairwise(lines)
            if line.startswith("-- name: ") and not following.startswith("-- ")
        ]

    assert silent == []


def test_the_published_pattern_for_scanners_is_the_one_in_use() -> None:
    assert tokens.SCANNER_PATTERN in (ROOT / "SECURITY.md").read_text()


def test_the_readme_lists_every_command() -> None:
    readme = (ROOT / "README.md").read_text()

    assert [name for name in commands(svc) if f"`svc {name}`" not in readme] == []


def commands(group: click.Group, before: str = "") -> Iterator[str]:
    """Yield the words of each command that is no group of further ones."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            yield from commands(command, f"{before}{name} ")
        else:
            yield f"{before}{name}"


def test_the_version_is_the_newest_in_the_changelog() -> None:
    newest = re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)

    assert newest is not None
    assert newest[1] == VERSION


def test_every_path_that_the_documents_name_is_there() -> None:
    missing = []
    for document in ("README.md", "docs/ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md"):
        text = (ROOT / document).read_text()
        links = re.findall(r"\]\(([^)#:]+)\)", text)
        named = re.findall(
            r"`((?:authserver|resourceserver|shared|sql|deploy|tests)/[\w./-]+)`", text
        )
        base = (ROOT / document).parent
        missing += [f"{document}: {link}" for link in links if not (base / link).exists()]
        missing += [f"{document}: {name}" for name in named if not (ROOT / name).exists()]

    assert missing == []
