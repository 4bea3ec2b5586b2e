"""Names in a request that must occur in the person's data.

An empty answer for an unknown name would read as "no time was spent on it". So such a name is an error, or is
listed as ``unmatched`` if other names of the same argument are known. Both suggest the nearest known names.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final

from resourceserver.api.bodies import Body
from resourceserver.mcp import corrections
from resourceserver.mcp.arguments import ArgumentsProblem
from resourceserver.mcp.protocol import quoted

_MOST_NEAREST: Final = 3


class Unmatched(Body):
    """A name that occurs nowhere in the person's data."""

    name: str
    nearest: list[str]
    """Up to three known names with the most similar spelling."""


def unmatched(checked: Mapping[str, Any] | None) -> list[dict[str, Any]]:
    """Return the Unmatched of the row of a statement of names; none if the request has no names.

    Its ``given`` are names by ``argument``, each with ``is_known``; ``known`` has lists of names by argument.
    Raises ArgumentsProblem if no name of an argument is known.
    """
    given = [] if checked is None else checked["given"]
    problems: list[str] = []
    result: list[dict[str, Any]] = []
    for argument in dict.fromkeys(each["argument"] for each in given):
        own = [each for each in given if each["argument"] == argument]
        unknown = [each["name"] for each in own if not each["is_known"]]
        if not unknown:
            continue
        known = checked["known"].get(argument, []) if checked is not None else []
        if len(unknown) == len(own):
            problems += [problem(argument, name, known) for name in unknown]
        result += [{"name": name, "nearest": nearest(name, known)} for name in unknown]
    if problems:
        raise ArgumentsProblem("\n".join(problems))
    return result


def problem(argument: str, name: str, known: Iterable[str]) -> str:
    """Return the sentence that reports an unknown name and suggests the most similar ones.

    Other people may have chosen those names, so they are in a list of JSON strings.
    """
    alike = [quoted(each) for each in nearest(name, known)]
    listed = json.dumps(alike, ensure_ascii=False)
    hint = f"the nearest known are: {listed}" if alike else "there are none yet"
    return f"{argument}: nothing of the person's has the name {quoted(name)}; {hint}"


def nearest(name: str, known: Iterable[str]) -> list[str]:
    """Return the known names with the most similar spelling."""
    return corrections.nearest(name, known)[:_MOST_NEAREST]
