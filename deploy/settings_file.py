"""``svc settings``: all settings as a file of variables, with their meaning and their defaults.

The file is made from the fields of shared/settings.py and the texts below them, so it cannot forget one.
Service managers and container engines read it: each line is a comment or NAME=value, without quotes.
"""

import ast
import difflib
import inspect
import re
import textwrap
from collections.abc import Iterable, Iterator
from dataclasses import Field, dataclass, fields
from typing import Final

import click

from shared import settings
from shared.settings import Provider, Settings

_BEGINNING: Final = """\
The settings of svc, each with its meaning. 'svc settings' prints this file.

A line that begins with # and a name is not in force; what stands behind = is the default, or nothing if the
text above says what holds. Remove the # to set it. A secret may be in a file instead, whose path NAME_FILE
has. A process that cannot use a setting does not start, and says which one and why."""

_TEXT: Final = re.compile(r"((?:[A-Z][A-Z_]+, )*[A-Z][A-Z_]+): (.+)", re.DOTALL)

_OF_STARTERS: Final = frozenset(("SVC_LIFELINE", "SVC_PROCESSES", "NOTIFY_SOCKET"))
"""Variables that only a process sets for those that it starts."""

_OF_OTHERS: Final = frozenset(("SVC_TOKEN", "SVC_AUTH_NAME", "SVC_BASE_NAME"))
"""Variables of people's own commands and of the sample proxies, which may stand in the same environment."""


@dataclass(frozen=True)
class Variable:
    """A variable of the environment."""

    name: str
    text: str
    """What it means."""
    default: str
    """Empty if there is none, or if the text describes it."""
    is_secret: bool


def variables() -> tuple[Variable, ...]:
    """Return all variables in the order of the fields."""
    return tuple(_variables(Settings))


def _variables(declared: type[Settings | Provider]) -> Iterator[Variable]:
    texts = _texts(declared)
    defaults = settings.environment(Settings(), {})
    for field in fields(declared):
        if field.name == "provider":
            yield from _variables(Provider)
        elif (parts := _TEXT.fullmatch(texts[field.name])) is not None:
            names, text = parts.groups()
            for name in names.split(", "):
                default = defaults.get(name, "") if _has_plain_default(field, text) else ""
                yield Variable(name, text[0].upper() + text[1:], default, not field.repr)


def _has_plain_default(field: "Field[object]", text: str) -> bool:
    return field.default is not None and "by default" not in text.lower()


def _texts(declared: type) -> dict[str, str]:
    """Return the text below each field, in one line. A field without one has an empty text."""
    tree = ast.parse(inspect.getsource(declared))
    nodes = [node for each in tree.body if isinstance(each, ast.ClassDef) for node in each.body]
    texts: dict[str, str] = {}
    name = ""
    for node in nodes:
        match node:
            case ast.AnnAssign(target=ast.Name(id=name)):
                texts[name] = ""
            case ast.Expr(value=ast.Constant(value=str(text))) if name:
                texts[name] = " ".join(text.split())
            case _:
                name = ""
    return texts


def sample() -> str:
    """Return the file."""
    blocks = [_comment(_BEGINNING)]
    previous = ""
    for each in variables():
        if each.name in _OF_STARTERS:
            continue
        line = f"#{each.name}{'_FILE' if each.is_secret else ''}={each.default}"
        # Variables of one field have one text.
        blocks.append(line if each.text == previous else f"\n{_comment(each.text)}\n{line}")
        previous = each.text
    return "\n".join(blocks) + "\n"


def unknown(environment: Iterable[str]) -> list[str]:
    """Return a line for each name in ``environment`` that looks like a setting and is none."""
    known = set(_OF_STARTERS | _OF_OTHERS)
    for each in variables():
        known.add(each.name)
        if each.is_secret:
            known.add(f"{each.name}_FILE")
    lines = []
    for name in sorted(environment):
        if name.startswith("SVC_") and name not in known:
            near = difflib.get_close_matches(name, sorted(known), 1)
            guess = f"; did you mean {near[0]}?" if near else ""
            lines.append(f"{name} is no setting and has no effect{guess}")
    return lines


def _comment(text: str) -> str:
    """Return a text as lines of a comment, its paragraphs apart."""
    lines = [
        line
        for paragraph in text.split("\n\n")
        for line in ["", *textwrap.wrap(paragraph.replace("``", "'"), 105, break_on_hyphens=False)]
    ]
    return "\n".join(f"# {line}".rstrip() for line in lines[1:])


@click.command("settings")
def print_settings() -> None:
    """Print all settings with their meaning and defaults, as a file to edit (deploy/svc.env.example)."""
    click.echo(sample(), nl=False)
