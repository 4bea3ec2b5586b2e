"""Suggested arguments: always valid ones, whatever an assistant sends."""

import json
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resourceserver.mcp import corrections
from resourceserver.mcp.tools import TOOLS

BEGIN: Final = "\nFor example: "
NAMES: Final = sorted({name for tool in TOOLS for name in corrections.members(tool.arguments)})
TEXTS: Final = st.text(max_size=12) | st.sampled_from(
    ["2026-02-31", "31.02.2026", "99999999", "2026-06-01T25:00", "Last Week", "b/a", "{}", "1e999"]
)
JSON: Final = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=5,
)
GIVEN: Final = st.dictionaries(st.sampled_from(NAMES) | st.text(max_size=8), JSON, max_size=5)


@pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: tool.name)
@given(arguments=GIVEN)
def test_suggested_arguments_are_valid(tool: Any, arguments: dict[str, Any]) -> None:
    line = corrections.suggestion(tool.arguments, arguments)

    assert line == "" or line.startswith(BEGIN)
    if line:
        tool.arguments.model_validate(json.loads(line.removeprefix(BEGIN)))


def test_long_arguments_are_not_repeated() -> None:
    (places,) = [tool for tool in TOOLS if tool.name == "get_places"]

    short = corrections.suggestion(places.arguments, {"search": "x" * 900, "raw": "yes"})
    long = corrections.suggestion(places.arguments, {"search": "x" * 1000, "raw": "yes"})

    assert short.endswith('", "raw": true}')
    assert long == ""
