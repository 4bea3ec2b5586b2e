"""The number of random examples of a property, as a share of that of the profile in use."""

import hypothesis


def a_share(divisor: int) -> hypothesis.settings:
    """Return settings with one example of ``divisor``, for properties that are tried once for each route.

    Together they still have many; ``make proof`` tries each of them with hundreds.
    """
    return hypothesis.settings(max_examples=max(1, hypothesis.settings().max_examples // divisor))
