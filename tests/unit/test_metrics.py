"""Values of metrics are rounded half up, by the digits that they are written with."""

from decimal import ROUND_HALF_UP, Decimal

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from resourceserver.timeline.metrics import METRICS

NUMBERS = st.floats(min_value=-1e15, max_value=1e15) | st.integers(-(10**15), 10**15)


@pytest.mark.parametrize(
    ("name", "step"), [("tracked_ms", Decimal(1)), ("commits", Decimal("0.01"))]
)
@given(value=NUMBERS)
@example(value=2.5)
@example(value=-2.5)
@example(value=0.49999999999999994)
@example(value=999_999_999_999_999.5)
@example(value=0.005)
def test_a_value_is_rounded_half_up(name: str, step: Decimal, value: float) -> None:
    rounded = METRICS[name].rounded(value)

    assert rounded == float(Decimal(repr(value)).quantize(step, ROUND_HALF_UP))
    assert isinstance(rounded, int if step == 1 else float)
