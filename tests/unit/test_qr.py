"""QR codes of pages."""

import re
from typing import Final

import pytest

from authserver.web import qr

FINDER: Final = ("1111111", "1000001", "1011101", "1011101", "1011101", "1000001", "1111111")


def drawn(text: str) -> list[str]:
    """Return the modules that the page draws, a row each, without the quiet zone; 1 is dark."""
    code = qr.svg(text, "a code")
    assert code is not None
    size = int(code.partition('viewBox="0 0 ')[2].partition(" ")[0])
    rows = [["0"] * size for _ in range(size)]
    x = y = 0.0
    path = code.partition('<path stroke="#000" d="')[2].partition('"')[0]
    for step, first, second in re.findall(r"([Mmh])(-?[\d.]+)(?: (-?[\d.]+))?", path):
        if step == "h":
            rows[int(y)][int(x) : int(x) + int(first)] = "1" * int(first)
            x += int(first)
        else:
            x, y = (
                (x if step == "m" else 0) + float(first),
                (y if step == "m" else 0) + float(second),
            )
    return ["".join(row[4 : size - 4]) for row in rows[4 : size - 4]]


def test_a_code_has_its_three_corners_within_a_quiet_zone() -> None:
    rows = drawn("overland://setup?token=svc_ik_0")

    assert {len(row) for row in rows} == {len(rows)}
    assert [row[:7] for row in rows[:7]] == list(FINDER)
    assert [row[-7:] for row in rows[:7]] == list(FINDER)
    assert [row[:7] for row in rows[-7:]] == list(FINDER)


def test_each_text_has_another_code() -> None:
    assert drawn("owntracks:///config?inline=a") != drawn("owntracks:///config?inline=b")


def test_a_code_needs_no_style_and_its_title_is_escaped() -> None:
    code = qr.svg("text", "</title><script>")

    assert code is not None
    assert "style" not in code
    assert "<title>&lt;/title&gt;&lt;script&gt;</title>" in code
    assert code.startswith('<svg role="img" ')


@pytest.mark.parametrize(("count", "is_drawn"), [(1_500, True), (1_501, False)])
def test_a_text_that_no_phone_could_read_has_none(count: int, is_drawn: bool) -> None:
    assert (qr.svg("é" * (count // 2) + "x" * (count % 2), "a code") is not None) is is_drawn
