"""Rules of the repository that a program can check."""

import re
import shlex
import subprocess
import tomllib
from collections.abc import Iterator
from graphlib import TopologicalSorter
from itertools import pairwise

import click
import pytest

from deploy.cli import svc
from shared import VERSION, settings, tokens
from shared.settings import ROLES
from tests.rooms import PACKAGES, ROOMS, ROOT, code_of, edges, picture

ALLOWED = {
    "authserver": {"authserver", "shared"},
    "resourceserver": {"resourceserver", "shared"},
    "shared": {"shared"},
    "deploy": set(PACKAGES),
}
MODULES = [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]


def test_each_package_is_installed() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    installed = project["tool"]["setuptools"]["packages"]
    found = {
        ".".join(path.parent.relative_to(ROOT).parts)
        for package in PACKAGES
        for path in (ROOT / package).rglob("__init__.py")
    }
    assert sorted(found - set(installed)) == []


def test_a_module_imports_only_from_rooms_that_its_room_may() -> None:
    strange = {
        f"{path.relative_to(ROOT)}: {room} imports {other}"
        for path in MODULES
        for room, other in edges(path)
        if other not in ROOMS[room]
    }

    assert strange == set()


def test_each_edge_between_rooms_is_in_use() -> None:
    used = {edge for path in MODULES for edge in edges(path)}

    assert {(room, other) for room, others in ROOMS.items() for other in others} - used == set()


def test_no_rooms_import_each_other_in_a_circle() -> None:
    # Raises CycleError, which names them.
    TopologicalSorter(ROOMS).prepare()


def test_no_room_of_one_server_may_import_the_other_server() -> None:
    assert [
        f"{room} imports {other}"
        for room, others in ROOMS.items()
        for other in others
        if other.partition(".")[0] not in ALLOWED[room.partition(".")[0]]
    ] == []


def modules_with(pattern: str) -> set[str]:
    """Return the paths of the modules in whose text the pattern is."""
    return {str(path.relative_to(ROOT)) for path in MODULES if re.search(pattern, path.read_text())}


def test_imports_are_assigned_to_their_room() -> None:
    # The import of a room also stands for its SQL. sql/ is no package.
    free = {"deploy/migrate.py"}

    assert modules_with(r"__file__\)\.(parents\[|parent\.parent)") - free == set()


def test_the_architecture_names_every_room() -> None:
    named = re.findall(
        r"^\| `([\w.]+)` \|", (ROOT / "docs/ARCHITECTURE.md").read_text(), re.MULTILINE
    )

    assert [room for room in ROOMS if room not in named] == []


def test_the_architecture_shows_the_edges_between_rooms() -> None:
    # Copy the picture from this message into the document.
    assert picture() in (ROOT / "docs/ARCHITECTURE.md").read_text()


def test_only_the_settings_read_the_environment() -> None:
    # Servers pass settings on to their workers, and PostgreSQL's programs get their connection, through the
    # environment; both write it and read nothing from it.
    writers = {
        *("shared/settings.py", "shared/serving.py", "deploy/cli.py", "deploy/owner.py"),
        "deploy/backup/tools.py",
        *("deploy/runner/forking.py", "deploy/runner/startup.py", "deploy/runner/supervisor.py"),
    }

    assert modules_with(r"\bos\.(environ|getenv)\b") - writers == set()


def test_statements_are_in_sql_files() -> None:
    strings = (
        (path, text)
        for path in MODULES
        for code in code_of(path)
        for constant in code.co_consts
        # Constant tuples and sets are one constant.
        for text in (constant if isinstance(constant, tuple | frozenset) else [constant])
        if isinstance(text, str)
    )

    statements = [
        f"{path.relative_to(ROOT)}: {text}"
        for path, text in strings
        if re.match(
            r"\s*(select\s.+\sfrom|insert\s+into|update\s+\w+(\.\w+)?\s+set|delete\s+from|create\s+"
            r"(table|role|schema)|alter\s+\w+|grant\s|revoke\s|with\s+\w+\s+as\s*\()",
            text,
        )
    ]

    assert statements == []


def test_no_tracked_file_names_a_registry_or_a_path_of_a_machine() -> None:
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
    # 1 means that nothing was found, and larger numbers that the search failed.
    assert tracked.returncode in (0, 1), tracked.stderr
    assert tracked.stdout == ""


def test_named_queries_have_a_description() -> None:
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


