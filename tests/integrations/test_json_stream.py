"""Values are read from JSON of any length, and broken JSON ends in an explanation."""

import io
import json
from typing import Any

import pytest

from resourceserver.integrations import json_stream
from resourceserver.integrations.format import Unreadable
from resourceserver.integrations.reading import items
from tests.integrations.memory import MemoryFile


def values_of(text: str, *paths: str) -> tuple[list[Any], str | None]:
    """Return the values at the paths, and why no more could be read."""
    found = []
    try:
        for _, value in json_stream.elements(io.StringIO(text), paths):
            found.append(value)
    except Unreadable as error:
        return found, str(error)
    return found, None


@pytest.fixture
def _small_window(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_stream, "CHUNK_LENGTH", 3)


@pytest.mark.usefixtures("_small_window")
@pytest.mark.parametrize("indent", [None, 2])
def test_values_are_found_wherever_a_chunk_ends(indent: int | None) -> None:
    text = json.dumps(
        {
            "version": 12345,
            "skipped": [[1, {"a": [True, None]}], 'a \\ " ] } text', {}, []],
            "days": [{"beats": [1.25, -20]}, {"none": 0}, {"beats": ["é", {"x": [[]]}]}],
            "more": {"b1": {"events": [30]}, "b2": {"events": [40, 50]}},
        },
        indent=indent,
    )

    found = values_of(text, "days.item.beats.item", "more.*.events.item", "version")

    assert found == ([12345, 1.25, -20, "é", {"x": [[]]}, 30, 40, 50], None)


def test_each_value_comes_with_its_path_in_the_order_of_the_text() -> None:
    text = '{"b": [1], "a": [2, 3], "c": [4]}'

    found = list(json_stream.elements(io.StringIO(text), ("a.item", "b.item")))

    assert found == [("b.item", 1), ("a.item", 2), ("a.item", 3)]


@pytest.mark.parametrize(
    ("text", "found", "why"),
    [
        ("", [], "the file is empty"),
        (" \n", [], "the file is empty"),
        ('{"a": [1, 2', [1], "it ends"),
        ('{"a": [1, 2]', [1, 2], "it ends here"),
        ('{"a": [1, "tex', [1], "it ends in the middle of a value"),
        ('{"a": [1, {"b": 2}, nope, 3]}', [1, {"b": 2}], "Expecting value"),
        ('{"a": [1 2]}', [1], "',' is missing"),
        ('{"a" [1]}', [], "':' is missing"),
        ("{1: 2}", [], "a name is not a string"),
        ('{"a": [' + "9" * 5000 + "]}", [], "a number is too long"),
        ('{"a": [1, ' + "[" * 100_000 + "]" * 100_000 + "]}", [1], "it is nested too deeply"),
        ('{"b": ' + "[" * 100_000 + "]" * 100_000 + "}", [], "it is nested too deeply"),
        ('{"b":' * 100_000 + "1" + "}" * 100_000, [], "it is nested too deeply"),
    ],
)
def test_what_precedes_broken_json_is_kept(text: str, found: list[Any], why: str) -> None:
    values, reason = values_of(text, "a.item")

    assert reason is not None
    assert why in reason
    assert values[: len(found)] == found


def test_a_value_may_be_longer_than_a_chunk_and_not_longer_than_a_window(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    long = "x" * json_stream.CHUNK_LENGTH * 2

    assert values_of(json.dumps([long, 1]), "item") == ([long, 1], None)

    monkeypatch.setattr(json_stream, "WINDOW_LENGTH", json_stream.CHUNK_LENGTH)
    found, reason = values_of(json.dumps([1, long * 2]), "item")

    assert found == [1]
    assert reason == "the file is no JSON at character 5: a value is too long"


def test_a_long_array_that_nobody_wants_is_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_stream, "CHUNK_LENGTH", 1000)
    monkeypatch.setattr(json_stream, "WINDOW_LENGTH", 5000)

    assert values_of(json.dumps({"x": [[1, 2]] * 5000, "a": [5]}), "a.item") == ([5], None)


def test_scalars_have_no_values_at_a_path() -> None:
    assert [values_of(text, "a.item") for text in ("12", '"a"', '{"a": 1}')] == [([], None)] * 3


@pytest.mark.parametrize(
    "content",
    [
        '{"a": ["é"]}'.encode(),
        '\ufeff{"a": ["é"]}'.encode(),
        '{"a": ["é"]}'.encode("utf-16"),
        '\ufeff{"a": ["é"]}'.encode("utf-16-be"),
    ],
)
def test_the_encodings_that_are_met_are_read(content: bytes) -> None:
    assert list(items(MemoryFile(content), "a.item")) == ["é"]


def test_bytes_that_are_no_text_are_replaced() -> None:
    assert list(items(MemoryFile(b'["a\xff\x00b", NaN]'), "item")) == ["a\ufffd\0b", None]


OBJECTS: list[Any] = [
    {"a": number, "b": [{"a": number}, {"a": [{"a": "}, {"}]}], "c": "é\\" * (number % 3)}
    for number in range(40)
]


@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize("length", [10, 100, 1000, 10_000])
@pytest.mark.parametrize("chunk_length", [3, 500, 10**6])
def test_objects_decoded_in_blocks_are_those_decoded_one_by_one(
    monkeypatch: pytest.MonkeyPatch, indent: int | None, length: int, chunk_length: int
) -> None:
    monkeypatch.setattr(json_stream, "BLOCK_LENGTH", length)
    monkeypatch.setattr(json_stream, "CHUNK_LENGTH", chunk_length)
    mixed = [*OBJECTS, [], None, 7, *OBJECTS, {}, "text", {"a": {}}, *OBJECTS]
    arrays = {"x": OBJECTS, "y": mixed, "z": OBJECTS}

    found = values_of(json.dumps(arrays, indent=indent), "x.item", "y.item", "z.item")

    assert found == ([*OBJECTS, *mixed, *OBJECTS], None)


def test_broken_json_reads_as_far_with_blocks_as_without(monkeypatch: pytest.MonkeyPatch) -> None:
    written = [json.dumps(each) for each in OBJECTS]
    for number, broken in enumerate(['{"a": 1, nope}', '{"a": [}]}', '{"a": "', "]", "}, {"] * 8):
        text = f"[{', '.join([*written[:number], broken, *written[number:]])}]"
        outcomes = []
        for length in (0, 100, 10_000):
            monkeypatch.setattr(json_stream, "BLOCK_LENGTH", length)
            outcomes.append(values_of(text, "item"))

        assert outcomes[0][0][:number] == OBJECTS[:number]
        assert outcomes[0][1] is None or "the file is no JSON" in outcomes[0][1]
        assert outcomes[1] == outcomes[2] == outcomes[0]


def test_a_long_array_is_decoded_in_few_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    count = 0
    decode = json.JSONDecoder.raw_decode

    def note(self: json.JSONDecoder, text: str, at: int) -> Any:
        nonlocal count
        count += 1
        return decode(self, text, at)

    monkeypatch.setattr(json.JSONDecoder, "raw_decode", note)
    many = [{"name": number, "within": [{"a": 1}, {"a": 2}]} for number in range(5000)]

    values, _ = values_of(json.dumps({"x": many}), "x.item")

    assert values == many
    assert count < len(many) / 10
