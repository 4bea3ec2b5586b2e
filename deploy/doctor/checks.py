"""What a check is, and what it says: passed, failed with a cure, or not examined.

A check that could not be made never counts as passed. It is ``unknown`` if it should have been possible,
which has an exit status of its own, and ``skipped`` if it does not apply to this deployment.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Final, Generic, TypeVar

Subject = TypeVar("Subject")


class Outcome(StrEnum):
    """What became of a check."""

    PASSED = "passed"
    FAILED = "failed"
    UNKNOWN = "unknown"
    SKIPPED = "skipped"


@dataclass(frozen=True)
class Finding:
    """What a check says of one thing."""

    outcome: Outcome
    text: str
    cure: str = ""
    """What to do, in one sentence; empty if there is nothing to do."""


@dataclass(frozen=True)
class Result(Finding):
    """A finding with the name of its check."""

    check: str = field(kw_only=True)


@dataclass(frozen=True)
class Check(Generic[Subject]):
    """A check by its name; ``examine`` yields at least one finding."""

    name: str
    examine: Callable[[Subject], Iterable[Finding]]


class CannotExamine(Exception):
    """A check could not be made; the message says why."""

    def __init__(self, reason: str, cure: str) -> None:
        """Keep the reason and what would make the check possible."""
        super().__init__(reason)
        self.cure = cure


def passed(text: str) -> Finding:
    """Return the finding that something is as it should be."""
    return Finding(Outcome.PASSED, text)


def failed(text: str, cure: str) -> Finding:
    """Return the finding that something is wrong."""
    return Finding(Outcome.FAILED, text, cure)


def skipped(text: str, cure: str = "") -> Finding:
    """Return the finding that a check does not apply."""
    return Finding(Outcome.SKIPPED, text, cure)


def duration(seconds: float) -> str:
    """Return a length of time in words, in the largest unit of which there are two or more."""
    for unit, length in (("day", 86400), ("hour", 3600), ("minute", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:.0f} {unit}s"
    return f"{seconds:.0f} seconds"


def run(checks: Sequence[Check[Subject]], subject: Subject) -> Iterator[Result]:
    """Yield the results of all checks in their order."""
    for check in checks:
        try:
            for finding in check.examine(subject):
                yield Result(**asdict(finding), check=check.name)
        except CannotExamine as error:
            yield Result(Outcome.UNKNOWN, str(error), error.cure, check=check.name)


def exit_status(results: Sequence[Result]) -> int:
    """Return 1 if anything is wrong, 2 if anything could not be examined, else 0."""
    outcomes = Counter(result.outcome for result in results)
    if outcomes[Outcome.FAILED]:
        return 1
    return 2 if outcomes[Outcome.UNKNOWN] or not outcomes[Outcome.PASSED] else 0


_MARKS: Final = {
    Outcome.PASSED: "ok",
    Outcome.FAILED: "FAILED",
    Outcome.UNKNOWN: "NOT EXAMINED",
    Outcome.SKIPPED: "skipped",
}


def lines(result: Result) -> Iterator[str]:
    """Yield the lines of a result for people."""
    yield f"{_MARKS[result.outcome]:<12}  {result.check}: {result.text}"
    if result.cure:
        yield f"{'':<12}  -> {result.cure}"


def summary(results: Sequence[Result]) -> str:
    """Return the line with the number of each outcome."""
    outcomes = Counter(result.outcome for result in results)
    return (
        f"{outcomes[Outcome.PASSED]} passed, {outcomes[Outcome.FAILED]} failed,"
        f" {outcomes[Outcome.UNKNOWN]} not examined, {outcomes[Outcome.SKIPPED]} skipped"
    )
