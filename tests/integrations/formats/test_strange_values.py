"""Files in which one value is another than its service would write: no reader fails on it."""

import re

import pytest

from resourceserver.integrations.format import Format
from resourceserver.integrations.records import KEY_LENGTH
from tests.integrations.formats.test_recognition import SAMPLED, sample_of
from tests.integrations.memory import read

VALUE = re.compile(r'"(?:[^"\\]|\\.)*"|(?<=>)[^<>\n]+(?=<)|-?\d[\w.:+/ -]*')
STRANGE = (
    *("", "-1", "1e400", "NaN", "null", "true", "[[]]", '{"a":1}', '""', "9" * 400, "٣"),
    *("0001-01-01T00:00:00+14:00", '"0001-01-01T00:00:00+14:00"', "00010101T000000"),
    *("9999-12-31T23:59:59-12:00", '"9999-12-31T23:59:59-12:00"', "99991231"),
)
MOST = 60
"""Most places of a file in which a value is replaced."""


@pytest.mark.parametrize("format_", SAMPLED, ids=[each.name for each in SAMPLED])
def test_no_value_makes_a_reader_fail(format_: Format) -> None:
    sample = sample_of(format_)
    text = sample.content.decode("latin-1")
    places = [found.span() for found in VALUE.finditer(text)]

    for start, end in places[:: max(1, len(places) // MOST)]:
        for strange in STRANGE:
            content = (text[:start] + strange + text[end:]).encode("utf-8")
            # Whatever is raised but Unreadable fails the test.
            reading = read(format_, content, sample.name)
            for record in reading.records:
                assert 0 < len(record.key) <= KEY_LENGTH, (strange, record)
            assert all(len(each.example) <= 200 for each in reading.refused)
