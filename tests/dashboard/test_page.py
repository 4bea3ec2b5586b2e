"""A page of the dashboard between the rounds of its statements."""

import asyncio
import json

from resourceserver.dashboard.views import review

KNOWN = {
    "today": "2025-06-16",
    "now": "2025-06-16T12:00:00+00:00",
    "week_starts_on": 1,
    "tz": "UTC",
    "scopes": ["read:activity", "read:music"],
}


class Answers(dict[str, bytes]):
    """Answers of statements that note which of them were read."""

    def __init__(self, *names: str) -> None:
        """Make an empty answer for each name."""
        super().__init__({name: json.dumps({"of": name}).encode() for name in names})
        self.read: set[str] = set()

    def __getitem__(self, name: str) -> bytes:
        """Return an answer."""
        self.read.add(name)
        return super().__getitem__(name)


def test_complete_bodies_are_finished_while_the_database_runs_further_steps() -> None:
    path = {"year": "2024", "path": "/year/2024/review"}

    async def read() -> tuple[set[str], set[str], set[str]]:
        page = review.VIEW.page(review.VIEW.address.parse(path), path, "http://localhost")
        question = page.question
        answers = Answers("frame", *question.parts(KNOWN))
        assert question.more is not None
        steps = set(question.more(answers))
        before = set(answers.read)
        await asyncio.sleep(0)
        return steps, before, answers.read - before

    steps, before, meanwhile = asyncio.run(read())

    trends = {"tracked", "focus", "longest", "months"}
    assert steps == {f"{name}/days" for name in trends}
    assert before == trends, "nothing else delays the steps"
    assert meanwhile == {"apps", "categories", "coding", "tracks"}
