"""Questions of people with the calls that answer them; with those of ``test_questions.py``, a hundred.

Expected values come from a slow model (``life.py``), which reads the rows of an invented life from lists of
the REST API and never from a tool. ``python -m tests.mcp.questions`` prints a table of all questions.
"""

from typing import Final

from tests.mcp.questions import body, breakdown, content, days, sessions
from tests.mcp.questions.question import Question

QUESTIONS: Final[tuple[Question, ...]] = (
    *breakdown.BREAKDOWN,
    *sessions.SESSIONS,
    *sessions.FOCUS,
    *sessions.PATTERNS,
    *sessions.STATUS,
    *days.DAY,
    *days.COMPARISON,
    *days.GOALS,
    *body.HEALTH,
    *body.MUSIC,
    *body.PLACES,
    *content.CODE,
    *content.CONTENT,
    *content.SEARCH,
    *content.REVIEWS,
)
