"""The rooms of the packages, and the rooms that each may import.

A room is a folder of modules, or a single module where it stands above the others, as the applications do. A
module belongs to the room with the longest name that its own name begins with.
"""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import CodeType
from typing import Final

ROOT: Final = Path(__file__).parent.parent
PACKAGES: Final = ("authserver", "deploy", "resourceserver", "shared")

ROOMS: Final[dict[str, set[str]]] = {
    "shared": set(),
    "shared.pages": {"shared"},
    # The authorization server.
    "authserver": {"shared"},
    "authserver.people": {"authserver", "shared"},
    "authserver.web": {"authserver", "authserver.people", "shared", "shared.pages"},
    "authserver.oauth": {"authserver", "authserver.people", "authserver.web", "shared"},
    "authserver.pages": {
        *("authserver", "authserver.oauth", "authserver.people", "authserver.web", "shared"),
    },
    "authserver.janitor": {"authserver", "authserver.people", "shared"},
    "authserver.cli": {
        *("authserver", "authserver.janitor", "authserver.oauth", "authserver.people", "shared"),
    },
    "authserver.app": {
        *("authserver", "authserver.janitor", "authserver.oauth", "authserver.pages"),
        *("authserver.people", "authserver.web", "shared"),
    },
    # The resource server.
    "resourceserver": {"resourceserver.worker", "shared"},
    "resourceserver.api": {"shared"},
    "resourceserver.timeline": {"shared"},
    "resourceserver.derived": {"resourceserver.timeline", "shared"},
    "resourceserver.endpoints": {"resourceserver.api", "resourceserver.timeline", "shared"},
    "resourceserver.ingest": {"resourceserver.api", "shared"},
    "resourceserver.export": {
        *("resourceserver.api", "resourceserver.endpoints", "resourceserver.ingest", "shared"),
    },
    "resourceserver.mcp": {"resourceserver.api", "shared", "shared.pages"},
    "resourceserver.mcp.tools": {
        *("resourceserver.api", "resourceserver.endpoints", "resourceserver.mcp"),
        *("resourceserver.timeline", "shared"),
    },
    "resourceserver.dashboard": {
        *("resourceserver.api", "resourceserver.dashboard.charts"),
        *("resourceserver.dashboard.signin", "resourceserver.endpoints", "shared", "shared.pages"),
    },
    "resourceserver.dashboard.charts": set(),
    "resourceserver.dashboard.signin": {"resourceserver.api", "shared", "shared.pages"},
    "resourceserver.dashboard.views": {
        *("resourceserver.dashboard", "resourceserver.dashboard.charts", "shared"),
    },
    "resourceserver.description": {
        *("resourceserver.api", "resourceserver.endpoints", "resourceserver.export"),
        *("resourceserver.ingest", "resourceserver.mcp", "resourceserver.uploads", "shared"),
        "shared.pages",
    },
    "resourceserver.integrations": set(),
    "resourceserver.integrations.formats": {"resourceserver.integrations"},
    "resourceserver.integrations.imports": {
        *("resourceserver.derived", "resourceserver.ingest", "resourceserver.integrations"),
        *("resourceserver.uploads", "shared"),
    },
    "resourceserver.integrations.receivers": {
        *("resourceserver.api", "resourceserver.endpoints", "resourceserver.ingest"),
        *("resourceserver.integrations", "resourceserver.integrations.formats"),
        *("resourceserver.integrations.imports", "shared"),
    },
    "resourceserver.integrations.pulls": {
        *("resourceserver.integrations", "resourceserver.integrations.formats"),
        *("resourceserver.integrations.imports", "shared"),
    },
    "resourceserver.worker": {
        *("resourceserver.derived", "resourceserver.integrations.formats"),
        *("resourceserver.integrations.imports", "resourceserver.integrations.pulls"),
        "resourceserver.timeline",
        *("resourceserver.uploads", "shared"),
    },
    "resourceserver.uploads": {"resourceserver.api", "shared"},
    "resourceserver.trackers": {"resourceserver.ingest", "resourceserver.integrations", "shared"},
    "resourceserver.app": {
        *("resourceserver.api", "resourceserver.dashboard", "resourceserver.dashboard.views"),
        *("resourceserver.derived", "resourceserver.description"),
        *("resourceserver.endpoints", "resourceserver.export", "resourceserver.ingest"),
        *(
            "resourceserver.integrations.receivers",
            "resourceserver.mcp",
            "resourceserver.mcp.tools",
        ),
        *("resourceserver.timeline", "resourceserver.uploads", "resourceserver.worker", "shared"),
    },
    # The applications.
    "deploy": {"shared"},
    "deploy.postgres": set(),
    "deploy.backup": {"deploy", "deploy.postgres", "shared"},
    "deploy.operators": {
        *("authserver.cli", "authserver.pages", "authserver.people", "deploy"),
        "resourceserver.derived",
        *("resourceserver.integrations", "resourceserver.integrations.formats"),
        *("resourceserver.integrations.imports", "resourceserver.timeline", "shared"),
    },
    "deploy.demo": {
        *("authserver.cli", "authserver.people", "resourceserver.derived"),
        *("resourceserver.timeline", "shared"),
    },
    "deploy.runner": {"authserver.people", "deploy", "deploy.postgres", "shared"},
    "deploy.owner": {"deploy", "deploy.postgres", "deploy.runner", "shared"},
    "deploy.doctor": {
        *("authserver.people", "deploy", "deploy.backup", "deploy.owner", "shared"),
    },
    "deploy.person": {"shared"},
    "deploy.cli": {"shared"},
}
"""Each room with the rooms that it imports. Commands of ``deploy.cli`` are imported when they run."""


