"""Changes of level, compared with those that ruptures finds; `make proof` installs it."""

import json
import math
import random
import subprocess
from pathlib import Path
from typing import Any, Final

import pytest

from resourceserver.timeline.changes import LEAST, divide
from tests.unit.test_changes import cost

HERE: Final = Path(__file__).parent
PYTHON: Final = HERE / ".venv" / "bin" / "python"
SERIES: Final = 40

pytestmark = [
    pytest.mark.foreign,
    pytest.mark.skipif(
        not list(HERE.glob(".venv/lib/*/site-packages/ruptures")),
        reason="ruptures is not installed, which make proof does, or has no release for this Python",
    ),
]


def series(drawn: random.Random) -> list[float]:
    """Return up to 180 days with some levels, and days that resemble the day before."""
    days, alike = drawn.randint(2 * LEAST, 180), drawn.choice([0, 0.3, 0.8])
    levels = [drawn.uniform(-2, 2) for _ in range(drawn.randint(1, 5))]
    values, value = [], 0.0
    for day in range(days):
        value = alike * value + drawn.gauss(0, 0.5)
        values.append(levels[day * len(levels) // days] + value)
    return values


def test_no_division_of_ruptures_costs_less() -> None:
    drawn = random.Random(11)
    cases: list[dict[str, Any]] = []
    for _ in range(SERIES):
        values = series(drawn)
        penalty = drawn.choice([0.5, 1, 3]) * math.log(len(values))
        starts = divide(values, LEAST, penalty)
        cases.append(
            {
                "values": values,
                "least": LEAST,
                "penalty": penalty,
                "count": len(starts),
                "starts": starts,
            }
        )

    ended = subprocess.run(
        [PYTHON, HERE / "divisions.py"],
        input=json.dumps(cases),
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert ended.returncode == 0, ended.stderr

    assert sum(case["count"] > 0 for case in cases) > SERIES / 2
    for case, theirs in zip(cases, json.loads(ended.stdout), strict=True):
        values, penalty = case["values"], case["penalty"]
        ours = cost(values, case["starts"], penalty)
        assert ours <= cost(values, theirs["pelt"], penalty) + 1e-9
        assert case["starts"] == theirs["optimal"]
