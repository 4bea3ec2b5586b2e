"""``python -m tests.mcp.questions``: a table of all questions, their calls, sizes and whether they are right.

A question is refused if its last call is: an assistant then has to call again. It is wrong if the answer has
other values than the slow model.
"""

import json
import statistics
import sys
from collections import Counter
from collections.abc import Generator
from contextlib import redirect_stdout
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path
from typing import Any, Final, Literal

import click
import pytest
from httpx2 import Response

from tests.mcp.assistant import Assistant
from tests.mcp.questions.question import Question
from tests.mcp.weight import tokens

TESTS: Final = Path(__file__).parent.parent / "test_questions.py"
NOT_ANSWERED: Final = (
    "test_how_long_was_i_in_an_application_with_a_misspelled_name",
    "test_what_was_i_doing_in_a_place_where_i_never_was",
    "test_how_long_will_i_work_in_a_year_from_now",
    "test_what_goes_along_with_productive_days_measures_something_else",
    "test_answers_to_calls_without_options_are_short",
)
"""Tests of mistakes, of a second property of an answer, and of sizes."""

Verdict = Literal["one call", "more calls", "refused", "wrong"]


@dataclass(frozen=True)
class Line:
    """A question with the calls that were made for it."""

    question: str
    calls: list[str]
    tokens: int
    verdict: Verdict

    def __str__(self) -> str:
        return "\n".join(
            [f"{self.verdict:<10} {self.tokens:>6}  {self.question}"]
            + [f"{'':<19}{call}" for call in self.calls]
        )


@dataclass
class Table:
    """A plugin that notes what each test of a question calls."""

    lines: dict[str, Line] = field(default_factory=dict)
    seen: int = 0

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Function, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Note the calls of a test that has run."""
        report = yield
        if call.when == "call" and "assistant" in item.funcargs:
            assistant = item.funcargs["assistant"]
            assert isinstance(assistant, Assistant)
            new, self.seen = assistant.log[self.seen :], len(assistant.log)
            if item.originalname not in NOT_ANSWERED:
                question = _text(item)
                self.lines.setdefault(question, _line(question, new, is_right=report.passed))
        return report


def _text(item: pytest.Function) -> str:
    question = item.funcargs.get("question")
    if isinstance(question, Question):
        return question.text
    words = item.originalname.removeprefix("test_").replace("_", " ")
    return f"{words.capitalize()}?"


def _line(text: str, calls: list[tuple[str, dict[str, Any], Response]], *, is_right: bool) -> Line:
    verdict: Verdict = "one call" if len(calls) == 1 else "more calls"
    if not is_right:
        verdict = "refused" if _is_refused(calls[-1][2]) else "wrong"
    spoken = [f"{tool} {json.dumps(given, ensure_ascii=False)}" for tool, given, _ in calls]
    return Line(text, spoken, sum(_tokens(response) for _, _, response in calls), verdict)


def _is_refused(response: Response) -> bool:
    body = response.json()
    return "error" in body or body["result"]["isError"]


def _tokens(response: Response) -> int:
    """Return the size of what an assistant reads."""
    body = response.json()
    text = body["error"]["message"] if "error" in body else body["result"]["content"][0]["text"]
    return tokens(len(text.encode()))


def main() -> None:
    """Ask all questions and print the table."""
    table = Table()
    said = StringIO()
    with redirect_stdout(said):
        # Modules of pytest's plugins are imported already, and none of them is rewritten.
        rewritten = "-Wignore::pytest.PytestAssertRewriteWarning"
        pytest.main(["-q", "-n0", "--tb=no", rewritten, str(TESTS)], plugins=[table])
    if not table.lines:
        sys.exit(said.getvalue())
    click.echo("\n".join(map(str, table.lines.values())))
    counts = Counter(line.verdict for line in table.lines.values())
    right = [line.tokens for line in table.lines.values() if line.verdict == "one call"]
    click.echo(
        f"\n{len(table.lines)} questions: {counts['one call']} right with one call,"
        f" {counts['more calls']} right with more, {counts['refused']} refused, {counts['wrong']} wrong."
        f"\nMedian size of the answers of those with one call: {statistics.median(right):.0f} tokens"
        " of four bytes."
    )


if __name__ == "__main__":
    main()