def commands(group: click.Group, before: str = "") -> Iterator[str]:
    """Yield the words of each command that is no group of further ones."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            yield from commands(command, f"{before}{name} ")
        else:
            yield f"{before}{name}"


def test_the_documents_list_every_command() -> None:
    operating = (ROOT / "docs/OPERATING.md").read_text()

    assert [name for name in commands(svc) if f"`svc {name}`" not in operating] == []


def test_the_readme_names_the_setting_for_loopback_ports_beside_the_clients_that_need_it() -> None:
    # Claude Code and VS Code may take another port each time, which is refused by default.
    chapter = (ROOT / "README.md").read_text().partition("## Connect an assistant\n")[2]
    paragraphs = chapter.partition("\n## ")[0].split("\n\n")
    (naming,) = [each for each in paragraphs if "`SVC_LOOPBACK_PORT_MAY_VARY=on`" in each]
    chosen = settings.read({"SVC_LOOPBACK_PORT_MAY_VARY": "on"})

    assert chosen.loopback_port_may_vary is True
    assert "Claude Code, VS Code" in naming
    table = paragraphs[paragraphs.index(naming) - 1]
    assert "| Claude Code |" in table
    assert "| VS Code |" in table


DOCUMENTS = [
    *("README.md", "CONTRIBUTING.md", "docs/ARCHITECTURE.md", "docs/BACKUP.md", "docs/CAPACITY.md"),
    *(
        "docs/CITUS.md",
        "docs/GLOSSARY.md",
        "docs/INSTALL.md",
        "docs/LOAD.md",
        "docs/OPERATING.md",
        "docs/PARTITIONS.md",
    ),
    *("docs/PROGRAMS.md", "docs/RUNBOOK.md"),
]


@pytest.mark.parametrize("document", DOCUMENTS)
def test_a_document_names_only_commands_and_options_that_exist(document: str) -> None:
    text = (ROOT / document).read_text()
    in_words = re.findall(r"`(?:\.venv/bin/)?svc ([^`]+)`", text)
    blocks = "\n".join(re.findall(r"^ *```sh$(.*?)^ *```$", text, re.MULTILINE | re.DOTALL))
    in_blocks = re.findall(r"(?:\.venv/bin/|^ *|' |\$\()svc (\w[^\n#)]+)", blocks, re.MULTILINE)
    # What follows belongs to psql.
    own = [line.partition(" -- ")[0] for line in in_words + in_blocks]

    assert [line for line in own if not is_of_parser(line)] == []


@pytest.mark.parametrize("document", DOCUMENTS)
def test_a_document_names_only_settings_that_exist(document: str) -> None:
    name = r"\b(?:SVC|DATABASE)_[A-Z_]*[A-Z]\b"
    known = {
        *re.findall(name, (ROOT / "shared/settings.py").read_text()),
        *(f"SVC_{role.upper()}_DATABASE_URL" for role in ROLES),
        # A person's own programs read it.
        "SVC_TOKEN",
        # The tests read it.
        "SVC_TEST_CITUS_URL",
    }
    named = set(re.findall(name, (ROOT / document).read_text()))

    assert {each for each in named if each.removesuffix("_FILE") not in known} == set()


def is_of_parser(line: str) -> bool:
    """Whether the parser knows the command, or group of commands, and the options of a line."""
    command: click.Command = svc
    known = {"--help", "--version"}
    for word in shlex.split(line):
        if isinstance(command, click.Group) and not word.startswith("-"):
            found = command.get_command(click.Context(command), word)
            if found is None:
                return False
            command = found
            known |= {option for each in command.params for option in each.opts}
        elif word.startswith("--") and word.partition("=")[0] not in known:
            return False
    return True


@pytest.mark.parametrize("words", [words for words in commands(svc) if words.endswith(" list")])
def test_every_list_prints_json(words: str) -> None:
    assert is_of_parser(f"{words} --json")


def test_the_version_is_the_newest_in_the_changelog() -> None:
    newest = re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)

    assert newest is not None
    assert newest[1] == VERSION


def test_every_path_in_the_documents_exists() -> None:
    missing = []
    for document in (
        *DOCUMENTS,
        "SECURITY.md",
    ):
        text = (ROOT / document).read_text()
        links = re.findall(r"\]\(([^)#:]+)\)", text)
        named = re.findall(
            r"`((?:authserver|resourceserver|shared|sql|deploy|tests)/[\w./-]+)`", text
        )
        base = (ROOT / document).parent
        missing += [f"{document}: {link}" for link in links if not (base / link).exists()]
        missing += [f"{document}: {name}" for name in named if not (ROOT / name).exists()]

    assert missing == []


def anchors(text: str) -> set[str]:
    """Return what a link can name in a document: its headings, as GitHub spells them."""
    without_code = re.sub(r"^ *```.*?^ *```$", "", text, flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ (.*)$", without_code, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", each.lower()).replace(" ", "-") for each in headings}


def test_every_link_to_a_part_of_a_document_leads_to_a_heading() -> None:
    missing = []
    for document in (*DOCUMENTS, "CHANGELOG.md", "SECURITY.md"):
        path = ROOT / document
        links = re.findall(r"\]\(([^)#:]*)#([^)]+)\)", path.read_text())
        missing += [
            f"{document}: {name}#{anchor}"
            for name, anchor in links
            if anchor not in anchors((path.parent / name if name else path).read_text())
        ]

    assert missing == []
