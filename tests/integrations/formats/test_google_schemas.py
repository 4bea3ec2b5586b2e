"""Google's location history, in files built from schemas that others wrote (tests/integrations/schemas)."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from jsonschema import Draft202012Validator

from resourceserver.integrations.format import Format
from resourceserver.integrations.formats import FORMATS
from resourceserver.integrations.formats.google_location import RECORDS, SEMANTIC, TIMELINE_EDITS
from resourceserver.integrations.records import PlaceEvent, Point
from tests.integrations import samples
from tests.integrations.memory import MemoryFile, read

FOLDER: Final = Path(__file__).parent.parent / "schemas"
SCHEMAS: Final = {
    each.name: json.loads((FOLDER / f"{name}.schema.json").read_text())
    for each, name in (
        (RECORDS, "Records"),
        (SEMANTIC, "Semantic"),
        (TIMELINE_EDITS, "TimelineEdits"),
    )
}

each_format = pytest.mark.parametrize(
    "own", [RECORDS, SEMANTIC, TIMELINE_EDITS], ids=lambda own: own.name
)


def documents(
    whole: dict[str, Any], schema: dict[str, Any], within: tuple[str, ...] = ()
) -> Iterator[Any]:
    """Yield values that a schema describes: with all members, one for each of its alternatives.

    What lies ``within`` itself, such as a visit within a visit, is left out.
    """
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        if name in within:
            return
        within += (name,)
        schema = whole["$defs"][name] | {key: each for key, each in schema.items() if key != "$ref"}
    if "oneOf" in schema:
        for choice in schema["oneOf"]:
            yield from documents(whole, choice, within)
    elif "properties" in schema:
        members = {
            name: list(documents(whole, each, within))
            for name, each in schema["properties"].items()
        }
        yield {name: found[0] for name, found in members.items() if found}
    elif "items" in schema:
        yield list(documents(whole, schema["items"], within))
    else:
        # An example may not be one of the values.
        yield from [*schema.get("enum", ()), *schema.get("examples", ())][:1]


def problems(own: Format, document: Any) -> list[str]:
    validator = Draft202012Validator(SCHEMAS[own.name])
    return [problem.message for problem in validator.iter_errors(document)]


@each_format
def test_a_file_with_all_members_of_the_schema_is_read_to_its_end(own: Format) -> None:
    (document,) = documents(SCHEMAS[own.name], SCHEMAS[own.name])
    assert problems(own, document) == []
    content = json.dumps(document, indent=2).encode()

    reading = read(own, content)

    head = MemoryFile(content).head
    assert [each.name for each in FORMATS if each.recognise(head) == 1.0] == [own.name]
    assert (reading.unreadable, reading.reasons) == (None, [])
    assert {type(each) for each in reading.records} == (
        {PlaceEvent, Point} if own is SEMANTIC else {Point}
    )


@each_format
def test_our_sample_is_what_the_schema_describes(own: Format) -> None:
    assert problems(own, json.loads(getattr(samples, own.name)().content)) == []


def test_the_example_of_a_record_is_its_point() -> None:
    (example,) = SCHEMAS[RECORDS.name]["$defs"]["locationRecord"]["examples"]

    [point] = read(RECORDS, json.dumps({"locations": [example]})).records

    assert point.recorded_at.isoformat() == "2022-01-12T17:18:24.190000+00:00"
    assert (point.latitude, point.longitude) == (41.4216106, 2.1684775)
    assert (point.accuracy_m, point.altitude_m, point.vertical_accuracy_m) == (20, 150, 10)
    assert (point.speed_mps, point.course_deg) == (10, 270)


def test_the_example_of_a_segment_has_its_points() -> None:
    (example,) = SCHEMAS[SEMANTIC.name]["$defs"]["activitySegment"]["examples"]

    reading = read(SEMANTIC, json.dumps({"timelineObjects": [example]}))

    first, *_, last = reading.records
    assert reading.reasons == []
    assert [f"{each.recorded_at:%H:%M:%S}" for each in (first, last)] == ["12:22:24", "12:43:34"]
    assert (first.latitude, last.longitude) == (41.408359, 2.1536695)
