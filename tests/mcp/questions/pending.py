"""Questions that are not answered with these calls yet, by reason. Who changes that removes them here."""

from typing import Final

_BY_REASON: Final[dict[str, tuple[str, ...]]] = {
    "One word is not taken where a list of one is meant": (
        "How long was I at the computer on each day of this week?",
        "Am I at the computer after 22:00 in the evening, and how long?",
        "Do I work at weekends?",
        "How much time did I lose on social media last month?",
        "Which programming language did I write most this month?",
        "How did my work on harbour go, week by week?",
    ),
    "The period has no name": ("How often was I in focus in the last two weeks?",),
    "A local time needs an offset": (
        "How productive was I yesterday between nine and twelve?",
        "What was I doing yesterday at three in the afternoon?",
        "What did I do the day before yesterday between eight and nine in the evening?",
        "Was the morning of yesterday a focused one?",
    ),
    "Instants are not given as local times": ("At what time, here, did I last open beam.py?",),
    "The filter has no domains": (
        "How much YouTube was there in the last two weeks?",
        "Which videos did I see on YouTube last week?",
    ),
    "Coding is not grouped by project unless it is asked for": (
        "How much did I code on each project this quarter?",
    ),
    "No answer says what is usual": ("When do I usually start the day?",),
}

PENDING: Final = {text: reason for reason, texts in _BY_REASON.items() for text in texts}
"""The reason by the text of a question."""
