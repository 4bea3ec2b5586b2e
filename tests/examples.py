"""The number of random examples of a property, as a share of that of the profile in use."""

import hypothesis


def a_share(divisor: int) -> hypothesis.settings:
    """Return settings with one example of ``divisor``, for properties that are tried once for each route.

    Together they still have many; ``make proof`` tries each of them with hundreds.
    """
    return hypothesis.settings(max_examples=max(1, hypothesis.settings().max_examples // divisor))


def in_suite(most: int) -> hypothesis.settings:
    """Return settings with ``most`` examples in the suite, for properties whose examples take long.

    The bounded proof, after which alone a change is accepted, tries all examples of its profile.
    """
    profile = hypothesis.settings.get_current_profile_name()
    examples = hypothesis.settings().max_examples
    return hypothesis.settings(max_examples=min(most, examples) if profile == "suite" else examples)