def room_of(module: str) -> str:
    """Return the room of a module, by its dotted name. Raises LookupError if it has none."""
    rooms = [room for room in ROOMS if f"{module}.".startswith(f"{room}.")]
    if not rooms:
        raise LookupError(f"{module} is in no room")
    return max(rooms, key=len)


def picture() -> str:
    """Return ROOMS as a diagram for Mermaid, without the edges that follow from others."""
    ways = {room: _ways(room) for room in ROOMS}
    lines = [
        f"    {room} --> {other}"
        for room, others in ROOMS.items()
        for other in sorted(others - {"shared"})
        if not any(other in ways[between] for between in others)
    ]
    return "\n".join(["```mermaid", "flowchart TD", *lines, "```"])


def _ways(room: str) -> set[str]:
    """Return all rooms that a room reaches over any number of edges."""
    return ROOMS[room].union(*(_ways(other) for other in ROOMS[room]))


@cache
def edges(path: Path) -> frozenset[tuple[str, str]]:
    """Return the room of the module at ``path`` with each room that it imports or loads SQL from."""
    own = room_of(_dotted(path))
    return frozenset(
        (own, room_of(name))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        for name in _named(node, path)
        if name.partition(".")[0] in PACKAGES and room_of(name) != own
    )


def code_of(path: Path) -> Iterator[CodeType]:
    """Yield the compiled code of a module, and of each class and function in it.

    Compiling takes a fifth of walking through a syntax tree.
    """
    left = [compile(path.read_text(encoding="utf-8"), path, "exec", dont_inherit=True)]
    while left:
        code = left.pop()
        yield code
        left += [each for each in code.co_consts if isinstance(each, CodeType)]


def _dotted(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _named(node: ast.AST, path: Path) -> Iterator[str]:
    """Yield the dotted names of what a node of a module's syntax tree imports, or loads as SQL."""
    match node:
        case ast.Import(names=names):
            yield from (alias.name for alias in names)
        case ast.ImportFrom(module=str(module), names=names, level=0):
            # `from authserver import errors` is about a module, and not about the package.
            folder = ROOT.joinpath(*module.split("."))
            for alias in names:
                is_module = (folder / f"{alias.name}.py").exists() or (folder / alias.name).is_dir()
                yield f"{module}.{alias.name}" if is_module else module
        case ast.ImportFrom():
            raise LookupError(f"{path.relative_to(ROOT)}: imports name their package")
        case ast.Constant(value=str(text)) if text.endswith(".sql") and "/" in text:
            # `rows.load("people/sessions.sql")` counts from the package.
            package = path.relative_to(ROOT).parts[0]
            if (ROOT / package / text).exists():
                yield f"{package}.{text.removesuffix('.sql').replace('/', '.')}"
