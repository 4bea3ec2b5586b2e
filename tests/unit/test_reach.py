"""The tests that `make test-reach` runs for a change."""

import re
from functools import cache
from pathlib import Path

import pytest

from tests.reach import REACH, reached

TESTS = Path(__file__).parent.parent


@pytest.mark.parametrize(
    ("changed", "runs"),
    [
        (["README.md"], ["tests/test_repo.py"]),
        (["tests/oauth/test_consent.py"], ["tests/oauth/test_consent.py", "tests/test_repo.py"]),
        (["tests/oauth/visitor.py"], ["tests/oauth", "tests/test_repo.py"]),
        (["tests/oauth/visitor.py", "tests/oauth/test_consent.py"], ["tests/oauth", "tests/test_repo.py"]),
        (["tests/test_suite.py"], ["tests/test_repo.py", "tests/test_suite.py"]),
        (["tests/conftest.py"], ["tests"]),
        (["shared/tokens.py", "authserver/pages/home.py"], ["tests"]),
        (["sql/session.sql"], ["tests"]),
        (["pyproject.toml"], ["tests"]),
    ],
)  # fmt: skip
def test_a_change_runs_the_tests_that_it_can_affect(changed: list[str], runs: list[str]) -> None:
    assert reached(changed) == runs


def test_a_change_of_a_page_does_not_run_the_tests_of_the_bridge() -> None:
    runs = reached(["authserver/web/templates/home.html"])

    assert "tests/pages" in runs
    assert "tests/bridge" not in runs


@pytest.mark.parametrize("package", sorted(REACH))
def test_every_folder_that_imports_a_package_is_reached_by_it(package: str) -> None:
    importing = {folder for folder, imported in imports_of_folders() if imported == package}

    # Measurements are no tests.
    assert importing - set(REACH[package]) - {"bench"} == set()


@cache
def imports_of_folders() -> set[tuple[str, str]]:
    """Return each folder of tests with each package that a file in it imports."""
    return {
        (path.relative_to(TESTS).parts[0], name)
        for path in TESTS.glob("*/*.py")
        # The linter allows one import on a line. Parsing these files would take seconds.
        for name in re.findall(r"^ *(?:from|import) (\w+)", path.read_text(), re.MULTILINE)
    }
