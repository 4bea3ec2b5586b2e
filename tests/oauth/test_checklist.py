"""The checklist of the authorization server: each of its lines has a test that names it."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

TESTS = Path(__file__).parent.parent
LINES = range(1, 61)


def marked(file: Path) -> Iterator[tuple[str, list[int]]]:
    """Yield each test of a file, and its ``pytestmark``, with the lines of the checklist."""
    text = file.read_text()
    if "checklist" not in text and "def test_line" not in text:
        return
    # Tests and ``pytestmark`` are at the top level of their file.
    for node in ast.parse(text).body:
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
            yield node.name, named_in(node.decorator_list)
        elif isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "pytestmark":
            yield "pytestmark", named_in([node.value])


def named_in(marks: list[ast.expr]) -> list[int]:
    """Return the lines that marks name, alone or in a list of them."""
    return [
        ast.literal_eval(line)
        for mark in marks
        for call in ast.walk(mark)
        if isinstance(call, ast.Call) and ast.unparse(call.func) == "pytest.mark.checklist"
        for line in call.args
    ]


@pytest.fixture(scope="module")
def all_marked() -> list[tuple[str, list[int]]]:
    """Every test of the suite, with the lines that it is marked with."""
    return [
        (f"{file.relative_to(TESTS)}::{test}", lines)
        for file in sorted(TESTS.glob("*/test_*.py"))
        for test, lines in marked(file)
    ]


def test_every_line_has_a_test(all_marked: list[tuple[str, list[int]]]) -> None:
    guarded = {line for _, lines in all_marked for line in lines}

    assert [line for line in LINES if line not in guarded] == []


def test_every_line_that_is_named_is_one_of_the_checklist(
    all_marked: list[tuple[str, list[int]]],
) -> None:
    strays = [(test, line) for test, lines in all_marked for line in lines if line not in LINES]

    assert strays == []


def test_a_test_that_has_lines_in_its_name_is_marked_with_them(
    all_marked: list[tuple[str, list[int]]],
) -> None:
    unmarked = []
    for test, lines in all_marked:
        name = re.search(r"::test_lines?((?:_\d+|_and)+)_", test)
        if name is not None and not {*map(int, re.findall(r"\d+", name[1]))} <= {*lines}:
            unmarked.append(test)

    assert unmarked == []
