"""Scope lists."""

import json
import subprocess
from pathlib import Path

import pytest

from shared import scopes
from shared.scopes import UnknownScopeError
from tests.rooms import PACKAGES, ROOT


def test_seven_scopes_read_and_four_write() -> None:
    assert [name for name in scopes.SCOPES if name.startswith("read:")] == [
        "read:activity",
        "read:code",
        "read:health",
        "read:location",
        "read:music",
        "read:content",
        "read:profile",
    ]
    assert [name for name in scopes.SCOPES if name.startswith("ingest:")] == [
        "ingest:app_sessions",
        "ingest:coding_sessions",
        "ingest:health",
        "ingest:heartbeats",
    ]


def test_a_scope_without_a_stream_is_named_in_the_module_of_scopes_alone() -> None:
    # The guide lists every scope, which tests/endpoints/test_guide.py checks.
    places = [*PACKAGES, "sql", ":!resourceserver/description/guides"]
    command = ["git", "grep", "--fixed-strings", "ingest:heartbeats", "--", *places]

    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)

    assert {line.partition(":")[0] for line in found.stdout.splitlines()} == {"shared/scopes.py"}


def test_a_list_is_sorted_without_repetitions() -> None:
    parsed = scopes.parse("ingest:health read:code read:activity read:code")

    assert parsed == ("read:activity", "read:code", "ingest:health")


@pytest.mark.parametrize("text", ["", " ", "   "])
def test_an_empty_list_has_no_scopes(text: str) -> None:
    assert scopes.parse(text) == ()


@pytest.mark.parametrize(
    "text", ["read:activity write:all", "READ:ACTIVITY", "read:code\tread:music"]
)
def test_an_unknown_scope_is_refused(text: str) -> None:
    with pytest.raises(UnknownScopeError):
        scopes.parse(text)


def test_scopes_are_grouped_by_domain_in_canonical_order() -> None:
    grouped = scopes.by_domain(["ingest:health", "ingest:app_sessions", "read:activity"])

    assert grouped == {
        "Activity": ["read:activity", "ingest:app_sessions"],
        "Health": ["ingest:health"],
    }
    assert list(grouped) == ["Activity", "Health"]


def test_a_scope_is_marked_as_without_endpoint_exactly_if_no_operation_requires_it() -> None:
    description = json.loads((Path(__file__).parents[2] / "docs/openapi.json").read_text())

    required = {
        scope
        for operations in description["paths"].values()
        for operation in operations.values()
        for requirement in operation.get("security", [])
        for scopes_of_it in requirement.values()
        for scope in scopes_of_it
    }

    assert scopes.SCOPES.keys() - required == scopes.WITHOUT_ENDPOINT
