"""Divides series with ruptures; prints where segments begin, for the test to compare.

The input is a list of objects with ``values``, ``least``, ``penalty`` and ``count``, the number of changes
that the service finds.
"""

import json
import sys
from typing import Any

import numpy
import ruptures


def pelt(case: dict[str, Any]) -> Any:
    """Return the division with PELT's cost."""
    search = ruptures.Pelt(model="l2", min_size=case["least"], jump=1)
    return search.fit_predict(numpy.array(case["values"]), pen=case["penalty"])[:-1]


def optimal(case: dict[str, Any]) -> Any:
    """Return the best division with this number of changes, by comparing all of them."""
    if not case["count"]:
        return []
    search = ruptures.Dynp(model="l2", min_size=case["least"], jump=1)
    return search.fit_predict(numpy.array(case["values"]), n_bkps=case["count"])[:-1]


cases = json.load(sys.stdin)
json.dump([{"pelt": pelt(case), "optimal": optimal(case)} for case in cases], sys.stdout)
